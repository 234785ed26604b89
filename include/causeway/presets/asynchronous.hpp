// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PRESETS_ASYNCHRONOUS_HPP
#define CAUSEWAY_PRESETS_ASYNCHRONOUS_HPP

// Published systems in which peers do not wait for each other, or do as much as they can, as compositions; see
// presets/local_updates.hpp.

#include <causeway/axis/arrivals.hpp>
#include <causeway/axis/batch_by_speed.hpp>
#include <causeway/axis/by_speed.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/hubs.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/norm_aggregators.hpp>
#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/optim/delayed_nesterov.hpp>
#include <causeway/optim/nesterov_in_parts.hpp>
#include <causeway/optim/sgd.hpp>

#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace presets {

/// Async Local-SGD (Liu et al. 2024): delayed Nesterov at the hub, with a period of about as many pushes as there are
/// peers, and local steps in proportion to speed (DyLU).
///
/// Formula:
///   peer i: H·(its speed / the pace) steps from x̄;  Δ_i = where it began − x_i;  hub: B ← B + Δ_i
///   x̄ ← x̄ − η·Δ_i/N;  after each N pushes: m ← β·m + B/N;  x̄ ← x̄ − η·β·m;  B ← 0
/// Sent: Δ_i to the hub when a peer is done, x̄ back, both in f32; nobody waits for others.
struct async_local_sgd_options {
  std::uint32_t local_steps = 50;  ///< of the fastest peer
  std::uint32_t period = 4;        ///< N
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
  double percentile = 0.9;           ///< of the speeds: sets the pace
  double grace_seconds = 0.0;        ///< after a first push, for others
  std::uint64_t record_samples = 0;  ///< where peers come and go, of all of them from one record to the next (axis::star)
};
using async_local_sgd =
    comm::async_parameter_server<axis::star, axis::by_speed, axis::one_by_one, axis::outer<optim::delayed_nesterov>>;
CAUSEWAY_DECL [[nodiscard]] async_local_sgd make(const async_local_sgd_options& o);

/// Decoupled DiLoCo (Douillard et al. 2026): fragments one after another to a hub that waits for a quorum and as long as
/// overlap leaves free, merges with norms and directions apart (embeddings: as they are) and weights of tokens times tokens
/// per step, and is blended in τ steps later. 4-bit rows. What is merged
/// counts by its share of all peers' samples, and the momentum is refreshed once a round (optim/nesterov_in_parts.hpp): so
/// a quorum of one trains as rounds of all do. With `whole_steps` each merge is a whole outer step, as published.
///
/// Formula:
///   of each fragment: Δ_i = x̄ − x_i;  w_i = tokens_i · tokens_i/steps_i;  r = Σ w_i·|Δ_i| / Σ w_i
///   u = Σ w_i·Δ_i/|Δ_i|;  Δ = r·u/|u|, tensor by tensor (embeddings: Σ w_i·Δ_i / Σ w_i);  s: share of all samples
///   x̄ ← x̄ − η·s·Δ;  once the shares make 1: m ← μ·m + Σ s·Δ;  x̄ ← x̄ − η·μ·m
///   τ steps later: x_i ← α·x_i + (1 − α)·x̄
/// Sent: 4-bit codes of a fragment to the hub, which answers in f32; fragments one after another, while training goes on.
struct decoupled_diloco_options {
  std::uint32_t local_steps = 24;
  std::uint32_t fragments = 24;
  std::uint32_t overlap_steps = 2;  ///< τ
  float local_share = 0.5F;         ///< α
  std::uint32_t quorum = 1;         ///< K
  double gamma = 0.5;
  double cap_seconds = 60;
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;
  bool whole_steps = false;          ///< s = 1 whoever is merged, and m moves with each merge
  std::uint64_t record_samples = 0;  ///< where peers come and go, of all of them from one record to the next (axis::star)
  std::uint32_t most_batch = 0;      ///< samples of an inner step, at most, at any peer (axis::quorum)
};
using decoupled_diloco =
    comm::async_parameter_server<axis::star, axis::staggered, axis::balanced, axis::delayed, axis::quorum,
                                 axis::push<compress::bits<4>, collective::radial_directional>,
                                 axis::outer<optim::nesterov_in_parts>>;
