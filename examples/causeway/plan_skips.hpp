// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PLAN_SKIPS_HPP
#define CAUSEWAY_EXAMPLES_PLAN_SKIPS_HPP

// `causeway plan --skip N`: paths through some of the stages of a placement, as SkipPipe plans them.

#include <causeway/core/result.hpp>
#include <causeway/plan/dtfm.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/pipeline_plan.hpp>

#include <cstddef>

#include "device_list.hpp"

namespace app {

struct skip_request {
  std::size_t skip = 1;    ///< middle stages that every micro-batch leaves out
  std::size_t groups = 3;  ///< of micro-batches that begin at each peer of the first stage, and that any peer holds at once
  std::size_t looks = 2000;
  causeway::plan::dtfm_options search{};  ///< of the placement
};

/// Prints the paths as `causeway train` takes them, the number and the stage of each device of `p`, of which the ends get
/// more, and what a step takes on them, beside `p` itself, without skips.
causeway::result<void> print_skips(const causeway::plan::pipeline_plan& p, const causeway::plan::link_matrix& links,
                                   const device_list& all, const skip_request& r);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PLAN_SKIPS_HPP
