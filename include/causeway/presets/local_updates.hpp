// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_LOCAL_UPDATES_HPP
#define CAUSEWAY_PRESETS_LOCAL_UPDATES_HPP

// Published systems that train by local updates, as compositions: a type each, and the options of its paper.

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/sgd.hpp>

namespace causeway::inline CAUSEWAY_ABI::presets {

/// Synchronous data parallelism.
using every_step = comm::every_step<>;

/// DiLoCo (Douillard et al. 2023): H = 500 inner AdamW steps, outer Nesterov with rate 0.7 and momentum 0.9.
using diloco = comm::periodic<optim::nesterov>;
inline constexpr comm::periodic_options diloco_options{.local_steps = 500, .outer_learning_rate = 0.7F};
inline constexpr optim::nesterov_options diloco_outer{.momentum = 0.9F};

/// Local SGD (Stich 2019): parameters are averaged every H steps.
using local_sgd = comm::periodic<optim::sgd>;
inline constexpr comm::periodic_options local_sgd_options{.local_steps = 20, .outer_learning_rate = 1.0F};

/// FedAvg (McMahan et al. 2017) with full participation and equal shards: the same average after a local epoch;
/// `local_steps` is the number of batches in one.
using fedavg = comm::periodic<optim::sgd>;
inline constexpr comm::periodic_options fedavg_options{.local_steps = 100, .outer_learning_rate = 1.0F};

}  // namespace causeway::inline CAUSEWAY_ABI::presets

#endif  // CAUSEWAY_PRESETS_LOCAL_UPDATES_HPP
