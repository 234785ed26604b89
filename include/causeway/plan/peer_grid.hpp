// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PEER_GRID_HPP
#define CAUSEWAY_PLAN_PEER_GRID_HPP

// Who does which stage of which pipeline, with holes where peers were lost, and spare peers. Policies for pipelines of one
// depth share it.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

class peer_grid {
 public:
  static constexpr std::uint32_t hole = std::numeric_limits<std::uint32_t>::max();
  using place = std::pair<std::size_t, std::size_t>;  // pipeline, stage

  CAUSEWAY_DECL explicit peer_grid(std::size_t stages);

  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] std::size_t pipelines() const { return cells_.size(); }
  [[nodiscard]] std::size_t spares() const { return spare_.size(); }
  [[nodiscard]] std::uint32_t at(std::size_t pipeline, std::size_t stage) const { return cells_[pipeline][stage]; }
  [[nodiscard]] bool filled(std::size_t pipeline, std::size_t stage) const { return at(pipeline, stage) != hole; }

  CAUSEWAY_DECL [[nodiscard]] std::size_t holes(std::size_t pipeline) const;
  CAUSEWAY_DECL [[nodiscard]] std::size_t holes() const;
  /// How many pipelines have this stage.
  CAUSEWAY_DECL [[nodiscard]] std::size_t holders(std::size_t stage) const;
  /// Peers that are there, spare ones too.
  [[nodiscard]] std::size_t peers() const { return pipelines() * stages_ - holes() + spares(); }

  CAUSEWAY_DECL void add_spares(std::span<const std::uint32_t> peers);

  /// Makes holes of sorted `peers`; which.
  CAUSEWAY_DECL std::vector<place> lose(std::span<const std::uint32_t> peers);

  /// Puts a spare into each hole, as far as they go. How many.
  CAUSEWAY_DECL std::size_t fill();

  /// As many whole pipelines as there are peers for: those with the fewest holes stay, the others' peers fill them. How
  /// many peers have a new stage.
  CAUSEWAY_DECL std::size_t rebuild();

  /// Moves a peer from a stage to another of the same or another pipeline, whose place must be a hole.
  CAUSEWAY_DECL void move(place from, place to);

 private:
  std::size_t stages_;
  std::vector<std::vector<std::uint32_t>> cells_;  // [pipeline][stage]
  std::vector<std::uint32_t> spare_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/peer_grid.ipp>
#endif

#endif  // CAUSEWAY_PLAN_PEER_GRID_HPP
