// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_REDUNDANT_FORWARD_HPP
#define CAUSEWAY_STAGE_RECOVERY_REDUNDANT_FORWARD_HPP

// Redundant computation in pipelines: Bamboo (Thorpe et al., NSDI 2023). Every peer holds its successor's stage besides its
// own, the last one the first stage, and repeats the successor's forwards in its idle time, keeping their activations
// (eager forward, lazy backward). When the successor is lost in the middle of a step, its predecessor does what is left of
// both stages from then on: it makes the backwards that the lost one had not made, and those again whose gradients were
// lost with it, from the activations that it has; the stage behind sends it those gradients again. What other peers have
// done stays done. After the step all are laid out anew as by `redundant`.
//
// As published: who shadows whom, eager forward and lazy backward, that no step is tried again, that all are laid out anew
// between steps, and that a peer and its shadow lost together cost the step. Otherwise than published:
// - the paper's peers find a loss by their sockets and agree by a key-value store; here the membership ends the attempt and
//   begins another with those who are left, which goes on from what they kept;
// - a repeated forward has its place in the order of work, where 1F1B has the peer wait long enough for one, if stages are
//   alike and links take no time; the paper's runs beside other work on the device where it does not fit;
// - activations stay where they are, the paper swaps them out to the host;
// - what a peer sent is kept until the run has taken the step, and sent again when asked; how the paper comes by gradients
//   that were sent to the lost peer is not known to us;
// - when to lay out anew is `redundant`'s rule; the paper's is in plan/recovery_redundant.hpp.
//
// The result is that of the undisturbed step: each micro-batch counts once in each stage, and each stage adds its gradients
// up in the same order. So f32 has the same bits in a run of one pipeline; with several, sums over fewer peers are rounded
// otherwise. A norm to clip by is added up over peers, too, and a lossy codec does not act between two stages on one peer.
//
// Where replicas take steps of their own, a step is one replica's, and all are laid out anew after the next exchange: until
// then the shadow makes both stages (docs/design/local_pipelines.md, A7).

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/recovery_redundant.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

/// When a peer repeats its successor's forward of a micro-batch.
enum class repeat_forwards : std::uint8_t {
  all,           ///< in idle time, what does not fit at the end of its own work
  in_idle_time,  ///< or not at all: an undisturbed step takes no longer, a failover makes what is missing
};

/// Pipelines of `stages` even stages.
///
/// Memory: of parameters and optimizer state twice as much; the activations of the successor's stage of all micro-batches
/// of a step (in the paper in the host's memory); what a peer sent over its boundaries in a step; and one more gradient.
class redundant_forward {
 public:
  static constexpr std::string_view name = "redundant_forward";
  static constexpr recovery_traits traits{.keeps_work = true};

  explicit redundant_forward(std::int64_t stages = 2, repeat_forwards repeat = repeat_forwards::all)
      : repeat_{repeat}, anew_{stages, first_stage::with_last} {}

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }
  [[nodiscard]] bool repeats_all() const noexcept { return repeat_ == repeat_forwards::all; }

  CAUSEWAY_DECL result<layout> arrange(const cluster_snapshot& g);

  [[nodiscard]] bool resumes(const cluster_snapshot& g) const { return resumed(g).has_value(); }

 private:
  using row = std::vector<const present_peer*>;  // [stage]: nullptr where it is lost

  // The layout in which most of those who are there have begun the step, with nobody in the place of who is lost. None:
  // nobody has, or a stage is gone with its shadow.
  CAUSEWAY_DECL [[nodiscard]] static std::optional<layout> resumed(const cluster_snapshot& g);

  CAUSEWAY_DECL [[nodiscard]] static std::uint64_t most_begun(const cluster_snapshot& g);

  // False: what it says does not go with what the others say.
  CAUSEWAY_DECL static bool put(std::vector<row>& rows, const present_peer& p);

  CAUSEWAY_DECL [[nodiscard]] static std::optional<std::vector<assignment>> assignments_of(const row& r,
                                                                                           std::int64_t layers);

  repeat_forwards repeat_;
  redundant anew_;
};
static_assert(WorkKeeping<redundant_forward>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/recovery_redundant_forward.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RECOVERY_REDUNDANT_FORWARD_HPP
