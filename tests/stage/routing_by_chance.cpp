// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/routing_by_chance.hpp>

#include <map>
#include <vector>

#include "support/catch.hpp"

namespace causeway::stage::routing {
namespace {

roster three_speeds() {
  roster known{1};
  for (const net::peer_id id : {1U, 2U, 4U}) {
    known.announced(id, 0);
    known.measured(id, 4.0 / static_cast<double>(id));  // peer 4 is four times as quick as peer 1
  }
  return known;
}

template <class R>
std::map<net::peer_id, int> counts(R& router, const roster& known, int n) {
  std::map<net::peer_id, int> all;
  for (int i = 0; i < n; ++i) ++all[router.choose(known, 0, static_cast<std::uint32_t>(i))];
  return all;
}

}  // namespace

TEST_CASE("routing: least load shares work out in proportion to throughput", "[stage][fast]") {
  least_load router;
  const roster known = three_speeds();
  for (int round = 0; round < 3; ++round) {
    const auto got = counts(router, known, 7);
    CHECK(got.at(1) == 1);
    CHECK(got.at(2) == 2);
    CHECK(got.at(4) == 4);
  }
}

TEST_CASE("routing: what was handed out before any speed was known does not outweigh what comes after", "[stage][fast]") {
  least_load router;
  roster known{1};
  for (const net::peer_id id : {1U, 2U, 4U}) known.announced(id, 0);
  (void)counts(router, known, 8);  // somebody gets one less
  for (const net::peer_id id : {1U, 2U, 4U}) known.measured(id, 0.004 / static_cast<double>(id));
  const auto got = counts(router, known, 70);
  for (const auto& [id, n] : got) CHECK(n == Approx(10.0 * static_cast<double>(id)).margin(4));
  CHECK(got.size() == 3);
}

TEST_CASE("routing: ties are broken by the seed alone", "[stage][fast]") {
  roster known{1};
  for (net::peer_id id = 1; id <= 8; ++id) known.announced(id, 0);
  const auto first_of = [&](std::uint64_t seed) {
    least_load router{{.seed = seed}};
    std::vector<net::peer_id> all;
    for (std::uint32_t m = 0; m < 8; ++m) all.push_back(router.choose(known, 0, m));
    return all;
  };
  CHECK(first_of(5) == first_of(5));
  CHECK(first_of(5) != first_of(6));
  auto sorted = first_of(5);
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == std::vector<net::peer_id>{1, 2, 3, 4, 5, 6, 7, 8});  // everybody once before anybody twice
}

TEST_CASE("routing: a newcomer enters at the least load, or at the greatest", "[stage][fast]") {
  for (const entry how : {entry::at_minimum, entry::at_maximum}) {
    least_load router{{.newcomers = how}};
    roster known{1};
    for (const net::peer_id id : {1U, 2U}) known.announced(id, 0);
    for (std::uint32_t m = 0; m < 3; ++m) (void)router.choose(known, 0, m);
    const net::peer_id behind = router.load(0, 1) < router.load(0, 2) ? 1 : 2;
    REQUIRE(router.load(0, behind) == 1);
    known.announced(9, 0);
    const net::peer_id chosen = router.choose(known, 0, 3);
    CHECK((chosen == behind || (chosen == 9 && how == entry::at_minimum)));
    CHECK(router.load(0, 9) == (how == entry::at_maximum || chosen == 9 ? 2 : 1));
  }
}

TEST_CASE("routing: banned peers are passed over, and nobody is left when all are", "[stage][fast]") {
  least_load by_load;
  random by_chance;
  roster known = three_speeds();
  known.ban(4);
  CHECK(counts(by_load, known, 30).count(4) == 0);
  CHECK(counts(by_chance, known, 30).count(4) == 0);
  known.ban(1);
  known.ban(2);
  CHECK(by_load.choose(known, 0, 0) == nobody);
  CHECK(by_chance.choose(known, 0, 0) == nobody);
}

TEST_CASE("routing: random takes each peer as often, whatever its speed, and is a function of the seed", "[stage][fast]") {
  const roster known = three_speeds();
  random a{{.seed = 3}}, b{{.seed = 3}};
  const auto got = counts(a, known, 3000);
  CHECK(got == counts(b, known, 3000));
  for (const auto& [id, n] : got) CHECK((n > 900 && n < 1100));  // 1000 ± 4 standard deviations
}

}  // namespace causeway::stage::routing
