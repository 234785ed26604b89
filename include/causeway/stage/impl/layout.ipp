// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_LAYOUT_IPP
#define CAUSEWAY_STAGE_IMPL_LAYOUT_IPP

#include <causeway/stage/layout.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL std::vector<nn::block_range> assignment::held() const {
  return keeps.empty() ? std::vector<nn::block_range>{computes} : keeps;
}

CAUSEWAY_DECL bool assignment::holds(std::int64_t block) const {
  const auto has = [&](const nn::block_range& r) { return r.contains(block); };
  return keeps.empty() ? has(computes) : std::any_of(keeps.begin(), keeps.end(), has);
}

CAUSEWAY_DECL const assignment* layout::find(std::uint64_t peer, place* at) const {
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    for (std::size_t s = 0; s < replicas[r].assignments.size(); ++s) {
      if (replicas[r].assignments[s].peer != peer) continue;
      if (at != nullptr) *at = {r, s};
      return &replicas[r].assignments[s];
    }
  }
  return nullptr;
}

CAUSEWAY_DECL std::vector<std::uint64_t> layout::holders(std::int64_t block) const {
  std::vector<std::uint64_t> all;
  for (const replica& r : replicas) {
    for (const assignment& s : r.assignments) {
      if (s.peer != nobody && s.holds(block)) all.push_back(s.peer);
    }
  }
  return all;
}

CAUSEWAY_DECL std::uint32_t layout::first_micro_batch(std::size_t of) const {
  std::uint32_t sum = 0;
  for (std::size_t r = 0; r < of; ++r) sum += replicas[r].micro_batches;
  return sum;
}

CAUSEWAY_DECL std::vector<std::uint64_t> replica::assigned() const {
  std::vector<std::uint64_t> all;
  for (const assignment& s : assignments) {
    if (s.peer != nobody) all.push_back(s.peer);
  }
  return all;
}

CAUSEWAY_DECL std::vector<std::uint64_t> layout::assigned() const {
  std::vector<std::uint64_t> all;
  for (const replica& r : replicas) {
    const auto here = r.assigned();
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

CAUSEWAY_DECL bool layout::has_unassigned() const {
  std::size_t assignments = 0;
  for (const replica& r : replicas) assignments += r.assignments.size();
  return assigned().size() < assignments;
}

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> layout::routes() const {
  std::vector<std::vector<std::uint32_t>> place_of;  // [replica][stage]
  std::uint32_t next = 0;
  for (const replica& r : replicas) {
    auto& row = place_of.emplace_back();
    for (const assignment& s : r.assignments) row.push_back(s.peer != nobody ? next++ : empty);
  }
  std::vector<std::vector<std::uint32_t>> all(first_micro_batch(replicas.size()));
  std::vector<std::size_t> turn(place_of.front().size());
  for (std::size_t m = 0; m < all.size(); ++m) {
    for (std::size_t s = 0; s < turn.size(); ++s) {
      std::uint32_t peer = place_of[m % replicas.size()][s];
      while (peer == empty) peer = place_of[turn[s]++ % replicas.size()][s];
      all[m].push_back(peer);
    }
  }
  return all;
}

CAUSEWAY_DECL std::vector<std::uint32_t> layout::micro_batches_at(std::size_t rank) const {
  std::vector<std::uint32_t> counts;
  if (!has_detours()) {
    for (const replica& r : replicas) counts.push_back(r.micro_batches);
    return counts;
  }
  counts.resize(replicas.size());
  const auto peers = assigned();
  for (const auto& route : routes()) {
    place at;
    if (find(peers[route[rank]], &at) != nullptr) ++counts[at.replica];
  }
  return counts;
}

CAUSEWAY_DECL result<void> layout::check(std::int64_t layers, std::uint32_t micro_batches) const {
  const auto wrong = [](const std::string& what) { return fail(errc::invalid_argument, "layout", what); };
  std::vector<std::uint64_t> peers;
  for (const replica& r : replicas) {
    std::int64_t next = 0;
    for (const assignment& s : r.assignments) {
      if (s.computes.first != next || s.computes.size() < 1) return wrong("a replica does not compute each block once");
      CAUSEWAY_TRY(nn::model_part{s.held()}.check(layers));
      if (!nn::model_part{s.held()}.holds(s.computes)) return wrong("a peer computes what it does not hold");
      next = s.computes.last;
      if (s.peer != nobody) peers.push_back(s.peer);
    }
    if (next != layers) return wrong("a replica does not compute each block once");
  }
  std::sort(peers.begin(), peers.end());
  if (std::adjacent_find(peers.begin(), peers.end()) != peers.end()) return wrong("a peer has two assignments");
  if (replicas.empty() || first_micro_batch(replicas.size()) != micro_batches)
    return wrong("the replicas' micro-batches are not those of the global batch");
  return has_detours() ? check_detours() : result<void>{};
}

CAUSEWAY_DECL bool layout::is_kept_in(const replica& r, const assignment& empty_one) {
  return std::any_of(r.assignments.begin(), r.assignments.end(), [&](const assignment& s) {
    return s.peer != nobody && nn::model_part{s.held()}.holds(empty_one.computes);
  });
}

CAUSEWAY_DECL bool layout::has_detours() const {
  return std::any_of(replicas.begin(), replicas.end(), [](const replica& r) {
    return std::any_of(r.assignments.begin(), r.assignments.end(),
                       [&](const assignment& s) { return s.peer == nobody && !is_kept_in(r, s); });
  });
}

CAUSEWAY_DECL result<void> layout::check_detours() const {
  for (const replica& r : replicas) {
    const auto& first = replicas.front().assignments;
    const bool alike = std::equal(r.assignments.begin(), r.assignments.end(), first.begin(), first.end(),
                                  [](const assignment& a, const assignment& b) { return a.computes == b.computes; });
    if (!alike) return fail(errc::invalid_argument, "layout", "stages have nobody, but replicas are not cut alike");
    for (const assignment& s : r.assignments) {
      if (holders(s.computes.first).empty()) return fail(errc::invalid_argument, "layout", "nobody computes a stage");
    }
  }
  return {};
}

CAUSEWAY_DECL std::vector<std::uint32_t> even_shares(std::uint32_t micro_batches, std::size_t replicas) {
  const auto n = static_cast<std::uint32_t>(replicas);
  std::vector<std::uint32_t> shares(replicas, micro_batches / n);
  for (std::uint32_t i = 0; i < micro_batches % n; ++i) ++shares[i];
  return shares;
}

CAUSEWAY_DECL std::vector<nn::block_range> even_cut(std::int64_t layers, std::int64_t stages) {
  CAUSEWAY_EXPECT(stages >= 1 && stages <= layers);
  std::vector<nn::block_range> ranges;
  for (std::int64_t s = 0; s < stages; ++s) ranges.push_back({s * layers / stages, (s + 1) * layers / stages});
  return ranges;
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_LAYOUT_IPP
