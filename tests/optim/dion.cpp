// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/dion.hpp>

#include <cmath>
#include <vector>

#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

// tests/presets/traces_optimizers.cpp compares whole steps with a reference.

namespace {

parameter_store one_matrix(std::int64_t rows, std::int64_t columns) {
  parameter_store store;
  store.add("w", parameter_kind::matrix, rows, columns);
  store.allocate();
  return store;
}

double squares(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += double{v} * double{v};
  return sum;
}

/// The momentum, out of a checkpoint: the first thing in it.
struct first_buffer {
  std::vector<float> values;
  template <class... Ts>
  void operator()(Ts&... ts) {
    (visit(ts), ...);
  }
  void visit(state_buffer& b) {
    if (values.empty()) values.assign(b.span().begin(), b.span().end());
  }
  void visit(auto&) {}
};

std::vector<float> momentum_of(dion& optimizer) {
  first_buffer ar;
  optimizer.serialize(ar);
  return ar.values;
}

}  // namespace

TEST_CASE("dion: an update has as many singular values of one as its rank, scaled by the sides", "[optim][fast]") {
  thread_pool pool{2};
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{40, 90}, {90, 40}, {64, 64}}) {
    parameter_store store = one_matrix(rows, columns);
    test::fill(store, store.gradients(), 5);
    dion optimizer{{.rank = 8, .weight_decay = 0.0F}};
    optimizer.reset(store.length());
    optimizer.step(pool, store.view(), {.learning_rate = 1.0F});
    // Left vectors are orthonormal and right ones have length one: the squares add up to the rank.
    CHECK(squares(store.values()) * static_cast<double>(columns) / static_cast<double>(rows) == Approx(8.0).epsilon(1e-4));
  }
}

TEST_CASE("dion: what stays of a gradient is no more than its bound says", "[optim][fast]") {
  thread_pool pool;
  for (const float mu : {0.0F, 0.5F, 0.95F}) {
    for (const std::uint32_t rank : {1U, 4U, 24U}) {
      parameter_store store = one_matrix(24, 40);
      dion optimizer{{.rank = rank, .momentum = mu}};
      optimizer.reset(store.length());
      double before = 0;
      for (int step = 0; step < 6; ++step) {
        test::fill(store, store.gradients(), 1000 * (step + 1));
        std::vector<float> b(store.gradients().begin(), store.gradients().end());
        if (step > 0) {
          const std::vector<float> kept = momentum_of(optimizer);
          for (std::size_t i = 0; i < b.size(); ++i) b[i] += kept[i];
        }
        before = squares(b);
        optimizer.step(pool, store.view(), {.learning_rate = 0.01F});
        const double after = squares(momentum_of(optimizer));
        CHECK(after <= before * (1 + 1e-5));
        // With as many directions as there are rows all of it is found: |M|² = mu²·|B|².
        if (rank == 24) CHECK(after == Approx(double{mu} * double{mu} * before).margin(1e-4 * before));
      }
    }
  }
}

TEST_CASE("dion: a gradient of that rank, fed again, is used up", "[optim][fast]") {
  thread_pool pool;
  parameter_store store = one_matrix(20, 12);
  for (std::int64_t i = 0; i < 20; ++i) {
    for (std::int64_t j = 0; j < 12; ++j) {
      store.gradients()[static_cast<std::size_t>(i * 12 + j)] = test::draw(i + 1) * test::draw(100 + j);
    }
  }
  dion optimizer{{.rank = 2, .momentum = 0.0F}};
  optimizer.reset(store.length());
  optimizer.step(pool, store.view(), {.learning_rate = 0.1F});
  CHECK(squares(momentum_of(optimizer)) < 1e-8 * squares(store.gradients()));
}

TEST_CASE("dion: neither thread count nor a checkpoint changes a bit", "[optim][fast]") {
  const auto one = test::golden_run(dion{{.rank = 3}}, 1), three = test::golden_run(dion{{.rank = 3}}, 3);
  CHECK(std::equal(one.values().begin(), one.values().end(), three.values().begin()));
  CHECK(test::survives_a_checkpoint<dion>(dion_options{.rank = 2}));
}

TEST_CASE("dion: a zero gradient moves nothing, and what is not finite shows", "[optim][fast]") {
  thread_pool pool;
  auto store = test::golden_parameters();
  test::fill(store, store.values(), 1);
  const std::vector<float> before(store.values().begin(), store.values().end());
  dion optimizer{{.rank = 2, .weight_decay = 0.0F, .adamw = {.weight_decay = 0.0F}}};
  optimizer.reset(store.length());
  optimizer.step(pool, store.view(), {.learning_rate = 0.1F});
  CHECK(std::equal(before.begin(), before.end(), store.values().begin()));
  store.gradients()[0] = NAN;
  optimizer.step(pool, store.view(), {.learning_rate = 0.1F});
  CHECK(std::isnan(store.values()[0]));
}
