// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/low_rank_mean.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/membership/state_image.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "compress/heavy_tails.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;

namespace {

constexpr std::size_t rows = 24, columns = 16, tail = 10, size = rows * columns + tail;

/// Each peer's row: a matrix of rank 2 that is a scaled copy of the others', and a tail.
std::vector<float> row_of(std::uint32_t peer, bool full_rank) {
  rng shared{3}, own{4, peer};
  std::vector<float> row(size);
  std::vector<float> u(2 * rows), v(2 * columns);
  for (float& x : u) x = shared.uniform() - 0.5F;
  for (float& x : v) x = shared.uniform() - 0.5F;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      row[i * columns + j] = static_cast<float>(peer + 1) * (u[i] * v[j] + u[rows + i] * v[columns + j]);
      if (full_rank) row[i * columns + j] += 0.2F * (own.uniform() - 0.5F);
    }
  }
  for (std::size_t i = rows * columns; i < size; ++i) row[i] = own.uniform();
  return row;
}

struct outcome {
  std::vector<float> result;
  std::vector<float> residual;
  std::uint64_t bytes = 0;
};

std::vector<outcome> run(std::uint32_t peers, std::uint32_t rank, bool full_rank, int rounds) {
  std::vector<outcome> all(peers);
  const std::vector<compress::matrix_range> matrices{{0, rows, columns}};
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    auto exchange = axis::low_rank_mean{rank}.make();
    thread_pool pool{1};
    const compress::message_context ctx{.pool = pool, .matrices = matrices};
    for (int r = 0; r < rounds; ++r) {
      outcome& o = all[peer];
      o.result = row_of(peer, full_rank);
      o.residual.assign(size, 0.0F);
      const auto before = env.transport.stats().bytes_sent;
      const collective::exchange_port port{
          env.transport, {.channel = 64, .step = static_cast<std::uint64_t>(r)}, env.exchange};
      const collective::exchange_row row{.values = o.result, .residual = o.residual};
      REQUIRE(collective::run_exchange(exchange, port, row, ctx));
      exchange.keep();
      o.bytes = env.transport.stats().bytes_sent - before;
    }
  });
  return all;
}

std::vector<double> mean_of(std::uint32_t peers, bool full_rank) {
  std::vector<double> mean(size);
  for (std::uint32_t p = 0; p < peers; ++p) {
    const auto row = row_of(p, full_rank);
    for (std::size_t i = 0; i < size; ++i) mean[i] += static_cast<double>(row[i]) / peers;
  }
  return mean;
}

double gap(const std::vector<float>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("low rank mean: exact for matrices of that rank, and alike on all peers", "[axis][fast]") {
  const auto all = run(3, 2, false, 1);
  const auto mean = mean_of(3, false);
  CHECK(gap(all[0].result, mean) < 1e-4);
  CHECK(all[0].result == all[1].result);
  CHECK(all[0].result == all[2].result);
}

TEST_CASE("low rank mean: residual and result make up the row; what is no matrix has none", "[axis][fast]") {
  const auto all = run(3, 2, true, 1);
  for (std::uint32_t p = 0; p < 3; ++p) {
    const auto row = row_of(p, true);
    for (std::size_t i = 0; i < rows * columns; ++i) {
      CHECK(all[p].residual[i] + all[p].result[i] == Approx(row[i]).margin(1e-5));
    }
    for (std::size_t i = rows * columns; i < size; ++i) CHECK(all[p].residual[i] == 0.0F);
  }
}

TEST_CASE("low rank mean: warm starts find the best factors round by round", "[axis][fast]") {
  const auto mean = mean_of(2, true);
  const double cold = gap(run(2, 2, true, 1)[0].result, mean);
  const double warm = gap(run(2, 2, true, 6)[0].result, mean);
  CHECK(warm < cold);
}

TEMPLATE_TEST_CASE("low rank mean: from the factors follows all that an exchange that broke off would have left",
                   "[axis][fast]", axis::low_rank_mean, axis::dion_mean) {
  const std::vector<compress::matrix_range> matrices{{0, rows, columns}};
  const auto right_of = [](auto& exchange) {
    membership::image_collector parts;
    exchange.shared(parts);
    const auto bytes = parts.parts().front();
    return std::vector<std::byte>{bytes.begin(), bytes.end()};
  };
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    const TestType recipe{2};
    auto whole = recipe.make(), broken = recipe.make();
    thread_pool pool{1};
    const compress::message_context ctx{.pool = pool, .matrices = matrices};
    const auto sent = row_of(peer, true);
    auto result = sent;
    std::vector<float> residual(size), again(size);
    const collective::exchange_port port{env.transport, {.channel = 64}, env.exchange};
    REQUIRE(collective::run_exchange(whole, port, {.values = result, .residual = residual}, ctx));
    broken.prepare(size, matrices);
    std::copy(whole.factors().begin(), whole.factors().end(), broken.factors().begin());
    auto known = result;
    broken.adopt(sent, {.values = known, .residual = again}, pool);
    CHECK(known == result);
    CHECK(again == residual);
    whole.keep();
    broken.keep();
    CHECK(right_of(broken) == right_of(whole));
    again.assign(size, 7.0F);
    broken.adopt(sent, {.values = known, .residual = again}, pool);  // it has ended here: what it left is there
    CHECK(again == std::vector<float>(size, 7.0F));
  });
}

