// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSENGER_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSENGER_IPP

#include <causeway/parallel/swarm/swarm_messenger.hpp>

#include <algorithm>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void swarm_messenger::announce() { tell_all(my_.status()); }

CAUSEWAY_DECL void swarm_messenger::announce_to(std::vector<net::peer_id> some) {
  if (my_.coordinates) return announce();
  if (my_.followed.id != 0 && std::find(some.begin(), some.end(), my_.followed.id) == some.end())
    some.push_back(my_.followed.id);
  for (const net::peer_id id : some) post(id, my_.status());
}

CAUSEWAY_DECL duration swarm_messenger::silence_of(net::peer_id id) const {
  const bool in_touch = my_.coordinates || id == my_.followed.id;
  const auto rounds = in_touch ? 0 : my_.directory.peers().size() / few;
  return my_.options.silence + 2 * static_cast<std::int64_t>(rounds) * my_.options.heartbeat;
}

CAUSEWAY_DECL bool swarm_messenger::takes_path_of(const swarm_wire::order& o) {
  const std::uint32_t size = my_.micro_batches.done().size();
  if (my_.paths == 0 || my_.judges || o.turn != my_.micro_batches.turn() || o.micro_batch >= size) return true;
  const std::uint32_t path =
      swarm_wire::module_path_of(o.micro_batch, size, static_cast<std::uint32_t>(my_.options.micro_batches), my_.paths);
  if (my_.on_path) return path == my_.module_path;
  my_.module_path = path;
  my_.on_path = true;
  announce();
  return true;
}

CAUSEWAY_DECL bool swarm_messenger::tell_committed() {
  const auto last = my_.decisions.last();
  if (!last && my_.options.local_steps == 0) return false;
  if (last) my_.directory.remember_decided(my_.own_decided = *last);
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
  post(id, my_.status());
}

CAUSEWAY_DECL void swarm_messenger::learn(const swarm_wire::addresses& a) {
  for (const std::string& one : a.list) {
    if (addresses_.size() >= swarm_wire::most_addresses || !addresses_.insert(one).second) continue;
    if (one != my_.fabric->address()) my_.fabric->dial(one);
  }
}

CAUSEWAY_DECL void swarm_messenger::look_around_for_peers(time_point now) {
  for (const auto& [id, p] : my_.directory.peers()) {
    if (!p.up || now - p.heard <= silence_of(id)) continue;
    my_.log(severity::warning, "peer " + std::to_string(id) + " is silent");
    my_.fabric->close(p.link, "silent for too long");
  }
  std::set<std::string> connected{my_.fabric->address()};
  for (const auto& [id, p] : my_.directory.peers()) {
    if (p.up) connected.insert(p.address);
  }
  for (const std::string& a : addresses_) {
    if (!connected.contains(a)) my_.fabric->dial(a);
  }
}

CAUSEWAY_DECL void swarm_messenger::probe(const std::vector<net::peer_id>& some, time_point now) {
  for (const net::peer_id id : some) {
    swarm_neighbour& p = my_.directory.peers()[id];
    if (p.probed != time_point{}) continue;
    p.probed = now;
    post(id, swarm_wire::probe{peer_directory::mark_of(now)});
  }
}

CAUSEWAY_DECL std::string swarm_messenger::describe() const {
  std::string text = "stage " + std::to_string(my_.options.stage) + ", step " +
                     std::to_string(swarm_wire::step_of(my_.micro_batches.turn())) + ", " +
                     std::to_string(my_.micro_batches.done().count()) + " micro-batches done here";
  for (std::uint32_t s = 0; s < my_.options.stages; ++s) {
    if (s == my_.options.stage || my_.directory.anybody_serves(s)) continue;
    text += "; stage " + std::to_string(s) +
            " is served by nobody: start one of its peers again, where its disk is, and the run goes on";
  }
  if (my_.followed.id == 0) text += "; nobody coordinates yet: a peer of stage 0 does, once it has its weights";
  if (my_.followed.id != 0 && !my_.coordinates) text += "; peer " + std::to_string(my_.followed.id) + " coordinates";
  const auto waits = my_.micro_batches.waiting_for();
  if (!waits.empty()) {
    text += "; micro-batch " + std::to_string(waits.front().first) + " is to come from peer " +
            std::to_string(waits.front().second);
  }
  return text;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSENGER_IPP
