// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_PEER_GRID_IPP
#define CAUSEWAY_PLAN_IMPL_PEER_GRID_IPP

#include <causeway/plan/peer_grid.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL peer_grid::peer_grid(std::size_t stages) : stages_{stages} { CAUSEWAY_EXPECT(stages > 0); }

CAUSEWAY_DECL void peer_grid::add_spares(std::span<const std::uint32_t> peers) {
  spare_.insert(spare_.end(), peers.begin(), peers.end());
}

CAUSEWAY_DECL std::size_t peer_grid::holes(std::size_t pipeline) const {
  return static_cast<std::size_t>(std::count(cells_[pipeline].begin(), cells_[pipeline].end(), hole));
}

CAUSEWAY_DECL std::size_t peer_grid::holes() const {
  std::size_t sum = 0;
  for (std::size_t d = 0; d < pipelines(); ++d) sum += holes(d);
  return sum;
}

CAUSEWAY_DECL std::size_t peer_grid::holders(std::size_t stage) const {
  return static_cast<std::size_t>(
      std::count_if(cells_.begin(), cells_.end(), [&](const auto& p) { return p[stage] != hole; }));
}

CAUSEWAY_DECL auto peer_grid::lose(std::span<const std::uint32_t> peers) -> std::vector<place> {
  const auto gone = [&](std::uint32_t id) { return std::binary_search(peers.begin(), peers.end(), id); };
  std::erase_if(spare_, gone);
  std::vector<place> made;
  for (std::size_t d = 0; d < pipelines(); ++d) {
    for (std::size_t s = 0; s < stages_; ++s) {
      if (!filled(d, s) || !gone(at(d, s))) continue;
      cells_[d][s] = hole;
      made.emplace_back(d, s);
    }
  }
  return made;
}

CAUSEWAY_DECL std::size_t peer_grid::fill() {
  std::size_t moved = 0;
  for (auto& pipeline : cells_) {
    for (auto& cell : pipeline) {
      if (cell != hole || spare_.empty()) continue;
      cell = spare_.front();
      spare_.erase(spare_.begin());
      ++moved;
    }
  }
  return moved;
}

CAUSEWAY_DECL std::size_t peer_grid::rebuild() {
  const std::size_t whole = peers() / stages_;
  std::stable_sort(cells_.begin(), cells_.end(), [](const auto& a, const auto& b) {
    return std::count(a.begin(), a.end(), hole) < std::count(b.begin(), b.end(), hole);
  });
  for (std::size_t d = whole; d < pipelines(); ++d) {
    for (const std::uint32_t id : cells_[d]) {
      if (id != hole) spare_.push_back(id);
    }
  }
  cells_.resize(whole, std::vector<std::uint32_t>(stages_, hole));
  return fill();
}

CAUSEWAY_DECL void peer_grid::move(place from, place to) {
  CAUSEWAY_EXPECT(filled(from.first, from.second) && !filled(to.first, to.second));
  std::swap(cells_[from.first][from.second], cells_[to.first][to.second]);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PEER_GRID_IPP
