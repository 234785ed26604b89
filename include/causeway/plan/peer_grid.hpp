// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PEER_GRID_HPP
#define CAUSEWAY_PLAN_PEER_GRID_HPP

// Who does which stage of which pipeline, with holes where peers were lost, and spare peers. Policies for pipelines of one
// depth share it.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

class peer_grid {
 public:
  static constexpr std::uint32_t hole = std::numeric_limits<std::uint32_t>::max();
  using place = std::pair<std::size_t, std::size_t>;  // pipeline, stage

  explicit peer_grid(std::size_t stages) : stages_{stages} { CAUSEWAY_EXPECT(stages > 0); }

  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] std::size_t pipelines() const { return cells_.size(); }
  [[nodiscard]] std::size_t spares() const { return spare_.size(); }
  [[nodiscard]] std::uint32_t at(std::size_t pipeline, std::size_t stage) const { return cells_[pipeline][stage]; }
  [[nodiscard]] bool filled(std::size_t pipeline, std::size_t stage) const { return at(pipeline, stage) != hole; }

  [[nodiscard]] std::size_t holes(std::size_t pipeline) const {
    return static_cast<std::size_t>(std::count(cells_[pipeline].begin(), cells_[pipeline].end(), hole));
  }
  [[nodiscard]] std::size_t holes() const {
    std::size_t sum = 0;
    for (std::size_t d = 0; d < pipelines(); ++d) sum += holes(d);
    return sum;
  }
  /// How many pipelines have this stage.
  [[nodiscard]] std::size_t holders(std::size_t stage) const {
    return static_cast<std::size_t>(
        std::count_if(cells_.begin(), cells_.end(), [&](const auto& p) { return p[stage] != hole; }));
  }
  /// Peers that are there, spare ones too.
  [[nodiscard]] std::size_t peers() const { return pipelines() * stages_ - holes() + spares(); }

  void add_spares(std::span<const std::uint32_t> peers) { spare_.insert(spare_.end(), peers.begin(), peers.end()); }

  /// Makes holes of sorted `peers`; which.
  std::vector<place> lose(std::span<const std::uint32_t> peers) {
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

  /// Puts a spare into each hole, as far as they go. How many.
  std::size_t fill() {
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

  /// As many whole pipelines as there are peers for: those with the fewest holes stay, the others' peers fill them. How
  /// many peers have a new stage.
  std::size_t rebuild() {
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

  /// Moves a peer from a stage to another of the same or another pipeline, whose place must be a hole.
  void move(place from, place to) {
    CAUSEWAY_EXPECT(filled(from.first, from.second) && !filled(to.first, to.second));
    std::swap(cells_[from.first][from.second], cells_[to.first][to.second]);
  }

 private:
  std::size_t stages_;
  std::vector<std::vector<std::uint32_t>> cells_;  // [pipeline][stage]
  std::vector<std::uint32_t> spare_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PEER_GRID_HPP
