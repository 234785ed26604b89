// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/split_mean.hpp>

#include <causeway/compress/block_int8.hpp>

#include <string>
#include <vector>

#include "exchange_cases.hpp"
#include "exchange_faults.hpp"
#include "support/catch.hpp"

using namespace cases;
using namespace causeway::collective;

namespace {

using int8 = causeway::compress::as_message<causeway::compress::block_int8>;

template <class Exchange>
struct with_shares {
  std::vector<double> shares;
  Exchange operator()(std::uint32_t) const { return Exchange{split_options{.shares = shares}}; }
};

/// Notes what it is told about the part that it encodes or decodes.
struct telling {
  static constexpr std::string_view name = "telling";
  static constexpr codec_traits traits{.lossy = false};
  std::vector<std::string>* heard = nullptr;

  std::size_t most_bytes(const message_context& ctx, std::size_t n) const { return plain{}.most_bytes(ctx, n); }
  std::size_t encode(const message_context& ctx, std::span<const float> values, std::span<std::byte> room) const {
    std::string line = std::to_string(values.size()) + " of " + std::to_string(ctx.seed % 1000) + ":";
    for (const auto& m : ctx.matrices) {
      line += " " + std::to_string(m.offset) + "+" + std::to_string(m.rows) + "x" + std::to_string(m.columns);
    }
    if (!ctx.reference.empty()) line += " ref " + std::to_string(ctx.reference.front());
    if (heard != nullptr) heard->push_back(line);
    return plain{}.encode(ctx, values, room);
  }
  causeway::result<void> decode_add(const message_context& ctx, std::span<const std::byte> bytes, std::span<float> sum,
                                    float weight, std::span<float> counts) const {
    return plain{}.decode_add(ctx, bytes, sum, weight, counts);
  }
};

}  // namespace

static_assert(Exchange<split_mean<plain>, message_context>);
static_assert(Exchange<split_mean<telling, plain>, message_context>);
static_assert(causeway::compress::MessageCodec<telling>);
static_assert(Exchange<split_mean<pairs, int8>, message_context>);

TEST_CASE("split mean: the weighted mean, with the same bits on all peers", "[collective][fast]") {
  for (const std::uint32_t size : {1U, 2U, 3U, 5U, 8U}) {
    CAPTURE(size);
    std::vector<float> weights;
    for (std::uint32_t p = 0; p < size; ++p) weights.push_back(static_cast<float>((p * 2) % 5) + (p == 0 ? 3.0F : 0.0F));
    check_mean<split_mean<plain>>(size, 1000, std::vector<float>(size, 1.0F));
    check_mean<split_mean<plain>>(size, 1001, weights);
    check_mean<split_mean<mirrored>>(size, 77, weights);
    check_mean<split_mean<pairs, plain>>(size, 77, weights);
    check_mean<split_mean<int8>>(size, 3000, weights, 0.2);
    check_mean<split_mean<plain>>(size, 3, weights);  // fewer values than peers
  }
  check_mean<split_mean<plain>>(3, 0, {1, 1, 1});
}

TEST_CASE("split mean: shares decide who reduces; clients and servers alike end with the mean", "[collective][fast]") {
  using exchange = split_mean<plain>;
  for (const auto& shares :
       std::vector<std::vector<double>>{{1, 0, 0, 0}, {0, 0, 2, 6}, {0.1, 0.2, 0.3, 0.4}, {0, 1, 0, 1}}) {
    check_mean<exchange>(4, 500, {1, 2, 0, 4}, 1e-5, with_shares<exchange>{shares});
  }
}