TEST_CASE("low rank mean: sends two factors instead of a matrix", "[axis][fast]") {
  const auto sent = run(2, 2, true, 1)[0].bytes;
  const auto whole = run(2, 16, true, 1)[0].bytes;  // nothing to gain: the row travels as it is
  CHECK(sent < whole);
  CHECK(sent >= (2 * (rows + columns) + tail) * 4);  // two peers: half the row to each other, half back
}

namespace {

double squares(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum;
}

}  // namespace

TEST_CASE("dion mean: orthonormal steps, the mean of the rest, and alike on all peers", "[axis][fast]") {
  std::vector<std::vector<float>> got(3);
  const std::vector<compress::matrix_range> matrices{{0, rows, columns}};
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    auto exchange = axis::dion_mean{.rank = 3}.make();
    thread_pool pool{1};
    const compress::message_context ctx{.pool = pool, .matrices = matrices};
    got[peer] = row_of(peer, true);
    std::vector<float> residual(size);
    const collective::exchange_port port{env.transport, {.channel = 64, .step = 1}, env.exchange};
    REQUIRE(collective::run_exchange(exchange, port, {.values = got[peer], .residual = residual}, ctx));
    for (std::size_t i = rows * columns; i < size; ++i) CHECK(residual[i] == 0.0F);
  });
  CHECK(got[0] == got[1]);
  CHECK(got[0] == got[2]);
  CHECK(squares(std::span{got[0]}.first(rows * columns)) == Approx(3.0).epsilon(1e-4));
  const auto mean = mean_of(3, true);
  for (std::size_t i = rows * columns; i < size; ++i) CHECK(got[0][i] == Approx(mean[i]).margin(1e-6));
}

TEST_CASE("dion mean: what one peer keeps of a matrix is no more than it had", "[axis][fast]") {
  thread_pool pool{1};
  const std::vector<compress::matrix_range> matrices{{0, rows, columns}};
  for (const float mu : {0.0F, 0.5F, 0.95F}) {
    for (const std::uint32_t rank : {1U, 4U, 16U, 99U}) {
      auto exchange = axis::dion_mean{rank, mu}.make();
      std::vector<float> kept(size);
      for (std::uint32_t step = 0; step < 6; ++step) {
        std::vector<float> b = row_of(step, true);
        for (std::size_t i = 0; i < size; ++i) b[i] += kept[i];
        const double before = squares(std::span{b}.first(rows * columns));
        REQUIRE(exchange.alone({.values = b, .residual = kept}, {.pool = pool, .matrices = matrices}));
        exchange.keep();
        const double after = squares(std::span{kept}.first(rows * columns));
        CHECK(after <= before * (1 + 1e-5));
        // With as many directions as there are columns all of it is found: |M|² = mu²·|B|².
        const double all = static_cast<double>(mu) * static_cast<double>(mu) * before;
        if (rank >= columns) CHECK(after == Approx(all).margin(1e-4 * before));
      }
    }
  }
}

TEST_CASE("dion mean: tables and vectors travel whole", "[axis][fast]") {
  thread_pool pool{1};
  const std::vector<compress::matrix_range> matrices{{0, rows, columns, parameter_kind::embedding}};
  auto exchange = axis::dion_mean{.rank = 3}.make();
  std::vector<float> row = row_of(0, true);
  REQUIRE(exchange.alone({.values = row}, {.pool = pool, .matrices = matrices}));
  CHECK(row == row_of(0, true));
}

namespace {

/// |residual|² over |row|² after each round of the same row, which both peers have.
std::vector<double> left_of(const std::vector<float>& x, std::uint32_t rank, std::uint64_t rounds) {
  std::vector<std::vector<double>> left(2);
  const std::vector<compress::matrix_range> matrices{{0, rows, columns}};
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    thread_pool pool{1};
    auto exchange = axis::low_rank_mean{rank}.make();
    const compress::message_context ctx{.pool = pool, .matrices = matrices};
    for (std::uint64_t r = 0; r < rounds; ++r) {
      auto result = x;
      std::vector<float> residual(x.size());
      const collective::exchange_port port{env.transport, {.channel = 64, .step = r}, env.exchange};
      const collective::exchange_row row{.values = result, .residual = residual};
      REQUIRE(collective::run_exchange(exchange, port, row, ctx));
      exchange.keep();
      left[peer].push_back(squares(residual) / squares(x));
    }
  });
  CHECK(left[0] == left[1]);
  return left[0];
}

}  // namespace

TEST_CASE("low rank mean: what is left of a matrix is no more than there was, and shrinks to the best factors' share",
          "[axis][fast]") {
  for (const auto& [name, draw] : heavy_tails::all()) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      INFO(name << ", seed " << seed);
      double last = 1.0;
      for (const double left : left_of(draw(rows * columns, seed), 4, 10)) {
        CHECK(left <= last * (1 + 1e-5));
        last = left;
      }
      CHECK(last <= 1 - 4.0 / columns);
    }
  }
}
