// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_TEMPLATE_REACTION_IPP
#define CAUSEWAY_PLAN_IMPL_TEMPLATE_REACTION_IPP

#include <causeway/plan/template_reaction.hpp>

#include <algorithm>
#include <map>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// The pipeline of most (or fewest) peers but `but`; the first of equals. `all.size()`: there is none.
CAUSEWAY_DECL std::size_t extreme_pipeline(const pipeline_peers& all, std::size_t but, bool most) {
  std::size_t found = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == but) continue;
    if (found == all.size() || (most ? all[i].size() > all[found].size() : all[i].size() < all[found].size())) found = i;
  }
  return found;
}

/// Fills up or merges the pipelines that are too small.
CAUSEWAY_DECL void mend(const template_set& set, template_reaction& r) {
  for (std::size_t i = 0; i < r.pipelines.size();) {
    while (r.pipelines[i].size() < set.smallest()) {
      const std::size_t donor = extreme_pipeline(r.pipelines, i, true);
      if (donor == r.pipelines.size() || r.pipelines[donor].size() <= set.smallest()) break;
      r.pipelines[i].push_back(r.pipelines[donor].back());
      r.pipelines[donor].pop_back();
      ++r.borrowed;
    }
    const std::size_t other = extreme_pipeline(r.pipelines, i, false);
    if (r.pipelines[i].size() >= set.smallest() || other == r.pipelines.size()) {
      ++i;
      continue;
    }
    auto& into = r.pipelines[other];
    into.insert(into.end(), r.pipelines[i].begin(), r.pipelines[i].end());
    r.pipelines.erase(r.pipelines.begin() + static_cast<std::ptrdiff_t>(i));
    ++r.merged;
    i = 0;  // the merged one may lend to, or need, any other
  }
}

/// Pipelines beyond the largest template give what they cannot use to the smallest ones; what nobody can use stays spare.
CAUSEWAY_DECL void shorten(const template_set& set, pipeline_peers& all) {
  std::vector<std::size_t> spare;
  for (auto& p : all) {
    for (; p.size() > set.largest(); p.pop_back()) spare.push_back(p.back());
  }
  for (const std::size_t peer : spare) {
    const std::size_t smallest = extreme_pipeline(all, all.size(), false);
    if (all[smallest].size() < set.largest()) all[smallest].push_back(peer);
  }
}

CAUSEWAY_DECL result<std::vector<block_copy>> copies_for(const template_set& set, const pipeline_peers& before,
                                                         const pipeline_peers& after,
                                                         const std::vector<std::size_t>& lost) {
  const auto had = held_blocks(set, before);
  std::map<std::size_t, std::size_t> sends;  // how often a peer is a source: spread evenly
  std::vector<block_copy> copies;
  for (const auto& [peer, block] : held_blocks(set, after)) {
    if (std::binary_search(had.begin(), had.end(), std::pair{peer, block})) continue;
    const std::pair<std::size_t, std::size_t>* source = nullptr;
    for (const auto& h : had) {
      if (h.second != block || std::find(lost.begin(), lost.end(), h.first) != lost.end()) continue;
      if (source == nullptr || sends[h.first] < sends[source->first]) source = &h;
    }
    if (source == nullptr) {
      return fail(errc::peer_lost, "block " + std::to_string(block),
                  "every peer that held it is gone; go on from the last checkpoint");
    }
    ++sends[source->first];
    copies.push_back({peer, block, source->first});
  }
  return copies;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::vector<std::pair<std::size_t, std::size_t>> held_blocks(const template_set& set,
                                                                           const pipeline_peers& all) {
  std::vector<std::pair<std::size_t, std::size_t>> held;
  for (const auto& peers : all) {
    for (const template_stage& s : set.of(peers.size()).stages) {
      for (std::size_t b = s.first_block; b < s.end; ++b) held.emplace_back(peers[s.peer], b);
    }
  }
  std::sort(held.begin(), held.end());
  return held;
}

CAUSEWAY_DECL result<template_reaction> react(const template_set& set, const pipeline_peers& pipelines,
                                              const std::vector<std::size_t>& lost) {
  template_reaction r;
  std::size_t left = 0;
  for (const auto& peers : pipelines) {
    CAUSEWAY_EXPECT(set.has(peers.size()));
    r.pipelines.emplace_back();
    for (const std::size_t p : peers) {
      if (std::find(lost.begin(), lost.end(), p) == lost.end()) r.pipelines.back().push_back(p);
    }
    left += r.pipelines.back().size();
  }
  const std::size_t least = (set.failures + 1) * set.smallest();
  if (left < least) {
    return fail(errc::out_of_memory, "templates",
                std::to_string(left) + " peers are left, " + std::to_string(set.failures + 1) + " pipelines take " +
                    std::to_string(least) + "; save a checkpoint and wait for more");
  }
  detail::mend(set, r);
  detail::shorten(set, r.pipelines);
  CAUSEWAY_ASSIGN(r.copies, detail::copies_for(set, pipelines, r.pipelines, lost));
  return r;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TEMPLATE_REACTION_IPP
