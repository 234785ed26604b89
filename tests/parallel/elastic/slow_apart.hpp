// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_SLOW_APART_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_SLOW_APART_HPP

// Recoveries whose layouts are cut apart, in pipelines that compute for a while, of which one may have a slow host.

#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>

#include <utility>

#include "parallel/elastic/divided_batches.hpp"
#include "parallel/elastic/elastic_cases.hpp"

namespace support::slow_apart {

template <class Options, class Recovery>
struct of_recovery : Options {
  static auto pipelines(causeway::parallel::local_pipeline_options po) {
    return causeway::parallel::local_pipeline<Recovery, causeway::stage::one_f_one_b, slow_boundary>{std::move(po),
                                                                                                     Recovery{2}};
  }
  static elastic_world_options world(elastic_world_options o) { return o; }
};
template <class Options>
using apart = of_recovery<Options, causeway::stage::recovery::redundant>;
template <class Options>
using apart_forward = of_recovery<Options, causeway::stage::recovery::redundant_forward>;
/// Pipelines of two stages and of three.
template <class Options>
struct apart_by_templates : Options {
  static auto pipelines(causeway::parallel::local_pipeline_options po) {
    using causeway::stage::recovery::templates;
    return causeway::parallel::local_pipeline<templates, causeway::stage::one_f_one_b, slow_boundary>{
        std::move(po), three_block_templates()};
  }
  /// As slow as two of the middle stages that longer pipelines have, which send twice as much as others.
  static void met(causeway::sim::world& world) {
    Options::met(world);
    world.set_speed(slow_boundary::slow, 0.25);
  }
  static elastic_world_options world(elastic_world_options o) {
    o.hosts = 5;
    o.layers = 6;
    return o;
  }
};

/// Both ends of the model share the token table.
template <class Options>
struct tied : Options {
  static constexpr bool tie = true;
  static elastic_world_options world(elastic_world_options o) {
    o.tie = true;
    return Options::world(o);
  }
};
template <class Options>
using alike = of_recovery<Options, causeway::stage::recovery::regroup>;

}  // namespace support::slow_apart

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_SLOW_APART_HPP
