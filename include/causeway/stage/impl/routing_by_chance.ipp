// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_ROUTING_BY_CHANCE_IPP
#define CAUSEWAY_STAGE_IMPL_ROUTING_BY_CHANCE_IPP

#include <causeway/stage/routing_by_chance.hpp>

#include <algorithm>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

CAUSEWAY_DECL least_load::least_load(least_load_options options) : options_{options}, random_{options.seed, 0x6C6F6164} {}

CAUSEWAY_DECL net::peer_id least_load::choose(const roster& known, std::uint32_t stage, std::uint32_t) {
  const auto peers = known.usable(stage);
  if (peers.empty()) return nobody;
  admit(stage, known);
  take_unit(stage, known);
  std::map<net::peer_id, double>& load = loads_[stage];
  double least = std::numeric_limits<double>::infinity();
  for (const server& s : peers) least = std::min(least, load[s.id]);
  std::vector<net::peer_id> tied;
  for (const server& s : peers) {
    if (load[s.id] <= least) tied.push_back(s.id);
  }
  const net::peer_id chosen = tied.size() == 1 ? tied[0] : tied[static_cast<std::size_t>(random_.below(tied.size()))];
  load[chosen] += known.expected_seconds(stage, chosen);
  return chosen;
}

CAUSEWAY_DECL double least_load::load(std::uint32_t stage, net::peer_id id) const {
  const auto at = loads_.find(stage);
  if (at == loads_.end() || !at->second.contains(id)) return 0;
  return at->second.at(id);
}

CAUSEWAY_DECL void least_load::admit(std::uint32_t stage, const roster& known) {
  std::map<net::peer_id, double>& load = loads_[stage];
  const auto all = known.at(stage);
  std::erase_if(load, [&](const auto& l) {
    return std::none_of(all.begin(), all.end(), [&](const server& s) { return s.id == l.first; });
  });
  double enter = 0;
  bool first = true;
  for (const auto& [id, l] : load) {
    enter = first ? l : options_.newcomers == entry::at_minimum ? std::min(enter, l) : std::max(enter, l);
    first = false;
  }
  for (const server& s : all) load.try_emplace(s.id, enter);
}

CAUSEWAY_DECL void least_load::take_unit(std::uint32_t stage, const roster& known) {
  const auto all = known.at(stage);
  const bool is_known = std::any_of(all.begin(), all.end(), [](const server& s) { return s.seconds > 0; });
  if (std::exchange(in_seconds_[stage], is_known) || !is_known) return;
  for (auto& [id, load] : loads_[stage]) load *= known.expected_seconds(stage, nobody);
}

CAUSEWAY_DECL net::peer_id random::choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch) {
  const auto peers = known.usable(stage);
  if (peers.empty()) return nobody;
  rng draw{options_.seed, mix(step_, mix(stage, micro_batch), choices_++)};
  return peers[static_cast<std::size_t>(draw.below(peers.size()))].id;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#endif  // CAUSEWAY_STAGE_IMPL_ROUTING_BY_CHANCE_IPP
