// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_STEP_VOTE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_STEP_VOTE_HPP

// The step that a peer's gradient is complete for: what the run holds alike once it has taken it, what the peer proposes,
// and whether the run has.

#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/resumable_step.hpp>
#include <causeway/parallel/elastic/step_group.hpp>

#include <array>
#include <cmath>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer. A regular value.
class step_vote {
 public:
  /// The gradients are those of the whole batch.
  [[nodiscard]] bool is_complete() const noexcept { return complete_; }
  void forget() noexcept { complete_ = false; }
  /// And the attempt that made them so is under way.
  [[nodiscard]] bool proposes() const noexcept { return proposes_; }
  void may_propose(bool may) noexcept { proposes_ = may; }
  /// The peer has moved.
  void end() noexcept { complete_ = proposes_ = false; }

  /// Whether the run has taken that step: then only the move is left. Loss and norm may be the others' word, when a peer
  /// was lost before it had told its own to all. Others may have taken the step in another attempt, whose sums are rounded
  /// otherwise: that is another state.
  [[nodiscard]] bool taken(const step_record& now) const { return complete_ && now == next_record(now.loss, now.norm); }

  /// This peer's gradient is complete: tells the others its loss and its part of the squared norm, and gives the loss of
  /// the whole. These are added up in the order of the transport's numbers: the same bits on all peers. Who has heard from
  /// everybody knows that every gradient is complete. `number`: of the meeting; `agreed`: see resumable_step; `interval`:
  /// the recovery policy's; `moves`: the parameters do.
  result<double> tell(auto& ctx, const pipeline_peer& peer, std::uint64_t number, std::uint64_t agreed,
                      std::uint64_t interval, bool moves, double loss, double squares) {
    name(peer, ctx.step() + 1, agreed, interval, moves);
    CAUSEWAY_ASSIGN(const auto all, peer.of_everybody(ctx, pipeline_peer::sums_channel, std::array{loss, squares}, number));
    double sum = 0, sum_of_squares = 0;
    for (const auto& [one, of_one] : all) {
      sum += one;
      sum_of_squares += of_one;
    }
    told_ = next_record(sum, std::sqrt(sum_of_squares));
    return sum;
  }

  /// Once; the gradient may still be used when others go through with it.
  CAUSEWAY_DECL result<void> propose(step_group& group);

 private:
  // Equal on all peers of the attempt, and in no attempt with other sums.
  CAUSEWAY_DECL void name(const pipeline_peer& peer, std::uint64_t step, std::uint64_t agreed, std::uint64_t interval,
                          bool moves);
  // What the run holds alike after the step of that attempt.
  CAUSEWAY_DECL [[nodiscard]] step_record next_record(double loss, double norm) const;

  step_record next_;  // after the step of the last complete attempt, without loss and norm
  step_record told_;  // likewise with them: what this peer would propose
  bool complete_ = false;
  bool proposes_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/step_vote.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_STEP_VOTE_HPP
