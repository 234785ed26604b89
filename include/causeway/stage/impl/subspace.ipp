// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_SUBSPACE_IPP
#define CAUSEWAY_STAGE_IMPL_SUBSPACE_IPP

// Bodies of stage/subspace.hpp.

#include <causeway/stage/subspace.hpp>

#include <atomic>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace detail {

CAUSEWAY_DECL bool all_finite(thread_pool& pool, std::span<const float> values) {
  std::atomic<bool> finite{true};
  kernels::detail::for_elements(pool, static_cast<std::int64_t>(values.size()), [&](index_range r) {
    const bool good = kernels::detail::dispatch<compress::detail::finite_elements>(kernels::detect_simd_level(),
                                                                                   values.data() + r.begin, r.size());
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::detail

#endif  // CAUSEWAY_STAGE_IMPL_SUBSPACE_IPP
