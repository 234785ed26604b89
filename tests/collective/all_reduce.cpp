// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/all_reduce.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"

#include <limits>
#include <numeric>
#include <string>
#include <vector>

using namespace causeway;
using namespace causeway::collective;

namespace {

/// The sum in the order first, first + 1, ... (mod n), as a plain loop.
std::vector<float> reference_sum(std::uint32_t peers, std::size_t count, auto first_peer, float factor) {
  std::vector<std::vector<float>> all;
  for (net::peer_index p = 0; p < peers; ++p) all.push_back(peer_threads::values_of(p, count));
  std::vector<float> sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t first = first_peer(i);
    sum[i] = all[first][i];
    for (std::uint32_t k = 1; k < peers; ++k) sum[i] += all[(first + k) % peers][i];
    sum[i] *= factor;
  }
  return sum;
}

/// In a ring, segment s is added in the order s, s + 1, ...
std::uint32_t ring_segment(std::size_t i, std::uint32_t peers, std::size_t count) {
  for (std::uint32_t s = 0; s < peers; ++s) {
    if (static_cast<std::int64_t>(i) < share_of(static_cast<std::int64_t>(count), s, peers).end) return s;
  }
  return 0;
}

struct sum_case {
  algorithm how;
  std::uint32_t peers;
  std::size_t count;
};

std::vector<float> expected_sum(const sum_case& c, float factor) {
  if (c.how != algorithm::ring)
    return reference_sum(
        c.peers, c.count, [](std::size_t) { return 0U; }, factor);
  return reference_sum(
      c.peers, c.count, [&](std::size_t i) { return ring_segment(i, c.peers, c.count); }, factor);
}

const char* name_of(algorithm how) {
  return how == algorithm::ring ? "ring" : how == algorithm::butterfly ? "butterfly" : "one shot";
}

/// Payload bytes that `peer` sends.
std::uint64_t expected_payload(const sum_case& c, net::peer_index peer) {
  const auto shard = [&](std::uint32_t p) {
    return static_cast<std::uint64_t>(share_of(static_cast<std::int64_t>(c.count), p % c.peers, c.peers).size()) * 4;
  };
  const std::uint64_t total = c.count * 4, n = c.peers;
  if (c.how == algorithm::one_shot) return (n - 1) * total;
  if (c.how == algorithm::butterfly) return total - shard(peer) + (n - 1) * shard(peer);
  return 2 * total - shard(peer + 1) - shard(peer + 2);  // each round leaves out one segment
}

void check_sums(const sum_case& c, const net::memory_options& network_options, const collective_options& base, bool mean) {
  INFO(name_of(c.how) << ", " << c.peers << " peers, " << c.count << " values");
  net::memory_network network{c.peers, network_options};
  std::vector<std::vector<float>> data;
  for (net::peer_index p = 0; p < c.peers; ++p) data.push_back(peer_threads::values_of(p, c.count));
  std::vector<traffic> counted(c.peers);
  collective_options options = base;
  options.how = c.how;
  options.deadline = peer_threads::soon();
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    const auto outcome = mean ? all_reduce_mean(t, peer_threads::some_id, data[t.self()], options)
                              : all_reduce_sum(t, peer_threads::some_id, data[t.self()], options);
    counted[t.self()] = t.stats();
    return outcome;
  });
  REQUIRE(peer_threads::all_succeeded(outcomes));
  const auto expected = expected_sum(c, mean ? 1.0F / static_cast<float>(c.peers) : 1.0F);
  for (net::peer_index p = 0; p < c.peers; ++p) {
    INFO("peer " << p);
    CHECK(peer_threads::same_bits(data[p], expected));
    const auto payload = counted[p].bytes_sent - counted[p].frames_sent * network_options.header_bytes;
    CHECK(payload == (c.peers == 1 ? 0 : expected_payload(c, p)));
  }
}

algorithm any_algorithm() { return GENERATE(algorithm::one_shot, algorithm::butterfly, algorithm::ring); }

}  // namespace

TEST_CASE("all-reduce: sums equal a loop in the documented order bit for bit, and bytes equal the formula",
          "[collective][fast]") {
  const algorithm how = any_algorithm();
  const std::uint32_t peers = GENERATE(1U, 2U, 3U, 4U, 5U, 8U);
  const std::size_t count =
      GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{100003});
  const std::size_t kept_bytes = GENERATE(std::size_t{0}, std::size_t{64} << 20U);  // 0: nothing is ever sent ahead
  check_sums({how, peers, count}, {.kept_bytes = kept_bytes}, {.chunk_bytes = 8192}, false);
}

