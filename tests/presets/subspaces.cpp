// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/subspaces.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/pipelines.hpp"

using namespace causeway;
using support::detail::valued;

namespace {

/// Losses of a GPT on two batches that come again, and how far its replicas are apart in the end.
std::vector<double> losses(std::uint32_t ranks, std::uint32_t replicas, double& apart) {
  std::vector<double> seen;
  std::vector<std::vector<float>> ends(replicas);
  std::mutex mutex;
  support::run_cluster(ranks * replicas, [&](std::uint32_t peer, environment env) {
    const presets::protocol_models_options o{.micro_batches = 2, .ranks = ranks, .rank = 4, .seed = 2};
    const parallel::pipeline_options po{.micro_batches = 2, .ranks = ranks};
    const auto place = valued(parallel::place_in(po, peer, ranks * replicas));
    auto model = valued(nn::gpt::create(support::small_gpt(), kernels::cpu_backend{1},
                                        std::move(*valued(parallel::part_of(po, *place, 4)))));
    auto inner = valued(presets::confined_adamw(o, *model));
    trainer_options options;
    options.learning_rate = optim::constant{0.01F};
    options.clip_norm = 0;
    auto t =
        make_trainer(std::move(*model), std::move(env), options, comm::every_step<>{}, presets::make(o), std::move(*inner));
    support::detail::check(t.start());
    std::vector<double> own;
    for (std::uint64_t s = 0; s < 12; ++s) {
      // Two replicas with half a batch each see what one sees.
      const support::token_batch whole{0, s % 2, 8};
      const auto part = whole.view().slice(place->replica * 8 / replicas, 8 / replicas);
      own.push_back(valued(t.step(part))->loss);
    }
    const std::lock_guard lock{mutex};
    if (place->rank == 0) {
      seen.resize(own.size());
      for (std::size_t i = 0; i < own.size(); ++i) seen[i] += own[i] / replicas;
      const auto values = t.model().parameters().values();
      ends[place->replica].assign(values.begin(), values.end());
    }
  });
  apart = 0;
  for (std::size_t i = 0; i < ends[0].size(); ++i) {
    apart = std::max(apart, static_cast<double>(std::abs(ends[0][i] - ends.back()[i])));
  }
  return seen;
}

}  // namespace

TEST_CASE("presets: protocol_models trains in a pipeline, and in two that average, as one peer alone", "[presets][fast]") {
  double apart = 0;
  const auto alone = losses(1, 1, apart);
  const auto split = losses(2, 1, apart);
  const auto twice = losses(2, 2, apart);
  CHECK(apart == 0);
  REQUIRE(alone.size() == 12);
  CHECK(alone.back() < alone.front() - 0.1);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CHECK(split[i] == Approx(alone[i]).margin(1e-4));
    CHECK(twice[i] == Approx(alone[i]).margin(1e-4));
  }
}

TEST_CASE("presets: protocol_models says which ranks a width allows", "[presets][fast]") {
  auto model = nn::gpt::create(support::small_gpt());
  CHECK(presets::confined_adamw({.rank = 16}, *model));
  const auto wrong = presets::confined_adamw({.rank = 17}, *model);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == errc::invalid_argument);
}
