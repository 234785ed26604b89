// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_MESSENGER_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_MESSENGER_HPP

// What a peer of a swarm sends, and to whom: messages, its own status, the addresses that it tells others.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/parallel/swarm/swarm_state.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// To be used with the fabric's lock held.
class swarm_messenger {
 public:
  explicit swarm_messenger(swarm_state& my) : my_{my}, addresses_{my.options.dial.begin(), my.options.dial.end()} {}

  /// `bulk`: others pass first.
  template <class M>
  void post(net::peer_id to, M&& m, bool bulk = false) {
    const auto link = my_.directory.link_to(to);
    if (link) my_.fabric->post(*link, swarm_wire::encode(my_.run, swarm_wire::message{std::forward<M>(m)}), bulk);
  }
  template <class M>
  void tell_all(const M& m) {
    for (const auto& [id, p] : my_.directory.peers()) {
      if (p.up) post(id, m);
    }
  }
  CAUSEWAY_DECL void announce();
  /// That this peer is still there: to the coordinator, from the coordinator to all, else to a few in turn. What changes
  /// goes to all (`announce`), so in a swarm of n peers nobody hears more than the coordinator, n messages a heartbeat.
  CAUSEWAY_DECL void announce_to(std::vector<net::peer_id> some);
  /// After which silence a peer is given up. Who speaks to a few in turn comes to each of n others in every n / few-th
  /// heartbeat; coordinator and followers hear each other in every one.
  CAUSEWAY_DECL [[nodiscard]] duration silence_of(net::peer_id id) const;

  /// With local steps: that a state is committed here, and what the stages decided by, which it has. Whether anybody cares.
  CAUSEWAY_DECL bool tell_committed();

  /// Whether the order is of the path that this peer is on, or gets on with it.
  CAUSEWAY_DECL bool takes_path_of(const swarm_wire::order& o);
  CAUSEWAY_DECL void greet(net::peer_id id, const std::string& address);

  CAUSEWAY_DECL void learn(const swarm_wire::addresses& a);

  /// Looks for who is not connected, and gives up who is silent.
  CAUSEWAY_DECL void look_around_for_peers(time_point now);

  /// Asks these for an echo.
  CAUSEWAY_DECL void probe(const std::vector<net::peer_id>& some, time_point now);
  CAUSEWAY_DECL [[nodiscard]] std::string describe() const;

  [[nodiscard]] std::size_t addresses() const noexcept { return addresses_.size(); }

  static constexpr std::size_t few = 8;

 private:
  swarm_state& my_;
  std::set<std::string> addresses_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/swarm_messenger.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_MESSENGER_HPP
