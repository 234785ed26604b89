// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_TWO_WAY_SCHEDULES_HPP
#define CAUSEWAY_PLAN_TWO_WAY_SCHEDULES_HPP

// Schedules that send micro-batches into a pipeline from both of its ends at once (stage_path::two_ways), so that the waits
// of one way are filled with the work of the other. Price: every stage is on two ranks. As in schedules.hpp the backwards
// of a chunk run in the order of its micro-batches.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedules.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Chimera (Li and Hoefler, SC 2021, arXiv 2107.06925): units of p micro-batches, half of them each way; each way's
/// operations stand two slots apart, so that those of the two ways never meet. Units follow each other by direct
/// concatenation (section 3.5): the next one begins in the last waits of the one before. With equal stages and F = B each
/// rank waits p - 2 slots of a step, in (p - 2) / (2 m + p - 2) of its time; with B >= F a step of one unit (m = p) takes
/// p F + (2 p - 2) B, and further units wait in between. From p / 2 + 1 (at the ends) to p sets of activations (in the
/// middle), and two stages' parameters. `ranks` and `micro_batches` must be even. Forward doubling and backward halving,
/// the paper's other two ways to join units, change the size of micro-batches and are not here.
CAUSEWAY_DECL [[nodiscard]] result<schedule> chimera(std::uint32_t ranks, std::uint32_t micro_batches);

/// DualPipe (DeepSeek-AI 2024, arXiv 2412.19437; the order of the authors' program): a forward of one way is followed by a
/// backward of the other, and weight gradients that are put off fill the end. The authors compute such a pair at once, to
/// hide their communication, F&B seconds; a rank here runs one after the other, and what the first gives leaves before the
/// second. Equal stages: each rank waits (p / 2 - 1)(F + B - 2W) for F = B - W >= W; with pairs as one operation it is the
/// paper's (p / 2 - 1)(F&B + B - 3W). p + 1 sets of activations on every rank, and two stages' parameters. `ranks` must be
/// even, and `micro_batches` even and at least twice as many.
CAUSEWAY_DECL [[nodiscard]] result<schedule> dual_pipe(std::uint32_t ranks, std::uint32_t micro_batches);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/two_way_schedules.ipp>
#endif

#endif  // CAUSEWAY_PLAN_TWO_WAY_SCHEDULES_HPP
