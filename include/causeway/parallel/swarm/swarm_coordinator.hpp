// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_COORDINATOR_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_COORDINATOR_HPP

// Who coordinates a swarm: this peer itself, by a scheduler, or another that it follows. It brings scheduler, micro-batches
// and directory together, without tensors and without waiting.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/early_orders.hpp>
#include <causeway/parallel/swarm/path_schedulers.hpp>
#include <causeway/parallel/swarm/peer_directory.hpp>
#include <causeway/parallel/swarm/swarm_balance.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_messenger.hpp>
#include <causeway/parallel/swarm/swarm_state.hpp>
#include <causeway/parallel/swarm/swarm_table_sync.hpp>
#include <causeway/stage/any_router.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// To be used with the fabric's lock held.
class swarm_coordinator {
 public:
  CAUSEWAY_DECL swarm_coordinator(swarm_state& my, swarm_messenger& messenger, swarm_table_sync& table,
                                  stage::routing::any_router router);

  // ---- a turn ----------------------------------------------------------------------------------------------------------

  /// `counted`: of the turn's micro-batches, those that this peer has stepped on already.
  /// The same turn again: what this peer had of it is lost.
  CAUSEWAY_DECL void begin(std::uint64_t turn, std::uint32_t micro_batches, swarm_wire::batch_set counted = {});

  /// What this peer has of the turn is worth nothing. The coordinator gives it to others; this peer is that no more.
  CAUSEWAY_DECL void leave_turn();
  /// Who came to values that are not finite computes again with its next step; after each time more, within a hundred
  /// steps, it looks on for one step, three, seven ... 63, as long as others serve its stage.
  CAUSEWAY_DECL void count_offence();

  /// The local step that is this turn has all its micro-batches in all stages, as the coordinator says or has said: it is
  /// beyond then. What this peer has contributed counts if it heard so itself.
  CAUSEWAY_DECL [[nodiscard]] bool local_step_is_over() const;
  [[nodiscard]] bool declared() const noexcept { return declared_; }
  /// Others are through with this round, or may be: what is missing can no longer be computed, and is not waited for.
  CAUSEWAY_DECL [[nodiscard]] bool released() const;
  /// The coordinator took this peer for lost, and has given what is not in its parameters yet to others.
  CAUSEWAY_DECL void forget_what_was_given_away();

  /// All stages have all micro-batches; or others of this stage are beyond the step: the membership has their state; or
  /// other stages are, and this one has its sum from before a restart. With a tied table the last stage sums after the
  /// first.
  CAUSEWAY_DECL [[nodiscard]] bool may_enter() const;

  /// Of the evaluation that is this turn.
  CAUSEWAY_DECL [[nodiscard]] std::optional<double> evaluated() const;
  [[nodiscard]] bool gives_up() const noexcept { return gives_up_; }

  // ---- coordinating ---------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void elect();
  CAUSEWAY_DECL void send_report();

  /// To the coordinator, also where that is this peer.
  template <class M>
  void tell_coordinator(const M& m) {
    if (my_.coordinates) {
      heard_by_coordinator(my_.fabric->id(), m);
    } else if (my_.followed.id != 0) {
      messenger_.post(my_.followed.id, m);
    }
  }
  void heard_by_coordinator(net::peer_id from, const swarm_wire::contributed& c) { scheduler_.take(from, c); }
  CAUSEWAY_DECL void heard_by_coordinator(net::peer_id, const swarm_wire::refusal& r);
  CAUSEWAY_DECL void heard_by_coordinator(net::peer_id from, const swarm_wire::delays& all);
  CAUSEWAY_DECL void heard_by_coordinator(net::peer_id from, const swarm_wire::report& r);

  /// After every event: who coordinates, what the coordinator wants, whether the turn is complete.
  CAUSEWAY_DECL void after_event();

  // ---- following -------------------------------------------------------------------------------------------------------

  CAUSEWAY_DECL void accept(net::peer_id from, const swarm_wire::order& o);

  // ---- the trainer -----------------------------------------------------------------------------------------------------

  /// It has looked, and what it was busy with took so long.
  CAUSEWAY_DECL void trainer_is_here(time_point now, duration took = {});
  /// A trainer that hangs while work waits for it holds up everybody, and this thread's heartbeats hide it. So it is told
  /// here, where the evidence is: others get its work until it moves again.
  CAUSEWAY_DECL void look_after_the_trainer(time_point now);

  /// The coordinator's word. What an evaluation came to is kept for those who come late.
  CAUSEWAY_DECL void hear(const swarm_wire::verdict& v);

