// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_CHECK_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_CHECK_IPP

#include <causeway/plan/schedule_check.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

constexpr unsigned bit_of(work kind) noexcept { return 1U << static_cast<unsigned>(kind); }

CAUSEWAY_DECL error wrong_operation(const schedule& s, std::size_t rank, std::size_t position, const std::string& message) {
  return fail(errc::invalid_argument,
              "rank " + std::to_string(rank) + ", position " + std::to_string(position) + ", " +
                  to_string(s.orders[rank][position]),
              message);
}

/// Walks one rank's order and remembers what each micro-batch and chunk has been through.
class rank_order_check {
 public:
  CAUSEWAY_DECL rank_order_check(const schedule& s, std::size_t rank)
      : s_{s}, rank_{rank}, seen_(std::size_t{s.chunks} * s.micro_batches) {}

  CAUSEWAY_DECL [[nodiscard]] result<void> run() {
    const std::vector<operation>& order = s_.orders[rank_];
    for (std::size_t i = 0; i < order.size(); ++i) CAUSEWAY_TRY(take(i, order[i]));
    for (std::size_t unit = 0; unit < seen_.size(); ++unit) CAUSEWAY_TRY(complete(unit));
    return {};
  }

 private:
  CAUSEWAY_DECL [[nodiscard]] result<void> take(std::size_t position, const operation& op) {
    constexpr unsigned gradients = bit_of(work::backward) | bit_of(work::input_gradient) | bit_of(work::weight_gradient);
    const auto wrong = [&](const std::string& message) { return wrong_operation(s_, rank_, position, message); };
    if (static_cast<unsigned>(op.kind) > static_cast<unsigned>(work::recompute)) return wrong("no such kind of work");
    if (op.micro_batch >= s_.micro_batches || op.chunk >= s_.chunks)
      return wrong("the schedule has no such micro-batch or chunk");
    if (!goes_through(s_, op.micro_batch, op.chunk))
      return wrong("its micro-batch goes the other way, through the other chunk");
    unsigned& seen = seen_[std::size_t{op.chunk} * s_.micro_batches + op.micro_batch];
    if ((seen & bit_of(op.kind)) != 0) return wrong("stands here for the second time; remove one");
    if (op.kind != work::forward && (seen & bit_of(work::forward)) == 0) return wrong("stands before its forward");
    if (op.kind == work::recompute && (seen & gradients) != 0) return wrong("stands after the gradient that needs it");
    if (op.kind == work::backward && (seen & gradients) != 0) return wrong("repeats a gradient; remove one");
    if (op.kind == work::input_gradient && (seen & gradients) != 0) return wrong("repeats a gradient; remove one");
    if (op.kind == work::weight_gradient && (seen & bit_of(work::backward)) != 0)
      return wrong("repeats a gradient; remove one");
    if (op.kind == work::weight_gradient && (seen & bit_of(work::input_gradient)) == 0)
      return wrong("stands before its input gradient");
    seen |= bit_of(op.kind);
    return {};
  }

  CAUSEWAY_DECL [[nodiscard]] result<void> complete(std::size_t unit) const {
    if (!goes_through(s_, static_cast<std::uint32_t>(unit % s_.micro_batches),
                      static_cast<std::uint32_t>(unit / s_.micro_batches))) {
      return {};
    }
    const auto is_missing = [&](work kind) { return (seen_[unit] & bit_of(kind)) == 0; };
    const auto missing = [&](work kind) {
      const operation op{kind, static_cast<std::uint32_t>(unit % s_.micro_batches),
                         static_cast<std::uint32_t>(unit / s_.micro_batches)};
      return fail(errc::invalid_argument, "rank " + std::to_string(rank_), to_string(op) + " is missing");
    };
    if (is_missing(work::forward)) return missing(work::forward);
    if (!is_missing(work::backward)) return {};
    if (is_missing(work::input_gradient)) return missing(work::backward);
    if (is_missing(work::weight_gradient)) return missing(work::weight_gradient);
    return {};
  }

  const schedule& s_;
  std::size_t rank_;
  std::vector<unsigned> seen_;  // [unit]: bits of kinds
};

/// Runs all ranks in order without clocks. A rank that cannot go on sleeps until what it waits for has run.
class deadlock_check {
 public:
  CAUSEWAY_DECL explicit deadlock_check(const schedule& s)
      : s_{s}, next_(s.ranks), there_(std::size_t{2} * virtual_stages(s) * s.micro_batches) {}

  CAUSEWAY_DECL [[nodiscard]] result<void> run() {
    std::vector<std::uint32_t> awake;
    for (std::uint32_t r = 0; r < s_.ranks; ++r) awake.push_back(r);
    while (!awake.empty()) {
      const std::uint32_t rank = awake.back();
      awake.pop_back();
      advance(rank, awake);
    }
    for (std::uint32_t r = 0; r < s_.ranks; ++r) {
      if (next_[r] < s_.orders[r].size()) return stuck(r);
    }
    return {};
  }

 private:
  // Whether the output of a virtual stage for a micro-batch exists, forward or backward.
  CAUSEWAY_DECL [[nodiscard]] std::size_t output(std::uint32_t stage, const operation& op) const noexcept {
    const std::size_t pass = op.kind == work::forward ? 0 : 1;
    return (pass * virtual_stages(s_) + stage) * s_.micro_batches + op.micro_batch;
  }

