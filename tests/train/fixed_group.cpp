// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/fixed_group.hpp>

#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

namespace {

std::uint64_t no_hash(std::uint64_t) { return 0; }

}  // namespace

TEST_CASE("fixed group: one view, in which all count alike, of the peers that hold the same", "[train][fast]") {
  struct seen {
    std::uint64_t identity = 0;
    std::uint32_t expected = 0, reached = 0;
    round_entry view{}, entered{};
  };
  std::vector<seen> before(6), after(6);
  support::run_cluster(6, [&](std::uint32_t peer, environment env) {
    detail::fixed_group group{std::move(env.transport), time_point{std::chrono::seconds{9}}};
    const auto look = [&] {
      return seen{group.identity(), group.expected(), group.transport().size(), group.view(), *group.enter(0, 0)};
    };
    before[peer] = look();
    const net::peer_index first = peer % 2;
    group.form({first, first + 2, first + 4});
    after[peer] = look();
  });
  for (std::uint32_t peer = 0; peer < 6; ++peer) {
    CHECK(before[peer].identity == peer);
    CHECK(before[peer].expected == 6);
    CHECK(before[peer].view.shares == std::vector<double>(6, 1.0 / 6));
    CHECK(before[peer].view.deadline == time_point{std::chrono::seconds{9}});
    CHECK(after[peer].identity == peer / 2);
    CHECK(after[peer].expected == 3);
    CHECK(after[peer].reached == 3);
    CHECK(after[peer].entered.share == 1.0 / 3);
    CHECK(after[peer].entered.shares == after[peer].view.shares);
    CHECK_FALSE(after[peer].entered.nobody_counts());
  }
}

TEST_CASE("fixed group: a round is committed as soon as it is made, and its name has all before it", "[train][fast]") {
  detail::fixed_group a{{}, no_deadline}, b{{}, no_deadline}, c{{}, no_deadline};
  for (auto* group : {&a, &b, &c}) group->starts_from(7);
  std::uint64_t asked = 0;
  const auto hash = [&](std::uint64_t round) { return asked = round; };
  a.made(hash);
  CHECK(asked == 1);
  CHECK(a.round() == 1);
  CHECK(a.state_hash() == 1);
  b.made(hash);
  c.made(no_hash);
  CHECK(a.parent() == b.parent());
  CHECK(a.parent() != c.parent());
  a.made(no_hash);
  b.made(no_hash);
  c.made(no_hash);
  CHECK(a.parent() == b.parent());
  CHECK(a.parent() != c.parent());
}

TEST_CASE("fixed group: nobody judges a step, and who wants that is told what is missing", "[train][fast]") {
  detail::fixed_group group{{}, no_deadline};
  thread_pool pool{1};
  const auto judged = group.decide({}, true);
  REQUIRE_FALSE(judged);
  CHECK(judged.error().message.find("environment::group") != std::string::npos);
  CHECK_FALSE(group.open({}, pool));
  CHECK_FALSE(group.can_sit_out());
}
