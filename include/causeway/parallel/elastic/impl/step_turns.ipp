// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_STEP_TURNS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_STEP_TURNS_IPP

#include <causeway/parallel/elastic/step_turns.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::uint32_t step_turn::order() const noexcept {
  return trains ? std::numeric_limits<std::uint32_t>::max() : evaluated;
}

CAUSEWAY_DECL void step_turns::at(std::uint64_t state) noexcept {
  if (state == state_) return;
  state_ = state;
  evaluated_ = 0;
  last_ = std::numeric_limits<double>::quiet_NaN();
}

CAUSEWAY_DECL void step_turns::came_to(double sum) noexcept {
  ++evaluated_;
  last_ = sum;
}

CAUSEWAY_DECL std::uint32_t furthest(const std::vector<step_turn>& all) noexcept {
  std::uint32_t most = 0;
  for (const step_turn& t : all) most = std::max(most, t.order());
  return most;
}

CAUSEWAY_DECL double missed(const step_turn& own, const std::vector<step_turn>& all) noexcept {
  for (const step_turn& t : all) {
    if (t.evaluated == own.evaluated + 1 && std::isfinite(t.last)) return t.last;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_STEP_TURNS_IPP
