// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SCHEDULE_VARUNA_HPP
#define CAUSEWAY_PLAN_SCHEDULE_VARUNA_HPP

// Varuna's schedule (Athlur et al., EuroSys 2022, section 3.2): not a closed form but what a rule does on given costs. The
// paper states the rule in words; the tie-breaks are ours:
//   1. The gradient is there: backward. It goes before everything, as the stage before waits for it.
//   2. The last rank runs each backward right after its forward, and recomputes nothing. All others store a forward's
//      input only.
//   3. The gradient is on its way, and a forward would end too late to recompute before it arrives: recompute now.
//   4. Otherwise a forward, if its input is there and fewer than the given number of inputs are stored.
//   5. Otherwise, if the gradient is on its way: recompute, though early.
// A rank so holds one set of activations and a bounded number of inputs. The order is meant for opportunistic ranks.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/pipeline_clock.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/plan/stage_costs.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// The order that the rule writes on the costs of one stage per rank, when no rank stores more than `stored_inputs`. Twice
/// as many as ranks make it as short as 1F1B with recomputation on equal stages without links; slow links want more.
/// Errors: costs that do not fit; no room for an input.
CAUSEWAY_DECL [[nodiscard]] result<schedule> varuna(const stage_costs& costs, std::uint32_t micro_batches,
                                                    std::uint32_t stored_inputs);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/schedule_varuna.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SCHEDULE_VARUNA_HPP
