// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_ADAPTIVE_TOP_K_IPP
#define CAUSEWAY_STAGE_IMPL_ADAPTIVE_TOP_K_IPP

#include <causeway/stage/adaptive_top_k.hpp>

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL result<void> validate(const edge_speeds& speeds) {
  for (const auto* const way : {&speeds.forward, &speeds.backward}) {
    for (std::size_t edge = 0; edge < way->size(); ++edge) {
      if (std::isfinite((*way)[edge]) && (*way)[edge] > 0) continue;
      return fail(errc::invalid_argument, "adaptive_top_k",
                  "boundary " + std::to_string(edge) + " carries " + std::to_string((*way)[edge]) +
                      " bytes per second; measure it again, or leave all speeds out");
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_ADAPTIVE_TOP_K_IPP
