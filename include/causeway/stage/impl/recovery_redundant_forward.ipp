// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_REDUNDANT_FORWARD_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_REDUNDANT_FORWARD_IPP

#include <causeway/stage/recovery_redundant_forward.hpp>

#include <algorithm>
#include <map>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL result<layout> redundant_forward::arrange(const cluster_snapshot& g) {
  if (auto begun = resumed(g)) return std::move(*begun);
  return anew_.arrange(g);
}

CAUSEWAY_DECL std::optional<layout> redundant_forward::resumed(const cluster_snapshot& g) {
  const std::uint64_t wanted = most_begun(g);
  std::vector<row> rows;
  for (const present_peer& p : g.peers) {
    if (p.begun.name == 0 || p.begun.name != wanted) continue;
    if (rows.empty() && p.begun.replicas <= g.peers.size()) rows.resize(p.begun.replicas);
    if (!put(rows, p)) return std::nullopt;
  }
  if (rows.empty() || rows.size() > g.micro_batches) return std::nullopt;
  layout made;
  const auto shares = even_shares(g.micro_batches, rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    auto assignments = assignments_of(rows[r], g.layers);
    if (!assignments) return std::nullopt;
    made.replicas.push_back({std::move(*assignments), shares[r]});
  }
  if (!made.check(g.layers, g.micro_batches)) return std::nullopt;
  return made;
}

CAUSEWAY_DECL std::uint64_t redundant_forward::most_begun(const cluster_snapshot& g) {
  std::map<std::uint64_t, std::size_t> count;
  for (const present_peer& p : g.peers) count[p.begun.name] += p.begun.name != 0 ? 1 : 0;
  const auto most = std::max_element(count.begin(), count.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return most == count.end() ? 0 : most->first;
}

CAUSEWAY_DECL bool redundant_forward::put(std::vector<row>& rows, const present_peer& p) {
  if (p.begun.replicas != rows.size() || p.replica >= rows.size()) return false;
  row& r = rows[p.replica];
  if (r.empty()) r.resize(p.begun.stages);
  if (r.size() != p.begun.stages || p.begun.stage >= r.size() || r[p.begun.stage] != nullptr) return false;
  r[p.begun.stage] = &p;
  return true;
}

CAUSEWAY_DECL std::optional<std::vector<assignment>> redundant_forward::assignments_of(const row& r, std::int64_t layers) {
  std::vector<assignment> assignments;
  for (std::size_t s = 0; s < r.size(); ++s) {
    if (r[s] != nullptr) {
      assignments.push_back({r[s]->id, r[s]->computes, r[s]->begun.keeps});
      continue;
    }
    const present_peer* const shadow = r[shadow_of(s, r.size())];
    const present_peer* const next = s + 1 < r.size() ? r[s + 1] : nullptr;
    if (shadow == nullptr || (next == nullptr && s + 1 < r.size())) return std::nullopt;
    const nn::block_range lost{s > 0 ? assignments.back().computes.last : 0,
                               next != nullptr ? next->computes.first : layers};
    if (!nn::model_part{shadow->begun.keeps}.holds(lost)) return std::nullopt;
    assignments.push_back({nobody, lost});
  }
  if (assignments.empty()) return std::nullopt;
  return assignments;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_REDUNDANT_FORWARD_IPP
