// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_MATCHING_IPP
#define CAUSEWAY_PLAN_IMPL_MATCHING_IPP

#include <causeway/plan/matching.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL double bottleneck_matcher::solve(std::span<const double> costs, std::size_t size) {
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

CAUSEWAY_DECL double bottleneck_matcher::lower_bound() const {  // each row and column must pay at least its cheapest edge
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

CAUSEWAY_DECL double bottleneck_matcher::next_limit() const {
  double next = std::numeric_limits<double>::infinity();
  for (const double c : costs_) {
    if (c > limit_) next = std::min(next, c);
  }
  return next;
}

CAUSEWAY_DECL bool bottleneck_matcher::augment_from(std::size_t row) {
  ++mark_;
  return augment(row);
}

CAUSEWAY_DECL bool bottleneck_matcher::augment(std::size_t row) {
  for (std::size_t column = 0; column < size_; ++column) {
    if (costs_[row * size_ + column] > limit_ || seen_[column] == mark_) continue;
    seen_[column] = mark_;
    if (row_of_[column] != none && !augment(row_of_[column])) continue;
    row_of_[column] = row;
    return true;
  }
  return false;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL pairing bottleneck_pairing(std::span<const double> costs, std::size_t size) {
  CAUSEWAY_EXPECT(costs.size() == size * size);
  detail::bottleneck_matcher matcher;
  pairing p{matcher.solve(costs, size), std::vector<std::size_t>(size)};
  for (std::size_t column = 0; column < size; ++column) p.partner_of[matcher.row_of()[column]] = column;
  return p;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_MATCHING_IPP
