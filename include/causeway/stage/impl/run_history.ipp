// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RUN_HISTORY_IPP
#define CAUSEWAY_STAGE_IMPL_RUN_HISTORY_IPP

#include <causeway/stage/run_history.hpp>

#include <algorithm>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL void run_history::took_step(std::uint64_t steps, std::uint64_t interval, const layout& l, std::size_t peers) {
  if (interval == 0) return;
  replicas = static_cast<std::uint32_t>(l.replicas.size());
  stages = static_cast<std::uint32_t>(l.replicas.front().assignments.size());
  if (steps % interval == 0) add_interval(peers);
}

CAUSEWAY_DECL void run_history::add_interval(std::size_t peers) {
  std::copy(there.begin() + 1, there.end(), there.begin());
  there.back() = static_cast<std::uint16_t>(std::min<std::size_t>(peers, std::numeric_limits<std::uint16_t>::max()));
}

CAUSEWAY_DECL std::vector<std::size_t> run_history::counts() const {
  const auto first = std::find_if(there.begin(), there.end(), [](std::uint16_t n) { return n > 0; });
  return {first, there.end()};
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_RUN_HISTORY_IPP
