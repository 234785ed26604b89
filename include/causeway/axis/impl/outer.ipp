// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_OUTER_IPP
#define CAUSEWAY_AXIS_IMPL_OUTER_IPP

#include <causeway/axis/outer.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL gossip_nesterov::gossip_nesterov(gossip_nesterov_options options) : options_{options} {}

CAUSEWAY_DECL void gossip_nesterov::reset(std::int64_t size) { velocity_.assign(static_cast<std::size_t>(size), 0.0F); }

CAUSEWAY_DECL void gossip_nesterov::step(thread_pool& pool, std::span<float> shared, std::span<float> mean,
                                         std::span<const float> mean_shared) {
  (void)step_rows(kernels::host_rows{pool}, shared, mean, mean_shared);
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_OUTER_IPP
