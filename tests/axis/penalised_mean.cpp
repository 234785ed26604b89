// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/penalised_mean.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

namespace {

/// What each peer ends with after it put in rows[round][peer], all values of which are the same.
std::vector<float> after(const std::vector<std::vector<float>>& rounds, axis::penalty_options options, std::size_t size = 4,
                         bool again = false) {
  const auto peers = static_cast<std::uint32_t>(rounds[0].size());
  std::vector<float> got(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    auto exchange = axis::penalised_mean{options}.make();
    thread_pool pool{1};
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      const compress::message_context ctx{.pool = pool, .round = r};
      for (std::uint64_t attempt = 0; attempt < (again ? 2U : 1U); ++attempt) {
        std::vector<float> row(size, rounds[r][peer]);
        const collective::exchange_port port{env.transport, {.channel = 64, .step = 2 * r + attempt}, env.exchange};
        REQUIRE(collective::run_exchange(exchange, port, {.values = row}, ctx));
        got[peer] = row[0];
      }
    }
  });
  return got;
}

constexpr axis::penalty_options quick{.decay = 0.25, .warm_up = 3, .threshold = 2, .clip = 0};

}  // namespace

TEST_CASE("penalised mean: longer rows count less, by a softmax of their norms", "[axis][fast]") {
  const auto got = after({{0.5F, 1.0F, 2.0F}}, quick);  // norms 1, 2, 4
  const double a = std::exp(-1.0), b = std::exp(-2.0), c = std::exp(-4.0);
  CHECK(got[0] == Approx((0.5 * a + b + 2 * c) / (a + b + c)).epsilon(1e-6));
  CHECK(got[0] == got[1]);
  CHECK(got[0] == got[2]);
}

TEST_CASE("penalised mean: rows of one length have their mean, however long they are", "[axis][fast]") {
  CHECK(after({{300.0F, -300.0F, 300.0F}}, quick)[1] == Approx(100.0F));
}

TEST_CASE("penalised mean: a high temperature is the plain mean", "[axis][fast]") {
  axis::penalty_options o = quick;
  o.temperature = 1e9;
  CHECK(after({{0.5F, 1.0F, 3.0F}}, o)[0] == Approx(1.5F));
}

TEST_CASE("penalised mean: the result is clipped to its bound, and left alone below it", "[axis][fast]") {
  axis::penalty_options o = quick;
  o.clip = 1;
  CHECK(after({{3.0F, 3.0F}}, o)[0] == Approx(0.5F).epsilon(1e-5));  // four of them have the norm 1
  CHECK(after({{0.25F, 0.25F}}, o)[0] == Approx(0.25F));
}

TEST_CASE("penalised mean: a peer's outlier counts for nothing, and all peers' are zeros", "[axis][fast]") {
  const std::vector<std::vector<float>> steady{{1.0F, 1.1F}, {1.05F, 1.0F}, {0.95F, 1.05F}, {1.0F, 1.0F}};
  auto rounds = steady;
  rounds.push_back({50.0F, 1.0F});
  CHECK(after(rounds, quick)[0] == Approx(1.0F));
  rounds.back() = {50.0F, 50.0F};
  CHECK(after(rounds, quick)[1] == 0.0F);
  axis::penalty_options o = quick;
  o.eliminate = false;
  CHECK(after(rounds, o)[1] == Approx(50.0F));
  o = quick;
  o.warm_up = 5;  // nobody knows yet what is usual
  CHECK(after(rounds, o)[1] == Approx(50.0F));
}

TEST_CASE("penalised mean: a second attempt of a round leaves the statistics as they were", "[axis][fast]") {
  std::vector<std::vector<float>> rounds{{1.0F, 1.1F}, {1.05F, 1.0F}, {0.95F, 1.05F}, {50.0F, 1.0F}};
  // Counted twice, the first three would be six, and the fourth the seventh: an outlier.
  axis::penalty_options o = quick;
  o.warm_up = 4;
  o.temperature = 1e9;
  CHECK(after(rounds, o, 4, true)[0] == Approx(25.5F));
}

TEST_CASE("penalised mean: short rows and fragments of nothing", "[axis][fast]") {
  CHECK(after({{2.0F, 2.0F, 2.0F}}, quick, 1)[2] == Approx(2.0F));
}

TEST_CASE("penalised mean: who only listens is not in the sum; one peer alone is judged, too", "[axis][fast]") {
  std::vector<float> got(2);
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    auto exchange = axis::penalised_mean{quick}.make();
    thread_pool pool{1};
    std::vector<float> row(4, peer == 0 ? 1.0F : 5.0F);
    const collective::exchange_port port{env.transport, {.channel = 64, .step = 1}, env.exchange};
    const collective::exchange_row mine{.values = row, .weight = peer == 0 ? 1.0F : 0.0F};
    REQUIRE(collective::run_exchange(exchange, port, mine, compress::message_context{.pool = pool}));
    got[peer] = row[0];
  });
  CHECK(got == std::vector<float>{1.0F, 1.0F});

  auto exchange = axis::penalised_mean{{.decay = 0.25, .warm_up = 3, .threshold = 2, .clip = 1}}.make();
  thread_pool pool{1};
  const auto alone = [&](float value, std::uint64_t round) {
    std::vector<float> row(4, value);
    REQUIRE(exchange.alone({.values = row}, {.pool = pool, .round = round}));
    return row[0];
  };
  CHECK(alone(1.0F, 0) == Approx(0.5F).epsilon(1e-5));
  for (std::uint64_t r = 1; r < 4; ++r) CHECK(alone(0.1F, r) == Approx(0.1F));
  CHECK(alone(9.0F, 4) == 0.0F);
}

TEST_CASE("penalised mean: what is not finite fails on all peers alike", "[axis][fast]") {
  std::vector<errc> codes(3);
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    auto exchange = axis::penalised_mean{quick}.make();
    thread_pool pool{1};
    std::vector<float> row(4, peer == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0F);
    const collective::exchange_port port{env.transport, {.channel = 64, .step = 1}, env.exchange};
    const auto done = collective::run_exchange(exchange, port, {.values = row}, compress::message_context{.pool = pool});
    REQUIRE_FALSE(done);
    codes[peer] = done.error().code;
  });
  CHECK(codes == std::vector<errc>(3, errc::non_finite));
}

TEST_CASE("penalised mean: options that cannot work are named", "[axis][fast]") {
  thread_pool pool{1};
  std::vector<float> row(4, 1.0F);
  for (const axis::penalty_options& o : {axis::penalty_options{.decay = 0},
                                         {.decay = 1},
                                         {.warm_up = 1},
                                         {.threshold = 0},
                                         {.temperature = 0},
                                         {.clip = -1}}) {
    auto exchange = axis::penalised_mean{o}.make();
    CHECK(exchange.alone({.values = row}, {.pool = pool}).error().code == errc::invalid_argument);
  }
}
