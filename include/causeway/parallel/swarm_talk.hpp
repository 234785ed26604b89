// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_TALK_HPP
#define CAUSEWAY_PARALLEL_SWARM_TALK_HPP

// What a peer of a swarm says, and to whom: posting, its own status, the addresses that it tells others. The part of
// swarm_peer.hpp that does not depend on the router.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm_balance.hpp>
#include <causeway/parallel/swarm_messages.hpp>
#include <causeway/parallel/swarm_options.hpp>
#include <causeway/parallel/swarm_station.hpp>
#include <causeway/parallel/swarm_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// To be used with the fabric's lock held.
class swarm_talk {
 protected:
  swarm_talk(std::shared_ptr<net::fabric> fabric, swarm_options options, log_sink log)
      : fabric_{std::move(fabric)},
        options_{std::move(options)},
        log_{std::move(log)},
        table_{fabric_->id(), options_.stages},
        station_{fabric_->id(), options_.stage, options_.stages},
        addresses_{options_.dial.begin(), options_.dial.end()},
        run_{options_.run} {}
  ~swarm_talk() = default;

  /// `bulk`: others pass first.
  template <class M>
  void post(net::peer_id to, M&& m, bool bulk = false) {
    const auto link = table_.link_to(to);
    if (link) fabric_->post(*link, swarm_wire::encode(run_, swarm_wire::message{std::forward<M>(m)}), bulk);
  }
  template <class M>
  void tell_all(const M& m) {
    for (const auto& [id, p] : table_.peers()) {
      if (p.up) post(id, m);
    }
  }
  void announce() { tell_all(own_status()); }
  /// That this peer is still there: to the driver, from the driver to all, else to a few in turn. What changes goes to all
  /// (`announce`), so in a swarm of n peers nobody hears more than the driver, n messages a heartbeat.
  void announce_to(std::vector<net::peer_id> some) {
    if (drives_) return announce();
    if (followed_.id != 0 && std::find(some.begin(), some.end(), followed_.id) == some.end()) some.push_back(followed_.id);
    for (const net::peer_id id : some) post(id, own_status());
  }
  /// After which silence a peer is given up. Who speaks to a few in turn comes to each of n others in every n / few-th
  /// heartbeat; driver and followers hear each other in every one.
  [[nodiscard]] duration silence_of(net::peer_id id) const {
    const bool in_touch = drives_ || id == followed_.id;
    const auto rounds = in_touch ? 0 : table_.peers().size() / few;
    return options_.silence + 2 * static_cast<std::int64_t>(rounds) * options_.heartbeat;
  }

  [[nodiscard]] swarm_wire::status own_status() const {
    return {options_.stage,
            serving_ ? std::uint8_t{1} : std::uint8_t{0},
            station_.turn(),
            followed_.term,
            drives_ ? std::uint8_t{1} : std::uint8_t{0},
            queue_.mean(),
            seconds_,
            {own_sums_[0], own_sums_[1]},
            part_,
            committed_};
  }

  void greet(net::peer_id id, const std::string& address) {
    if (!address.empty()) addresses_.insert(address);
    swarm_wire::addresses all;
    for (const auto& a : addresses_) {
      if (all.list.size() < swarm_wire::most_addresses && a.size() <= swarm_wire::longest_address) all.list.push_back(a);
    }
    post(id, all);
    post(id, own_status());
  }

  void learn(const swarm_wire::addresses& a) {
    for (const std::string& one : a.list) {
      if (addresses_.size() >= swarm_wire::most_addresses || !addresses_.insert(one).second) continue;
      if (one != fabric_->address()) fabric_->dial(one);
    }
  }

  /// Looks for who is not connected, and gives up who is silent.
  void look_around_for_peers(time_point now) {
    for (const auto& [id, p] : table_.peers()) {
      if (!p.up || now - p.heard <= silence_of(id)) continue;
      log_(severity::warning, "peer " + std::to_string(id) + " is silent");
      fabric_->close(p.link, "silent for too long");
    }
    std::set<std::string> connected{fabric_->address()};
    for (const auto& [id, p] : table_.peers()) {
      if (p.up) connected.insert(p.address);
    }
    for (const std::string& a : addresses_) {
      if (!connected.contains(a)) fabric_->dial(a);
    }
  }

  /// Asks these for an echo.
  void probe(const std::vector<net::peer_id>& some, time_point now) {
    for (const net::peer_id id : some) {
      swarm_neighbour& p = table_.peers()[id];
      if (p.probed != time_point{}) continue;
      p.probed = now;
      post(id, swarm_wire::probe{swarm_table::mark_of(now)});
    }
  }

  [[nodiscard]] std::string describe_swarm() const {
    std::string text = "stage " + std::to_string(options_.stage) + ", step " +
                       std::to_string(swarm_wire::step_of(station_.turn())) + ", " +
                       std::to_string(station_.done().count()) + " micro-batches done here";
    for (std::uint32_t s = 0; s < options_.stages; ++s) {
      if (s == options_.stage || table_.anybody_serves(s)) continue;
      text += "; stage " + std::to_string(s) +
              " is served by nobody: start one of its peers again, where its disk is, and the run goes on";
    }
    if (followed_.id == 0) text += "; nobody drives yet: a peer of stage 0 does, once it has its weights";
    if (followed_.id != 0 && !drives_) text += "; peer " + std::to_string(followed_.id) + " drives";
    const auto waits = station_.waiting_for();
    if (!waits.empty()) {
      text += "; micro-batch " + std::to_string(waits.front().first) + " is to come from peer " +
              std::to_string(waits.front().second);
    }
    return text;
  }

  static constexpr std::size_t few = 8;

  std::shared_ptr<net::fabric> fabric_;
  swarm_options options_;
  log_sink log_;
  swarm_table table_;
  swarm_station station_;
  std::set<std::string> addresses_;
  std::uint64_t run_;  // options_.run, and what else peers have to agree on
  swarm_table::driver_choice followed_;
  swarm_wire::stage_sum own_sums_[2];
  std::uint64_t part_ = 0, committed_ = 0;  // of a tied table: see swarm_wire::status
  double seconds_ = 0;                      // that a micro-batch takes here
  queue_meter queue_;
  bool serving_ = false;
  bool drives_ = false;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_TALK_HPP
