// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_REDUNDANT_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_REDUNDANT_IPP

#include <causeway/stage/recovery_redundant.hpp>

#include <algorithm>
#include <map>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL result<layout> redundant::arrange(const cluster_snapshot& g) {
  const auto standing = mended(g);
  const bool enough = g.peers.size() / static_cast<std::size_t>(stages_) > (standing ? standing->replicas.size() : 0);
  if (standing && !(enough && g.micro_batches > standing->replicas.size()) && !can_fill(*standing, g)) {
    return with_shadows(*standing);
  }
  auto anew = even_.arrange(g);
  if (anew) return with_shadows(std::move(*anew));
  if (standing) return with_shadows(*standing);  // fewer peers than stages, but each has what it needs
  return anew.error();
}

CAUSEWAY_DECL std::optional<layout> redundant::mended(const cluster_snapshot& g) const {
  std::map<std::uint32_t, std::vector<const present_peer*>> rows;
  for (const present_peer& p : g.peers) {
    if (p.computes.size() > 0) rows[p.replica].push_back(&p);
  }
  layout made;
  for (auto& [number, row] : rows) {
    std::sort(row.begin(), row.end(), [](auto* a, auto* b) { return a->computes.first < b->computes.first; });
    auto assignments = mended(row, g.layers);
    if (!assignments) return std::nullopt;
    made.replicas.push_back({std::move(*assignments), 0});
  }
  if (made.replicas.empty()) return std::nullopt;
  const auto shares = even_shares(g.micro_batches, made.replicas.size());
  for (std::size_t r = 0; r < shares.size(); ++r) made.replicas[r].micro_batches = shares[r];
  return made;
}

CAUSEWAY_DECL std::optional<std::vector<assignment>> redundant::mended(const std::vector<const present_peer*>& row,
                                                                       std::int64_t layers) const {
  std::vector<assignment> assignments;
  for (const present_peer* p : row) assignments.push_back({p->id, p->computes});
  assignments.front().computes.first = 0;
  for (std::size_t i = 0; i < assignments.size(); ++i) {
    assignments[i].computes.last = i + 1 < assignments.size() ? assignments[i + 1].computes.first : layers;
    if (assignments[i].computes.size() < 1 || !can_have(*row[i], assignments[i].computes, *row.back())) return std::nullopt;
  }
  return assignments;
}

CAUSEWAY_DECL bool redundant::can_have(const present_peer& p, const nn::block_range& r, const present_peer& last) const {
  if (p.holds_all(r)) return true;
  if (first_ == first_stage::with_second || r.first > 0) return false;
  return p.holds_all({p.computes.first, r.last}) && last.holds_all({0, p.computes.first});
}

CAUSEWAY_DECL bool redundant::can_fill(const layout& standing, const cluster_snapshot& g) const {
  std::size_t assignments = 0;
  for (const replica& r : standing.replicas) assignments += r.assignments.size();
  const std::size_t whole = standing.replicas.size() * static_cast<std::size_t>(stages_);
  return assignments < whole && g.peers.size() >= whole;
}

CAUSEWAY_DECL layout redundant::with_shadows(layout l) const {
  for (replica& r : l.replicas) {
    for (std::size_t s = 0; s < r.assignments.size(); ++s) r.assignments[s].keeps = kept_by(s, r.assignments);
  }
  return l;
}

CAUSEWAY_DECL std::vector<nn::block_range> redundant::kept_by(std::size_t s,
                                                              const std::vector<assignment>& assignments) const {
  const std::size_t last = assignments.size() - 1;
  const nn::block_range own = assignments[s].computes;
  const bool ring = first_ == first_stage::with_last;
  if (s < last) return {{!ring && s == 1 ? 0 : own.first, assignments[s + 1].computes.last}};
  if (last == 1) return {{0, own.last}};
  if (ring && last > 1) return {assignments[0].computes, own};
  return {own};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_REDUNDANT_IPP
