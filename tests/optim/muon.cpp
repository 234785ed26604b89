// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/muon.hpp>

#include "golden/optimizers.hpp"
#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

TEST_CASE("muon: ten steps end where Keller Jordan's do", "[optim][fast]") {
  for (const unsigned threads : {1U, 3U}) {
    CHECK(test::golden_error(test::golden_run(muon<>{{.weight_decay = 0.05F}}, threads), golden::muon) < 1e-5);
  }
}

TEST_CASE("muon: goes on from a checkpoint as if there had been none", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<muon<>>(muon_options{}));
}

TEST_CASE("muon: one step's singular values lie between 0.6 and 1.3", "[optim][fast]") {
  thread_pool pool{2};
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{40, 90}, {90, 40}, {64, 64}}) {
    parameter_store store;
    store.add("w", parameter_kind::matrix, rows, columns);
    store.allocate();
    test::fill(store, store.gradients(), 5);
    muon<> optimizer;
    optimizer.reset(store.length());
    optimizer.step(pool, store.view(), {.learning_rate = 1.0F});
    // |W v| / |v| for the update W and several v on the smaller side lies between its singular values.
    const float* w = store.values().data();
    const std::int64_t side = std::min(rows, columns);
    const double scaling = std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(columns)));
    for (int probe = 0; probe < 5; ++probe) {
      double norm = 0.0, image = 0.0;
      for (std::int64_t i = 0; i < side; ++i) norm += std::pow(static_cast<double>(test::draw(i + 100 * probe)), 2);
      for (std::int64_t j = 0; j < std::max(rows, columns); ++j) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < side; ++i) {
          const float entry = rows <= columns ? w[i * columns + j] : w[j * columns + i];
          sum += static_cast<double>(entry) * static_cast<double>(test::draw(i + 100 * probe));
        }
        image += sum * sum;
      }
      const double stretch = std::sqrt(image / norm) / scaling;
      INFO(rows << " x " << columns);
      CHECK(stretch > 0.6);
      CHECK(stretch < 1.3);
    }
  }
}

TEST_CASE("muon: a zero gradient moves nothing", "[optim][fast]") {
  thread_pool pool;
  auto store = test::golden_parameters();
  test::fill(store, store.values(), 1);
  const std::vector<float> before(store.values().begin(), store.values().end());
  muon<> optimizer{{.adamw = {.weight_decay = 0.0F}}};
  optimizer.reset(store.length());
  optimizer.step(pool, store.view(), {.learning_rate = 0.1F});
  CHECK(std::equal(before.begin(), before.end(), store.values().begin()));
}
