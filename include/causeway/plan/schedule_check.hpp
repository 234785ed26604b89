// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SCHEDULE_CHECK_HPP
#define CAUSEWAY_PLAN_SCHEDULE_CHECK_HPP

// Whether a schedule can be run: complete, in an order that gives the gradients of the unsplit model, without deadlock, and
// within a bound of memory. Takes any schedule, from whatever source: it reads nothing that it has not checked.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Whether each rank adds up each chunk's gradients in the order of the micro-batches: both the input's and the weights'.
CAUSEWAY_DECL [[nodiscard]] result<void> keeps_order(const schedule& s);

/// Whether a schedule can be run: each micro-batch goes forward once and backward once (whole or in halves) through each
/// chunk of each rank, in the order of keeps_order if it `flushes`; and no ranks wait for each other in a circle.
/// Gives what each rank holds at most. Errors name the rank, the position in its order, and the operation.
CAUSEWAY_DECL [[nodiscard]] result<std::vector<held_memory>> check(const schedule& s);

/// Also whether no rank holds more than `bound` at any time.
CAUSEWAY_DECL [[nodiscard]] result<std::vector<held_memory>> check(const schedule& s, const held_memory& bound);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/schedule_check.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SCHEDULE_CHECK_HPP
