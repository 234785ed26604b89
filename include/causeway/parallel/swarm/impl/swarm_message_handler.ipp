// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSAGE_HANDLER_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSAGE_HANDLER_IPP

#include <causeway/parallel/swarm/swarm_message_handler.hpp>

#include <variant>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::on_up(net::peer_index link, net::peer_id id,
                                                             const std::string& address) {
  my_.directory.up(id, link, address, my_.fabric->now());
  messenger_.greet(id, address);
  my_.micro_batches.connected(id);
  coordinator_.after_event();
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::on_down(net::peer_index link, const error& why) {
  const net::peer_id id = my_.directory.at(link);
  my_.log(severity::debug, "peer " + std::to_string(id) + " is down: " + why.message);
  my_.directory.down(id);
  std::erase_if(announcements_, [link](const auto& p) { return p.first == link; });
  announced_.erase(link);
  coordinator_.scheduler().gone(id);
  table_.fetched().lost(id);
  coordinator_.after_event();
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::on_control(net::peer_index link, std::span<const std::byte> bytes) {
  const net::peer_id from = my_.directory.at(link);
  if (from == 0) return;  // it is down already
  auto m = swarm_wire::decode(my_.run, bytes);
  if (!m) return send_away(link, from, m.error().message);
  my_.directory.peers()[from].heard = my_.fabric->now();
  std::visit([&](auto& what) { take(link, from, what); }, *m);
  coordinator_.after_event();
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::on_wake() {
  heartbeat();
  coordinator_.after_event();
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::heartbeat() {
  const time_point now = my_.fabric->now();
  const auto some = my_.directory.next_few(swarm_messenger::few);
  messenger_.announce_to(some);
  messenger_.look_around_for_peers(now);
  messenger_.probe(some, now);
  coordinator_.look_after_the_trainer(now);
  if (auto measured = my_.directory.take_delays(); !measured.list.empty()) coordinator_.tell_coordinator(measured);
  if (my_.coordinates) coordinator_.balance(now);
  if (my_.coordinates) coordinator_.scheduler().look_for_resting(now, my_.options.silence);
  coordinator_.ask_for_the_loss();
  table_.fetched().forgive();
  my_.fabric->wake_at(now + my_.options.heartbeat);
}

CAUSEWAY_LAZY std::vector<std::pair<net::peer_index, swarm_wire::tensor_announcement>>
basic_swarm_message_handler<Whole>::take_announcements() {
  if (std::exchange(announced_in_, my_.micro_batches.turn()) != my_.micro_batches.turn()) announced_.clear();
  std::vector<std::pair<net::peer_index, swarm_wire::tensor_announcement>> due;
  std::erase_if(announcements_, [&](const auto& p) {
    const auto& [link, what] = p;
    const bool now = what.turn == my_.micro_batches.turn() &&
                     my_.micro_batches.expects(my_.directory.at(link), what.micro_batch, what.backward != 0);
    if (now) due.push_back(p);
    return now || what.turn < my_.micro_batches.turn();
  });
  return due;
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::send_away(net::peer_index link, net::peer_id who,
                                                                 const std::string& why) {
  my_.log(severity::warning, "peer " + std::to_string(who) + " is sent away: " + why);
  my_.fabric->close(link, why);
}

CAUSEWAY_LAZY bool basic_swarm_message_handler<Whole>::differs_in_paths(const swarm_wire::status& s) const {
  return s.paths != my_.paths && (s.paths > 0 || s.serving != 0) && (my_.paths > 0 || my_.serving);
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::take(net::peer_index link, net::peer_id from,
                                                            const swarm_wire::status& s) {
  if (s.stage >= my_.options.stages) return;
  if (differs_in_paths(s))
    return send_away(link, from,
                     "it trains " + std::to_string(s.paths) + " paths, and this peer " + std::to_string(my_.paths));
  const bool fresh = !my_.directory.peers()[from].said;
  my_.directory.take(from, s, my_.fabric->now());
  if (fresh && from == my_.followed.id) {  // it took this peer for lost
    coordinator_.forget_what_was_given_away();
    coordinator_.send_report();
  }
  if (!my_.coordinates) return;
  if (s.serving != 0) {
    coordinator_.scheduler().serves(from, s, my_.last_round);
  } else {
    coordinator_.scheduler().gone(from);
  }
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::take(net::peer_index, net::peer_id from,
                                                            const swarm_wire::claim& c) {
  auto& said = my_.directory.peers()[from].said;
  if (!said) return;
  said->coordinates = 1;
  said->term = c.term;
  my_.directory.term(c.term);
  const auto before = my_.followed;
  coordinator_.elect();
  if (my_.followed.id == from && before.id == from && before.term == c.term) coordinator_.send_report();
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::take(net::peer_index link, net::peer_id from,
                                                            const swarm_wire::tensor_announcement& p) {
  if (p.turn < my_.micro_batches.turn()) return;
  const std::size_t most = announced_each * my_.options.most_micro_batches();
  if (++announced_[link] <= most && announcements_.size() < announced_in_all * most)
    return announcements_.emplace_back(link, p), void();
  send_away(link, from, "it announced more tensors than a turn has, " + std::to_string(most) + " at most");
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::take(net::peer_index, net::peer_id from, const swarm_wire::echo& e) {
  my_.directory.echoed(from, e.mark, my_.fabric->now());
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::take(net::peer_index, net::peer_id from,
                                                            const swarm_wire::verdict& v) {
  if (from == my_.followed.id) coordinator_.hear(v);
}

CAUSEWAY_LAZY void basic_swarm_message_handler<Whole>::take(net::peer_index, net::peer_id from,
                                                            const swarm_wire::move_request& m) {
  if (from == my_.followed.id && m.stage < my_.options.stages && m.stage != my_.options.stage)
    coordinator_.ask_to_move(m.stage);
}

#ifdef CAUSEWAY_COMPILED
template class basic_swarm_message_handler<void>;
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_MESSAGE_HANDLER_IPP
