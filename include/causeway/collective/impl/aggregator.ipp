// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_AGGREGATOR_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_AGGREGATOR_IPP

#include <causeway/collective/aggregator.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

CAUSEWAY_DECL bool scale_finite(thread_pool& pool, std::span<float> values, float factor) {
  const float* const whole[] = {values.data()};
  return sum_parts(pool, whole, factor, values.data(), static_cast<std::int64_t>(values.size()));
}

CAUSEWAY_DECL bool weighted(thread_pool& pool, std::span<const float> values, float weight, std::span<float> out) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (weight == 0) {
    kernels::zero(pool, out.data(), count);
    return true;
  }
  const float* const only[] = {values.data()};
  return sum_parts(pool, only, weight, out.data(), count);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

#endif  // CAUSEWAY_COLLECTIVE_IMPL_AGGREGATOR_IPP
