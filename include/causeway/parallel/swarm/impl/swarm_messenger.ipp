// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSENGER_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSENGER_IPP

#include <causeway/parallel/swarm/swarm_messenger.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL swarm_messenger::swarm_messenger(std::shared_ptr<net::fabric> fabric, swarm_options options, log_sink log)
    : fabric_{std::move(fabric)},
      options_{std::move(options)},
      log_{std::move(log)},
      directory_{fabric_->id(), options_.stages},
      micro_batches_{fabric_->id(), options_.stage, options_.stages},
      addresses_{options_.dial.begin(), options_.dial.end()},
      run_{options_.run} {}

CAUSEWAY_DECL void swarm_messenger::announce_to(std::vector<net::peer_id> some) {
  if (coordinates_) return announce();
  if (followed_.id != 0 && std::find(some.begin(), some.end(), followed_.id) == some.end()) some.push_back(followed_.id);
  for (const net::peer_id id : some) post(id, own_status());
}

CAUSEWAY_DECL duration swarm_messenger::silence_of(net::peer_id id) const {
  const bool in_touch = coordinates_ || id == followed_.id;
  const auto rounds = in_touch ? 0 : directory_.peers().size() / few;
  return options_.silence + 2 * static_cast<std::int64_t>(rounds) * options_.heartbeat;
}

CAUSEWAY_DECL swarm_wire::status swarm_messenger::own_status() const {
  return {options_.stage,
          serving_ ? std::uint8_t{1} : std::uint8_t{0},
          micro_batches_.turn(),
          followed_.term,
          coordinates_ ? std::uint8_t{1} : std::uint8_t{0},
          queue_.mean(),
          seconds_,
          {own_sums_[0], own_sums_[1]},
          part_,
          committed_,
          own_decided_,
          module_path_,
          on_path_ ? std::uint8_t{1} : std::uint8_t{0},
          paths_};
}

CAUSEWAY_DECL void swarm_messenger::round_is_over(bool for_all) {
  leaves_path_ = true;
  if (for_all) last_round_ = micro_batches_.turn();
}

CAUSEWAY_DECL void swarm_messenger::begin_on_path() {
  if (std::exchange(leaves_path_, false)) on_path_ = false;
}

CAUSEWAY_DECL bool swarm_messenger::takes_path_of(const swarm_wire::order& o) {
  const std::uint32_t size = micro_batches_.done().size();
  if (paths_ == 0 || judges_ || o.turn != micro_batches_.turn() || o.micro_batch >= size) return true;
  const std::uint32_t path =
      swarm_wire::module_path_of(o.micro_batch, size, static_cast<std::uint32_t>(options_.micro_batches), paths_);
  if (on_path_) return path == module_path_;
  module_path_ = path;
  on_path_ = true;
  announce();
  return true;
}

CAUSEWAY_DECL bool swarm_messenger::tell_committed() {
  const auto last = decisions_.last();
  if (!last && options_.local_steps == 0) return false;
  if (last) directory_.remember_decided(own_decided_ = *last);
  announce();
  return true;
}

CAUSEWAY_DECL void swarm_messenger::greet(net::peer_id id, const std::string& address) {
  if (!address.empty()) addresses_.insert(address);
  swarm_wire::addresses all;
  for (const auto& a : addresses_) {
    if (all.list.size() < swarm_wire::most_addresses && a.size() <= swarm_wire::longest_address) all.list.push_back(a);
  }
  post(id, all);
  post(id, own_status());
}

CAUSEWAY_DECL void swarm_messenger::learn(const swarm_wire::addresses& a) {
  for (const std::string& one : a.list) {
    if (addresses_.size() >= swarm_wire::most_addresses || !addresses_.insert(one).second) continue;
    if (one != fabric_->address()) fabric_->dial(one);
  }
}

CAUSEWAY_DECL void swarm_messenger::look_around_for_peers(time_point now) {
  for (const auto& [id, p] : directory_.peers()) {
    if (!p.up || now - p.heard <= silence_of(id)) continue;
    log_(severity::warning, "peer " + std::to_string(id) + " is silent");
    fabric_->close(p.link, "silent for too long");
  }
  std::set<std::string> connected{fabric_->address()};
  for (const auto& [id, p] : directory_.peers()) {
    if (p.up) connected.insert(p.address);
  }
  for (const std::string& a : addresses_) {
    if (!connected.contains(a)) fabric_->dial(a);
  }
}

CAUSEWAY_DECL void swarm_messenger::probe(const std::vector<net::peer_id>& some, time_point now) {
  for (const net::peer_id id : some) {
    swarm_neighbour& p = directory_.peers()[id];
    if (p.probed != time_point{}) continue;
    p.probed = now;
    post(id, swarm_wire::probe{peer_directory::mark_of(now)});
  }
}

CAUSEWAY_DECL std::string swarm_messenger::describe_swarm() const {
  std::string text = "stage " + std::to_string(options_.stage) + ", step " +
                     std::to_string(swarm_wire::step_of(micro_batches_.turn())) + ", " +
                     std::to_string(micro_batches_.done().count()) + " micro-batches done here";
  for (std::uint32_t s = 0; s < options_.stages; ++s) {
    if (s == options_.stage || directory_.anybody_serves(s)) continue;
    text += "; stage " + std::to_string(s) +
            " is served by nobody: start one of its peers again, where its disk is, and the run goes on";
  }
  if (followed_.id == 0) text += "; nobody coordinates yet: a peer of stage 0 does, once it has its weights";
  if (followed_.id != 0 && !coordinates_) text += "; peer " + std::to_string(followed_.id) + " coordinates";
  const auto waits = micro_batches_.waiting_for();
  if (!waits.empty()) {
    text += "; micro-batch " + std::to_string(waits.front().first) + " is to come from peer " +
            std::to_string(waits.front().second);
  }
  return text;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSENGER_IPP