TEST_CASE("all-reduce: the result does not depend on chunks, windows, threads or a reused workspace",
          "[collective][fast]") {
  const algorithm how = any_algorithm();
  const std::size_t chunk_bytes = GENERATE(std::size_t{1}, std::size_t{4096}, std::size_t{1} << 20U);
  const std::uint32_t window = GENERATE(0U, 1U, 7U);
  const std::size_t count = chunk_bytes == 1 ? 600 : 5000;  // every value is a message of its own
  check_sums({how, 3, count}, {.kept_bytes = 4096}, {.chunk_bytes = chunk_bytes, .window = window}, false);
  check_sums({how, 4, 40000}, {}, {.chunk_bytes = std::max(chunk_bytes, std::size_t{4096}), .window = window}, true);
}

TEST_CASE("all-reduce: a thread pool does not change a bit", "[collective][fast]") {
  net::memory_network network{2};
  std::vector<std::vector<float>> data{peer_threads::values_of(0, 200000), peer_threads::values_of(1, 200000)};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    thread_pool pool{3};
    return all_reduce_sum(t, peer_threads::some_id, data[t.self()],
                          {.deadline = peer_threads::soon(), .chunk_bytes = std::size_t{1} << 20U, .pool = &pool});
  });
  REQUIRE(peer_threads::all_succeeded(outcomes));
  CHECK(peer_threads::same_bits(data[0], expected_sum({algorithm::butterfly, 2, 200000}, 1.0F)));
  CHECK(peer_threads::same_bits(data[1], data[0]));
}

TEST_CASE("all-reduce: small sums take one message a peer, large ones two per chunk", "[collective][fast]") {
  net::memory_network network{3};
  std::vector<std::uint64_t> small(3), large(3);
  (void)peer_threads::run(network, [&](net::memory_transport& t) -> result<void> {
    std::vector<float> few(100, 1.0F), many(30000, 1.0F);
    CAUSEWAY_TRY(all_reduce_sum(t, peer_threads::some_id, few, {.deadline = peer_threads::soon()}));
    small[t.self()] = t.stats().frames_sent;
    CAUSEWAY_TRY(all_reduce_sum(t, peer_threads::some_id, many, {.deadline = peer_threads::soon(), .chunk_bytes = 20000}));
    large[t.self()] = t.stats().frames_sent - small[t.self()];
    return {};
  });
  for (std::size_t p = 0; p < 3; ++p) {
    CHECK(small[p] == 2);
    CHECK(large[p] == 2 * 2 * 2);  // two others, two chunks of each shard, two phases
  }
}

TEST_CASE("all-reduce: one workspace serves many calls without growing", "[collective][fast]") {
  const algorithm how = any_algorithm();
  net::memory_network network{3};
  std::vector<std::size_t> first(3), last(3);
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) -> result<void> {
    collective_workspace workspace;
    for (std::uint64_t step = 0; step < 5; ++step) {
      std::vector<float> values(10000, static_cast<float>(step));
      CAUSEWAY_TRY(all_reduce_sum(t, {.channel = 48, .step = step}, values,
                                  {.deadline = peer_threads::soon(), .how = how, .workspace = &workspace}));
      if (values.front() != 3.0F * static_cast<float>(step)) return fail(errc::diverged, "test", "wrong sum");
      (step == 0 ? first : last)[t.self()] = workspace.capacity();
    }
    return {};
  });
  CHECK(peer_threads::all_succeeded(outcomes));
  CHECK(first == last);
}

TEST_CASE("all-reduce: of many peers each needs memory for some copies of the values, not one for each peer",
          "[collective][fast]") {
  constexpr std::uint32_t many = 32;
  net::memory_network network{many};
  std::vector<std::size_t> used(many);
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    collective_workspace workspace;
    std::vector<float> values(40000, 1);
    auto done = all_reduce_sum(
        t, {.channel = 48}, values,
        {.deadline = peer_threads::soon(), .how = algorithm::butterfly, .window = 1, .workspace = &workspace});
    used[t.self()] = workspace.capacity();
    return done;
  });
  CHECK(peer_threads::all_succeeded(outcomes));
  for (const std::size_t bytes : used) CHECK(bytes <= 4 * 40000 * sizeof(float));
}

