// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_POLICY_EXCHANGE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_POLICY_EXCHANGE_HPP

// Gradients of whole pipelines that the communication policy exchanges, segment by segment, among those who compute it:
// what these tell each other before, how their rows count, and who gets what it came to besides. A peer exchanges its
// segments one after the other, rising, so nobody waits in a circle; the run votes after the last. A table that the first
// and the last stage share is exchanged by the first alone, with the last one's part of its gradient.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/block_segments.hpp>
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
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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
  /// Whether there are enough samples with step number `step`, of batch `b`, or the run ends with it. Else it is gathered.
  [[nodiscard]] bool has_enough(const pipeline_peer& peer, std::uint64_t step, const batch& b, bool ends) {
    return gathered_.enough_with(peer, step, static_cast<std::uint64_t>(b.sequences), ends);
  }
  /// They are worth nothing any more, if there are any.
  void give_up(const pipeline_peer& peer) { gathered_.give_up(peer); }

  /// An attempt's gradient is there, for the policy to exchange.
  [[nodiscard]] bool computed() const noexcept { return computed_; }
  void forget() noexcept { computed_ = false; }

  /// The layout is another, or may be: which segments this peer has to exchange.
  result<void> take_segments(auto& ctx, const pipeline_peer& peer) {
    const std::int64_t layers = ctx.model().blocks();
    const bool tied = !table_in(ctx.model(), ctx.model().parameters().values()).empty();
    segments_ = segments_of(peer.layout, layers);
    kept_ = peer.assignment != nullptr ? kept_runs(peer.layout, peer.place.replica, layers, tied) : std::vector<kept_run>{};
    own_.clear();
    std::vector<nn::block_range> ranges;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      if (!segments_[s].is_computed_by(peer.identity())) continue;
      own_.push_back(s);
      ranges.push_back(segments_[s].blocks);
    }
    gathered_.laid_out(peer.layout);
    return divides(peer) ? peer.group->state().take_segments(ranges) : result<void>{};
  }

  /// What this peer says before.
  [[nodiscard]] exchange_share described(const pipeline_peer& peer, double loss) const {
    exchange_share own{.loss = loss, .state = of_, .gathered = gathered_.name(peer.record())};
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
                        const std::vector<exchange_share>& all, const exchange_share& own) {
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

  /// The policy may begin. What an exchange remembers counts where all who compute a segment have the same. Gives the loss
  /// of all.
  result<double> begin(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings,
                       const std::vector<exchange_share>& all) {
    CAUSEWAY_TRY(compare_memories(ctx, peer, meetings));
    double loss = 0;
    for (const exchange_share& s : all) loss += s.loss;
    CAUSEWAY_TRY(join_tables(ctx, peer, meetings));
    weigh(ctx, peer);
    computed_ = true;
    at_ = 0;
    rows_.clear();
    mean_.assign(ctx.gradients().size(), 0.0F);
    moves_ = !row_waits(peer) || have_all_rows(segments_, peer.index_of, all);
    if (row_waits(peer)) rows_.assign(all.begin(), all.end());
    return loss;
  }
  /// The exchange of the segment that is next. A spare peer's is with itself.
  [[nodiscard]] exchange_entry entry(const pipeline_peer& peer) const {
    if (own_.empty()) return peer.entry();
    const std::size_t number = own_[at_];
    exchange_entry entry = peer.entry(segments_[number].computers, false);
    entry.segment = at_;
    if (number > 0) entry.attempt.parent = mix(entry.attempt.parent, number);  // names its messages
    return rows_.empty() ? entry : of_step_before(std::move(entry), rows_);
  }
  /// Whether that is not the first: the exchange goes on, in the attempt in which it began.
  [[nodiscard]] bool goes_on() const noexcept { return at_ > 0; }
  [[nodiscard]] bool has_more() const noexcept { return at_ + 1 < own_.size(); }
  /// What comes of it is that of all which follow.
  result<void> exchange_next(const pipeline_peer& peer) {
    ++at_;
    result<void> outcome = peer.group->state().exchange_segment(at_);
    --at_;
    return outcome;
  }
  /// Whether the parameters move by what it comes to. Where results are a step late, and nobody has a row of some stage,
  /// there is no gradient of the whole model: they stay, on all peers.
  [[nodiscard]] bool moves() const noexcept { return moves_; }

  /// What they came to: of the whole of this peer's part, and of the segment that is next.
  [[nodiscard]] std::span<float> mean() noexcept { return mean_; }
  [[nodiscard]] std::span<float> mean_of_segment(auto& ctx, const pipeline_peer& peer) {
    return divides(peer) && !own_.empty() ? place_of_segment(ctx.model(), std::span{mean_}) : std::span{mean_};
  }
  void take_mean(auto& ctx, const pipeline_peer& peer, std::span<const float> mean) {
    const auto to = mean_of_segment(ctx, peer);
    CAUSEWAY_EXPECT(mean.size() == to.size());
    std::copy(mean.begin(), mean.end(), to.begin());
  }
  /// Who holds blocks without computing them gets it, in f32, from who does.
  result<void> share_mean(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings) {
    std::uint64_t number = 0;
    for (const kept_run& run : kept_) {
      net::message_id id = meetings.named(peer, pipeline_peer::here_channel);
      id.step = mix(id.step, ++number);
      if (!takes_part(run, peer)) continue;
      std::vector<net::peer_index> peers;
      for (const std::uint64_t p : run.peers) peers.push_back(peer.index_of.at(p));
      collective::group_view view{*peer.attempt.transport, std::move(peers)};
      CAUSEWAY_TRY(
          collective::broadcast(view, id, net::peer_index{0}, place_of(run, ctx.model(), std::span{mean_}), peer.how(ctx)));
    }
    return {};
  }
  /// That part of it, into the gradient that the policy has left. Where that is none, no step is made of it.
  void complete_gradient(auto& ctx, const pipeline_peer& peer) {
    if (!moves_) return ctx.skip_inner_step();
    for (const kept_run& run : kept_) {
      if (!takes_part(run, peer) || run.peers.front() == peer.identity()) continue;
      const auto from = place_of(run, ctx.model(), std::span{mean_});
      std::copy(from.begin(), from.end(), place_of(run, ctx.model(), ctx.gradients()).begin());
    }
  }

  void serialize(auto& ar) { ar(of_, gathered_, row_); }

 private:
  [[nodiscard]] static std::optional<bool> row_waits(const pipeline_peer& peer) {
    const auto& hook = peer.group->state().row_waits;
    return hook ? hook() : std::nullopt;
  }

  // Whether the policy exchanges segments one by one; else this peer has one, and that is all it holds.
  [[nodiscard]] static bool divides(const pipeline_peer& peer) {
    return static_cast<bool>(peer.group->state().take_segments);
  }
  [[nodiscard]] std::span<float> place_of_segment(auto& model, std::span<float> flat) const {
    return blocks_in(flat, model.parameters().segments(), segments_[own_[at_]].blocks, model.blocks());
  }
  [[nodiscard]] static bool takes_part(const kept_run& run, const pipeline_peer& peer) {
    return std::find(run.peers.begin(), run.peers.end(), peer.identity()) != run.peers.end();
  }

  // 8 bytes for each segment from and to everybody, where an exchange remembers anything.
  result<void> compare_memories(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings) {
    const exchange_state& kept = peer.group->state();
    if (!kept.memory || kept.memory(0).empty()) return {};
    std::vector<std::uint64_t> own(segments_.size()), all(segments_.size() * peer.attempt.transport->size());
    for (std::size_t i = 0; i < own_.size(); ++i) own[own_[i]] = name_of_memory(kept, i);
    if (all.size() == own.size()) return {};
    const net::message_id id = meetings.named(peer, pipeline_peer::memory_channel);
    CAUSEWAY_TRY(collective::all_gather(*peer.attempt.transport, id, std::as_bytes(std::span{own}),
                                        std::as_writable_bytes(std::span{all}), peer.how(ctx)));
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const auto has_ours = [&](std::uint64_t p) {
        return all[peer.index_of.at(p) * own.size() + own_[i]] == own[own_[i]];
      };
      const auto& with = segments_[own_[i]].computers.peers;
      if (!std::all_of(with.begin(), with.end(), has_ours)) CAUSEWAY_TRY(kept.forget(i));
    }
    return {};
  }

  result<void> join_tables(auto& ctx, const pipeline_peer& peer, const step_meetings& meetings) {
    if (peer.assignment == nullptr) return {};
    const auto table = table_in(ctx.model(), ctx.gradients());
    if (table.empty()) return {};
    std::vector<float> own;  // of a last stage
    for (const table_part& part : table_parts(peer.layout, ctx.model().blocks())) {
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
  std::vector<block_segment> segments_;  // of the layout
  std::vector<std::size_t> own_;         // which of them this peer computes
  std::size_t at_ = 0;                   // the next of these
  std::vector<kept_run> kept_;           // in its pipeline
  std::vector<exchange_share> rows_;     // where these wait, what is behind them
  gathered_steps gathered_;
  std::vector<float> mean_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_POLICY_EXCHANGE_HPP
