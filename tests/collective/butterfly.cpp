// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/butterfly.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"

#include <causeway/collective/all_reduce.hpp>
#include <causeway/compress/bf16.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/none.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace causeway;
using namespace causeway::collective;

namespace {

std::vector<float> small_values(net::peer_index peer, std::size_t count) {
  auto values = peer_threads::values_of(peer, count);
  for (float& v : values) v *= 0x1.0p-12F;  // within the range of fp16
  return values;
}

template <class C>
std::vector<float> round_trip(const C& codec, const std::vector<float>& x) {
  thread_pool pool{1};
  std::vector<std::byte> bytes(codec.encoded_size(x.size()));
  std::vector<float> back(x.size());
  REQUIRE(codec.encode(pool, x, bytes) == bytes.size());
  REQUIRE(codec.decode(pool, bytes, back));
  return back;
}

/// Every contribution through the codec once, added in the order of the peers, the mean through the codec once.
template <class C>
std::vector<float> expected_mean(const C& codec, std::uint32_t peers, std::size_t count) {
  std::vector<float> sum = round_trip(codec, small_values(0, count));
  for (net::peer_index p = 1; p < peers; ++p) {
    const auto next = round_trip(codec, small_values(p, count));
    for (std::size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  for (float& v : sum) v *= 1.0F / static_cast<float>(peers);
  return round_trip(codec, sum);
}

template <class C>
std::uint64_t expected_payload(const C& codec, std::uint32_t peers, std::size_t count, net::peer_index self) {
  const auto shard = [&](net::peer_index p) {
    return codec.encoded_size(static_cast<std::size_t>(
        share_of(static_cast<std::int64_t>(count), p, peers, static_cast<std::int64_t>(codec.block())).size()));
  };
  std::uint64_t total = 0;
  for (net::peer_index p = 0; p < peers; ++p) total += p == self ? (peers - 1) * shard(p) : shard(p);
  return peers == 1 ? 0 : total;
}

}  // namespace

TEMPLATE_TEST_CASE("compressed mean: every peer has the bits of the reference, and sends the bytes of the formula",
                   "[collective][fast]", compress::bf16, compress::fp16, compress::block_int8) {
  const TestType codec{};
  const std::uint32_t n = GENERATE(1U, 2U, 3U, 4U, 5U, 8U);
  const std::size_t count =
      GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{100003});
  const std::size_t kept_bytes = GENERATE(std::size_t{0}, std::size_t{64} << 20U);
  INFO(n << " peers, " << count << " values");
  net::memory_network network{n, {.kept_bytes = kept_bytes}};
  std::vector<std::vector<float>> data;
  for (net::peer_index p = 0; p < n; ++p) data.push_back(small_values(p, count));
  std::vector<traffic> counted(n);
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    const auto outcome = exchange_mean(t, peer_threads::some_id, codec, data[t.self()],
                                       {.deadline = peer_threads::soon(), .chunk_bytes = 8192});
    counted[t.self()] = t.stats();
    return outcome;
  });
  REQUIRE(peer_threads::all_succeeded(outcomes));
  const auto expected = expected_mean(codec, n, count);
  for (net::peer_index p = 0; p < n; ++p) {
    CHECK(peer_threads::same_bits(data[p], expected));
    CHECK(counted[p].bytes_sent - 64 * counted[p].frames_sent == expected_payload(codec, n, count, p));
  }
}

TEST_CASE("compressed mean: eight bits cost a quarter of the bytes", "[collective][fast]") {
  net::memory_network network{4};
  std::vector<std::uint64_t> sent(4);
  (void)peer_threads::run(network, [&](net::memory_transport& t) {
    auto x = small_values(t.self(), 1 << 18U);
    const auto outcome =
        exchange_mean(t, peer_threads::some_id, compress::block_int8{}, x, {.deadline = peer_threads::soon()});
    sent[t.self()] = t.stats().bytes_sent;
    return outcome;
  });
  const double exact = 2.0 * 3 / 4 * 4 * (1 << 18U);
  for (const std::uint64_t bytes : sent) CHECK(static_cast<double>(bytes) == Approx(exact * 260 / 1024).epsilon(0.002));
}

TEST_CASE("compressed mean: without a codec it is the plain mean", "[collective][fast]") {
  net::memory_network network{3};
  std::vector<std::vector<float>> encoded(3), plain(3);
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) -> result<void> {
    encoded[t.self()] = plain[t.self()] = peer_threads::values_of(t.self(), 30000);
    CAUSEWAY_TRY(exchange_mean(t, {.channel = 32, .step = 1}, compress::none{}, encoded[t.self()],
                               {.deadline = peer_threads::soon()}));
    return all_reduce_mean(t, {.channel = 32, .step = 2}, plain[t.self()], {.deadline = peer_threads::soon()});
  });
  REQUIRE(peer_threads::all_succeeded(outcomes));
  for (std::size_t p = 0; p < 3; ++p) CHECK(peer_threads::same_bits(encoded[p], plain[0]));
}

