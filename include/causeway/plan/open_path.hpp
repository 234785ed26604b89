// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_OPEN_PATH_HPP
#define CAUSEWAY_PLAN_OPEN_PATH_HPP

// In which order to visit all places once, without coming back: the open travelling salesman's problem that orders the
// stages of a pipeline. Exact up to 12 places (dynamic programming over subsets, Held and Karp 1962); beyond, from every
// start to the nearest place left, then runs are reversed and moved as long as that helps. Costs are symmetric.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct open_path {
  double cost = 0;
  std::vector<std::size_t> order;
};

inline constexpr std::size_t exact_path_places = 12;

/// What the path `order` costs; `costs` is places x places, row by row.
CAUSEWAY_DECL double cost_of_path(std::span<const double> costs, std::size_t places, std::span<const std::size_t> order);

namespace detail {

/// best[s][j]: the cheapest path over exactly the places of set s that ends at j.
class path_table {
 public:
  /// The cost of the best path.
  CAUSEWAY_DECL double fill(std::span<const double> costs, std::size_t places);

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> order() const;

 private:
  [[nodiscard]] double at(std::uint32_t set, std::size_t j) const { return best_[set * n_ + j]; }

  CAUSEWAY_DECL void spread(std::uint32_t set, std::size_t from);

  CAUSEWAY_DECL [[nodiscard]] std::size_t cheapest_end(std::uint32_t set) const;

  std::span<const double> costs_;
  std::size_t n_ = 0;
  std::uint32_t sets_ = 0;
  std::vector<double> best_;
};

CAUSEWAY_DECL std::vector<std::size_t> nearest_first(std::span<const double> costs, std::size_t places, std::size_t start);

}  // namespace detail

/// A cheapest path over all places, or for more than 12 a good one. `costs` is places x places, symmetric, finite, >= 0.
/// Time: 2^n n^2 additions up to 12, about n^5 beyond.
CAUSEWAY_DECL open_path shortest_open_path(std::span<const double> costs, std::size_t places);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/open_path.ipp>
#endif

#endif  // CAUSEWAY_PLAN_OPEN_PATH_HPP
