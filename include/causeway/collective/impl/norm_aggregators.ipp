// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_NORM_AGGREGATORS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_NORM_AGGREGATORS_IPP

#include <causeway/collective/norm_aggregators.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL void add_scaled(thread_pool& pool, std::span<float> sum, double factor, std::span<const float> x) {
  kernels::axpy(pool, sum.data(), static_cast<float>(factor), x.data(), static_cast<std::int64_t>(x.size()));
}

CAUSEWAY_DECL std::vector<double> median_norms(const std::vector<double>& norms, std::size_t tensors) {
  std::vector<double> limits(tensors), counted;
  for (std::size_t t = 0; t < tensors; ++t) {
    counted.clear();
    for (std::size_t at = t; at < norms.size(); at += tensors) {
      if (norms[at] != no_norm) counted.push_back(norms[at]);
    }
    if (counted.empty()) continue;
    const auto middle = counted.begin() + static_cast<std::ptrdiff_t>((counted.size() - 1) / 2);
    std::nth_element(counted.begin(), middle, counted.end());
    limits[t] = *middle;
  }
  return limits;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL bool median_norm_clip::is_within(std::span<const float> x) const {
  return std::all_of(x.begin(), x.end(), [this](float v) { return std::abs(v) <= largest; });
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_NORM_AGGREGATORS_IPP
