// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SKIP_PLACEMENT_HPP
#define CAUSEWAY_PLAN_SKIP_PLACEMENT_HPP

// Which devices serve which stage where micro-batches leave middle stages out: these have less to do than the first and the
// last stage, and need fewer peers. SkipPipe (Blagoev et al. 2025) searches genetically; here DTFM's search does it.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/dtfm.hpp>
#include <causeway/plan/link_matrix.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct skip_places {
  std::size_t stages = 3;    ///< of the model
  std::size_t passes = 3;    ///< of them that every micro-batch passes, the first and the last among them
  double stage_bytes = 0;    ///< of a stage's gradients
  double message_bytes = 0;  ///< of all activations between two stages in a step, of the peer of an end
  dtfm_options search{};
};

/// [stage]: devices of `links`, all of which get a place. With N of them a stage at an end has ⌊N / passes⌋, the middle
/// ones the rest, as evenly as can be: so all have about as much to do. DTFM places as many pipelines of `passes` stages as
/// an end has devices; the devices of their middle stages, pipeline by pipeline within each, are then cut into the model's.
/// errc::invalid_argument: too few devices, or passes that are not from 3 to `stages`.
CAUSEWAY_DECL result<std::vector<std::vector<std::size_t>>> place_for_skips(const link_matrix& links, const skip_places& o);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/skip_placement.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SKIP_PLACEMENT_HPP
