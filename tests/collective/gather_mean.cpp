// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/gather_mean.hpp>

#include <causeway/compress/block_int8.hpp>

#include <atomic>
#include <limits>
#include <mutex>
#include <string>

#include "exchange_cases.hpp"
#include "exchange_faults.hpp"
#include "support/catch.hpp"

using namespace cases;
using namespace causeway::collective;

static_assert(Exchange<gather_mean<plain>, message_context>);
static_assert(Exchange<gather_mean<pairs, contributor_mean>, message_context>);
static_assert(Exchange<gather_mean<causeway::compress::as_message<causeway::compress::block_int8>>, message_context>);

TEST_CASE("gather mean: the weighted mean, with the same bits on all peers", "[collective][fast]") {
  for (const std::uint32_t size : {1U, 2U, 3U, 5U, 8U}) {
    CAPTURE(size);
    check_mean<gather_mean<plain>>(size, 1000, std::vector<float>(size, 1.0F));
    std::vector<float> weights;
    for (std::uint32_t p = 0; p < size; ++p) weights.push_back(static_cast<float>((p * 2) % 5) + (p == 0 ? 3.0F : 0.0F));
    check_mean<gather_mean<plain>>(size, 1000, weights);
    check_mean<gather_mean<mirrored>>(size, 77, weights);
  }
  check_mean<gather_mean<plain>>(3, 0, {1, 1, 1});
}

TEST_CASE("gather mean: equal weights give the bits of all_reduce_mean", "[collective][fast]") {
  for (const std::uint32_t size : {2U, 3U, 7U}) {
    std::vector<std::vector<float>> a(size), b(size);
    const memory_network network{size};
    const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
      a[s.self] = b[s.self] = values_of(s.self, 501);
      gather_mean<plain> exchange;
      CAUSEWAY_TRY(run_exchange(exchange, s.port(), {.values = a[s.self]}, s.ctx));
      return all_reduce_mean(s.net, s.port(8).id, std::span{b[s.self]}, s.options);
    });
    REQUIRE(all_succeeded(outcomes));
    CHECK(same_bits(a[0], b[0]));
  }
}

TEST_CASE("gather mean: peers send coordinates of their own; counts and means say who contributed", "[collective][fast]") {
  const std::uint32_t size = 3;
  std::vector<std::vector<float>> population(size), contributors(size), counts(size);
  const memory_network network{size};
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    // Peer p has values at p and p+1 only, of size p+1, and weight p+1; coordinate 5 is nobody's.
    std::vector<float> mine(6, 0.25F);
    mine[s.self] = mine[s.self + 1] = static_cast<float>(s.self + 1);
    population[s.self] = contributors[s.self] = mine;
    counts[s.self].assign(6, -1.0F);
    const float weight = static_cast<float>(s.self + 1);
    gather_mean<pairs> plainly{pairs{1.0F}};
    gather_mean<pairs, contributor_mean> by_contributor{pairs{1.0F}};
    CAUSEWAY_TRY(run_exchange(plainly, s.port(1),
                              {.values = population[s.self], .weight = weight, .counts = counts[s.self]}, s.ctx));
    return run_exchange(by_contributor, s.port(2), {.values = contributors[s.self], .weight = weight}, s.ctx);
  });
  REQUIRE(all_succeeded(outcomes));
  for (std::uint32_t p = 0; p < size; ++p) {
    const float sixth = 1.0F / 6.0F;
    CHECK(population[p] == std::vector<float>{1 * sixth, 5 * sixth, 13 * sixth, 9 * sixth, 0, 0});
    CHECK(counts[p] == std::vector<float>{1, 3, 5, 3, 0, 0});
    CHECK(contributors[p] == std::vector<float>{1, 5.0F / 3, 13.0F / 5, 3, 0, 0});
  }
}