  /// The others are through with an evaluation, and this peer does not know what came out.
  CAUSEWAY_DECL void ask_for_the_loss();

  /// Queues are looked at with every heartbeat, and compared when it is time.
  CAUSEWAY_DECL void balance(time_point now);
  CAUSEWAY_DECL [[nodiscard]] std::string describe() const;

  // ---- for the other parts ---------------------------------------------------------------------------------------------

  [[nodiscard]] path_schedulers& scheduler() noexcept { return scheduler_; }
  /// Whether the micro-batch passes that stage in this turn.
  CAUSEWAY_DECL [[nodiscard]] bool runs(std::uint32_t stage, std::uint32_t micro_batch) const;
  /// What the coordinator said last.
  [[nodiscard]] const swarm_wire::verdict& verdict() const noexcept { return verdict_; }
  /// It is not so: something is missing.
  void contradict() noexcept { verdict_.complete = 0; }
  /// Of the local step that is over, where this peer's contributions count.
  [[nodiscard]] double loss() const noexcept { return declared_ ? loss_ : 0; }
  /// Until then others that coordinate already are listened for.
  void claims_from(time_point then) noexcept { claims_from_ = then; }
  /// The stage that this peer should serve.
  [[nodiscard]] std::optional<std::uint32_t> asked_to_move() const noexcept { return move_to_; }
  void ask_to_move(std::uint32_t stage) noexcept { move_to_ = stage; }
  /// How often what this peer had of a turn was forgotten.
  [[nodiscard]] std::uint64_t times_forgotten() const noexcept { return times_forgotten_; }
  /// Whether there was an event since `see_news`.
  [[nodiscard]] bool has_news() const noexcept { return news_; }
  void see_news() noexcept { news_ = false; }
  /// From any thread: whether something is to be computed before the stage's peers can exchange.
  [[nodiscard]] bool called_away() const noexcept { return called_away_; }
  [[nodiscard]] std::size_t kept_orders() const { return orders_.size(); }

 private:
  using sums_seen = std::array<std::uint64_t, 4>;  // changes, turn, version, term

  static constexpr std::size_t most_kept_losses = 4096;

  // The first time, others may be inside the turn already.
  CAUSEWAY_DECL void coordinate(bool from_the_beginning);
  CAUSEWAY_DECL void claim_coordination();

  CAUSEWAY_DECL void follow(peer_directory::coordinator_choice d);
  CAUSEWAY_DECL void steer();
  // Only when one of them has said something new.
  CAUSEWAY_DECL void look_for_sums();
  [[nodiscard]] swarm_wire::verdict judge() const { return scheduler_.judge(my_.micro_batches.turn()); }

  CAUSEWAY_DECL [[nodiscard]] bool says_it_coordinates(net::peer_id who, std::uint32_t term) const;
  // Whether there were any of this turn; those of a peer that does not serve are for somebody who stays.
  CAUSEWAY_DECL bool take_early_orders(std::uint64_t turn);

  // Who comes late to a turn may have missed orders, and how it ended: the coordinator knows.
  CAUSEWAY_DECL void ask_what_was_missed();

  swarm_state& my_;
  swarm_messenger& messenger_;
  swarm_table_sync& table_;
  stage::routing::any_router rule_;  // for runs() alone
  path_schedulers scheduler_;
  early_orders orders_;
  std::map<std::uint64_t, double> evaluated_;  // by turn: summed losses
  stage_balance balance_;
  swarm_wire::verdict verdict_;
  std::optional<std::uint32_t> move_to_;
  time_point claims_from_;  // before, others that coordinate already are listened for
  std::uint32_t term_ = 0;
  bool asked_ = false;  // every peer's report on the turn at which its coordinating began
  bool told_complete_ = false;
  bool gives_up_ = false;  // nobody knows what this evaluation came to
  bool declared_ = false;  // this local step is over, and what this peer contributed counts
  double loss_ = 0;        // of that step
  std::uint64_t times_forgotten_ = 0;
  std::uint64_t sound_from_ = 0;  // the step from which this peer computes again
  std::uint32_t offences_ = 0;    // times that it came to values that are not finite
  sums_seen sums_seen_{};
  net::arrival_statistics trainer_times_;  // of what the trainer computes at a stretch
  time_point seen_trainer_, looked_at_;
  bool trainer_hangs_ = false;
  bool looks_on_ = false;  // it does not serve, and follows the coordinator all the same
  bool news_ = false;
  std::atomic<bool> called_away_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_coordinator.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_COORDINATOR_HPP
