// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_POLICY_EXCHANGE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_POLICY_EXCHANGE_HPP

// Gradients of whole pipelines that the communication policy exchanges, among the holders of the same blocks: what these
// tell each other before, and what is done with a table that the first and the last stage share. The first exchanges it
// alone, with the last one's part of its gradient; what comes back to the last is what the first's exchange came to.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/block_sums.hpp>
#include <causeway/parallel/elastic/cohort_exchange.hpp>
#include <causeway/parallel/elastic/gathered_steps.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/parallel/elastic/step_meetings.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer.
class policy_exchange {
 public:
  /// Whether the policy exchanges them; else they are added up block by block.
  [[nodiscard]] static bool applies(const pipeline_peer& peer) { return static_cast<bool>(peer.group->state().divide); }

  /// What the policy keeps is of the state named `state`.
  void is_of(std::uint64_t state) noexcept { of_ = state; }
  /// And it has had its exchange: the run has taken the round.
  void taken(std::uint64_t state) noexcept {
    is_of(state);
    gathered_.taken();
  }

  /// Gradients of earlier steps that the policy has, to exchange them with that of the step under way.
  [[nodiscard]] const gathered_steps& gathered() const noexcept { return gathered_; }
  /// Whether there are enough samples with the batch `b`, or the run ends with it. Else it is gathered: once a step.
  [[nodiscard]] bool has_enough(const pipeline_peer& peer, const batch& b, bool ends) {
    return gathered_.enough_with(peer, static_cast<std::uint64_t>(b.sequences), ends);
  }
  /// They are worth nothing any more, if there are any.
  void give_up(const pipeline_peer& peer) { gathered_.give_up(peer); }

  /// An attempt's gradient is there, for the policy to exchange.
  [[nodiscard]] bool computed() const noexcept { return computed_; }
  void forget() noexcept { computed_ = false; }

  /// What this peer says before.
  [[nodiscard]] exchange_share described(const pipeline_peer& peer, double loss) const {
    return described_for_exchange(loss, of_, gathered_.name(peer.record()), peer.group->state());
  }

  /// Who did not take part in the run's last step takes what the policy keeps alike. errc::not_found: nobody has it.
  result<void> bring_up(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings,
                        std::span<const exchange_share> all, const exchange_share& own) {
    const std::uint64_t state = peer.record().state;
    const auto has = [state](const exchange_share& s) { return s.state == state; };
    if (std::all_of(all.begin(), all.end(), has)) return {};
    const exchange_state& kept = peer.group->state();
    CAUSEWAY_TRY(take_alike(*peer.attempt.transport, meetings.named(peer, pipeline_peer::alike_channel), kept, has(own),
                            peer.how(ctx)));
    if (has(own)) return {};
    kept.begin_anew();
    ctx.resume_at(peer.record().step, true);  // the step under way counts
    of_ = state;
    return {};
  }

  /// The policy may begin. What an exchange remembers counts where all who hold the same blocks have the same. Gives the
  /// loss of all.
  result<double> begin(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings,
                       std::span<const exchange_share> all, const exchange_share& own) {
    const exchange_entry entry = peer.entry();
    const auto as_ours = [&](net::peer_index holder) { return all[holder].memory == own.memory; };
    if (!std::all_of(entry.holders.begin(), entry.holders.end(), as_ours)) CAUSEWAY_TRY(peer.group->state().forget());
    double loss = 0;
    for (const exchange_share& s : all) loss += s.loss;
    CAUSEWAY_TRY(join_tables(ctx, peer, meetings));
    computed_ = true;
    return loss;
  }

  /// What it came to.
  [[nodiscard]] std::span<float> mean() noexcept { return mean_; }
  result<void> take_mean(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings, std::span<const float> mean) {
    mean_.assign(mean.begin(), mean.end());
    const auto table = table_in(ctx.model(), std::span{mean_});
    const auto ends = ends_of_pipeline(peer);
    if (table.empty() || ends.size() < 2) return {};
    collective::group_view view{*peer.attempt.transport, {peer.index_of.at(ends.front()), peer.index_of.at(ends.back())}};
    return collective::broadcast(view, meetings.named(peer, pipeline_peer::here_channel), net::peer_index{0}, table,
                                 peer.how(ctx));
  }
  /// The table's part of it, into the gradient that the policy has left.
  void put_table(auto& ctx) {
    const auto from = table_in(ctx.model(), std::span{mean_});
    std::copy(from.begin(), from.end(), table_in(ctx.model(), ctx.gradients()).begin());
  }

  void serialize(auto& ar) { ar(of_, gathered_); }

 private:
  result<void> join_tables(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings) {
    const auto table = table_in(ctx.model(), ctx.gradients());
    const auto ends = ends_of_pipeline(peer);
    if (table.empty() || ends.size() < 2) return {};
    CAUSEWAY_TRY(sum_over(*peer.attempt.transport, meetings.gradients(peer), ends, peer.index_of, table, peer.how(ctx)));
    if (peer.identity() != ends.front()) std::fill(table.begin(), table.end(), 0.0F);
    return {};
  }
  // Of this peer's pipeline: the peers at its first and its last stage, if this is one of them and they are two.
  [[nodiscard]] static std::vector<std::uint64_t> ends_of_pipeline(const pipeline_peer& peer) {
    if (peer.assignment == nullptr) return {};
    const auto& assignments = peer.layout.replicas[peer.place.replica].assignments;
    if (assignments.size() < 2 || (peer.place.rank > 0 && peer.place.rank + 1 < assignments.size())) return {};
    return {assignments.front().peer, assignments.back().peer};
  }

  std::uint64_t of_ = 0;
  bool computed_ = false;
  gathered_steps gathered_;
  std::vector<float> mean_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_POLICY_EXCHANGE_HPP