TEST_CASE("gather mean: the residual is what the own message left out", "[collective][fast]") {
  const memory_network network{2};
  std::vector<std::vector<float>> residuals(2), mirrored_residuals(2), means(2);
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    std::vector<float> mine{0.3F, -1.2F, 5.0F};
    const std::vector<float> original = mine;
    residuals[s.self].assign(3, 99.0F);
    mirrored_residuals[s.self].assign(3, 99.0F);
    gather_mean<quarters> exchange;
    gather_mean<mirrored> turned;
    const exchange_row row{.values = mine, .residual = residuals[s.self], .weight = s.self == 0 ? 1.0F : 0.0F};
    CAUSEWAY_TRY(exchange.begin(s.port(1), row, s.ctx));
    if (mine != original) return fail(errc::diverged, "values", "changed before finish");
    CAUSEWAY_TRY(exchange.finish(s.port(1), row, s.ctx));
    means[s.self] = mine;
    mine = original;
    return run_exchange(turned, s.port(2), {.values = mine, .residual = mirrored_residuals[s.self]}, s.ctx);
  });
  REQUIRE(all_succeeded(outcomes));
  CHECK(residuals[0] == std::vector<float>{0.3F - 0.25F, -1.2F + 1.25F, 0});
  CHECK(residuals[1] == std::vector<float>{0.3F, -1.2F, 5});  // a listener has sent nothing of its own
  CHECK(means[1] == std::vector<float>{0.25F, -1.25F, 5});
  CHECK(mirrored_residuals[0] == std::vector<float>{0, 0, 0});
}

TEST_CASE("gather mean: weights that add up to nothing are refused on all peers alike", "[collective][fast]") {
  check_all_refuse<gather_mean<plain>>(3, {0, 0, 0}, errc::invalid_argument);
}

TEST_CASE("gather mean: values that are not finite are refused on all peers, naming theirs", "[collective][fast]") {
  check_not_finite<gather_mean<plain>>("peer 1");
  check_refuses_itself<gather_mean<plain>>();
}

TEST_CASE("gather mean: bytes on the wire are those of the messages", "[collective][fast]") {
  // A dense message of 100 values is 400 bytes, a listener's none.
  check_bytes<gather_mean<plain>>(4, 100, {1, 1, 0, 1}, {3 * 416, 3 * 416, 3 * 16, 3 * 416});
}

TEST_CASE("gather mean: two conversations at once on different channels", "[collective][fast]") {
  check_overlap<gather_mean<plain>>();
  check_cancel<gather_mean<plain>>();
}

TEST_CASE("gather mean: a peer that dies at any operation is named by the others, and the object works again",
          "[collective][fast]") {
  check_peer_lost<gather_mean<plain>>(3);
}

TEST_CASE("gather mean: messages that no peer makes are refused", "[collective][fast]") {
  const memory_network network{2};
  side me{any_transport{network.transport(0)}};
  side liar{any_transport{network.transport(1)}};
  gather_mean<pairs> exchange;
  std::uint64_t step = 0;
  const auto against = [&](const std::vector<std::byte>& lie) {
    std::vector<float> values(4, 1.0F);
    const exchange_row row{.values = values};
    ++step;
    REQUIRE(exchange.begin(me.port(step), row, me.ctx));
    REQUIRE(liar.net.wait(liar.net.send(0, me.port(step).id, lie), soon()));
    const auto outcome = exchange.finish(me.port(step), row, me.ctx);
    return outcome ? std::string{"ok"} : std::string{to_string(outcome.error().code)} + " " + outcome.error().where;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(against(message(1, 4, 0, 0, 8)) == "ok");
  CHECK(against({}) == "protocol peer 1");
  CHECK(against(std::vector<std::byte>(15)) == "protocol peer 1");
  CHECK(against(message(1, 5, 0, 0, 8)) == "protocol peer 1");     // another row
  CHECK(against(message(1, 4, 0, 0, 7)) == "protocol peer 1");     // half an entry
  CHECK(against(message(1, 4, 0, 0, 400)) == "too_large peer 1");  // more than the codec ever makes
  CHECK(against(message(-1, 4, 0, 0, 8)) == "corrupt peer 1");
  CHECK(against(message(infinity, 4, 0, 0, 8)) == "corrupt peer 1");
  CHECK(against(message(std::nanf(""), 4, 0, 0, 8)) == "corrupt peer 1");
  CHECK(against(message(0, 4, 0, 0, 8)) == "corrupt peer 1");      // says nothing, and yet something
  CHECK(against(message(1, 4, 0, 17, 8)) == "non_finite peer 1");  // blames another: it is the one that failed us
  CHECK(against(message(1, 4, 2, 1, 8)) == "protocol peer 1");     // a contribution says that there are no weights
  CHECK(against(message(1, 4, 9, 17, 0)) == "corrupt peer 1");
  CHECK(against(message(1, 4, 0, 777, 0)) == "corrupt peer 1");
  CHECK(against(message(3e38F, 4, 0, 0, 8)) == "ok");
  CHECK(against(message(1, 4, 0, 0, 0)) == "ok");  // an empty sparse message
}
