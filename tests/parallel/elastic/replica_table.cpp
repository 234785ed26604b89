// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/replica_table.hpp>

#include <causeway/kernels/backend.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/optim/clip.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/models.hpp"
#include "support/pipelines.hpp"

namespace causeway {
namespace {

struct context {
  nn::gpt stages;
  thread_pool pool{1};
  nn::gpt& model() { return stages; }
  std::span<float> gradients() { return stages.parameters().gradients(); }
  float norm_of(std::span<const float> values) { return static_cast<float>(optim::global_norm(pool, values)); }
  static collective::collective_options exchange_options() { return {}; }
};

struct outcome {
  std::vector<float> table;
  float norm = 0;
};

}  // namespace

// Three stages of two blocks; the second one's peer keeps the third, and has nothing of the table's gradient.
TEST_CASE("replica table: all who hold it have the sum, which counts once", "[parallel][fast]") {
  const stage::replica row{{{10, {0, 2}}, {20, {2, 4}, {{2, 6}}}, {30, {4, 6}}}, 1};
  const std::vector<float> own{1.0F, 0.0F, 2.0F};
  std::vector<outcome> all(3);
  support::run_cluster(3, [&](std::uint32_t p, environment env) {
    auto gpt = support::small_gpt(6);
    gpt.tie = true;
    context ctx{std::move(*nn::gpt::create(gpt, kernels::cpu_backend{1}, nn::model_part{row.assignments[p].held()}))};
    const auto table = parallel::table_in(ctx.model(), ctx.gradients());
    std::fill(table.begin(), table.end(), own[p]);
    ctx.gradients().back() = 3;
    parallel::pipeline_peer peer;
    peer.layout.replicas = {{}, row};  // of the other nobody is there
    peer.place = {1, p};
    peer.attempt.transport = &env.transport;
    peer.index_of = {{10, 0}, {20, 1}, {30, 2}};
    all[p].norm = *parallel::complete_table(ctx, peer, 5, 7.0F);
    all[p].table.assign(table.begin(), table.end());
  });
  const double size = 29 * 16;
  for (const outcome& one : all) {
    REQUIRE(one.table.size() >= static_cast<std::size_t>(size));
    CHECK(std::all_of(one.table.begin(), one.table.begin() + 29 * 16, [](float v) { return v == 3.0F; }));
  }
  CHECK(all[0].norm == Approx(std::sqrt(9 * static_cast<double>(all[0].table.size()) + 9)));
  CHECK(all[1].norm == Approx(3));
  CHECK(all[2].norm == Approx(3));
}

TEST_CASE("replica table: who has none of it has the norm that it had", "[parallel][fast]") {
  auto gpt = support::small_gpt(6);
  gpt.tie = true;
  context ctx{std::move(*nn::gpt::create(gpt, kernels::cpu_backend{1}, nn::model_part{{2, 4}}))};
  CHECK(*parallel::complete_table(ctx, parallel::pipeline_peer{}, 0, 7.0F) == 7.0F);
}

}  // namespace causeway
