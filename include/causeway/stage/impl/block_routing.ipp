// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_BLOCK_ROUTING_IPP
#define CAUSEWAY_STAGE_IMPL_BLOCK_ROUTING_IPP

#include <causeway/stage/block_routing.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL span_directory::span_directory(std::int64_t layers, const span_directory_options& options)
    : layers_{layers}, options_{options} {
  CAUSEWAY_EXPECT(layers > 0 && options.smoothing > 0 && options.smoothing <= 1);
}

CAUSEWAY_DECL std::size_t span_directory::size() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(servers_.begin(), servers_.end(), [](const auto& one) { return one.second.offer.blocks.size() > 0; }));
}

CAUSEWAY_DECL void span_directory::announced(net::peer_id id, const span_offer& offer, time_point until) {
  CAUSEWAY_EXPECT(offer.blocks.first >= 0 && offer.blocks.size() > 0 && offer.blocks.last <= layers_);
  server& s = servers_[id];
  s.offer = offer;
  s.until = until;
  s.wire *= forgetting;
}

CAUSEWAY_DECL void span_directory::gone(net::peer_id id) {
  if (server* const s = find(id)) withdraw(*s);
}

CAUSEWAY_DECL void span_directory::expire(time_point now) {
  for (auto& [id, s] : servers_) {
    if (s.until <= now) withdraw(s);
  }
  std::erase_if(servers_, [&](const auto& one) {
    return one.second.until <= now && one.second.banned_until + options_.longest_ban <= now;
  });
}

CAUSEWAY_DECL void span_directory::probed(net::peer_id id, double seconds) {
  if (server* const s = find(id)) s->trip = s->trip > 0 ? mixed(s->trip, seconds) : seconds;
}

CAUSEWAY_DECL void span_directory::asked(net::peer_id id, double work) {
  if (server* const s = find(id)) s->waiting.push_back(work);
}

CAUSEWAY_DECL void span_directory::dropped(net::peer_id id, double work) {
  if (server* const s = find(id)) done(*s, work);
}

CAUSEWAY_DECL bool span_directory::full(net::peer_id id) const {
  const auto found = servers_.find(id);
  return found != servers_.end() && found->second.waiting.size() >= found->second.offer.most_requests;
}

CAUSEWAY_DECL void span_directory::answered(net::peer_id id, double work, double rows, double seconds) {
  server* const s = find(id);
  if (s == nullptr) return;
  done(*s, work);
  s->failures = 0;
  const double beyond = std::max(0.0, seconds - s->trip - s->offer.load - work * s->offer.seconds) / rows;
  s->wire = mixed(s->wire, beyond);
}

CAUSEWAY_DECL void span_directory::failed(net::peer_id id, double work, time_point now) {
  server& s = servers_[id];
  done(s, work);
  if (s.banned_until > now) return;
  const std::uint32_t doublings = std::min(s.failures++, 20U);
  s.banned_until = now + std::min(options_.longest_ban, options_.ban * (std::int64_t{1} << doublings));
}

CAUSEWAY_DECL time_point span_directory::next_return(time_point now) const {
  time_point first = no_deadline;
  for (const auto& [id, s] : servers_) {
    if (s.banned_until > now) first = std::min(first, s.banned_until);
  }
  return first;
}

CAUSEWAY_DECL span_chain span_directory::route(nn::block_range blocks, const span_need& need, time_point now) const {
  CAUSEWAY_EXPECT(blocks.first >= 0 && blocks.size() > 0 && blocks.last <= layers_);
  std::vector<place> best(static_cast<std::size_t>(blocks.size()) + 1);
  best.back() = {0, {}};
  const double usual = usual_trip();
  for (std::int64_t from = blocks.last - 1; from >= blocks.first; --from) {
    place& here = best[static_cast<std::size_t>(from - blocks.first)];
    for (const auto& [id, s] : servers_) {
      if (!usable(s, now) || s.offer.blocks.first > from) continue;
      for (std::int64_t to = std::min(s.offer.blocks.last, blocks.last); to > from; --to) {
        if (need.rows + need.tuned * (to - from) > s.offer.most_rows) continue;
        const double cost =
            cost_of(s, usual, need.rows, to - from) + best[static_cast<std::size_t>(to - blocks.first)].cost;
        if (cost < here.cost) here = {cost, {id, {from, to}}};
      }
    }
  }
  span_chain chain;
  for (std::int64_t at = blocks.first; at < blocks.last; at = chain.back().blocks.last) {
    const place& here = best[static_cast<std::size_t>(at - blocks.first)];
    if (here.cost == unreachable) return {};
    chain.push_back(here.hop);
  }
  return chain;
}

CAUSEWAY_DECL std::int64_t span_directory::first_missing(nn::block_range blocks, time_point now) const {
  for (std::int64_t b = blocks.first; b < blocks.last; ++b) {
    const bool there = std::any_of(servers_.begin(), servers_.end(), [&](const auto& one) {
      return one.second.banned_until <= now && one.second.offer.blocks.contains(b);
    });
    if (!there) return b;
  }
  return blocks.last;
}

CAUSEWAY_DECL auto span_directory::find(net::peer_id id) -> server* {
  const auto found = servers_.find(id);
  return found == servers_.end() ? nullptr : &found->second;
}

CAUSEWAY_DECL double span_directory::mixed(double old, double fresh) const {
  return (1 - options_.smoothing) * old + options_.smoothing * fresh;
}

CAUSEWAY_DECL double span_directory::usual_trip() const {
  double sum = 0, known = 0;
  for (const auto& [id, s] : servers_) {
    sum += s.trip;
    known += s.trip > 0 ? 1 : 0;
  }
  return known > 0 ? sum / known : 0.0;
}

CAUSEWAY_DECL void span_directory::withdraw(server& s) {
  s.offer = {};
  s.until = {};
  s.waiting.clear();
}

CAUSEWAY_DECL void span_directory::done(server& s, double work) {
  const auto found = std::find(s.waiting.begin(), s.waiting.end(), work);
  if (found != s.waiting.end()) s.waiting.erase(found);
}

CAUSEWAY_DECL bool span_directory::usable(const server& s, time_point now) {
  return s.banned_until <= now && s.waiting.size() < s.offer.most_requests;
}

CAUSEWAY_DECL double span_directory::cost_of(const server& s, double usual_trip, std::int64_t rows, std::int64_t blocks) {
  const double trip = s.trip > 0 ? s.trip : usual_trip;
  double before = s.offer.load;
  for (const double work : s.waiting) before += work * s.offer.seconds;
  const auto r = static_cast<double>(rows);
  return before + 2 * (trip + r * s.wire) + 3 * r * static_cast<double>(blocks) * s.offer.seconds;
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_BLOCK_ROUTING_IPP
