// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SQUARE_CUBE_HPP
#define CAUSEWAY_PLAN_SQUARE_CUBE_HPP

// Whether a pipeline can hide its messages: the square-cube law of SWARM (Ryabinin et al., ICML 2023, arXiv 2301.11913,
// section 3.1). What a stage computes grows with the square of the model's width for each token, what it sends only with
// the width: larger models need less bandwidth for each device's speed.

#include <causeway/config/config.hpp>
#include <causeway/plan/link_matrix.hpp>

#include <cstddef>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Seconds of one micro-batch in a stage and on the link to the next.
struct square_cube {
  double compute = 0;   ///< forward and backward
  double transfer = 0;  ///< bytes / bandwidth
  double latency = 0;   ///< the link's delay over the micro-batches under way, among which it is shared

  /// t_compute >= bytes / bandwidth + latency / under way: the stage can be kept busy.
  [[nodiscard]] bool viable() const noexcept { return compute >= transfer + latency; }
  /// Above 1: messages are hidden, and by how much. Infinite: they cost nothing.
  CAUSEWAY_DECL [[nodiscard]] double ratio() const noexcept;
};

/// For a stage of `compute` seconds that sends `bytes` over `link`, with `under_way` micro-batches, at least 1.
CAUSEWAY_DECL square_cube check_square_cube(double compute, double bytes, const link_cost& link, std::size_t under_way);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/square_cube.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SQUARE_CUBE_HPP
