// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_MODULAR_HPP
#define CAUSEWAY_PRESETS_MODULAR_HPP

// Models of modules, of which each peer trains a path, as compositions of axes.

#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/module_groups.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/nesterov.hpp>

#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// DiPaCo (Douillard et al. 2024): blocks are cut into levels with several versions each, and a peer trains one path
/// through them by DiLoCo's rounds; every module moves by the mean pseudo-gradient of the peers whose paths have it, times
/// the square root of how many paths those are (section 2.7). What lies outside of blocks is shared by all. All peers start
/// from one model. Rounds are DiLoCo's; the paper's own numbers are not known to us. Which documents go to which path, and
/// which path answers for a text, is said by its first tokens (section 2.4): nn::prefix_features, data::product_k_means,
/// and later data::document_router::trained on which path predicts each best; data::shards_of gives each peer its shard,
/// with overlap if wanted, and its size is the peer's weight, which `policy.group().weights` changes between rounds. How
/// often the paper sorts documents anew is not known to us: it is the caller's choice. Where peers come and go, `paths` and
/// `weights` are of paths, and a newcomer gets the one that the fewest peers have (`policy.path()`). Pipelines that come
/// and go share the paths out, and so do the peers of each stage of a swarm; a global batch has an equal part for each path
/// then, in their order.
///
/// Formula:
///   module m, P of n paths have it:  Δ = √P·Σ w_i·(x̄_m − x_i,m) / Σ w_i over these;  outer step as DiLoCo's
/// Sent: each module in f32 among the peers that have it, to owners of parts and back, after every H-th step. Where peers
/// come and go, all of them are such owners, and get all modules.
struct dipaco_options {
  axis::module_paths paths = axis::every_path({2, 2}, 4);  ///< [peer] or [path]: 0, then the version of each level
  std::uint32_t blocks_per_level = 6;
  std::vector<double> weights{};  ///< [peer] or [path], in the means of modules: the size of its shard; none: alike
  bool lengthen = true;           ///< times √P, P the number of a module's paths
  std::uint32_t local_steps = 500;
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
};
using dipaco =
    comm::rounds<axis::every, axis::consecutive, axis::module_groups, axis::split_mean<>, axis::outer<optim::nesterov>>;
CAUSEWAY_DECL [[nodiscard]] dipaco make(const dipaco_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/modular.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_MODULAR_HPP
