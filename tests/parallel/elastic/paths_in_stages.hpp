// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_PATHS_IN_STAGES_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_PATHS_IN_STAGES_HPP

// Pipelines on paths through a model of modules, beside whole models on them.

#include <causeway/parallel/elastic/cohorts.hpp>
#include <causeway/presets/modular.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"
#include "support/paths_by_hand.hpp"

namespace support {

/// `Count` whole models, the first half of which, or one more, is on the first path of `policy`. Each path has half of a
/// batch.
template <std::size_t Count>
parameters on_paths_by_hand(const elastic_world_options& o, const causeway::presets::dipaco_options& policy) {
  paths_by_hand<Count> paths{policy, o.layers};
  const auto shares = causeway::parallel::shares_of_slots(static_cast<std::uint32_t>(o.micro_batches), Count, 2);
  const auto parts = [&](std::size_t model, std::uint64_t) {
    const auto first =
        std::accumulate(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(model), std::int64_t{0});
    return causeway::index_range{first, first + static_cast<std::int64_t>(shares[model])};
  };
  const auto exchange = [&](std::uint64_t steps, causeway::parameter_store& shared, const auto& models) {
    paths.exchange(steps, shared, models);
  };
  return paths.all(models_by_hand<Count>(o, exchange, parts));
}

/// Of a path alone, under the names of a model.
inline parameters on_path(const parameters& all, std::uint32_t path, std::int64_t layers) {
  parameters of_it;
  for (const auto& one : drawn_parameters(layers, is_tied(all))) of_it[one.first] = all.at(name_on_path(one.first, path));
  return of_it;
}

template <class Options, std::size_t Count>
void check_paths_by_hand(const elastic_world_options& o) {
  Options policy;
  policy.local_steps = steps_of_round;
  const auto is = undisturbed<Options>(o);
  const auto exact = on_paths_by_hand<Count>(o, policy);
  for (std::uint32_t path = 0; path < 2; ++path) {
    INFO("path " << path);
    CHECK(off(on_path(is, path, o.layers), on_path(exact, path, o.layers), o.layers) < 1e-4);
  }
  CHECK(off(on_path(is, 1, o.layers), on_path(exact, 0, o.layers), o.layers) > 1e-2);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_PATHS_IN_STAGES_HPP
