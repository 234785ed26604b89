// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_TREE_RELAYS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_TREE_RELAYS_IPP

// Bodies of collective/tree_relays.hpp.

#include <causeway/collective/tree_relays.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

// --- queues --------------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void line_queues::open(const exchange_port& port) {
  if (lines_ != &port.transport || epoch_ != port.id.epoch) entries_.clear();
  lines_ = &port.transport;
  epoch_ = port.id.epoch;
}

CAUSEWAY_DECL void line_queues::note(net::peer_index to, net::operation sent, std::size_t messages) {
  entries_.push_back({to, sent, messages});
}

CAUSEWAY_DECL std::size_t line_queues::handed_over(net::peer_index to) {
  std::erase_if(entries_, [&](const entry& e) { return lines_->done(e.sent); });
  std::size_t messages = 0;
  for (const entry& e : entries_) messages += e.to == to ? e.messages : 0;
  return messages;
}

// --- the plan ------------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void tree_relays::follow(std::vector<double> costs) {
  costs_ = std::move(costs);
  parents_.clear();  // what was planned is out of date
}

/// Links in the order in which rows pass them: up, the deepest first; down, the root's. Of equally deep ones by index,
/// counted from the root.
CAUSEWAY_DECL void tree_relays::plan(const std::vector<net::peer_index>& parents) {
  parents_ = parents;
  const auto peers = static_cast<std::uint32_t>(parents.size());
  std::vector<std::uint32_t> depth(peers, 0);
  std::vector<net::peer_index> children;
  const net::peer_index root = root_of(parents);
  for (std::uint32_t i = 1; i < peers; ++i) {
    children.push_back((root + i) % peers);
    for (net::peer_index a = children.back(); a != root; a = parents[a]) ++depth[children.back()];
  }
  std::stable_sort(children.begin(), children.end(), [&](auto a, auto b) { return depth[a] < depth[b]; });
  starts_.clear();
  for (const tree_way way : {tree_way::down, tree_way::up}) {
    hops_[index(way)].clear();
    ranks_[index(way)].assign(peers, 0);
    if (way == tree_way::up) {
      std::stable_sort(children.begin(), children.end(), [&](auto a, auto b) { return depth[a] > depth[b]; });
    }
    for (std::uint32_t rank = 0; rank < children.size(); ++rank) plan_link(way, children[rank], rank);
  }
}

CAUSEWAY_DECL void tree_relays::plan_link(tree_way way, net::peer_index child, std::uint32_t rank) {
  ranks_[index(way)][child] = rank;
  const bool is_up = way == tree_way::up;
  const net::peer_index from = is_up ? child : parents_[child];
  const net::peer_index to = is_up ? parents_[child] : child;
  const link_costs links{costs_, static_cast<std::uint32_t>(parents_.size())};
  const double direct = costs_.empty() ? 1 : links(from, to);
  const double saved = (2.0 * options_.limit + 2) * direct;  // what a message that goes by a path would wait for, at least
  for (relay_path& path : relay_paths(links, from, to, most_paths_, saved)) {
    if (from == self_) starts_.push_back({way, child, path.front()});
    path.push_back(to);
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i] != self_) continue;
      hops_[index(way)].push_back({rank, child, i == 0 ? from : path[i - 1], i + 1 < path.size() ? path[i + 1] : self_});
    }
  }
}

// --- a conversation ------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void tree_relays::open(const exchange_port& port, const std::vector<net::peer_index>& parents,
                                     std::size_t row_bytes) {
  CAUSEWAY_EXPECT(options_.message_bytes > 0 && row_bytes > 0);
  CAUSEWAY_EXPECT(costs_.empty() || costs_.size() == parents.size() * parents.size());
  close();
  if (!queues_) queues_ = std::make_shared<line_queues>();
  queues_->open(port);
  const std::size_t most = options_.limit == 0 ? 0 : std::min<std::size_t>(messages(row_bytes) - 1, 8);
  if (self_ != port.transport.self() || most_paths_ != most || parents_ != parents) {
    self_ = port.transport.self();
    most_paths_ = most;
    plan(parents);
  }
  at_ = {};
  slot_bytes_ = (std::min((options_.limit + std::size_t{1}) * options_.message_bytes, row_bytes) + 63) / 64 * 64;
  if (memory_.size() < hop_count() * slot_bytes_) memory_ = aligned_buffer<std::byte>{hop_count() * slot_bytes_};
  talk_.open(port, 2 * hop_count() + starts_.size());
  for (const tree_way way : {tree_way::up, tree_way::down}) {
    for (std::size_t i = 0; i < hops_[index(way)].size(); ++i) {
      const hop& h = hops_[index(way)][i];
      talk_.receive(number(way, i), h.before, part_of(way, h.child), slot(number(way, i)));
    }
  }
}