TEST_CASE("compressed mean: windows, chunks, threads and a used workspace do not change a bit", "[collective][fast]") {
  const std::uint32_t window = GENERATE(1U, 3U, 8U);
  const std::size_t chunk_bytes = GENERATE(std::size_t{1}, std::size_t{5000}, std::size_t{1} << 20U);
  const compress::block_int8 codec{{.block = 64}};
  net::memory_network network{3, {.kept_bytes = 0}};
  std::vector<std::vector<float>> data(3);
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) -> result<void> {
    collective_workspace workspace;
    thread_pool pool{2};
    for (std::uint64_t step = 0; step < 2; ++step) {
      data[t.self()] = small_values(t.self(), 20000);
      CAUSEWAY_TRY(exchange_mean(t, {.channel = 32, .step = step}, codec, data[t.self()],
                                 {.deadline = peer_threads::soon(),
                                  .chunk_bytes = chunk_bytes,
                                  .window = window,
                                  .pool = &pool,
                                  .workspace = &workspace}));
    }
    return {};
  });
  REQUIRE(peer_threads::all_succeeded(outcomes));
  const auto expected = expected_mean(codec, 3, 20000);
  for (const auto& values : data) CHECK(peer_threads::same_bits(values, expected));
}

TEMPLATE_TEST_CASE("compressed mean: a peer that sends NaN or overflows the codec is named on every peer",
                   "[collective][fast]", compress::fp16, compress::block_int8) {
  net::memory_network network{3, {.kept_bytes = 0}};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    auto x = small_values(t.self(), 10000);
    if (t.self() == 2) x[9000] = std::numeric_limits<float>::quiet_NaN();
    return exchange_mean(t, peer_threads::some_id, TestType{}, x, {.deadline = peer_threads::soon(), .chunk_bytes = 4096});
  });
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::non_finite);
    CHECK(outcome.error().where == "peer 2");
  }
}

TEST_CASE("compressed mean: a mean that the codec cannot hold is an error everywhere", "[collective][fast]") {
  net::memory_network network{3};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    std::vector<float> x(10000, 3.3e38F);
    return exchange_mean(t, peer_threads::some_id, compress::bf16{}, x, {.deadline = peer_threads::soon()});
  });
  for (const auto& outcome : outcomes) CHECK(outcome.error().code == errc::non_finite);
}

TEST_CASE("compressed mean: a peer whose bytes do not decode is named on every peer", "[collective][fast]") {
  // An int8 codec whose encoder writes, on one peer, a scale below zero: bytes that no honest encoder makes.
  struct liar : compress::block_int8 {
    bool lies = false;
    std::size_t encode(thread_pool& pool, std::span<const float> x, std::span<std::byte> room) const {
      const std::size_t bytes = block_int8::encode(pool, x, room);
      if (lies) room[3] = std::byte{0xC0};
      return bytes;
    }
  };
  net::memory_network network{3};
  const auto outcomes = peer_threads::run(network, [&](net::memory_transport& t) {
    std::vector<float> x = small_values(t.self(), 6000);
    liar codec;
    codec.lies = t.self() == 1;
    return exchange_mean(t, peer_threads::some_id, codec, x, {.deadline = peer_threads::soon()});
  });
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::corrupt);
    CHECK(outcome.error().where == "peer 1");
  }
}

TEST_CASE("compressed mean: when any operation of any peer fails, all peers return, and none succeeds wrongly",
          "[collective][fast]") {
  const bool kill = GENERATE(false, true);
  const net::peer_index victim = GENERATE(0U, 1U);
  const compress::block_int8 codec{{.block = 64}};
  const auto attempt = [&](const net::memory_network& network, std::vector<std::vector<float>>& data) {
    data.assign(3, {});
    return peer_threads::run(network, [&](net::memory_transport& t) {
      data[t.self()] = small_values(t.self(), 3000);
      return exchange_mean(t, peer_threads::some_id, codec, data[t.self()],
                           {.deadline = peer_threads::soon(), .chunk_bytes = 1600, .window = 2});
    });
  };
  std::vector<std::vector<float>> data;
  net::memory_network whole{3, {.kept_bytes = 0}};
  REQUIRE(peer_threads::all_succeeded(attempt(whole, data)));
  const auto expected = data[0];
  for (std::uint64_t n = 0; n < whole.operations(victim); ++n) {
    INFO("operation " << n << " of peer " << victim << (kill ? " kills it" : " fails"));
    net::memory_network network{3, {.kept_bytes = 0}};
    if (kill) network.kill_at(victim, n);
    if (!kill) network.fail_at(victim, n, errc::io_failed);
    const auto outcomes = attempt(network, data);
    REQUIRE_FALSE(outcomes[victim]);
    CHECK(outcomes[victim].error().code == (kill ? errc::peer_lost : errc::io_failed));
    for (net::peer_index p = 0; p < 3; ++p) {
      if (outcomes[p]) CHECK(peer_threads::same_bits(data[p], expected));
    }
  }
}
