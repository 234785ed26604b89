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

namespace detail {

CAUSEWAY_DECL error wrong_operation(const schedule& s, std::size_t rank, std::size_t position, const std::string& message);

constexpr unsigned bit_of(work kind) noexcept { return 1U << static_cast<unsigned>(kind); }

/// Walks one rank's order and remembers what each micro-batch and chunk has been through.
class rank_order_check {
 public:
  CAUSEWAY_DECL rank_order_check(const schedule& s, std::size_t rank);

  CAUSEWAY_DECL [[nodiscard]] result<void> run();

 private:
  CAUSEWAY_DECL [[nodiscard]] result<void> take(std::size_t position, const operation& op);

  CAUSEWAY_DECL [[nodiscard]] result<void> complete(std::size_t unit) const;

  const schedule& s_;
  std::size_t rank_;
  std::vector<unsigned> seen_;  // [unit]: bits of kinds
};

/// Runs all ranks in order without clocks. A rank that cannot go on sleeps until what it waits for has run.
class deadlock_check {
 public:
  CAUSEWAY_DECL explicit deadlock_check(const schedule& s);

  CAUSEWAY_DECL [[nodiscard]] result<void> run();

 private:
  // Whether the output of a virtual stage for a micro-batch exists, forward or backward.
  CAUSEWAY_DECL [[nodiscard]] std::size_t output(std::uint32_t stage, const operation& op) const noexcept;

  CAUSEWAY_DECL void advance(std::uint32_t rank, std::vector<std::uint32_t>& awake);

  CAUSEWAY_DECL [[nodiscard]] error stuck(std::uint32_t rank) const;

  const schedule& s_;
  std::vector<std::size_t> next_;
  std::vector<bool> there_;
};

CAUSEWAY_DECL [[nodiscard]] result<void> check_sizes(const schedule& s);

}  // namespace detail

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
