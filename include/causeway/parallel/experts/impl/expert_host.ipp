// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_HOST_IPP
#define CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_HOST_IPP

#include <causeway/parallel/experts/expert_host.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL stage::expert_grid grid_of(const expert_mixture_options& o) {
  std::vector<std::uint32_t> sides{o.layers};
  sides.insert(sides.end(), o.sides.begin(), o.sides.end());
  return stage::expert_grid{std::move(sides)};
}

CAUSEWAY_DECL std::uint64_t agreement(const expert_mixture_options& o) {
  hasher h;
  h.add_value(o.run).add_value(o.width).add_value(o.layers);
  for (const std::uint32_t s : o.sides) h.add_value(s);
  return h.finish();
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_HOST_IPP
