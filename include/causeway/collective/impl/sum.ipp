// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_SUM_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_SUM_IPP

#include <causeway/collective/sum.hpp>

#include <atomic>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL bool sum_parts(thread_pool& pool, std::span<const float* const> parts, float factor, float* out,
                             std::int64_t count, kernels::simd_level level) {
  std::atomic<bool> finite{true};
  pool.for_range(count, 16 * detail::sum_parts_kernel::block, [&](index_range r) {
    const bool good = kernels::detail::dispatch<detail::sum_parts_kernel>(level, parts, factor, out, r.begin, r.end);
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

CAUSEWAY_DECL bool finite_values(std::span<const float> values, kernels::simd_level level) {
  return kernels::detail::dispatch<kernels::detail::finite_kernel>(level, values.data(),
                                                                   static_cast<std::int64_t>(values.size()));
}

CAUSEWAY_DECL bool copy_finite(thread_pool& pool, std::span<const float> from, std::span<float> to,
                               kernels::simd_level level) {
  return kernels::detail::look_for_finite(pool, level, static_cast<std::int64_t>(from.size()), from.data(), to.data());
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_SUM_IPP
