// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PLAN_BATCHES_HPP
#define CAUSEWAY_EXAMPLES_PLAN_BATCHES_HPP

// `causeway plan --batches`: how many sequences each device should take, and which share of a gradient's values its line
// carries meanwhile, as presets::stella_train takes it.

#include <causeway/core/result.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/plan/transformer_cost.hpp>

#include "device_list.hpp"

namespace app {

/// Prints both. A device takes as many sequences as its memory holds beside the model; errc::out_of_memory names one that
/// does not hold one. The bandwidth is that of the slowest link.
causeway::result<void> print_batches(const causeway::plan::transformer_shape& shape,
                                     const causeway::plan::link_matrix& links, const device_list& all,
                                     const causeway::plan::training_bytes& bytes);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PLAN_BATCHES_HPP
