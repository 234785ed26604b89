// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/group_threshold_mean.hpp>

#include <algorithm>
#include <limits>
#include <vector>

#include <causeway/io/archive.hpp>

#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

namespace {

using rows = std::vector<std::vector<float>>;  // of each peer

struct outcome {
  rows results, residuals;
};

/// Two tensors of 64 values. Each peer puts in x[p](round), and keeps its residual; `attempts` of each round.
template <class Make>
outcome after(std::uint32_t peers, std::uint32_t rounds, axis::group_threshold_options options, Make x,
              std::uint64_t attempts = 1, std::uint32_t listener = 99) {
  outcome got{rows(peers), rows(peers)};
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    auto exchange = axis::group_threshold_mean{options}.make();
    thread_pool pool{1};
    const std::vector<compress::matrix_range> tensors{{.offset = 0, .rows = 8, .columns = 8},
                                                      {.offset = 64, .rows = 1, .columns = 64}};
    std::vector<float> kept(128);
    for (std::uint32_t r = 0; r < rounds; ++r) {
      std::vector<float> row, left(128);
      for (std::uint64_t attempt = 0; attempt < attempts; ++attempt) {
        row = x(peer, r);
        for (std::size_t i = 0; i < 128; ++i) row[i] += kept[i];
        const collective::exchange_port port{env.transport, {.channel = 64, .step = attempts * r + attempt}, env.exchange};
        const collective::exchange_row mine{.values = row, .residual = left, .weight = peer == listener ? 0.0F : 1.0F};
        REQUIRE(collective::run_exchange(exchange, port, mine,
                                         compress::message_context{.pool = pool, .matrices = tensors, .round = r}));
      }
      kept = left;
      got.results[peer] = row;
    }
    got.residuals[peer] = kept;
  });
  return got;
}

/// Group g of the row has this value everywhere.
std::vector<float> by_group(const std::vector<float>& values) {
  std::vector<float> row(128);
  for (std::size_t i = 0; i < 128; ++i) row[i] = values[i / 16];
  return row;
}

}  // namespace

TEST_CASE(
    "group threshold mean: of each tensor the first groups that reach its threshold, divided by all; the rest is kept",
    "[axis][fast]") {
  const rows x{by_group({4, 1, 1, 1, 0.25F, 0.5F, 0, 0}), by_group({1, -8, 2, 1, 0.75F, 0, 0, 0})};
  const auto got = after(2, 1, {.share = 0.5F}, [&](std::uint32_t p, std::uint32_t) { return x[p]; });  // one of four each
  CHECK(got.results[0] == by_group({2, -4, 0, 0, 0.5F, 0, 0, 0}));
  CHECK(got.results[1] == got.results[0]);
  CHECK(got.residuals[0] == by_group({0, 1, 1, 1, 0, 0.5F, 0, 0}));
  CHECK(got.residuals[1] == by_group({1, 0, 2, 1, 0, 0, 0, 0}));
}

TEST_CASE("group threshold mean: parts take turns, so that values come from one peer and all of them come in n rounds",
          "[axis][fast]") {
  const axis::group_threshold_options all{.share = 1, .in_parts = true};
  const auto ones = [](std::uint32_t p, std::uint32_t) { return std::vector<float>(128, p == 0 ? 1.0F : 2.0F); };
  const auto once = after(2, 1, all, ones);
  CHECK(once.results[0] == by_group({1, 1, 2, 2, 1, 1, 2, 2}));  // not halved
  const auto twice = after(2, 2, all, ones);
  CHECK(twice.results[0] == by_group({4, 4, 2, 2, 4, 4, 2, 2}));  // with what was kept
  CHECK(twice.residuals[1] == by_group({0, 0, 2, 2, 0, 0, 2, 2}));
}

TEST_CASE("group threshold mean: a second attempt of a round chooses as the first", "[axis][fast]") {
  const auto x = [](std::uint32_t p, std::uint32_t r) {
    std::vector<float> row(128);
    for (std::size_t i = 0; i < 128; ++i) row[i] = static_cast<float>((i * 37 + p * 11 + r * 53) % 101) - 50;
    return row;
  };
  const auto once = after(3, 6, {.share = 0.8F}, x, 1), again = after(3, 6, {.share = 0.8F}, x, 3);
  CHECK(once.results == again.results);
  CHECK(once.residuals == again.residuals);
}

TEST_CASE("group threshold mean: who only listens keeps all it has; one peer alone moves by what it would have sent",
          "[axis][fast]") {
  const rows x{by_group({4, 1, 1, 1, 1, 2, 0, 0}), by_group({2, 8, 1, 1, 3, 1, 0, 0})};
  const auto got = after(
      2, 1, {.share = 0.5F}, [&](std::uint32_t p, std::uint32_t) { return x[p]; }, 1, 1);
  CHECK(got.results[1] == by_group({4, 0, 0, 0, 1, 0, 0, 0}));
  CHECK(got.residuals[1] == x[1]);

  auto exchange = axis::group_threshold_mean{{.share = 0.25F}}.make();
  thread_pool pool{1};
  std::vector<float> row = by_group({1, 3, 1, 1, 1, 1, 1, 1}), left(128);
  REQUIRE(exchange.alone({.values = row, .residual = left}, {.pool = pool}));  // without tensors: two of eight groups
  CHECK(row == by_group({1, 3, 0, 0, 0, 0, 0, 0}));
  CHECK(left == by_group({0, 0, 1, 1, 1, 1, 1, 1}));
}

TEST_CASE("group threshold mean: what it remembers is in a checkpoint", "[axis][fast]") {
  thread_pool pool{1};
  const auto step = [&](auto& exchange, std::uint64_t round) {
    std::vector<float> row(128), left(128);
    for (std::size_t i = 0; i < 128; ++i) {  // sums up to 7 · 16, then up to 13 · 16, rising
      row[i] = static_cast<float>(round < 4 ? (i / 16 * 7 + round * 3) % 8 : 6 + i / 16);
    }
    REQUIRE(exchange.alone({.values = row, .residual = left}, {.pool = pool, .round = round}));
    return row;
  };
  auto first = axis::group_threshold_mean{{.share = 0.25F}}.make();
  for (std::uint64_t round = 0; round < 4; ++round) step(first, round);
  const auto bytes = io::to_bytes(first);
  REQUIRE(bytes);
  auto second = axis::group_threshold_mean{{.share = 0.25F}}.make();
  REQUIRE(io::from_bytes(*bytes, second));
  auto anew = axis::group_threshold_mean{{.share = 0.25F}}.make();
  const auto expected = step(first, 4);
  CHECK(step(second, 4) == expected);
  CHECK(step(anew, 4) != expected);
}

TEST_CASE("group threshold mean: what is not finite fails on all peers, and so does a share of nothing", "[axis][fast]") {
  std::vector<errc> codes(3), none(3);
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    thread_pool pool{1};
    const auto run = [&](float share, std::uint64_t step) {
      auto exchange = axis::group_threshold_mean{{.share = share}}.make();
      std::vector<float> row(128, 1.0F);
      if (peer == 1) row[70] = std::numeric_limits<float>::quiet_NaN();
      const collective::exchange_port port{env.transport, {.channel = 64, .step = step}, env.exchange};
      const auto done = collective::run_exchange(exchange, port, {.values = row}, compress::message_context{.pool = pool});
      REQUIRE(!done);
      return done.error().code;
    };
    codes[peer] = run(0.3F, 1);
    none[peer] = run(0, 2);
  });
  CHECK(codes == std::vector<errc>(3, errc::non_finite));
  CHECK(none == std::vector<errc>(3, errc::invalid_argument));
}
