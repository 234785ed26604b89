// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_MATCHING_HPP
#define CAUSEWAY_PLAN_MATCHING_HPP

// Who talks to whom between two stages: the pairing of two equally large sets whose dearest pair is as cheap as can be
// (bottleneck assignment). Edges are let in by rising cost and a maximum matching is grown by augmenting paths (Kuhn),
// which stays one as edges are added: the first limit at which nobody is left alone is the optimum.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct pairing {
  double bottleneck = 0;                ///< the dearest pair
  std::vector<std::size_t> partner_of;  ///< of each row: a column
};

namespace detail {

/// Kept between calls so that a search that asks a million times allocates nothing.
class bottleneck_matcher {
 public:
  /// `costs` is size x size, row by row; all finite. Returns the bottleneck; `row_of()` has the pairs.
  CAUSEWAY_DECL double solve(std::span<const double> costs, std::size_t size);

  [[nodiscard]] const std::vector<std::size_t>& row_of() const noexcept { return row_of_; }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  CAUSEWAY_DECL [[nodiscard]] double lower_bound() const;

  CAUSEWAY_DECL [[nodiscard]] double next_limit() const;

  CAUSEWAY_DECL bool augment_from(std::size_t row);

  CAUSEWAY_DECL bool augment(std::size_t row);

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
CAUSEWAY_DECL pairing bottleneck_pairing(std::span<const double> costs, std::size_t size);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/matching.ipp>
#endif

#endif  // CAUSEWAY_PLAN_MATCHING_HPP