TEST_CASE("split mean: a peer sends its row but for its share, and its share to everybody", "[collective][fast]") {
  using exchange = split_mean<plain>;
  constexpr std::uint64_t row = 4 * 120;
  // Equal shares of 4: three parts out and three results, 16 bytes more each.
  const std::uint64_t equal = 6 * (row / 4 + 16);
  check_bytes<exchange>(4, 120, {1, 1, 1, 1}, {equal, equal, equal, equal});
  // A parameter server: it sends 3 results, the others a row.
  check_bytes<exchange>(4, 120, {1, 1, 1, 1}, {row + 16, 3 * (row + 16), row + 16, row + 16},
                        with_shares<exchange>{{0, 1, 0, 0}});
  // A server that has nothing to say and a client that only listens.
  check_bytes<exchange>(4, 120, {0, 0, 1, 1}, {16, 3 * (row + 16), row + 16, row + 16},
                        with_shares<exchange>{{0, 1, 0, 0}});
}

TEST_CASE("split mean: codecs hear of their part: its matrices, its reference, a seed of its own", "[collective][fast]") {
  const memory_network network{2};
  std::vector<std::vector<std::string>> heard(2);
  const std::vector<causeway::compress::matrix_range> matrices{{2, 4, 5}, {24, 1, 6}};
  std::vector<float> reference(32);
  for (std::size_t i = 0; i < 32; ++i) reference[i] = static_cast<float>(i);
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    message_context ctx = {.pool = s.pool, .matrices = matrices, .seed = 5, .reference = reference};
    std::vector<float> values(32, 1.0F);
    split_mean<telling, plain> exchange{{}, telling{&heard[s.self]}};
    return run_exchange(exchange, s.port(), {.values = values}, ctx);
  });
  REQUIRE(all_succeeded(outcomes));
  REQUIRE(heard[0].size() == 2);
  // The row is cut at 16: after four values of the third row of the first matrix.
  const auto rest = [](const std::string& line) { return line.substr(line.find(':')); };
  CHECK(rest(heard[0][0]) == ": 2+2x5 12+1x4 ref 0.000000");
  CHECK(rest(heard[0][1]) == ": 0+1x1 1+1x5 8+1x6 ref 16.000000");
  CHECK(heard[0][0].substr(0, heard[0][0].find(':')) != heard[0][1].substr(0, heard[0][1].find(':')));
  CHECK(heard[0] == std::vector<std::string>{heard[1][1], heard[1][0]});  // both mean the same parts
}

TEST_CASE("split mean: the residual is what the own messages left out, part by part", "[collective][fast]") {
  const memory_network network{3};
  std::vector<std::vector<float>> residuals(3);
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    std::vector<float> values{0.3F, -1.2F, 5.0F, 0.1F, 0.6F};
    residuals[s.self].assign(5, 99.0F);
    split_mean<quarters, plain> exchange;
    const exchange_row row{.values = values, .residual = residuals[s.self], .weight = s.self == 2 ? 0.0F : 2.0F};
    return run_exchange(exchange, s.port(), row, s.ctx);
  });
  REQUIRE(all_succeeded(outcomes));
  const std::vector<float> lost{0.3F - 0.25F, -1.2F + 1.25F, 0, 0.1F, 0.6F - 0.5F};
  CHECK(residuals[0] == lost);
  CHECK(residuals[1] == lost);
  CHECK(residuals[2] == std::vector<float>{0.3F, -1.2F, 5, 0.1F, 0.6F});
}

TEST_CASE("split mean: with a server residual, what encoding a mean lost comes later", "[collective][fast]") {
  const memory_network network{3};
  const int rounds = 20;
  std::vector<float> with(3), without(3);
  const auto outcomes = run_sides(network, [&](side& s) -> causeway::result<void> {
    split_mean<plain, quarters> keeps{{.server_residual = true}}, forgets;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      std::vector<float> a(3, 0.1F), b(3, 0.1F);
      CAUSEWAY_TRY(run_exchange(keeps, s.port(round, 32), {.values = a}, s.ctx));
      CAUSEWAY_TRY(run_exchange(forgets, s.port(round, 48), {.values = b}, s.ctx));
      with[s.self] += a[s.self];
      without[s.self] += b[s.self];
    }
    return {};
  });
  REQUIRE(all_succeeded(outcomes));
  for (std::size_t p = 0; p < 3; ++p) {
    CHECK(without[p] == 0.0F);  // 0.1 rounds to 0 every time
    CHECK(std::abs(with[p] - 0.1F * rounds) <= 0.125F + 1e-5F);
  }
}