  CAUSEWAY_DECL void advance(std::uint32_t rank, std::vector<std::uint32_t>& awake) {
    const std::vector<operation>& order = s_.orders[rank];
    for (std::size_t& i = next_[rank]; i < order.size(); ++i) {
      const auto source = source_of(s_, rank, order[i]);
      if (source && !there_[output(virtual_stage(s_, *source), order[i])]) return;
      if (order[i].kind != work::forward && !gives_input_gradient(order[i].kind)) continue;
      there_[output(virtual_stage(s_, {rank, order[i].chunk}), order[i])] = true;
      if (const auto target = target_of(s_, rank, order[i]); target && target->rank != rank) awake.push_back(target->rank);
    }
  }

  CAUSEWAY_DECL [[nodiscard]] error stuck(std::uint32_t rank) const {
    const auto source = source_of(s_, rank, s_.orders[rank][next_[rank]]);
    return wrong_operation(s_, rank, next_[rank],
                           "deadlock: waits for rank " + std::to_string(source->rank) + ", chunk " +
                               std::to_string(source->chunk) + ", which waits for something after this");
  }

  const schedule& s_;
  std::vector<std::size_t> next_;
  std::vector<bool> there_;
};

CAUSEWAY_DECL result<void> check_sizes(const schedule& s) {
  if (s.ranks == 0 || s.chunks == 0 || s.micro_batches == 0)
    return fail(errc::invalid_argument, "schedule", "needs at least one rank, one chunk and one micro-batch");
  if (s.orders.size() != s.ranks) {
    return fail(errc::invalid_argument, "schedule",
                "has orders for " + std::to_string(s.orders.size()) + " of " + std::to_string(s.ranks) + " ranks");
  }
  const bool both = s.path == stage_path::two_ways;
  if (both && (s.chunks != 2 || s.ranks % 2 != 0))
    return fail(errc::invalid_argument, "schedule", "two ways need an even number of ranks, and two chunks on each");
  const std::uint64_t units = std::uint64_t{both ? 1 : s.chunks} * s.micro_batches;
  for (std::size_t r = 0; r < s.orders.size(); ++r) {
    if (s.orders[r].size() / 2 < units) {  // also keeps what follows from allocating more than the caller did
      return fail(errc::invalid_argument, "rank " + std::to_string(r),
                  "its " + std::to_string(s.orders[r].size()) + " operations are fewer than a forward and a backward of " +
                      std::to_string(units) + " micro-batches and chunks; operations are missing");
    }
  }
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<void> keeps_order(const schedule& s) {
  for (std::size_t r = 0; r < s.orders.size(); ++r) {
    std::vector<std::uint32_t> inputs(s.chunks);  // the micro-batch that comes next
    if (s.path == stage_path::two_ways && s.chunks == 2) inputs[1] = first_back(s);
    std::vector<std::uint32_t> weights = inputs;
    for (std::size_t i = 0; i < s.orders[r].size(); ++i) {
      const operation& op = s.orders[r][i];
      if (op.chunk >= s.chunks) return detail::wrong_operation(s, r, i, "the schedule has no such chunk");
      const bool out_of_order = (gives_input_gradient(op.kind) && op.micro_batch != inputs[op.chunk]++) ||
                                (gives_weight_gradient(op.kind) && op.micro_batch != weights[op.chunk]++);
      if (out_of_order) {
        return detail::wrong_operation(s, r, i,
                                       "gradients must be added up in the order of micro-batches, or their sum has other "
                                       "bits than the unsplit model's");
      }
    }
  }
  return {};
}

CAUSEWAY_DECL result<std::vector<held_memory>> check(const schedule& s) {
  CAUSEWAY_TRY(detail::check_sizes(s));
  for (std::size_t r = 0; r < s.ranks; ++r) CAUSEWAY_TRY(detail::rank_order_check{s, r}.run());
  if (s.flushes) CAUSEWAY_TRY(keeps_order(s));
  CAUSEWAY_TRY(detail::deadlock_check{s}.run());
  std::vector<held_memory> peaks;
  for (std::uint32_t r = 0; r < s.ranks; ++r) peaks.push_back(peak_memory(s, r));
  return peaks;
}

CAUSEWAY_DECL result<std::vector<held_memory>> check(const schedule& s, const held_memory& bound) {
  CAUSEWAY_ASSIGN(std::vector<held_memory> peaks, check(s));
  for (std::uint32_t r = 0; r < s.ranks; ++r) {
    if (peaks[r].within(bound)) continue;
    held_memory now;
    const std::vector<held_memory> changes = memory_changes(s, r);
    std::size_t i = 0;
    while ((now += changes[i]).within(bound)) ++i;
    return detail::wrong_operation(s, r, i,
                                   "would hold " + std::to_string(now.activations) + " sets of activations and " +
                                       std::to_string(now.inputs) + " stored inputs, more than the bound of " +
                                       std::to_string(bound.activations) + " and " + std::to_string(bound.inputs) +
                                       "; run fewer forwards ahead, or recompute");
  }
  return peaks;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_CHECK_IPP
