// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_IPP

#include <causeway/stage/recovery.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL std::int64_t present_peer::overlap(const nn::block_range& with) const {
  std::int64_t sum = 0;
  for (const nn::block_range& r : holds) {
    sum += std::max<std::int64_t>(0, std::min(r.last, with.last) - std::max(r.first, with.first));
  }
  return sum;
}

CAUSEWAY_DECL double present_peer::squares_of(std::int64_t block) const {
  std::size_t place = 0;
  for (const nn::block_range& r : holds) {
    if (r.contains(block)) {
      place += static_cast<std::size_t>(block - r.first);
      return place < squares.size() ? squares[place] : 0;
    }
    place += static_cast<std::size_t>(r.size());
  }
  return 0;
}

CAUSEWAY_DECL std::size_t cluster_snapshot::first_holder(std::int64_t block) const {
  const auto found = std::find_if(peers.begin(), peers.end(), [&](const present_peer& p) {
    return p.overlap({block, block + 1}) == 1;
  });
  return static_cast<std::size_t>(found - peers.begin());
}

CAUSEWAY_DECL std::vector<std::uint64_t> cluster_snapshot::holders(std::int64_t block) const {
  std::vector<std::uint64_t> ids;
  for (const present_peer& p : peers) {
    if (p.overlap({block, block + 1}) == 1) ids.push_back(p.id);
  }
  return ids;
}

CAUSEWAY_DECL cluster_snapshot who_stays(const cluster_snapshot& g) {
  cluster_snapshot stay = g;
  std::erase_if(stay.peers, [](const present_peer& p) { return p.leaves; });
  return stay;
}

CAUSEWAY_DECL std::vector<nn::block_range> lost_runs(const cluster_snapshot& g) {
  std::vector<nn::block_range> runs;
  for (std::int64_t b = 0; b < g.layers; ++b) {
    if (g.somebody_holds(b)) continue;
    if (runs.empty() || runs.back().last != b) runs.push_back({b, b});
    runs.back().last = b + 1;
  }
  return runs;
}

CAUSEWAY_DECL nn::block_range lost_for_good(const cluster_snapshot& g, const std::vector<made_up_block>& made) {
  for (const nn::block_range& lost : lost_runs(g)) {
    for (std::int64_t b = lost.first; b < lost.last; ++b) {
      if (std::none_of(made.begin(), made.end(), [&](const made_up_block& m) { return m.block == b; })) return lost;
    }
  }
  return {};
}

CAUSEWAY_DECL layout assign_peers(const std::vector<std::vector<nn::block_range>>& rows,
                                  std::span<const std::uint32_t> micro_batches, const cluster_snapshot& g) {
  struct open_stage {
    std::size_t replica, rank;
  };
  layout made;
  std::vector<open_stage> open;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    made.replicas.push_back({std::vector<assignment>(rows[r].size()), micro_batches[r]});
    for (std::size_t s = 0; s < rows[r].size(); ++s) open.push_back({r, s});
  }
  CAUSEWAY_EXPECT(open.size() <= g.peers.size());
  std::vector<const present_peer*> free;
  for (const present_peer& p : g.peers) free.push_back(&p);
  while (!open.empty()) {
    std::size_t best_stage = 0, best_peer = 0;
    std::pair<std::int64_t, bool> best{-1, false};
    for (std::size_t i = 0; i < open.size(); ++i) {
      const nn::block_range& range = rows[open[i].replica][open[i].rank];
      for (std::size_t p = 0; p < free.size(); ++p) {
        const bool was_assigned = free[p]->computes == range && free[p]->replica == open[i].replica;
        const std::pair fit{free[p]->overlap(range), was_assigned};
        if (fit > best) best = fit, best_stage = i, best_peer = p;
      }
    }
    const open_stage at = open[best_stage];
    made.replicas[at.replica].assignments[at.rank] = {free[best_peer]->id, rows[at.replica][at.rank]};
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(best_stage));
    free.erase(free.begin() + static_cast<std::ptrdiff_t>(best_peer));
  }
  return made;
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL error too_few(std::size_t peers, std::int64_t needed) {
  return fail(errc::out_of_memory, "layout",
              std::to_string(peers) + " peers cannot hold the model, it takes " + std::to_string(needed) +
                  "; the run goes on when more are there");
}

CAUSEWAY_DECL result<layout> regroup::arrange(const cluster_snapshot& g) {
  if (stages_ < 1 || stages_ > g.layers) {
    return fail(errc::invalid_argument, "regroup",
                std::to_string(g.layers) + " blocks do not make " + std::to_string(stages_) + " stages");
  }
  const std::size_t most = std::min<std::size_t>(g.peers.size() / static_cast<std::size_t>(stages_), g.micro_batches);
  if (most == 0) return too_few(g.peers.size(), stages_);
  const std::vector rows(most, even_cut(g.layers, stages_));
  return assign_peers(rows, even_shares(g.micro_batches, most), g);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_IPP
