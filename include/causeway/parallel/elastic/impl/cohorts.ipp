// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORTS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORTS_IPP

#include <causeway/parallel/elastic/cohorts.hpp>

#include <algorithm>
#include <map>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace detail {

/// The ranges of a replica's stages.
CAUSEWAY_DECL std::vector<nn::block_range> cut_of(const stage::replica& r) {
  std::vector<nn::block_range> cut;
  for (const stage::assignment& s : r.assignments) cut.push_back(s.computes);
  return cut;
}

/// Of a block's stage. Where micro-batches take detours, that is the same in all pipelines.
CAUSEWAY_DECL std::size_t rank_of(const stage::replica& r, std::int64_t block) {
  const auto has = [block](const stage::assignment& s) { return s.computes.contains(block); };
  return static_cast<std::size_t>(std::find_if(r.assignments.begin(), r.assignments.end(), has) - r.assignments.begin());
}

/// The speed of the slowest of a replica's peers that know theirs; 0: none does.
CAUSEWAY_DECL double slowest_of(const stage::replica& r, const stage::cluster_snapshot& g,
                                std::span<const cohort_member> members) {
  double slowest = 0;
  for (std::size_t p = 0; p < members.size(); ++p) {
    const auto is_it = [&](const stage::assignment& s) { return s.peer == g.peers[p].id; };
    const double speed = members[p].speed;
    if (speed > 0 && (slowest == 0 || speed < slowest) && std::any_of(r.assignments.begin(), r.assignments.end(), is_it)) {
      slowest = speed;
    }
  }
  return slowest;
}

/// Gives slots without a cohort what lies between those with one, which begin at `firsts`, as shares_of_slots has it where
/// that fits. Whether every micro-batch has one slot, or is of a path that rests, and every slot has some.
CAUSEWAY_DECL bool share_out_rest(std::vector<stage::replica>& slots, std::span<const std::uint32_t> firsts,
                                  std::uint32_t micro_batches, std::uint32_t paths) {
  const auto even = shares_of_slots(micro_batches, slots.size(), paths);
  micro_batches = std::accumulate(even.begin(), even.end(), 0U);  // without those of paths that rest
  std::uint32_t at = 0;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    std::vector<std::uint32_t> rest;
    for (std::size_t e = s; e < slots.size() && slots[e].assignments.empty(); ++e) rest.push_back(even[e]);
    const std::size_t next = s + rest.size();
    const std::uint32_t until = next < slots.size() ? firsts[next] : micro_batches;
    if (until > micro_batches || until < at + rest.size() || (rest.empty() && until != at)) return false;
    if (std::accumulate(rest.begin(), rest.end(), 0U) != until - at) rest = stage::even_shares(until - at, rest.size());
    for (const std::uint32_t share : rest) slots[s++].micro_batches = share;
    at = until;
    if (s == slots.size()) break;
    const std::uint32_t share = slots[s].micro_batches;
    if (share == 0 || share > micro_batches - at) return false;
    at += share;
  }
  return at == micro_batches;
}

CAUSEWAY_DECL result<void> check_paths(std::uint32_t micro_batches, std::uint32_t paths) {
  if (paths == 0 || micro_batches % paths == 0) return {};
  return fail(errc::invalid_argument, "micro_batches",
              std::to_string(micro_batches) + " of a global batch for " + std::to_string(paths) +
                  " paths, each of which has an equal part of it; use a multiple");
}

