// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_SUBSPACE_IPP
#define CAUSEWAY_STAGE_IMPL_SUBSPACE_IPP

// Bodies of stage/subspace.hpp.

#include <causeway/stage/subspace.hpp>

#include <atomic>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace detail {

CAUSEWAY_DECL bool all_finite(thread_pool& pool, std::span<const float> values) {
  return kernels::detail::look_for_finite(pool, kernels::detect_simd_level(), static_cast<std::int64_t>(values.size()),
                                          values.data());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::detail

#endif  // CAUSEWAY_STAGE_IMPL_SUBSPACE_IPP