CAUSEWAY_DECL std::span<const std::byte> tree_relays::push(tree_way way, net::peer_index to,
                                                           std::span<const std::byte> row) {
  const net::peer_index child = way == tree_way::up ? self_ : to;
  const auto is_ours = [&](const start& s) { return s.way == way && s.child == child; };
  const auto first = std::find_if(starts_.begin(), starts_.end(), is_ours);
  const auto last = std::find_if_not(first, starts_.end(), is_ours);
  if (first == last) return row;
  std::vector<std::size_t> handed_over{queues_->handed_over(to)};
  for (auto s = first; s != last; ++s) handed_over.push_back(queues_->handed_over(s->first));
  const auto counts = messages_by_path(messages(row.size()), options_.limit, std::move(handed_over));
  std::size_t at = std::min(counts[0] * options_.message_bytes, row.size());
  const std::span<const std::byte> direct = row.first(at);
  for (auto s = first; s != last; ++s) {
    const std::size_t by_it = counts[static_cast<std::size_t>(s - first) + 1];
    const std::span<const std::byte> bytes = row.subspan(at, std::min(by_it * options_.message_bytes, row.size() - at));
    const std::size_t place = 2 * hop_count() + static_cast<std::size_t>(s - starts_.begin());
    note(s->first, talk_.send(place, s->first, part_of(way, child), bytes), bytes.size());
    at += bytes.size();
  }
  return direct;
}

CAUSEWAY_DECL void tree_relays::note(net::peer_index to, net::operation sent, std::size_t bytes) {
  if (options_.limit > 0 && bytes > 0) queues_->note(to, sent, messages(bytes));
}

CAUSEWAY_DECL result<std::span<const std::byte>> tree_relays::take_next(tree_way way, time_point deadline) {
  const std::size_t i = number(way, at_[index(way)]);
  const hop& h = hops_[index(way)][at_[index(way)]++];
  CAUSEWAY_ASSIGN(const std::size_t moved, talk_.wait(i, h.before, deadline));
  const std::span<const std::byte> bytes = slot(i).first(moved);
  if (h.next == self_) return bytes;
  note(h.next, talk_.send(hop_count() + i, h.next, part_of(way, h.child), bytes), moved);
  return std::span<const std::byte>{};
}

CAUSEWAY_DECL result<void> tree_relays::pass_on_before(tree_way way, net::peer_index child, time_point deadline) {
  const std::vector<hop>& hops = hops_[index(way)];
  const std::uint32_t end = ranks_[index(way)][child];
  while (at_[index(way)] < hops.size() && hops[at_[index(way)]].rank < end) CAUSEWAY_TRY(take_next(way, deadline));
  return {};
}

CAUSEWAY_DECL result<std::size_t> tree_relays::collect(tree_way way, net::peer_index child, std::span<std::byte> room,
                                                       std::size_t got, time_point deadline) {
  const std::vector<hop>& hops = hops_[index(way)];
  const std::uint32_t rank = ranks_[index(way)][child];
  bool fits = true;
  while (at_[index(way)] < hops.size() && hops[at_[index(way)]].rank == rank) {
    CAUSEWAY_ASSIGN(const std::span<const std::byte> bytes, take_next(way, deadline));
    fits = fits && bytes.size() <= room.size() - got;
    if (!fits) continue;
    std::copy(bytes.begin(), bytes.end(), room.begin() + static_cast<std::ptrdiff_t>(got));
    got += bytes.size();
  }
  return fits ? got : 0;
}

CAUSEWAY_DECL result<void> tree_relays::pass_on(tree_way way, time_point deadline) {
  while (at_[index(way)] < hops_[index(way)].size()) CAUSEWAY_TRY(take_next(way, deadline));
  return {};
}

CAUSEWAY_DECL result<void> tree_relays::finish(time_point deadline) {
  for (const tree_way way : {tree_way::up, tree_way::down}) {
    for (std::size_t i = 0; i < hops_[index(way)].size(); ++i) {
      const hop& h = hops_[index(way)][i];
      if (h.next != self_) CAUSEWAY_TRY(talk_.finish(hop_count() + number(way, i), h.next, deadline));
    }
  }
  for (std::size_t s = 0; s < starts_.size(); ++s) {
    CAUSEWAY_TRY(talk_.finish(2 * hop_count() + s, starts_[s].first, deadline));
  }
  close();
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_TREE_RELAYS_IPP
