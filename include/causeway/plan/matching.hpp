// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_MATCHING_HPP
#define CAUSEWAY_PLAN_MATCHING_HPP

// Who talks to whom between two stages: the pairing of two equally large sets whose dearest pair is as cheap as can be
// (bottleneck assignment). Edges are let in by rising cost and a maximum matching is grown by augmenting paths (Kuhn),
// which stays one as edges are added: the first limit at which nobody is left alone is the optimum.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

struct pairing {
  double bottleneck = 0;                ///< the dearest pair
  std::vector<std::size_t> partner_of;  ///< of each row: a column
};

namespace detail {

/// Kept between calls so that a search that asks a million times allocates nothing.
class bottleneck_matcher {
 public:
  /// `costs` is size x size, row by row; all finite. Returns the bottleneck; `row_of()` has the pairs.
  double solve(std::span<const double> costs, std::size_t size) {
    costs_ = costs;
    size_ = size;
    row_of_.assign(size, none);
    seen_.assign(size, 0);
    mark_ = 0;
    limit_ = lower_bound();
    for (std::size_t row = 0; row < size; ++row) {
      while (!augment_from(row)) limit_ = next_limit();
    }
    return limit_;
  }

  [[nodiscard]] const std::vector<std::size_t>& row_of() const noexcept { return row_of_; }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] double lower_bound() const {  // each row and column must pay at least its cheapest edge
    double bound = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      double row = std::numeric_limits<double>::infinity(), column = row;
      for (std::size_t j = 0; j < size_; ++j) {
        row = std::min(row, costs_[i * size_ + j]);
        column = std::min(column, costs_[j * size_ + i]);
      }
      bound = std::max({bound, row, column});
    }
    return bound;
  }

  [[nodiscard]] double next_limit() const {
    double next = std::numeric_limits<double>::infinity();
    for (const double c : costs_) {
      if (c > limit_) next = std::min(next, c);
    }
    return next;
  }

  bool augment_from(std::size_t row) {
    ++mark_;
    return augment(row);
  }

  bool augment(std::size_t row) {
    for (std::size_t column = 0; column < size_; ++column) {
      if (costs_[row * size_ + column] > limit_ || seen_[column] == mark_) continue;
      seen_[column] = mark_;
      if (row_of_[column] != none && !augment(row_of_[column])) continue;
      row_of_[column] = row;
      return true;
    }
    return false;
  }

  std::span<const double> costs_;
  std::size_t size_ = 0;
  std::size_t mark_ = 0;
  double limit_ = 0;
  std::vector<std::size_t> row_of_;
  std::vector<std::size_t> seen_;
};

}  // namespace detail

/// The pairing of rows and columns with the least bottleneck. `costs` is size x size, row by row, finite, >= 0. Time at
/// most O(size^5), in practice that of reading the costs a few times.
inline pairing bottleneck_pairing(std::span<const double> costs, std::size_t size) {
  CAUSEWAY_EXPECT(costs.size() == size * size);
  detail::bottleneck_matcher matcher;
  pairing p{matcher.solve(costs, size), std::vector<std::size_t>(size)};
  for (std::size_t column = 0; column < size; ++column) p.partner_of[matcher.row_of()[column]] = column;
  return p;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_MATCHING_HPP
