// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_REPLICA_STEPS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_REPLICA_STEPS_HPP

// How a replica of parallel::local_pipeline makes its steps: what all ways have in common, and the one with a flush in
// every step, by a schedule. parallel/elastic/streamed_steps.hpp has the one without.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/parallel/elastic/cohort_progress.hpp>
#include <causeway/parallel/elastic/cohort_rows.hpp>
#include <causeway/parallel/elastic/kept_replica_step.hpp>
#include <causeway/parallel/elastic/peer_inventory.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/parallel/elastic/replica_sums.hpp>
#include <causeway/parallel/elastic/replica_table.hpp>
#include <causeway/parallel/elastic/shadows.hpp>
#include <causeway/parallel/elastic/unsound_steps.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What a peer that is assigned makes a step with.
template <class Recovery, class Codec>
struct replica_step {
  pipeline_peer& peer;
  cohort_progress& progress;
  const Recovery& recovery;
  Codec& codec;
  std::int64_t micro_batches = 1;  ///< of a global batch
  bool is_last = false;            ///< an exchange comes after it, as this replica finds

  [[nodiscard]] const stage::replica& replica() const { return peer.layout.replicas[peer.place.replica]; }
  /// The replica's part of `b`.
  [[nodiscard]] double tokens(const batch& b) const {
    return static_cast<double>(b.tokens()) * replica().micro_batches / static_cast<double>(micro_batches);
  }
  /// Whether an exchange comes after it, as far as is known now: others may have come to one that waits for nobody's count,
  /// or it is time for it.
  [[nodiscard]] bool ends_round(auto& ctx) const {
    return is_time(ctx) || is_last || (peer.group->state().by_pace && peer.arrivals.any());
  }
  /// By the clock of who computes the replica's first block, where rounds go by that.
  [[nodiscard]] bool is_time(auto& ctx) const {
    const exchange_state& policy = peer.group->state();
    if (!policy.round_seconds || !peer.computes_first()) return false;
    const bool enough = peer.counted.reach(progress.now().steps + 1, policy.round_samples);
    return enough && progress.trained(ctx.clock().now()) >= *policy.round_seconds;
  }
  /// Values that are not finite: the replica's round is given up.
  error leave_to_others(auto& ctx, const error& why) const {
    progress.spoil();
    return peer.blame_itself(ctx, why);
  }
};

/// A step is the replica's: its peers tell each other when they have their parts of the gradient.
template <stage::Schedule Order>
class flushed_steps {
 public:
  static constexpr std::string_view name = "local_pipeline";
  static constexpr bool flushes = true;

  explicit flushed_steps(Order order = Order{}) : order_{std::move(order)} {}

  [[nodiscard]] std::uint32_t chunks() const { return order_.chunks(); }
  /// Equal on peers that can be stages of one pipeline.
  [[nodiscard]] static std::uint64_t agreement() { return hash_text(Order::name); }

  result<void> begin(const auto&, cohort_progress&, const auto&) const { return {}; }
  void describe(auto& ctx, const auto&, cohort_member& own) const {
    own.keeps = as_kept(ctx.model().part().ranges(ctx.model().blocks()));
  }

  /// The mean loss over the replica's part of `b`; the gradient is this peer's part of the mean's.
  template <class Recovery, class Codec>
  result<double> run(auto& ctx, const replica_step<Recovery, Codec>& s, const batch& b) {
    if (!s.progress.was_told()) CAUSEWAY_TRY(compute(ctx, s, b));
    return s.progress.now().loss / s.tokens(b);
  }
  /// Of the replica's gradient over the whole model. Its peers have theirs, or will, whoever is lost: this one may move.
  float norm(cohort_progress& progress) noexcept {
    progress.took_step();
    kept_.forget();
    return static_cast<float>(progress.now().norm);
  }

  /// A new replica is about to begin.
  result<void> begin_replica(auto& ctx, const pipeline_peer& peer) const { return begin_shadows(ctx, peer); }
  /// The replica is whole, and goes on in another attempt.
  result<void> go_on(auto&, const auto& s, const cluster_inventory& inventory, std::span<const cohort_member> members) {
    std::vector<cohort_member> mates;
    const auto& peers = inventory.snapshot.peers;
    for (std::size_t p = 0; p < members.size(); ++p) {
      const auto is_it = [&](const stage::assignment& a) { return a.peer == peers[p].id; };
      const auto& row = s.replica().assignments;
      if (std::any_of(row.begin(), row.end(), is_it)) mates.push_back(members[p]);
    }
    return s.progress.catch_up(mates);
  }
  /// What this peer had of its replica's steps is given up, or exchanged.
  void forget() noexcept { kept_.forget(); }
  /// Whether the peers of the replica have made the same steps.
  [[nodiscard]] static constexpr bool is_drained() noexcept { return true; }

 private:
  template <class Recovery, class Codec>
  result<void> compute(auto& ctx, const replica_step<Recovery, Codec>& s, const batch& b) {
    s.progress.begin_gradient();
    s.codec.begin_step();
    CAUSEWAY_ASSIGN(const double loss, pass(ctx, s, b));
    const float own = ctx.own_norm();
    if (const auto sound = check_sound(loss, own); !sound) return s.leave_to_others(ctx, sound.error());
    const std::uint64_t steps = s.progress.now().steps;
    CAUSEWAY_ASSIGN(const float norm, complete_table(ctx, s.peer, steps, own));
    CAUSEWAY_TRY(give_gradient_to_shadows(ctx, s.peer, steps));
    s.progress.end_gradient(name_of_row(s.replica()));
    CAUSEWAY_ASSIGN(const replica_sums all,
                    sums_of_replica(ctx, s.peer, steps + 1, {loss, double{norm}, s.ends_round(ctx)}));
    s.progress.note_sums(all.loss, all.norm, all.exchanges);  // the others have theirs, and move when they hear of it
    return {};
  }

  template <class Recovery, class Codec>
  result<double> pass(auto& ctx, const replica_step<Recovery, Codec>& s, const batch& b) {
    const std::uint64_t number = (s.peer.attempt.round << 16U) + s.progress.now().steps;
    const auto scale = static_cast<float>(1 / s.tokens(b));
    if constexpr (stage::WorkKeeping<Recovery>) {
      return kept_.run(ctx, s, b, scale, number);
    } else {
      return s.peer.train(ctx, order_, s.recovery, s.codec, b, s.micro_batches, scale, number);
    }
  }

  Order order_;
  kept_replica_step kept_;
};

/// A way for replicas to make their steps: what flushed_steps has.
template <class S>
concept ReplicaSteps = DefaultInitializable<S> && requires(S& s) {
  { S::name } -> ConvertibleTo<std::string_view>;
  {bool{S::flushes}};
  s.forget();
};

/// Whether each block is exchanged by itself, where replicas are cut apart: each is made with a flush, so that all its
/// peers have the same steps behind them, and goes through its own peers.
template <class Recovery, class Steps>
inline constexpr bool exchanges_blocks = stage::cut_apart<Recovery>&& Steps::flushes && !stage::Rerouting<Recovery>;

/// By what is given as the schedule of local_pipeline: a schedule, or such a way.
template <class Order>
struct replica_steps;
template <stage::Schedule Order>
struct replica_steps<Order> {
  using type = flushed_steps<Order>;
};
template <ReplicaSteps Order>
struct replica_steps<Order> {
  using type = Order;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_REPLICA_STEPS_HPP
