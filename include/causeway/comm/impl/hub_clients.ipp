// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_HUB_CLIENTS_IPP
#define CAUSEWAY_COMM_IMPL_HUB_CLIENTS_IPP

#include <causeway/comm/hub_clients.hpp>

#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL std::uint32_t hub_clients::index_of(net::peer_index peer) const {
  return static_cast<std::uint32_t>(std::find(peers_.begin(), peers_.end(), peer) - peers_.begin());
}

CAUSEWAY_DECL net::peer_index hub_clients::somebody(net::peer_index self) const {
  for (std::uint32_t c = 0; c < clients_.size(); ++c) {
    if (listens_to(c)) return peers_[c];
  }
  return self;
}

CAUSEWAY_DECL void hub_clients::found(std::size_t clients, std::size_t fragments) {
  for (std::size_t c = 0; c < clients; ++c) clients_.push_back(newcomer(fragments));
}

CAUSEWAY_DECL void hub_clients::open(const hub_terms& terms, std::uint32_t level, std::span<const net::peer_index> group,
                                     std::size_t most_bytes) {
  peers_.assign(group.begin(), group.end());
  connect(terms, level, most_bytes);
}

CAUSEWAY_DECL void hub_clients::regroup(const hub_terms& terms, std::uint32_t level, const hub_group& group,
                                        std::size_t fragments, std::size_t most_bytes) {
  std::vector<hub_client> before = std::exchange(clients_, {});
  peers_ = group.peers;
  for (const std::uint64_t name : group.names) {
    const auto known = std::find_if(before.begin(), before.end(), [&](const auto& b) { return b.name == name; });
    clients_.push_back(known == before.end() ? newcomer(fragments) : std::move(*known));
    clients_.back().name = name;
    clients_.back().here = true;
    clients_.back().done = clients_.back().waits = false;
  }
  own_answers_.clear();
  connect(terms, level, most_bytes);
}

CAUSEWAY_DECL void hub_clients::hang_up() {
  for (hub_client& c : clients_) c.line.reset();
}

CAUSEWAY_DECL void hub_clients::reply(std::uint32_t c, std::vector<std::byte> bytes) {
  if (clients_[c].line) {
    clients_[c].line->send(std::move(bytes));
  } else {
    own_answers_.push_back(std::move(bytes));
  }
}

CAUSEWAY_DECL void hub_clients::tell_taken(std::uint32_t c) {
  const std::vector<std::uint64_t>& taken = clients_[c].taken;
  const answer_header h{.word = hub_word::hello, .fragment = static_cast<std::uint32_t>(taken.size())};
  auto bytes = with_header(h, taken.size() * sizeof(std::uint64_t));
  std::memcpy(bytes.data() + sizeof h, taken.data(), taken.size() * sizeof(std::uint64_t));
  clients_[c].line->send(std::move(bytes));
}

CAUSEWAY_DECL void hub_clients::tell_taken() {
  for (std::uint32_t c = 0; c < clients_.size(); ++c) {
    if (clients_[c].line) tell_taken(c);
  }
}

CAUSEWAY_DECL void hub_clients::dismiss(const hub_terms& terms, std::span<const float> shared) {
  for (std::uint32_t c = 0; c < clients_.size(); ++c) {
    if (!listens_to(c)) continue;
    auto bytes = with_header(answer_header{.word = hub_word::last}, shared.size() * sizeof(float));
    std::memcpy(bytes.data() + sizeof(answer_header), shared.data(), shared.size() * sizeof(float));
    clients_[c].line->send(std::move(bytes));
  }
  for (std::uint32_t c = 0; c < clients_.size(); ++c) {
    if (!listens_to(c)) continue;
    if (const auto sent = clients_[c].line->flush(terms.deadline); !sent) lose(terms, c, sent.error());
  }
}

CAUSEWAY_DECL void hub_clients::lose(const hub_terms& terms, std::uint32_t c, const error& why) {
  clients_[c].here = false;
  terms.log(severity::warning,
            "async_parameter_server: going on without peer " + std::to_string(peers_[c]) + ": " + why.text());
}

CAUSEWAY_DECL void hub_clients::refuse(const hub_terms& terms, std::uint32_t c, const error& why) {
  lose(terms, c, why);
  reply(c, with_header(answer_header{.word = hub_word::refused, .code = static_cast<std::uint32_t>(why.code)}, 0));
}

CAUSEWAY_DECL bool hub_clients::are_through() const {
  return std::all_of(clients_.begin(), clients_.end(), [](const hub_client& c) { return c.done || !c.here; });
}

CAUSEWAY_DECL std::uint64_t hub_clients::slowest(std::size_t f) const {
  auto least = std::numeric_limits<std::uint64_t>::max();
  for (const hub_client& c : clients_) {
    if (c.here && !c.done) least = std::min(least, c.taken[f]);
  }
  return least;
}

CAUSEWAY_DECL std::vector<double> hub_clients::speeds() const {
  std::vector<double> all;
  for (const hub_client& c : clients_) {
    if (c.here && !c.done) all.push_back(c.speed);
  }
  return all;
}

CAUSEWAY_DECL float hub_clients::share_of(std::size_t f, std::span<const waiting_push> batch) const {
  double arrived = 0, absent = 0, pushes = 0, unknown = 0, here = 0;
  for (std::uint32_t c = 0; c < clients_.size(); ++c) {
    const bool counts = std::any_of(batch.begin(), batch.end(), [c](const auto& w) { return w.client == c && !w.unsound; });
    if (!clients_[c].here && !counts) continue;  // what a lost client had pushed before is a part of the round still
    ++here;
    const auto samples = static_cast<double>(clients_[c].samples[f]);
    if (counts) {
      arrived += samples;
      ++pushes;
    } else {
      absent += samples;
      unknown += samples == 0 && !clients_[c].done ? 1 : 0;
    }
  }
  if (arrived == 0) return here == 0 ? 1.0F : static_cast<float>(pushes / here);
  return static_cast<float>(arrived / (arrived + absent + unknown * arrived / pushes));
}

CAUSEWAY_DECL double hub_clients::slack_of(double merge_steps, std::span<const waiting_push> batch) const {
  double least = std::numeric_limits<double>::infinity();
  for (const waiting_push& w : batch) {
    const hub_client& c = clients_[w.client];
    least = std::min(least, c.speed > 0 ? merge_steps / c.speed - c.sync_seconds : 0.0);
  }
  return least;
}

CAUSEWAY_DECL hub_client hub_clients::newcomer(std::size_t fragments) {
  const std::vector<std::uint64_t> none(fragments);
  return {.taken = none, .samples = none};
}

CAUSEWAY_DECL void hub_clients::connect(const hub_terms& terms, std::uint32_t level, std::size_t most_bytes) {
  const std::size_t most = std::max(most_bytes, hello_bytes(terms.cuts.size()));
  for (std::size_t c = 0; c < clients_.size(); ++c) {
    if (peers_[c] == terms.transport.self()) continue;
    clients_[c].line =
        std::make_unique<hub_line>(terms.transport, peers_[c], hub_channel(level) + 1, hub_channel(level), most);
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_HUB_CLIENTS_IPP