CAUSEWAY_DECL [[nodiscard]] decoupled_diloco make(const decoupled_diloco_options& o);

/// HALoS (Kim et al. 2025): peers push to their region's hub, which pushes to the global one after every few, and mixes the
/// answer in: own ← (1−α)·own + α·global. All asynchronous, delayed Nesterov on both levels. Pushes that reach a region's
/// hub between its own push and the answer stay in the region, as in the authors' code (github.com/utnslab/halos, 4b5bf73),
/// whose script has these numbers. That gives a peer of speed v ceil(H·v/v_max) local steps: set local_steps peer by peer.
///
/// Formula:
///   region's hub, a push Δ_i of a peer: x_r ← x_r − η_r·Δ_i;  after each N_r of them: m ← β_r·m + mean;
///   x_r ← x_r − η_r·N_r·β_r·m
///   after K pushes x_r goes up as the push of a peer would, to the global hub with η, β, N of its own
///   answer x_g:  x_r ← (1 − α)·x_r + α·x_g
/// Sent: Δ_i to the region's hub and x_r back, all the time; from there to the global hub and back after every K pushes.
/// f32.
struct halos_options {
  std::vector<std::vector<net::peer_index>> regions{{0, 1},
                                                    {2, 3}};  ///< all peers; hubs first, the global hub first of all
  std::uint32_t local_steps = 8;                              ///< H
  std::uint32_t pushes = 32;          ///< K: to a region's hub, from one answer of the global hub to its next push
  float region_learning_rate = 0.2F;  ///< of one push to a region's hub
  float region_momentum = 0.9F;
  std::uint32_t region_period = 16;    ///< pushes that refresh the momentum together
  float global_learning_rate = 0.15F;  ///< of one push to the global hub
  float global_momentum = 0.5F;
  std::uint32_t global_period = 2;
  float global_share = 0.25F;  ///< α
  /// Where peers come and go, instead of `regions`: this peer's (not in pipelines), and how many there may be.
  collective::region_label label{};
  std::uint64_t record_samples =
      0;  ///< where peers come and go, of all of them from one record to the next (axis::regions)
};
using halos = comm::async_parameter_server<axis::every, axis::regions<>, axis::outer<optim::delayed_nesterov>>;
CAUSEWAY_DECL [[nodiscard]] halos make(const halos_options& o);

/// DLion (Hong & Chandra 2021), synchronous form: batches in proportion to speed (weighted dynamic batching), the larger
/// part of what changed from everybody to everybody in each step, weighted by batch, the rest later. Who feeds the trainer
/// asks for the batch before each step: `t.comm().trigger().sequences()`. Its choice of entries link by link ("Max N", of
/// which no public text has the rule), its growing total batch and its pulls from the best peer are not part of this.
///
/// Formula:
///   peer i takes b_i samples, b_i in proportion to its speed, Σ b_i = B;  e_i ← e_i + Δ_i
///   sent_i = entries of e_i above t·rms(e_i);  e_i ← e_i − sent_i;  x ← x − Σ b_i·sent_i / Σ b_i
/// Sent: places and f32 values of the larger entries, and 8 bytes of speed, to everybody in every step.
struct dlion_options {
  std::uint32_t local_steps = 1;
  std::uint32_t sequences = 64;  ///< of a step, of all peers together
  std::uint32_t multiple = 1;    ///< of each batch: micro-batches, in pipelines; the size of one, if they come and go
  float threshold = 1.0F;        ///< times the row's root mean square
};
namespace detail {
using dlion_codec = compress::sparse<compress::no_transform, compress::threshold, compress::none>;
}
using dlion = comm::rounds<axis::batch_by_speed, axis::error_feedback, axis::gather_mean<detail::dlion_codec>,
                           axis::outer<optim::sgd>>;
CAUSEWAY_DECL [[nodiscard]] dlion make(const dlion_options& o);

}}}  // namespace causeway::CAUSEWAY_ABI::presets

#ifndef CAUSEWAY_COMPILED
#include <causeway/presets/impl/asynchronous.ipp>
#endif

#endif  // CAUSEWAY_PRESETS_ASYNCHRONOUS_HPP
