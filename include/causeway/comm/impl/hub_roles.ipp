// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_HUB_ROLES_IPP
#define CAUSEWAY_COMM_IMPL_HUB_ROLES_IPP

#include <causeway/comm/hub_roles.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL chosen_hub choose_hub(std::span<const hub_claim> claims, std::uint64_t fresh) {
  std::uint64_t newest = 0;
  for (const hub_claim& c : claims) newest = c.follows <= fresh ? std::max(newest, c.follows) : newest;
  for (net::peer_index p = 0; p < claims.size(); ++p) {
    if (newest != 0 && claims[p].serves == newest) return {p, newest};
  }
  return {0, fresh};
}

CAUSEWAY_DECL std::vector<std::size_t> place_in_regions(std::span<const hub_claim> claims, std::size_t count) {
  std::vector<std::size_t> placed, peers(count);
  for (const hub_claim& c : claims) {
    placed.push_back(static_cast<std::size_t>(std::min<std::uint64_t>(c.region, count)));
    if (placed.back() < count) ++peers[placed.back()];
  }
  for (std::size_t& region : placed) {
    if (region < count) continue;
    region = static_cast<std::size_t>(std::min_element(peers.begin(), peers.end()) - peers.begin());
    ++peers[region];
  }
  return placed;
}

/// Names the hubs but those whose time is `except`.
CAUSEWAY_DECL std::uint64_t name_of_hubs(std::span<const chosen_hub> hubs, std::span<const std::uint64_t> names,
                                         std::uint64_t except) {
  std::uint64_t name = 0;
  for (std::size_t r = 0; r < hubs.size(); ++r) {
    if (hubs[r].time != 0 && hubs[r].time != except) name = mix(mix(name, names[hubs[r].peer], hubs[r].time), r);
  }
  return name;
}

/// The hub of hubs, if it can go on: see hub_roles::top.
CAUSEWAY_DECL chosen_hub choose_top(std::span<const hub_claim> claims, std::span<const chosen_hub> hubs,
                                    std::uint64_t known, std::uint64_t fresh) {
  std::uint64_t newest = 0;
  for (const hub_claim& c : claims) newest = c.follows_hubs <= fresh ? std::max(newest, c.follows_hubs) : newest;
  const auto first = std::find_if(hubs.begin(), hubs.end(), [](const chosen_hub& h) { return h.time != 0; });
  for (const chosen_hub& h : hubs) {
    if (h.time == 0 || h.time == fresh || newest == 0) continue;
    const hub_claim& c = claims[h.peer];
    if (c.serves_hubs == newest && c.hubs == known) return {h.peer, newest};
  }
  return {first == hubs.end() ? 0 : first->peer, fresh};
}

/// Whether none of those is missing whom the hubs that go on need, in whatever region, and none has begun anew.
CAUSEWAY_DECL bool are_whole(std::span<const hub_claim> claims, const hub_roles& roles, std::uint64_t fresh) {
  std::uint64_t wanted = 0, there = 0;
  for (net::peer_index p = 0; p < claims.size(); ++p) {
    const chosen_hub& hub = roles.regions[roles.region_of[p]];
    if (hub.time != fresh && claims[p].follows == hub.time) ++there;
    if (hub.time != fresh && hub.peer == p) wanted = std::max(wanted, claims[p].clients);
  }
  return there >= wanted;
}

CAUSEWAY_DECL hub_roles hub_roles::of(std::span<const hub_claim> claims, std::span<const std::uint64_t> names,
                                      std::size_t regions, std::uint64_t attempt) {
  hub_roles all{.region_of = place_in_regions(claims, regions), .regions = std::vector<chosen_hub>(regions), .top = {}};
  for (std::size_t r = 0; r < regions; ++r) {
    std::vector<hub_claim> said;
    std::vector<net::peer_index> peers;
    for (net::peer_index p = 0; p < claims.size(); ++p) {
      if (all.region_of[p] != r) continue;
      said.push_back(claims[p]);
      peers.push_back(p);
    }
    if (said.empty()) continue;
    const chosen_hub hub = choose_hub(said, attempt);
    all.regions[r] = {peers[hub.peer], hub.time};
  }
  if (!are_whole(claims, all, attempt)) {  // then nobody has pushed to any hub
    std::vector<hub_claim> anew(claims.size());
    for (std::size_t p = 0; p < anew.size(); ++p) anew[p].region = claims[p].region;
    return of(anew, names, regions, attempt);
  }
  all.top = choose_top(claims, all.regions, name_of_hubs(all.regions, names, attempt), attempt);
  all.hubs = name_of_hubs(all.regions, names, 0);
  return all;
}

CAUSEWAY_DECL void hub_roles::begin(std::uint64_t time, std::span<const std::uint64_t> names) {
  for (chosen_hub& h : regions) {
    if (h.time != 0) h.time = time;
  }
  top.time = time;
  hubs = name_of_hubs(regions, names, 0);
}

CAUSEWAY_DECL std::vector<hub_group> hub_roles::groups_of(net::peer_index peer,
                                                          std::span<const std::uint64_t> names) const {
  const std::size_t region = region_of[peer];
  hub_group own{.hub = regions[region].peer, .peers = {}, .names = {}}, above{.hub = top.peer, .peers = {}, .names = {}};
  const auto add = [&](hub_group& group, net::peer_index p) {
    group.peers.push_back(p);
    group.names.push_back(names[p]);
  };
  for (net::peer_index p = 0; p < region_of.size(); ++p) {
    if (region_of[p] == region) add(own, p);
    if (regions[region_of[p]].peer == p) add(above, p);
  }
  return {own, above};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_HUB_ROLES_IPP
