// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/broadcast.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"

#include <vector>

using namespace causeway;
using namespace causeway::collective;

namespace {

struct trial {
  std::vector<std::vector<float>> data;
  std::vector<traffic> counted;
  std::vector<result<void>> outcomes;
};

trial attempt(const net::memory_network& network, net::peer_index root, std::size_t count,
              const collective_options& options) {
  trial t{{}, std::vector<traffic>(network.size()), {}};
  for (net::peer_index p = 0; p < network.size(); ++p) t.data.push_back(peer_threads::values_of(p, count));
  t.outcomes = peer_threads::run(network, [&](net::memory_transport& end) {
    collective_options mine = options;
    mine.deadline = peer_threads::soon();
    const auto outcome = broadcast(end, peer_threads::some_id, root, std::span{t.data[end.self()]}, mine);
    t.counted[end.self()] = end.stats();
    return outcome;
  });
  return t;
}

}  // namespace

TEST_CASE("broadcast: everybody has the root's values, and bytes equal the formula", "[collective][fast]") {
  const std::uint32_t n = GENERATE(1U, 2U, 3U, 4U, 5U, 8U);
  const std::size_t count =
      GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{100003});
  const bool chain = GENERATE(false, true);
  const net::peer_index root = GENERATE_COPY(0U, n / 2);
  net::memory_network network{n, {.kept_bytes = 0}};
  const auto t = attempt(network, root, count, {.chunk_bytes = 4096, .one_shot_bytes = chain ? 0 : SIZE_MAX});
  REQUIRE(peer_threads::all_succeeded(t.outcomes));
  const auto expected = peer_threads::values_of(root, count);
  for (net::peer_index p = 0; p < n; ++p) {
    INFO(n << " peers, peer " << p << ", root " << root << (chain ? ", chain" : ", flat"));
    CHECK(peer_threads::same_bits(t.data[p], expected));
    const std::uint64_t payload = t.counted[p].bytes_sent - 64 * t.counted[p].frames_sent;
    const bool last = (p + 1) % n == root;
    const std::uint64_t size = count * sizeof(float);
    CHECK(payload == (chain ? (last ? 0 : size) : (p == root ? (n - 1) * size : 0)));
  }
}

TEST_CASE("broadcast: when any operation of any peer fails, all peers return, and none succeeds wrongly",
          "[collective][fast]") {
  const bool chain = GENERATE(false, true);
  const net::peer_index victim = GENERATE(0U, 1U, 2U);
  const bool kill = GENERATE(false, true);
  const collective_options options{.chunk_bytes = 4096, .one_shot_bytes = chain ? 0 : SIZE_MAX};
  net::memory_network whole{3, {.kept_bytes = 0}};
  REQUIRE(peer_threads::all_succeeded(attempt(whole, 1, 5000, options).outcomes));
  for (std::uint64_t n = 0; n < whole.operations(victim); ++n) {
    net::memory_network network{3, {.kept_bytes = 0}};
    if (kill) network.kill_at(victim, n);
    if (!kill) network.fail_at(victim, n, errc::io_failed);
    const auto t = attempt(network, 1, 5000, options);
    CHECK_FALSE(t.outcomes[victim]);
    for (net::peer_index p = 0; p < 3; ++p) {
      if (t.outcomes[p]) CHECK(peer_threads::same_bits(t.data[p], peer_threads::values_of(1, 5000)));
    }
  }
}

TEST_CASE("broadcast: another size than the root's is an error", "[collective][fast]") {
  net::memory_network network{2};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    std::vector<float> values(t.self() == 0 ? 10 : 12);
    return broadcast(t, peer_threads::some_id, 0, std::span{values}, {.deadline = peer_threads::soon()});
  });
  CHECK(outcomes[1].error().code == errc::protocol);
  CHECK(outcomes[1].error().where == "peer 0");
}
