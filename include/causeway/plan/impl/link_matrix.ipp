// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_LINK_MATRIX_IPP
#define CAUSEWAY_PLAN_IMPL_LINK_MATRIX_IPP

#include <causeway/plan/link_matrix.hpp>

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL link_matrix::link_matrix(std::size_t devices, const link_cost& everywhere)
    : size_{devices}, links_(devices * devices, everywhere) {
  for (std::size_t i = 0; i < devices; ++i) links_[i * devices + i] = {};
}

CAUSEWAY_DECL const link_cost& link_matrix::operator()(std::size_t from, std::size_t to) const {
  CAUSEWAY_EXPECT(from < size_ && to < size_);
  return links_[from * size_ + to];
}

CAUSEWAY_DECL void link_matrix::set(std::size_t from, std::size_t to, const link_cost& link) {
  CAUSEWAY_EXPECT(from < size_ && to < size_);
  links_[from * size_ + to] = link;
}

CAUSEWAY_DECL void link_matrix::set_both(std::size_t a, std::size_t b, const link_cost& link) {
  set(a, b, link);
  set(b, a, link);
}

CAUSEWAY_DECL double link_matrix::mean_seconds(std::size_t a, std::size_t b, double bytes) const {
  return ((*this)(a, b).seconds(bytes) + (*this)(b, a).seconds(bytes)) / 2;
}

CAUSEWAY_DECL link_matrix link_matrix::devices_in(std::span<const std::size_t> region_of) const {
  link_matrix all{region_of.size()};
  for (std::size_t i = 0; i < region_of.size(); ++i) {
    for (std::size_t j = 0; j < region_of.size(); ++j) {
      if (i != j) all.set(i, j, (*this)(region_of[i], region_of[j]));
    }
  }
  return all;
}

CAUSEWAY_DECL result<void> check(const link_matrix& links) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    for (std::size_t j = 0; j < links.size(); ++j) {
      const link_cost& l = links(i, j);
      if (std::isfinite(l.delay) && l.delay >= 0 && l.bandwidth > 0) continue;
      return fail(errc::invalid_argument, "link " + std::to_string(i) + " to " + std::to_string(j),
                  "has a delay that is not finite and >= 0, or no bandwidth; leave devices without links out");
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_LINK_MATRIX_IPP
