// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_MESSENGER_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_MESSENGER_HPP

// What a peer of a swarm sends, and to whom: messages, its own status, the addresses that it tells others. The part of
// swarm_peer.hpp that does not depend on the router.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/micro_batch_state.hpp>
#include <causeway/parallel/swarm/peer_directory.hpp>
#include <causeway/parallel/swarm/stage_decisions.hpp>
#include <causeway/parallel/swarm/swarm_balance.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// To be used with the fabric's lock held.
class swarm_messenger {
 protected:
  CAUSEWAY_DECL swarm_messenger(std::shared_ptr<net::fabric> fabric, swarm_options options, log_sink log);
  ~swarm_messenger() = default;

  /// `bulk`: others pass first.
  template <class M>
  void post(net::peer_id to, M&& m, bool bulk = false) {
    const auto link = directory_.link_to(to);
    if (link) fabric_->post(*link, swarm_wire::encode(run_, swarm_wire::message{std::forward<M>(m)}), bulk);
  }
  template <class M>
  void tell_all(const M& m) {
    for (const auto& [id, p] : directory_.peers()) {
      if (p.up) post(id, m);
    }
  }
  void announce() { tell_all(own_status()); }
  /// That this peer is still there: to the coordinator, from the coordinator to all, else to a few in turn. What changes
  /// goes to all (`announce`), so in a swarm of n peers nobody hears more than the coordinator, n messages a heartbeat.
  CAUSEWAY_DECL void announce_to(std::vector<net::peer_id> some);
  /// After which silence a peer is given up. Who speaks to a few in turn comes to each of n others in every n / few-th
  /// heartbeat; coordinator and followers hear each other in every one.
  CAUSEWAY_DECL [[nodiscard]] duration silence_of(net::peer_id id) const;

  CAUSEWAY_DECL [[nodiscard]] swarm_wire::status own_status() const;

  /// With local steps: that a state is committed here, and what the stages decided by, which it has. Whether anybody cares.
  CAUSEWAY_DECL bool tell_committed();

  /// Of a model of modules: the path that this peer is on, which is that of the first order that it takes in a round. A
  /// round ends where this peer begins anew, and for all with an exchange: in a turn that they remember.
  CAUSEWAY_DECL void round_is_over(bool for_all);
  CAUSEWAY_DECL void begin_on_path();
  CAUSEWAY_DECL bool takes_path_of(const swarm_wire::order& o);

  CAUSEWAY_DECL void greet(net::peer_id id, const std::string& address);

  CAUSEWAY_DECL void learn(const swarm_wire::addresses& a);

  /// Looks for who is not connected, and gives up who is silent.
  CAUSEWAY_DECL void look_around_for_peers(time_point now);

  /// Asks these for an echo.
  CAUSEWAY_DECL void probe(const std::vector<net::peer_id>& some, time_point now);

  CAUSEWAY_DECL [[nodiscard]] std::string describe_swarm() const;

  static constexpr std::size_t few = 8;

  std::shared_ptr<net::fabric> fabric_;
  swarm_options options_;
  log_sink log_;
  peer_directory directory_;
  micro_batch_state micro_batches_;
  std::set<std::string> addresses_;
  std::uint64_t run_;  // options_.run, and what else peers have to agree on
  peer_directory::coordinator_choice followed_;
  swarm_wire::stage_sum own_sums_[2], own_decided_;
  stage_decisions decisions_;               // for the trainer's thread, but for `tell_committed`
  std::uint64_t part_ = 0, committed_ = 0;  // see swarm_wire::status
  double seconds_ = 0;                      // that a micro-batch takes here
  queue_meter queue_;
  bool serving_ = false;
  bool has_values_ = true;  // of its stage: in groups, a peer that has met nobody yet has none
  bool in_groups_ = false;
  bool coordinates_ = false;
  std::uint32_t paths_ = 0;  // through a model of modules; 0: all train one
  std::uint32_t module_path_ = swarm_wire::no_module_path;
  bool on_path_ = false, leaves_path_ = false;
  bool judges_ = false;           // an evaluation of shared parameters, for which anybody will do
  std::uint64_t last_round_ = 0;  // the turn that ended it: what is older says nothing of paths
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_messenger.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_MESSENGER_HPP