TEST_CASE("all-reduce: a peer that sends NaN is named on every peer", "[collective][fast]") {
  const algorithm how = GENERATE(algorithm::one_shot, algorithm::butterfly);
  const float poison = GENERATE(std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity());
  const std::size_t where = GENERATE(std::size_t{0}, std::size_t{5000}, std::size_t{9999});
  net::memory_network network{3, {.kept_bytes = 0}};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    auto values = peer_threads::values_of(t.self(), 10000);
    if (t.self() == 1) values[where] = poison;
    return all_reduce_sum(t, peer_threads::some_id, values,
                          {.deadline = peer_threads::soon(), .how = how, .chunk_bytes = 4096});
  });
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::non_finite);
    CHECK(outcome.error().where == "peer 1");
  }
}

TEST_CASE("all-reduce: two poisoned peers give one answer everywhere", "[collective][fast]") {
  net::memory_network network{4};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    auto values = peer_threads::values_of(t.self(), 10000);
    if (t.self() == 2) values[3] = std::numeric_limits<float>::quiet_NaN();
    if (t.self() == 1) values[9990] = std::numeric_limits<float>::quiet_NaN();
    return all_reduce_sum(t, peer_threads::some_id, values,
                          {.deadline = peer_threads::soon(), .how = algorithm::butterfly, .chunk_bytes = 1024});
  });
  for (const auto& outcome : outcomes) CHECK(outcome.error().where == "peer 1");
}

TEST_CASE("all-reduce: in a ring every peer fails, and the culprit knows that it is the one", "[collective][fast]") {
  net::memory_network network{3};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    auto values = peer_threads::values_of(t.self(), 1000);
    if (t.self() == 2) values[17] = std::numeric_limits<float>::infinity();
    return all_reduce_sum(t, peer_threads::some_id, values, {.deadline = peer_threads::soon(), .how = algorithm::ring});
  });
  for (const auto& outcome : outcomes) CHECK(outcome.error().code == errc::non_finite);
  CHECK(outcomes[2].error().where == "peer 2");
}

TEST_CASE("all-reduce: a sum beyond f32 is nobody's fault, and an error", "[collective][fast]") {
  const algorithm how = any_algorithm();
  net::memory_network network{3};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    std::vector<float> values(1000, 3e38F);
    return all_reduce_sum(t, peer_threads::some_id, values, {.deadline = peer_threads::soon(), .how = how});
  });
  for (const auto& outcome : outcomes) {
    CHECK(outcome.error().code == errc::non_finite);
    CHECK(outcome.error().where == "all-reduce");
  }
}

TEST_CASE("all-reduce: peers that disagree on the number of values are told so", "[collective][fast]") {
  const algorithm how = any_algorithm();
  net::memory_network network{2};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    auto values = peer_threads::values_of(t.self(), t.self() == 0 ? 1000 : 998);
    return all_reduce_sum(t, peer_threads::some_id, values, {.deadline = peer_threads::soon(1), .how = how});
  });
  CHECK((!outcomes[0] || !outcomes[1]));
  for (const auto& outcome : outcomes) {
    if (outcome) continue;
    const errc code = outcome.error().code;
    CHECK((code == errc::protocol || code == errc::too_large || code == errc::peer_lost));
  }
}