CAUSEWAY_DECL result<void> share_out(stage::layout& l, const stage::cluster_snapshot& g,
                                     std::span<const cohort_member> members, std::uint32_t paths,
                                     const parts_by_speed& parts_for) {
  std::vector<std::size_t> parts;
  if (parts_for) {
    std::vector<double> speeds;
    for (const stage::replica& r : l.replicas) speeds.push_back(slowest_of(r, g, members));
    parts = parts_for(speeds);
  }
  if (parts.empty() && paths == 0) return {};
  if (parts.empty()) {
    const auto even = shares_of_slots(g.micro_batches, l.replicas.size(), paths);
    parts.assign(even.begin(), even.end());
  }
  for (std::size_t s = 0; s < parts.size(); ++s) l.replicas[s].micro_batches = static_cast<std::uint32_t>(parts[s]);
  const std::size_t all = std::accumulate(parts.begin(), parts.end(), std::size_t{0});
  if (paths > 0 || all == g.micro_batches) return {};
  return fail(errc::unsupported, "micro_batches",
              "the policy divides a batch into " + std::to_string(all) + " parts (sequences / multiple), and it has " +
                  std::to_string(g.micro_batches) + " micro-batches; set `multiple` to the sequences of one");
}

CAUSEWAY_DECL stage::cluster_snapshot free_peers(const stage::cluster_snapshot& g, const cohort_layout& standing) {
  stage::cluster_snapshot rest = g;
  std::erase_if(rest.peers, [&](const stage::present_peer& p) { return standing.layout.find(p.id) != nullptr; });
  const auto& slots = standing.layout.replicas;
  rest.micro_batches = static_cast<std::uint32_t>(
      std::count_if(slots.begin(), slots.end(), [](const stage::replica& r) { return r.assignments.empty(); }));
  return rest;
}

