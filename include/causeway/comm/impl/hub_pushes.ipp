// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_HUB_PUSHES_IPP
#define CAUSEWAY_COMM_IMPL_HUB_PUSHES_IPP

#include <causeway/comm/hub_pushes.hpp>

#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL void hub_pushes::cut(std::size_t fragments) {
  waiting.resize(fragments);
  owed.resize(fragments);
}

CAUSEWAY_DECL void hub_pushes::restarted(time_point now) {
  for (auto& all : waiting) {
    for (waiting_push& w : all) w.since = now;
  }
  for (auto& all : owed) {
    for (owed_answer& o : all) o.since = now;
  }
}

CAUSEWAY_DECL result<void> hub_pushes::room_for(std::uint32_t c, std::size_t f, net::peer_index peer) const {
  const auto of_client = [c](const waiting_push& w) { return w.client == c; };
  if (std::count_if(waiting[f].begin(), waiting[f].end(), of_client) < most_waiting) return {};
  return fail(errc::too_large, "peer " + std::to_string(peer),
              "it goes on pushing while " + std::to_string(most_waiting) +
                  " of its pushes wait; a client waits for the answer to one before it makes the next");
}

CAUSEWAY_DECL void hub_pushes::owe(const waiting_push& w, std::size_t f) {
  if (w.wants_answer != 0) owed[f].push_back({w.client, w.number, w.since, w.unsound});
}

CAUSEWAY_DECL bool hub_pushes::catch_up(std::uint32_t c, std::size_t f, const hello_entry& said) {
  bool will_be_answered = false;
  for (waiting_push& w : waiting[f]) {
    if (w.client != c) continue;
    w.wants_answer = said.pending != 0 && w.number == said.number ? 1 : 0;  // it does not know of others any more
    will_be_answered = will_be_answered || w.wants_answer != 0;
  }
  std::erase_if(owed[f], [&](const owed_answer& o) {
    const bool expected = said.pending != 0 && o.number == said.number;
    if (o.client == c) will_be_answered = will_be_answered || expected;
    return o.client == c && !expected;
  });
  return will_be_answered;
}

CAUSEWAY_DECL bool hub_pushes::concern(std::uint32_t c, std::size_t f) const {
  const auto of_client = [c](const auto& w) { return w.client == c; };
  return std::any_of(waiting[f].begin(), waiting[f].end(), of_client) ||
         std::any_of(owed[f].begin(), owed[f].end(), of_client);
}

CAUSEWAY_DECL bool hub_pushes::are_applied() const {
  return std::all_of(waiting.begin(), waiting.end(), [](const auto& all) { return all.empty(); });
}

CAUSEWAY_DECL std::size_t hub_pushes::expected_of(const hub_clients& clients, std::size_t f) const {
  const auto is_among = [](const auto& all, std::uint32_t c) {
    return std::any_of(all.begin(), all.end(), [c](const auto& w) { return w.client == c; });
  };
  std::size_t count = 0;
  for (std::uint32_t c = 0; c < clients.size(); ++c) {
    const hub_client& client = clients[c];
    const bool may_push = client.here && !client.done && !client.waits && !is_among(owed[f], c);
    count += is_among(waiting[f], c) || may_push ? 1U : 0U;
  }
  return count;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_HUB_PUSHES_IPP
