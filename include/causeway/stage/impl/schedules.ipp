// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_SCHEDULES_IPP
#define CAUSEWAY_STAGE_IMPL_SCHEDULES_IPP

#include <causeway/stage/schedules.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace detail {

CAUSEWAY_DECL result<plan::stage_costs> costs_of(const plan::stage_costs& given, std::uint32_t ranks) {
  if (ranks == 0 || given.stages.size() == ranks) return given;
  if (given.stages.empty()) return plan::equal_costs(ranks);
  return fail(
      errc::invalid_argument, "schedule costs",
      "of " + std::to_string(given.stages.size()) + " stages for " + std::to_string(ranks) + " ranks; give one each");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL result<plan::schedule> varuna::make(std::uint32_t ranks, std::uint32_t micro_batches) const {
  CAUSEWAY_ASSIGN(const plan::stage_costs known, detail::costs_of(costs, ranks));
  return plan::varuna(known, micro_batches, stored_inputs == 0 ? 2 * ranks : stored_inputs);
}

CAUSEWAY_DECL result<plan::schedule> crosspipe::make(std::uint32_t ranks, std::uint32_t micro_batches) const {
  CAUSEWAY_ASSIGN(const plan::stage_costs known, detail::costs_of(costs, ranks));
  return plan::greedy(known, {.ranks = ranks,
                              .micro_batches = micro_batches,
                              .activations = activations == 0 ? 2 * ranks : activations,
                              .halves = true});
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_SCHEDULES_IPP