TEST_CASE("split mean: weights that add up to nothing are refused on all peers alike", "[collective][fast]") {
  check_all_refuse<split_mean<plain>>(3, {0, 0, 0}, errc::invalid_argument);
}

TEST_CASE("split mean: values that are not finite are refused on all peers, naming theirs", "[collective][fast]") {
  check_not_finite<split_mean<plain>>("peer 1");
  check_refuses_itself<split_mean<plain>>();
  check_not_finite<split_mean<int8>>("peer 1");
}

TEST_CASE("split mean: shares that fit nobody are an error before anything is sent", "[collective][fast]") {
  const memory_network network{2};
  side s{any_transport{network.transport(0)}};
  std::vector<float> values(4);
  for (const auto& shares : std::vector<std::vector<double>>{{1}, {0, 0}, {1, -1}, {1, std::nan("")}, {1, 1, 1}}) {
    split_mean<plain> exchange{{.shares = shares}};
    CHECK(exchange.begin(s.port(), {.values = values}, s.ctx).error().code == errc::invalid_argument);
  }
  CHECK(s.net.stats().frames_sent == 0);
}

TEST_CASE("split mean: two conversations at once on different channels", "[collective][fast]") {
  check_overlap<split_mean<plain>>();
  check_cancel<split_mean<plain>>();
}

TEST_CASE("split mean: a peer that dies at any operation is named by the others, and the object works again",
          "[collective][fast]") {
  check_peer_lost<split_mean<plain>>(3);
  check_peer_lost<split_mean<plain>>(3, with_shares<split_mean<plain>>{{0, 0, 1}});
}

TEST_CASE("split mean: messages that no peer makes are refused", "[collective][fast]") {
  const memory_network network{2};
  side me{any_transport{network.transport(0)}};
  side liar{any_transport{network.transport(1)}};
  split_mean<plain> exchange;
  std::uint64_t step = 0;
  const auto good = message(1, 2, 0, 0, 8);
  const auto against = [&](const std::vector<std::byte>& its_part, const std::vector<std::byte>& its_result) {
    std::vector<float> values(4, 1.0F);
    const exchange_row row{.values = values};
    auto id = me.port(++step).id;
    REQUIRE(exchange.begin(me.port(step), row, me.ctx));
    REQUIRE(liar.net.wait(liar.net.send(0, id, its_part), soon()));
    ++id.channel;
    REQUIRE(liar.net.wait(liar.net.send(0, id, its_result), soon()));
    auto outcome = exchange.turn(me.port(step), row, me.ctx);
    if (outcome) outcome = exchange.finish(me.port(step), row, me.ctx);
    return outcome ? std::string{"ok"} : std::string{to_string(outcome.error().code)} + " " + outcome.error().where;
  };
  CHECK(against(good, good) == "ok");
  for (const auto& [lie, answer] :
       std::vector<std::pair<std::vector<std::byte>, std::string>>{{{}, "protocol peer 1"},
                                                                   {message(1, 3, 0, 0, 8), "protocol peer 1"},
                                                                   {message(1, 2, 0, 0, 7), "protocol peer 1"},
                                                                   {message(1, 2, 0, 0, 400), "too_large peer 1"},
                                                                   {message(-1, 2, 0, 0, 8), "corrupt peer 1"},
                                                                   {message(std::nanf(""), 2, 0, 0, 8), "corrupt peer 1"},
                                                                   {message(1, 2, 7, 17, 0), "corrupt peer 1"}}) {
    CHECK(against(lie, good) == answer);
    CHECK(against(good, lie) == answer);
  }
  CHECK(against(good, message(0, 2, 0, 17, 0)) == "non_finite peer 0");  // an owner says that our part was bad
  CHECK(against(good, message(0, 2, 2, 1, 0)) == "invalid_argument exchange");
  CHECK(against(good, message(0, 2, 0, 0, 0)) == "protocol peer 1");  // a result without content is none
}