CAUSEWAY_DECL void fill_slots(cohort_layout& into, const stage::layout& more, bool any_cut) {
  auto& slots = into.layout.replicas;
  const auto stands =
      std::find_if(slots.begin(), slots.end(), [](const stage::replica& r) { return !r.assignments.empty(); });
  const auto cut = cut_of(*stands);
  auto next = more.replicas.begin();
  for (stage::replica& slot : slots) {
    if (!slot.assignments.empty()) continue;
    while (!any_cut && next != more.replicas.end() && cut_of(*next) != cut) ++next;
    if (next == more.replicas.end()) return;
    slot.assignments = (next++)->assignments;
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::uint32_t path_of_slot(std::size_t slot, std::size_t slots, std::uint32_t paths) noexcept {
  return static_cast<std::uint32_t>(slots < paths ? slot : slot * paths / slots);
}

CAUSEWAY_DECL std::vector<std::uint32_t> shares_of_slots(std::uint32_t micro_batches, std::size_t slots,
                                                         std::uint32_t paths) {
  if (paths == 0) return stage::even_shares(micro_batches, slots);
  std::vector<std::uint32_t> slots_of(paths), shares;
  for (std::size_t s = 0; s < slots; ++s) ++slots_of[path_of_slot(s, slots, paths)];
  for (const std::uint32_t count : slots_of) {
    const auto theirs = stage::even_shares(micro_batches / paths, std::max(count, 1U));
    shares.insert(shares.end(), theirs.begin(), theirs.end());
  }
  shares.resize(slots);
  return shares;
}

CAUSEWAY_DECL cohort_layout standing_cohorts(const stage::cluster_snapshot& g, std::span<const cohort_member> members,
                                             std::uint64_t state, std::uint32_t paths, bool keeps_work) {
  std::map<std::uint64_t, std::vector<std::size_t>> places;
  for (std::size_t p = 0; p < members.size(); ++p) {
    if (members[p].cohort != 0 && members[p].state == state) places[members[p].cohort].push_back(p);
  }
  cohort_layout made;
  std::vector<std::uint32_t> firsts;
  for (const auto& [name, of] : places) {
    auto assignments = whole_row(g, members, of, keeps_work);
    const cohort_member& one = members[of.front()];
    const bool fits = one.slot < one.slots && one.slots <= g.micro_batches;
    if (assignments.empty() || !fits) continue;
    auto& slots = made.layout.replicas;
    if (slots.empty()) {
      slots.resize(one.slots);
      firsts.resize(one.slots);
      made.names.assign(one.slots, 0);
    }
    if (one.slots != slots.size() || !slots[one.slot].assignments.empty()) continue;
    slots[one.slot] = {std::move(assignments), one.share};
    firsts[one.slot] = one.first;
    made.names[one.slot] = name;
  }
  if (firsts.empty()) return made;
  const bool fits = detail::share_out_rest(made.layout.replicas, firsts, g.micro_batches, paths);
  return fits ? made : cohort_layout{};
}

CAUSEWAY_DECL std::uint64_t computer_of(const stage::replica& r, std::int64_t block) {
  const std::size_t rank = detail::rank_of(r, block);
  if (rank < r.assignments.size() && r.assignments[rank].peer != stage::nobody) return r.assignments[rank].peer;
  const auto others = stage::layout{{r}}.holders(block);
  return others.empty() ? stage::nobody : others.front();
}

CAUSEWAY_DECL row_shares computers_of(const stage::layout& l, std::int64_t block) {
  row_shares all;
  double sum = 0;
  const auto micro_batches = l.micro_batches_at(detail::rank_of(l.replicas.front(), block));
  for (std::size_t r = 0; r < l.replicas.size(); ++r) {
    const std::uint64_t peer = computer_of(l.replicas[r], block);
    if (peer == stage::nobody) continue;
    all.peers.push_back(peer);
    all.shares.push_back(micro_batches[r]);
    sum += micro_batches[r];
  }
  for (double& share : all.shares) share /= sum;
  return all;
}

CAUSEWAY_DECL row_shares all_holders(const stage::layout& l) {
  row_shares all;
  const auto firsts = computers_of(l, 0);
  auto share = firsts.shares.begin();  // of each replica that somebody is in
  for (const stage::replica& r : l.replicas) {
    for (const std::uint64_t peer : r.assigned()) {
      all.peers.push_back(peer);
      all.shares.push_back(*share);
    }
    if (!r.assignments.empty()) ++share;
  }
  return all;
}

CAUSEWAY_DECL std::vector<row_holders> holders_of_blocks(const stage::layout& l, bool shares_table) {
  const auto shares = all_holders(l).shares;
  std::vector<row_holders> rows;
  net::peer_index at = 0;
  for (const stage::replica& r : l.replicas) {
    for (const stage::assignment& s : r.assignments) {
      if (s.peer == stage::nobody) continue;
      const std::int64_t layers = r.assignments.back().computes.last;
      const auto holds = [&](row_holders& row, std::int64_t block) {
        row.members.push_back(at);
        row.shares.push_back(computer_of(r, block) == s.peer ? shares[at] : 0.0);
      };
      rows.resize(static_cast<std::size_t>(layers) + (shares_table ? 1 : 0));
      for (std::int64_t b = 0; b < layers; ++b) {
        if (s.holds(b)) holds(rows[static_cast<std::size_t>(b)], b);
      }
      if (shares_table && (s.holds(0) || s.holds(layers - 1))) holds(rows.back(), 0);
      ++at;
    }
  }
  return rows;
}

CAUSEWAY_DECL std::vector<std::uint32_t> replicas_of_holders(const stage::layout& l) {
  std::vector<std::uint32_t> replicas;
  std::uint32_t number = 0;
  for (const stage::replica& r : l.replicas) {
    const auto peers = r.assigned();
    replicas.insert(replicas.end(), peers.size(), number);
    number += peers.empty() ? 0 : 1;
  }
  return replicas;
}

CAUSEWAY_DECL result<void> check_alike(const stage::layout& l, std::string_view recovery, bool detours) {
  for (const stage::replica& r : l.replicas) {
    const bool plain = std::all_of(r.assignments.begin(), r.assignments.end(), [=](const stage::assignment& s) {
      return (detours || s.peer != stage::nobody) && s.keeps.empty();
    });
    if (plain && detail::cut_of(r) == detail::cut_of(l.replicas.front())) continue;
    return fail(
        errc::unsupported, std::string{recovery},
        "its traits say cut_alike, and here is a layout with a peer that has other blocks than those in its place in other "
        "pipelines, or none in a place");
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_COHORTS_IPP
