// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_ROUTING_IPP
#define CAUSEWAY_STAGE_IMPL_ROUTING_IPP

#include <causeway/stage/routing.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

CAUSEWAY_DECL roster::roster(std::uint32_t stages, double smoothing) : stages_(stages), smoothing_{smoothing} {
  CAUSEWAY_EXPECT(stages > 0 && smoothing > 0 && smoothing <= 1);
}

CAUSEWAY_DECL void roster::link(net::peer_id a, net::peer_id b, double seconds) { delays_[ordered(a, b)] = seconds; }

CAUSEWAY_DECL std::pair<net::peer_id, net::peer_id> roster::ordered(net::peer_id a, net::peer_id b) {
  return std::minmax(a, b);
}

CAUSEWAY_DECL void roster::announced(net::peer_id id, std::uint32_t stage) {
  CAUSEWAY_EXPECT(id != nobody && stage < stages());
  for (std::uint32_t s = 0; s < stages(); ++s) {
    if (s != stage) erase(s, id);
  }
  auto& all = stages_[stage];
  const auto place = std::lower_bound(all.begin(), all.end(), id, before);
  if (place != all.end() && place->id == id) {
    place->banned = false;
  } else {
    all.insert(place, {id, 0, false});
  }
}

CAUSEWAY_DECL void roster::gone(net::peer_id id) {
  for (std::uint32_t s = 0; s < stages(); ++s) erase(s, id);
  std::erase_if(delays_, [id](const auto& d) { return d.first.first == id || d.first.second == id; });
}

CAUSEWAY_DECL void roster::ban(net::peer_id id) {
  if (server* s = find(id)) s->banned = true;
}

CAUSEWAY_DECL void roster::measured(net::peer_id id, double seconds) {
  server* const s = find(id);
  if (s == nullptr || !(seconds > 0)) return;
  s->seconds = s->seconds > 0 ? (1 - smoothing_) * s->seconds + smoothing_ * seconds : seconds;
}

CAUSEWAY_DECL double roster::link(net::peer_id a, net::peer_id b) const {
  const auto known = delays_.find(ordered(a, b));
  return known == delays_.end() ? 0.0 : known->second;
}

CAUSEWAY_DECL std::vector<server> roster::usable(std::uint32_t stage) const {
  std::vector<server> all;
  for (const server& s : stages_[stage]) {
    if (!s.banned) all.push_back(s);
  }
  return all;
}

CAUSEWAY_DECL double roster::expected_seconds(std::uint32_t stage, net::peer_id id) const {
  double sum = 0, known = 0;
  for (const server& s : stages_[stage]) {
    if (s.id == id && s.seconds > 0) return s.seconds;
    sum += s.seconds;
    known += s.seconds > 0 ? 1 : 0;
  }
  return known > 0 ? sum / known : 1.0;
}

CAUSEWAY_DECL void roster::erase(std::uint32_t stage, net::peer_id id) {
  std::erase_if(stages_[stage], [id](const server& s) { return s.id == id; });
}

CAUSEWAY_DECL server* roster::find(net::peer_id id) {
  for (auto& all : stages_) {
    for (server& s : all) {
      if (s.id == id) return &s;
    }
  }
  return nullptr;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#endif  // CAUSEWAY_STAGE_IMPL_ROUTING_IPP
