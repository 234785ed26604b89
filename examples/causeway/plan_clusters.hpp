// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PLAN_CLUSTERS_HPP
#define CAUSEWAY_EXAMPLES_PLAN_CLUSTERS_HPP

// `causeway plan --clusters`: which devices should hold a copy of the model together, as presets::ravnest takes them.

#include <causeway/core/result.hpp>
#include <causeway/plan/clusters.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/transformer_cost.hpp>

#include <cstddef>

#include "device_list.hpp"

namespace app {

/// How many, and what they train.
struct cluster_request {
  std::size_t clusters = 1;
  double micro_batch = 1;  ///< sequences
  causeway::plan::training_bytes bytes{};
  causeway::plan::cluster_options search{};
};

/// Prints who is in which cluster. A device's bandwidth is the median over the others of the slower direction.
causeway::result<void> print_clusters(const causeway::plan::transformer_shape& shape,
                                      const causeway::plan::link_matrix& links, const device_list& all,
                                      const cluster_request& r);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PLAN_CLUSTERS_HPP
