// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_STATE_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_STATE_HPP

// What the parts of a swarm's peer share: whom it knows, the micro-batches of its turn, its gradients, and what it says of
// itself. The parts are members of swarm_peer.hpp, and each has a reference to this.

#include <causeway/config/config.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/micro_batch_state.hpp>
#include <causeway/parallel/swarm/peer_directory.hpp>
#include <causeway/parallel/swarm/stage_decisions.hpp>
#include <causeway/parallel/swarm/swarm_balance.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/swarm/swarm_shares.hpp>
#include <causeway/stage/routing.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// To be used with the fabric's lock held, but for options, log and fabric, which stay as they are.
struct swarm_state {
  CAUSEWAY_DECL swarm_state(std::shared_ptr<net::fabric> over, swarm_options of, log_sink to);
  [[nodiscard]] bool in_training() const { return swarm_wire::trains(micro_batches.turn()); }
  [[nodiscard]] std::uint64_t step() const { return swarm_wire::step_of(micro_batches.turn()); }
  [[nodiscard]] bool has_sum() const { return in_training() && gradients.has_sum(step()); }
  /// Peers take steps on their own between exchanges.
  [[nodiscard]] bool steps_alone() const noexcept { return options.local_steps > 0; }
  /// This turn is about all micro-batches of the local steps behind it, most of which are done.
  [[nodiscard]] bool closes_a_round() const {
    return steps_alone() && in_training() && !swarm_wire::is_local(micro_batches.turn());
  }
  [[nodiscard]] stage::routing::step_size size() const { return {step(), micro_batches.done().size(), options.stages}; }
  CAUSEWAY_DECL [[nodiscard]] swarm_wire::status status() const;

  /// Of a model of modules: the path that this peer is on, which is that of the first order that it takes in a round. A
  /// round ends where this peer begins anew, and for all with an exchange: in a turn that they remember.
  CAUSEWAY_DECL void round_is_over(bool for_all);
  CAUSEWAY_DECL void begin_on_path();

  template <class F>
  void locked(F&& what) const {
    fabric->locked(std::forward<F>(what));
  }
  /// What `f` gives, with the lock held.
  template <class F>
  auto with_lock(F&& f) const {
    decltype(f()) value{};
    locked([&] { value = f(); });
    return value;
  }

  std::shared_ptr<net::fabric> fabric;
  swarm_options options;
  log_sink log;
  peer_directory directory;
  micro_batch_state micro_batches;
  swarm_gradients gradients;  // but for restoring and putting in, which is the trainer's
  stage_decisions decisions;  // for the trainer's thread, but for swarm_messenger::tell_committed
  queue_meter queue;
  std::uint64_t run;  // options.run, and what else peers have to agree on
  peer_directory::coordinator_choice followed;
  swarm_wire::stage_sum own_sums[2], own_decided;
  std::uint64_t part = 0, committed = 0;  // see swarm_wire::status
  double seconds = 0;                     // that a micro-batch takes here
  bool serving = false;
  bool has_values = true;  // of its stage: in groups, a peer that has met nobody yet has none
  bool in_groups = false;
  bool coordinates = false;
  std::uint32_t paths = 0;  // through a model of modules; 0: all train one
  std::uint32_t module_path = swarm_wire::no_module_path;
  bool on_path = false, leaves_path = false;
  bool judges = false;           // an evaluation of shared parameters, for which anybody will do
  std::uint64_t last_round = 0;  // the turn that ended it: what is older says nothing of paths
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_state.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_STATE_HPP
