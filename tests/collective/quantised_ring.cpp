// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/quantised_ring.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>

#include <string>
#include <vector>

#include "exchange_cases.hpp"
#include "exchange_faults.hpp"
#include "support/catch.hpp"

using namespace cases;
using namespace causeway::collective;

using half = causeway::compress::as_message<causeway::compress::fp16>;
using int8 = causeway::compress::as_message<causeway::compress::block_int8>;
static_assert(Exchange<quantised_ring<plain>, message_context>);
static_assert(Exchange<quantised_ring<int8>, message_context>);

TEST_CASE("quantised ring: the weighted mean, with the same bits on all peers", "[collective][fast]") {
  for (const std::uint32_t size : {1U, 2U, 3U, 4U, 5U, 8U}) {
    CAPTURE(size);
    std::vector<float> weights;
    for (std::uint32_t p = 0; p < size; ++p) weights.push_back(static_cast<float>((p * 2) % 5) + (p == 0 ? 3.0F : 0.0F));
    check_mean<quantised_ring<plain>>(size, 1000, std::vector<float>(size, 1.0F));
    check_mean<quantised_ring<plain>>(size, 1001, weights);
    check_mean<quantised_ring<plain>>(size, 3, weights);  // fewer values than chunks
    check_mean<quantised_ring<quarters>>(size, 500, weights, 0.25);
    // Each hop loses at most half a step of 11·(weights so far)/127, the last one half a step of the mean.
    check_mean<quantised_ring<int8>>(size, 5000, weights, 0.5);
  }
  check_mean<quantised_ring<plain>>(3, 0, {1, 1, 1});
}

TEST_CASE("quantised ring: every hop encodes, the mean goes round as it is", "[collective][fast]") {
  // Three peers, one value a chunk. Segment s starts at peer s; its sum is rounded to quarters at every hop.
  const std::vector<std::vector<float>> rows{
      {0.3F, 0, 0.3F, 0, 0.3F, 0}, {0.3F, 0, 0.3F, 0, 0.3F, 0}, {2.1F, 0, 2.1F, 0, 2.1F, 0}};
  std::vector<std::vector<float>> results = rows;
  const memory_network network{3};
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    quantised_ring<quarters> exchange;
    return run_exchange(exchange, s.port(), {.values = results[s.self]}, s.ctx);
  });
  REQUIRE(all_succeeded(outcomes));
  const auto q = quarters::rounded;
  const float third = 1.0F / 3.0F;
  const std::vector<float> expected{q((q(q(0.3F) + 0.3F) + 2.1F) * third), 0, q((q(q(0.3F) + 2.1F) + 0.3F) * third), 0,
                                    q((q(q(2.1F) + 0.3F) + 0.3F) * third), 0};
  for (const auto& r : results) CHECK(r == expected);
}

TEST_CASE("quantised ring: a peer sends 2(n-1)/n of the encoded row to its neighbour", "[collective][fast]") {
  // Four peers, 8 chunks of 15 floats: 2·3 hops of two chunks of 60 bytes and 16 more each.
  const std::uint64_t each = 12 * (60 + 16);
  check_bytes<quantised_ring<plain>>(4, 120, {1, 1, 1, 1}, {each, each, each, each});
}

TEST_CASE("quantised ring: weights that add up to nothing are refused on all peers alike", "[collective][fast]") {
  check_all_refuse<quantised_ring<plain>>(3, {0, 0, 0}, errc::invalid_argument);
  check_all_refuse<quantised_ring<plain>>(1, {0}, errc::invalid_argument);
}

TEST_CASE("quantised ring: values that are not finite are refused on all peers, naming theirs", "[collective][fast]") {
  check_not_finite<quantised_ring<plain>>("peer 1");
  check_refuses_itself<quantised_ring<plain>>();
  check_not_finite<quantised_ring<int8>>("peer 1");
}

TEST_CASE("quantised ring: a sum beyond f32 or beyond its codec is nobody's fault", "[collective][fast]") {
  check_nobodys_fault<quantised_ring<plain>>(3, 2e38F);
  check_nobodys_fault<quantised_ring<half>>(3, 4e4F);
}

TEST_CASE("quantised ring: two conversations at once on different channels", "[collective][fast]") {
  check_overlap<quantised_ring<plain>>();
  check_cancel<quantised_ring<plain>>();
}

TEST_CASE("quantised ring: a peer that dies at any operation is named by the others, and the object works again",
          "[collective][fast]") {
  check_peer_lost<quantised_ring<plain>>(3);
  check_peer_lost<quantised_ring<plain>>(2);
}

TEST_CASE("quantised ring: messages that no peer makes are refused, and told to the others", "[collective][fast]") {
  const memory_network network{2};
  side me{any_transport{network.transport(0)}};
  side liar{any_transport{network.transport(1)}};
  quantised_ring<plain> exchange;
  std::uint64_t step = 0;
  const auto good = message(1, 1, 0, 0, 4);
  // Four messages come: two sums (hop 0), two means (hop 1).
  const auto against = [&](const std::vector<std::vector<std::byte>>& lies) {
    std::vector<float> values(4, 1.0F);
    const exchange_row row{.values = values};
    const auto id = me.port(++step).id;
    for (std::uint32_t i = 0; i < 4; ++i) {
      auto numbered_id = id;
      numbered_id.channel = numbered(id.channel, i);
      REQUIRE(liar.net.wait(liar.net.send(0, numbered_id, lies[i]), soon()));
    }
    const auto outcome = run_exchange(exchange, me.port(step), row, me.ctx);
    return outcome ? std::string{"ok"} : std::string{to_string(outcome.error().code)} + " " + outcome.error().where;
  };
  CHECK(against({good, good, good, good}) == "ok");
  for (const auto& [lie, answer] :
       std::vector<std::pair<std::vector<std::byte>, std::string>>{{{}, "protocol peer 1"},
                                                                   {message(1, 2, 0, 0, 4), "protocol peer 1"},
                                                                   {message(1, 1, 0, 0, 3), "protocol peer 1"},
                                                                   {message(1, 1, 0, 0, 400), "too_large peer 1"},
                                                                   {message(-1, 1, 0, 0, 4), "corrupt peer 1"},
                                                                   {message(1, 1, 7, 17, 0), "corrupt peer 1"},
                                                                   {message(0, 1, 1, 17, 0), "non_finite peer 1"}}) {
    for (std::size_t at = 0; at < 4; ++at) {
      std::vector<std::vector<std::byte>> all(4, good);
      all[at] = lie;
      CHECK(against(all) == answer);
    }
  }
}
