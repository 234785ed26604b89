// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_TREE_RELAYS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_TREE_RELAYS_IPP

#include <causeway/collective/tree_relays.hpp>

#include <algorithm>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

// --- queues --------------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL void line_queues::open(const exchange_port& port) {
  if (lines_ != &port.transport || epoch_ != port.id.epoch) entries_.clear();
  if (lines_ != &port.transport) relays_.clear();
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

CAUSEWAY_DECL void tree_relays::plan(const std::vector<net::peer_index>& parents) {
  parents_ = parents;
  hops_.clear();
  starts_.clear();
  for (net::peer_index child = 0; child < parents.size(); ++child) {
    if (parents[child] == child) continue;
    plan_link(tree_way::up, child);
    plan_link(tree_way::down, child);
  }
}

CAUSEWAY_DECL void tree_relays::plan_link(tree_way way, net::peer_index child) {
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
      hops_.push_back({way, child, i == 0 ? from : path[i - 1], i + 1 < path.size() ? path[i + 1] : self_});
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
  slot_bytes_ = (std::min((options_.limit + std::size_t{1}) * options_.message_bytes, row_bytes) + 63) / 64 * 64;
  if (memory_.size() < hops_.size() * slot_bytes_) memory_ = aligned_buffer<std::byte>{hops_.size() * slot_bytes_};
  passed_on_ = {};
  queues_->relays().push_back(this);
  talk_.open(port, 2 * hops_.size() + starts_.size());
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    talk_.receive(i, hops_[i].before, part_of(hops_[i].way, hops_[i].child), slot(i));
  }
}

CAUSEWAY_DECL void tree_relays::close() {
  if (queues_) std::erase(queues_->relays(), this);
  talk_.close();
}

CAUSEWAY_DECL std::span<const std::byte> tree_relays::push(tree_way way, net::peer_index to,
                                                           std::span<const std::byte> row) {
  if (!passed_on_) return row;  // it ended while another exchange waited; `wait` says so
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
    const std::size_t place = 2 * hops_.size() + static_cast<std::size_t>(s - starts_.begin());
    note(s->first, talk_.send(place, s->first, part_of(way, child), bytes), bytes.size());
    at += bytes.size();
  }
  return direct;
}

CAUSEWAY_DECL void tree_relays::note(net::peer_index to, net::operation sent, std::size_t bytes) {
  if (options_.limit > 0 && bytes > 0) queues_->note(to, sent, messages(bytes));
}

CAUSEWAY_DECL void tree_relays::pass_on_what_came() {
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    if (!waits_for(i) || !talk_.done(i)) continue;
    const hop& h = hops_[i];
    const auto moved = talk_.wait(i, h.before, time_point{});
    if (!moved) {
      passed_on_ = moved.error();
      return;
    }
    note(h.next, talk_.send(hops_.size() + i, h.next, part_of(h.way, h.child), slot(i).first(*moved)), *moved);
  }
}

CAUSEWAY_DECL result<void> tree_relays::until(conversation& talk, std::size_t place, time_point deadline) {
  for (;;) {
    const bool is_there = talk.done(place);  // asked first: what comes meanwhile may be for others, and is passed on below
    awaited_.clear();
    for (tree_relays* const r : queues_->relays()) {
      r->pass_on_what_came();
      for (std::size_t i = 0; i < r->hops_.size(); ++i) {
        if (r->waits_for(i)) awaited_.push_back(r->talk_.at(i));
      }
    }
    CAUSEWAY_TRY(passed_on_);
    if (is_there || talk.at(place) == 0) return {};  // or it was one of these
    awaited_.push_back(talk.at(place));
    if (!talk.wait_any(awaited_, deadline)) return {};
  }
}

CAUSEWAY_DECL result<std::size_t> tree_relays::wait(conversation& talk, std::size_t place, net::peer_index peer,
                                                    time_point deadline) {
  CAUSEWAY_TRY(until(talk, place, deadline));
  return talk.wait(place, peer, deadline);
}

CAUSEWAY_DECL result<std::size_t> tree_relays::collect(tree_way way, net::peer_index child, std::span<std::byte> room,
                                                       std::size_t got, time_point deadline) {
  bool fits = true;
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    const hop& h = hops_[i];
    if (h.way != way || h.child != child || h.next != self_) continue;
    CAUSEWAY_ASSIGN(const std::size_t moved, wait(talk_, i, h.before, deadline));
    fits = fits && moved <= room.size() - got;
    if (!fits) continue;
    std::copy_n(slot(i).begin(), moved, room.begin() + static_cast<std::ptrdiff_t>(got));
    got += moved;
  }
  return fits ? got : 0;
}

CAUSEWAY_DECL result<void> tree_relays::pass_on(tree_way way, time_point deadline) {
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    if (hops_[i].way != way || !waits_for(i)) continue;
    CAUSEWAY_TRY(until(talk_, i, deadline));
    if (waits_for(i)) CAUSEWAY_TRY(talk_.finish(i, hops_[i].before, deadline));  // it did not come
  }
  return {};
}

CAUSEWAY_DECL result<void> tree_relays::finish(time_point deadline) {
  CAUSEWAY_TRY(passed_on_);
  for (std::size_t i = 0; i < hops_.size(); ++i) CAUSEWAY_TRY(talk_.finish(hops_.size() + i, hops_[i].next, deadline));
  for (std::size_t s = 0; s < starts_.size(); ++s) {
    CAUSEWAY_TRY(talk_.finish(2 * hops_.size() + s, starts_[s].first, deadline));
  }
  close();
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_TREE_RELAYS_IPP
