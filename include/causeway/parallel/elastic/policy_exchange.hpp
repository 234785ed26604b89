// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_POLICY_EXCHANGE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_POLICY_EXCHANGE_HPP

// Gradients of whole pipelines that the communication policy exchanges, among the holders of the same blocks: what these
// tell each other before, how their rows count, and what is done with a table that the first and the last stage share. The
// first exchanges it alone, with the last one's part of its gradient; what comes back to the last is what the first's
// exchange came to.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
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
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
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
  void taken(const pipeline_peer& peer) {
    is_of(peer.record().state);
    gathered_.taken();
    row_ = micro_batches_here(peer);
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
    exchange_share own = described_for_exchange(loss, of_, gathered_.name(peer.record()), peer.group->state());
    const bool sends = peer.assignment != nullptr && of_ == peer.record().state && row_waits(peer).value_or(false);
    if (sends) own.row = row_;
    return own;
  }

  /// This peer's gradient, by `pass`, where the policy wants it.
  result<double> compute(const pipeline_peer& peer, const std::function<result<double>()>& pass) const {
    const auto& hook = peer.group->state().compute;
    return applies(peer) && hook ? hook(pass) : pass();
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
    weigh(ctx, peer);
    computed_ = true;
    moves_ = true;
    entry_ = entry;
    if (!row_waits(peer)) return loss;
    moves_ = have_all_rows(peer.layout, peer.index_of, all);
    entry_ = of_step_before(entry, all);
    return loss;
  }
  /// The exchange that it begins.
  [[nodiscard]] const exchange_entry& entry() const noexcept { return entry_; }
  /// Whether the parameters move by what it comes to. Where results are a step late, and nobody has a row of some stage,
  /// there is no gradient of the whole model: they stay, on all peers.
  [[nodiscard]] bool moves() const noexcept { return moves_; }

  /// What it came to.
  [[nodiscard]] std::span<float> mean() noexcept { return mean_; }
  result<void> take_mean(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings, std::span<const float> mean) {
    mean_.assign(mean.begin(), mean.end());
    const auto table = table_in(ctx.model(), std::span{mean_});
    if (table.empty()) return {};
    std::set<std::uint64_t> told;  // by one of the first stages, which all have the same
    for (const table_part& part : table_parts(peer.layout)) {
      const bool concerns = peer.identity() == part.first || peer.identity() == part.last;
      if (!told.insert(part.last).second || !concerns) continue;
      collective::group_view view{*peer.attempt.transport, {peer.index_of.at(part.first), peer.index_of.at(part.last)}};
      CAUSEWAY_TRY(collective::broadcast(view, meetings.named(peer, pipeline_peer::here_channel), net::peer_index{0}, table,
                                         peer.how(ctx)));
    }
    return {};
  }
  /// The table's part of it, into the gradient that the policy has left. Where that is none, no step is made of it.
  void complete_gradient(auto& ctx) {
    if (!moves_) return ctx.skip_inner_step();
    const auto from = table_in(ctx.model(), std::span{mean_});
    std::copy(from.begin(), from.end(), table_in(ctx.model(), ctx.gradients()).begin());
  }

  void serialize(auto& ar) { ar(of_, gathered_, row_); }

 private:
  [[nodiscard]] static std::optional<bool> row_waits(const pipeline_peer& peer) {
    const auto& hook = peer.group->state().row_waits;
    return hook ? hook() : std::nullopt;
  }

  // What the first stages have of the table is then the gradient of both its ends.
  result<void> join_tables(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings) {
    const auto table = table_in(ctx.model(), ctx.gradients());
    if (table.empty()) return {};
    std::vector<float> own;  // of a last stage
    for (const table_part& part : table_parts(peer.layout)) {
      const bool gives = peer.identity() == part.last;
      if (!gives && peer.identity() != part.first) continue;
      if (gives && own.empty()) own.assign(table.begin(), table.end());
      if (gives) std::transform(own.begin(), own.end(), table.begin(), [&](float v) { return v * part.share; });
      const std::array ends{part.first, part.last};
      CAUSEWAY_TRY(sum_over(*peer.attempt.transport, meetings.gradients(peer), ends, peer.index_of, table, peer.how(ctx)));
    }
    if (!own.empty()) std::fill(table.begin(), table.end(), 0.0F);
    return {};
  }
  // A row is the mean over the micro-batches that went through this peer, and counts by their number.
  static void weigh(auto& ctx, const pipeline_peer& peer) {
    const std::uint32_t own = micro_batches_here(peer);
    const std::uint32_t all = peer.layout.first_micro_batch(peer.layout.replicas.size());
    if (own == 0 || own == all) return;
    const std::span<float> row = ctx.gradients();
    kernels::scale(ctx.pool(), row.data(), static_cast<float>(all) / static_cast<float>(own),
                   static_cast<std::int64_t>(row.size()));
  }
  [[nodiscard]] static std::uint32_t micro_batches_here(const pipeline_peer& peer) {
    return peer.assignment != nullptr ? peer.layout.micro_batches_at(peer.place.rank)[peer.place.replica] : 0;
  }

  std::uint64_t of_ = 0;
  double row_ = 0;  // micro-batches behind the row that the policy made last
  bool computed_ = false, moves_ = true;
  exchange_entry entry_;
  gathered_steps gathered_;
  std::vector<float> mean_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_POLICY_EXCHANGE_HPP