TEST_CASE("all-reduce: when any operation of any peer fails, all peers return, and none succeeds wrongly",
          "[collective][fast]") {
  const algorithm how = any_algorithm();
  const bool kill = GENERATE(false, true);
  const net::peer_index victim = GENERATE(0U, 2U);
  constexpr std::size_t count = 3000;
  const collective_options options{.how = how, .chunk_bytes = 1600, .window = 2};
  const auto attempt = [&](const net::memory_network& network, std::vector<std::vector<float>>& data) {
    data.clear();
    for (net::peer_index p = 0; p < 3; ++p) data.push_back(peer_threads::values_of(p, count));
    return peer_threads::run(network, [&](net::memory_transport& t) {
      collective_options mine = options;
      mine.deadline = peer_threads::soon();
      return all_reduce_sum(t, peer_threads::some_id, data[t.self()], mine);
    });
  };
  std::vector<std::vector<float>> data;
  net::memory_network whole{3, {.kept_bytes = 0}};
  REQUIRE(peer_threads::all_succeeded(attempt(whole, data)));
  const auto expected = data[0];
  for (std::uint64_t n = 0; n < whole.operations(victim); ++n) {
    INFO(name_of(how) << ", operation " << n << " of peer " << victim << (kill ? " kills it" : " fails"));
    net::memory_network network{3, {.kept_bytes = 0}};
    if (kill) {
      network.kill_at(victim, n);
    } else {
      network.fail_at(victim, n, errc::io_failed);
    }
    const auto outcomes = attempt(network, data);
    REQUIRE_FALSE(outcomes[victim]);
    CHECK(outcomes[victim].error().code == (kill ? errc::peer_lost : errc::io_failed));
    for (net::peer_index p = 0; p < 3; ++p) {
      if (outcomes[p]) CHECK(peer_threads::same_bits(data[p], expected));
      if (!outcomes[p]) CHECK(outcomes[p].error().where.starts_with("peer "));
    }
  }
}

TEST_CASE("all-reduce: a peer that never comes is named when the deadline passes", "[collective][fast]") {
  const algorithm how = any_algorithm();
  net::memory_network network{2};
  auto end = network.transport(0);
  const auto absent = network.transport(1);
  std::vector<float> values(100000, 1.0F);
  const auto outcome = all_reduce_sum(end, peer_threads::some_id, values,
                                      {.deadline = steady_clock{}.now() + std::chrono::milliseconds{5}, .how = how});
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::timeout);
  CHECK(outcome.error().where == "peer 1");
}

TEST_CASE("all-reduce: values of another parent are refused", "[collective][fast]") {
  const algorithm how = any_algorithm();
  net::memory_network network{2};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    std::vector<float> values(1000, 1.0F);
    net::message_id id = peer_threads::some_id;
    id.parent += t.self();
    return all_reduce_sum(t, id, values, {.deadline = peer_threads::soon(), .how = how});
  });
  const auto refused = [](const result<void>& r) { return !r && r.error().code == errc::wrong_parent; };
  CHECK((refused(outcomes[0]) || refused(outcomes[1])));
  CHECK_FALSE(outcomes[0]);
  CHECK_FALSE(outcomes[1]);
}

namespace {

/// One peer of two, whose other one has the same values.
struct doubling {
  static net::peer_index self() { return 0; }
  static std::uint32_t size() { return 2; }
  static net::operation send(net::peer_index, const net::message_id&, std::span<const std::byte>) { return 1; }
  static net::operation receive(net::peer_index, const net::message_id&, std::span<std::byte>) { return 1; }
  result<std::size_t> wait(net::operation, time_point) const {
    if (lost) return fail(errc::timeout, "a sum", "lost");
    return std::size_t{0};
  }
  static bool done(net::operation) { return true; }
  static bool wait_any(std::span<const net::operation>, time_point) { return true; }
  static traffic stats() { return {}; }
  [[nodiscard]] bool sums() const { return own; }
  static net::operation sum(std::span<float> data) {
    for (float& v : data) v *= 2;
    return 1;
  }
  bool own = true;
  bool lost = false;
};

}  // namespace

TEST_CASE("all reduce: a transport that adds up by itself is asked to, unless an algorithm is named",
          "[collective][fast]") {
  std::vector<float> values{1, 2.5F, -3};
  net::any_transport two{doubling{}};
  REQUIRE(all_reduce_sum(two, {}, values));
  CHECK((values == std::vector<float>{2, 5, -6}));
  REQUIRE(all_reduce_mean(two, {}, values));
  CHECK((values == std::vector<float>{2, 5, -6}));
  CHECK(!all_reduce_sum(two, {}, values, {.how = algorithm::one_shot}));  // messages of nobody
  net::any_transport shy{doubling{.own = false}}, lost{doubling{.lost = true}};
  CHECK(!all_reduce_sum(shy, {}, values));
  CHECK(all_reduce_sum(lost, {}, values).error().code == errc::timeout);
  values[1] = std::numeric_limits<float>::infinity();
  CHECK(all_reduce_sum(two, {}, values).error().code == errc::non_finite);
}
