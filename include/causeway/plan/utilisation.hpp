// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_UTILISATION_HPP
#define CAUSEWAY_PLAN_UTILISATION_HPP

// What part of its time a replica computes, given its step, its exchanges and its link: the simulator of Streaming DiLoCo
// (arXiv 2501.18512). A step is a graph of 4 L - 1 tasks for L layers: forward, gradient of the activations (not of the
// first layer's), gradient of the weights, and exchange of each layer. Two machines run it, each one task at a time and in
// order: the device the first three kinds, the link the exchanges. An exchange starts when the layer's gradient is there,
// and the layer's forward waits for it. All replicas are alike, so that one of them says all; latency is not in the model.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What computing a step costs a replica.
struct training_step {
  std::size_t layers = 1;  ///< at least 1; they are alike
  double parameters = 0;   ///< of all layers
  double seconds = 0;      ///< without any exchange; above 0
};

/// When which layers are exchanged. All fragments must find room in a period: (fragments - 1) * spacing < period.
struct exchange_pattern {
  std::size_t period = 1;     ///< steps from one exchange of a layer to the next, H; at least 1
  std::size_t fragments = 1;  ///< exchanged at different steps; layer l is of fragment l mod `fragments` (strided)
  std::size_t spacing = 0;    ///< steps from one fragment to the next; 0: period / fragments
  std::size_t overlap = 0;    ///< steps that go on before the result is waited for, tau; less than `period`
  double bits = 16;           ///< on the link, for each parameter
};

/// The part of its time that a replica computes, in (0, 1], once the run is in its stride. Exact but where the link is all
/// but full and results are waited for late: a backlog then takes long to grow, and up to 0.2 % can be missing. Takes some
/// 8 * layers * max(2 * period, 512 * (overlap + 1)) additions.
CAUSEWAY_DECL [[nodiscard]] double utilisation(const training_step& step, const exchange_pattern& pattern,
                                               double bits_per_second);

/// The least of the bandwidths `grid` (bits per second, rising) at which utilisation reaches `target`; infinity if none
/// does.
CAUSEWAY_DECL [[nodiscard]] double least_bandwidth(const training_step& step, const exchange_pattern& pattern,
                                                   double target, std::span<const double> grid);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/utilisation.ipp>
#endif

#endif  // CAUSEWAY_PLAN_UTILISATION_HPP
