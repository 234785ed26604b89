// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_SWARM_MESSAGE_HANDLER_HPP
#define CAUSEWAY_PARALLEL_SWARM_SWARM_MESSAGE_HANDLER_HPP

// What happens on a swarm peer's network, and which message goes to which of its parts.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/parallel/swarm/swarm_coordinator.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>
#include <causeway/stage/routing.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// To be used with the fabric's lock held, as events come.
template <stage::routing::Router Router>
class swarm_message_handler : protected swarm_coordinator<Router>, protected net::fabric_events {
 protected:
  using base = swarm_coordinator<Router>;
  using base::base, base::fabric_, base::options_, base::directory_, base::micro_batches_, base::scheduler_,
      base::followed_, base::coordinates_, base::log_;
  ~swarm_message_handler() override = default;

  void on_up(net::peer_index link, net::peer_id id, const std::string& address) override {
    directory_.up(id, link, address, fabric_->now());
    this->greet(id, address);
    micro_batches_.connected(id);
    this->after_event();
  }

  void on_down(net::peer_index link, const error& why) override {
    const net::peer_id id = directory_.at(link);
    log_(severity::debug, "peer " + std::to_string(id) + " is down: " + why.message);
    directory_.down(id);
    std::erase_if(announcements_, [link](const auto& p) { return p.first == link; });
    announced_.erase(link);
    scheduler_.gone(id);
    this->fetched_.lost(id);
    this->after_event();
  }

  void on_unreachable(const std::string&, const error&) override {}

  void on_control(net::peer_index link, std::span<const std::byte> bytes) override {
    const net::peer_id from = directory_.at(link);
    if (from == 0) return;  // it is down already
    auto m = swarm_wire::decode(this->run_, bytes);
    if (!m) return send_away(link, from, m.error().message);
    directory_.peers()[from].heard = fabric_->now();
    std::visit([&](auto& what) { take(link, from, what); }, *m);
    this->after_event();
  }

  void on_wake() override {
    heartbeat();
    this->after_event();
  }

  void heartbeat() {
    const time_point now = fabric_->now();
    const auto some = directory_.next_few(base::few);
    this->announce_to(some);
    this->look_around_for_peers(now);
    this->probe(some, now);
    this->look_after_the_trainer(now);
    if (auto measured = directory_.take_delays(); !measured.list.empty()) this->tell_coordinator(measured);
    if (coordinates_) this->balance(now);
    if (coordinates_) scheduler_.look_for_resting(now, options_.silence);
    this->ask_for_the_loss();
    this->fetched_.forgive();
    fabric_->wake_at(now + options_.heartbeat);
  }

  /// Announced tensors of this turn whose data can be received now: those from whom the orders name. Others wait for their
  /// order or their turn, so nobody else makes this peer set memory aside.
  [[nodiscard]] std::vector<std::pair<net::peer_index, swarm_wire::tensor_announcement>> take_announcements() {
    if (std::exchange(announced_in_, micro_batches_.turn()) != micro_batches_.turn()) announced_.clear();
    std::vector<std::pair<net::peer_index, swarm_wire::tensor_announcement>> due;
    std::erase_if(announcements_, [&](const auto& p) {
      const auto& [link, what] = p;
      const bool now = what.turn == micro_batches_.turn() &&
                       micro_batches_.expects(directory_.at(link), what.micro_batch, what.backward != 0);
      if (now) due.push_back(p);
      return now || what.turn < micro_batches_.turn();
    });
    return due;
  }

  std::vector<std::pair<net::peer_index, swarm_wire::tensor_announcement>>
      announcements_;  // whose data is not expected yet

 private:
  void send_away(net::peer_index link, net::peer_id who, const std::string& why) {
    log_(severity::warning, "peer " + std::to_string(who) + " is sent away: " + why);
    fabric_->close(link, why);
  }

  /// Through the model of modules, which whoever serves, or has begun, knows.
  [[nodiscard]] bool differs_in_paths(const swarm_wire::status& s) const {
    return s.paths != this->paths_ && (s.paths > 0 || s.serving != 0) && (this->paths_ > 0 || this->serving_);
  }

  void take(net::peer_index link, net::peer_id from, const swarm_wire::status& s) {
    if (s.stage >= options_.stages) return;
    if (differs_in_paths(s))
      return send_away(link, from,
                       "it trains " + std::to_string(s.paths) + " paths, and this peer " + std::to_string(this->paths_));
    const bool fresh = !directory_.peers()[from].said;
    directory_.take(from, s, fabric_->now());
    if (fresh && from == followed_.id) {  // it took this peer for lost
      this->forget_what_was_given_away();
      this->send_report();
    }
    if (!coordinates_) return;
    if (s.serving != 0) {
      scheduler_.serves(from, s, this->last_round_);
    } else {
      scheduler_.gone(from);
    }
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::claim& c) {
    auto& said = directory_.peers()[from].said;
    if (!said) return;
    said->coordinates = 1;
    said->term = c.term;
    directory_.term(c.term);
    const auto before = followed_;
    this->elect();
    if (followed_.id == from && before.id == from && before.term == c.term) this->send_report();
  }
  /// What only a coordinator listens to.
  template <class M>
  void take(net::peer_index, net::peer_id from, const M& m) {
    if (coordinates_) this->heard_by_coordinator(from, m);
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::order& o) { this->accept(from, o); }
  /// A neighbour announces two tensors a micro-batch and turn, and what it sends again. Who goes on and on is sent away.
  void take(net::peer_index link, net::peer_id from, const swarm_wire::tensor_announcement& p) {
    if (p.turn < micro_batches_.turn()) return;
    const std::size_t most = announced_each * options_.most_micro_batches();
    if (++announced_[link] <= most && announcements_.size() < announced_in_all * most)
      return announcements_.emplace_back(link, p), void();
    send_away(link, from, "it announced more tensors than a turn has, " + std::to_string(most) + " at most");
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::probe& p) { this->post(from, swarm_wire::echo{p.mark}); }
  void take(net::peer_index, net::peer_id from, const swarm_wire::echo& e) {
    directory_.echoed(from, e.mark, fabric_->now());
  }
  void take(net::peer_index, net::peer_id from, const swarm_wire::verdict& v) {
    if (from == followed_.id) this->hear(v);
  }
  void take(net::peer_index, net::peer_id, const swarm_wire::addresses& a) { this->learn(a); }
  void take(net::peer_index, net::peer_id from, const swarm_wire::table_request& r) { this->heard(from, r); }
  void take(net::peer_index, net::peer_id from, const swarm_wire::table_piece& p) { this->heard(from, p); }
  void take(net::peer_index, net::peer_id from, const swarm_wire::move_request& m) {
    if (from == followed_.id && m.stage < options_.stages && m.stage != options_.stage) this->move_to_ = m.stage;
  }

  static constexpr std::size_t announced_each = 8, announced_in_all = 16;  // the latter times the former

  std::map<net::peer_index, std::size_t> announced_;  // in this turn
  std::uint64_t announced_in_ = 0;                    // that turn
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_SWARM_MESSAGE_HANDLER_HPP
