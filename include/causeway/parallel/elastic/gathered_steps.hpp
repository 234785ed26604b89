// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_GATHERED_STEPS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_GATHERED_STEPS_HPP

// Gradients of several steps that the communication policy has added up on this peer, and has not exchanged yet: which
// steps they are of. The sum itself is the policy's. All peers are given the same batches, so each counts the samples of
// all of them. A sum is of a layout: where a pipeline has other peers or blocks, somebody's part of it is gone, and all
// begin the round anew. So the parameters never depend on who was lost.

#include <causeway/config/config.hpp>
#include <causeway/parallel/elastic/cohort_exchange.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/stage/layout.hpp>

#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer. A regular value.
class gathered_steps {
 public:
  /// The step that comes next here: after those that the run has taken, and what is gathered on top of them.
  [[nodiscard]] std::uint64_t next(const step_record& now) const noexcept { return now.step + (is_of(now) ? steps_ : 0); }
  /// Names the sum; 0: there is none on top of what the run has.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t name(const step_record& now) const;

  /// Whether a step that is made in the layout of `peer` can be added, on all peers of the attempt alike: all have the same
  /// sum, or none, by what they say.
  CAUSEWAY_DECL [[nodiscard]] bool goes_on(const pipeline_peer& peer, const std::vector<exchange_share>& all) const;
  /// The policy adds step number `step`, of `samples`: whether there are enough, or the run ends with it. Else that step is
  /// over. Asked again, it says the same.
  CAUSEWAY_DECL [[nodiscard]] bool enough_with(const pipeline_peer& peer, std::uint64_t step, std::uint64_t samples,
                                               bool ends);
  /// The policy has dropped some of it, if the layout is another now: all give it up then, when they meet.
  CAUSEWAY_DECL void laid_out(const stage::layout& l);

  /// The run has taken the round.
  CAUSEWAY_DECL void taken() noexcept;
  /// The sum is worth nothing any more, if there is one: the policy gives it up, too.
  CAUSEWAY_DECL void give_up(const pipeline_peer& peer);

  /// Whether the state after step number `step` is to be saved, where one of every so many is. The first is, and none in
  /// the middle of a round.
  CAUSEWAY_DECL [[nodiscard]] bool is_due(const step_record& now, std::uint64_t step, std::uint64_t every) const noexcept;

  void serialize(auto& ar) { ar(of_, layout_, steps_, samples_, exchanges_); }

 private:
  CAUSEWAY_DECL [[nodiscard]] static std::uint64_t name_of(const stage::layout& l);
  [[nodiscard]] bool has_any() const noexcept { return steps_ > 0 || exchanges_ != 0; }
  [[nodiscard]] bool is_of(const step_record& now) const noexcept { return has_any() && of_ == now.state; }

  std::uint64_t of_ = 0;          // step_record::state that the gradients are taken at
  std::uint64_t layout_ = 0;      // names the one that they were computed in
  std::uint64_t steps_ = 0;       // that are over
  std::uint64_t samples_ = 0;     // of these, of all peers
  std::uint8_t exchanges_ = 0;    // the step under way is in the sum, too, and is the round's last
  std::uint64_t last_round_ = 1;  // steps of the one that was taken last
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/gathered_steps.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_GATHERED_STEPS_HPP
