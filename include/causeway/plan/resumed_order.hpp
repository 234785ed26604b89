// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RESUMED_ORDER_HPP
#define CAUSEWAY_PLAN_RESUMED_ORDER_HPP

// What is left of a pipeline's step, as an order for each rank: of a step that nobody has begun, or of one in which a rank
// was lost and another took over its stage (Bamboo: Thorpe et al., NSDI 2023). List scheduling without links: whatever can
// begin first does, a backward before a forward. Where nothing is done and each stage has its own rank this is 1F1B.
//
// Each stage takes micro-batches in their order, forwards and backwards, so its gradients are added up in the order of the
// undisturbed step, whoever adds them. Among the micro-batches of which something is left, the lowest can always go on: so
// there is no deadlock.
//
// A rank may repeat another one's forwards besides, where the plan has it wait long enough for one: so they delay nobody as
// long as the plan holds.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// How far one stage is with one micro-batch.
enum class unit_state : std::uint8_t {
  untouched,
  forward,  ///< its activations are kept
  done,     ///< its weights' gradient is in the sum, its input's gradient is kept
};

struct step_progress {
  std::vector<std::uint32_t> owners;           ///< [stage]: the rank that does what is left of it; one may have several
  std::vector<std::vector<unit_state>> units;  ///< [stage][micro-batch], as the owner has it; equally long

  [[nodiscard]] std::size_t stages() const noexcept { return owners.size(); }
  [[nodiscard]] std::size_t micro_batches() const noexcept { return units.empty() ? 0 : units.front().size(); }

  /// Of a step that nobody has begun, with a rank for each stage.
  [[nodiscard]] static step_progress fresh(std::size_t stages, std::size_t micro_batches) {
    step_progress p;
    for (std::size_t s = 0; s < stages; ++s) p.owners.push_back(static_cast<std::uint32_t>(s));
    p.units.assign(stages, std::vector<unit_state>(micro_batches));
    return p;
  }
};

/// What one rank does, in which order; an operation's chunk is its stage.
struct rank_plan {
  std::vector<operation> order;
  std::vector<double> begins;  ///< of each: when it can, in forwards
  double end = 0;              ///< of all ranks: when the last operation ends
};

namespace detail {

inline constexpr double forward_takes = 1, backward_takes = 2;  // about

class resumed_clock {
 public:
  explicit resumed_clock(const step_progress& p)
      : p_{p}, left_{p}, row_(p.stages()), forward_at_(p.stages(), std::vector<double>(p.micro_batches())) {
    back_at_ = forward_at_;
    for (const std::uint32_t rank : p.owners) plans_.resize(std::max<std::size_t>(plans_.size(), rank + 1));
    free_at_.resize(plans_.size());
    for (std::size_t s = 0; s < p.stages(); ++s) {
      for (const unit_state u : p.units[s]) row_[s].in_flight += u == unit_state::forward ? 1 : 0;
      pass_by(s);
    }
  }

  [[nodiscard]] result<std::vector<rank_plan>> run() {
    for (;;) {
      std::optional<candidate> first;
      bool left = false;
      for (std::size_t s = 0; s < p_.stages(); ++s) {
        left = left || row_[s].next_back < p_.micro_batches();
        consider(back(s), first);
        consider(forward(s), first);
      }
      if (!first && left)
        return fail(errc::protocol, "step", "what peers say that they have done of it cannot come of one order");
      if (!first) return ended();
      take(*first);
    }
  }

 private:
  struct row {
    std::size_t next_forward = 0, next_back = 0, in_flight = 0;
  };
  struct candidate {
    double begin = 0;
    operation op{};
    // gradients first, then the micro-batch that came in first, then the stage nearer the loss
    [[nodiscard]] auto rank() const { return std::tuple{begin, op.kind == work::forward, op.micro_batch, ~op.chunk}; }
  };

  static void consider(const std::optional<candidate>& c, std::optional<candidate>& first) {
    if (c && (!first || c->rank() < first->rank())) first = c;
  }

  // Activations that fit: as in 1F1B.
  [[nodiscard]] std::size_t room(std::size_t s) const { return p_.stages() - s; }

  void pass_by(std::size_t s) {
    row& r = row_[s];
    while (r.next_forward < p_.micro_batches() && left_.units[s][r.next_forward] != unit_state::untouched) ++r.next_forward;
    while (r.next_back < p_.micro_batches() && left_.units[s][r.next_back] == unit_state::done) ++r.next_back;
  }

  [[nodiscard]] std::optional<candidate> forward(std::size_t s) const {
    const std::size_t m = row_[s].next_forward;
    if (m == p_.micro_batches() || row_[s].in_flight >= room(s)) return std::nullopt;
    if (s > 0 && left_.units[s - 1][m] == unit_state::untouched) return std::nullopt;
    const double input = s > 0 ? forward_at_[s - 1][m] : 0;
    return candidate{std::max(input, free_at_[p_.owners[s]]), named(work::forward, m, s)};
  }

  [[nodiscard]] std::optional<candidate> back(std::size_t s) const {
    const std::size_t m = row_[s].next_back;
    if (m == p_.micro_batches() || left_.units[s][m] != unit_state::forward) return std::nullopt;
    if (s + 1 < p_.stages() && left_.units[s + 1][m] != unit_state::done) return std::nullopt;
    const double input = std::max(forward_at_[s][m], s + 1 < p_.stages() ? back_at_[s + 1][m] : 0);
    return candidate{std::max(input, free_at_[p_.owners[s]]), named(work::backward, m, s)};
  }

  [[nodiscard]] std::vector<rank_plan> ended() {
    for (rank_plan& p : plans_) p.end = *std::max_element(free_at_.begin(), free_at_.end());
    return std::move(plans_);
  }

  [[nodiscard]] static operation named(work kind, std::size_t m, std::size_t s) {
    return {kind, static_cast<std::uint32_t>(m), static_cast<std::uint32_t>(s)};
  }

  void take(const candidate& c) {
    const std::size_t s = c.op.chunk, m = c.op.micro_batch;
    const bool goes_forward = c.op.kind == work::forward;
    const double end = c.begin + (goes_forward ? forward_takes : backward_takes);
    free_at_[p_.owners[s]] = end;
    plans_[p_.owners[s]].order.push_back(c.op);
    plans_[p_.owners[s]].begins.push_back(c.begin);
    (goes_forward ? forward_at_ : back_at_)[s][m] = end;
    left_.units[s][m] = goes_forward ? unit_state::forward : unit_state::done;
    goes_forward ? ++row_[s].in_flight : --row_[s].in_flight;
    pass_by(s);
  }

  const step_progress& p_;
  step_progress left_;
  std::vector<row> row_;
  std::vector<std::vector<double>> forward_at_, back_at_;  // [stage][micro-batch]: when; 0 for what is done
  std::vector<double> free_at_;
  std::vector<rank_plan> plans_;
};

}  // namespace detail

/// What each rank does. Time: what is left, times stages. errc::protocol where nothing that is left can go on, which honest
/// ranks never say.
[[nodiscard]] inline result<std::vector<rank_plan>> resumed_orders(const step_progress& p) {
  for ([[maybe_unused]] const auto& row : p.units)
    CAUSEWAY_EXPECT(row.size() == p.micro_batches() && p.units.size() == p.stages());
  return detail::resumed_clock{p}.run();
}

/// The order of `plan` with forwards of another rank's stage `repeated` in between, of `missing` micro-batches, rising: in
/// idle time, and, with `all`, the others at the end. The input of stage 0 is always there, that of another is what this
/// rank's stage before gives.
[[nodiscard]] inline std::vector<operation> with_repeats(const rank_plan& plan, std::size_t repeated,
                                                         std::span<const std::uint32_t> missing, bool all) {
  const auto stage = static_cast<std::uint32_t>(repeated);
  const auto ready = [&](std::uint32_t m) {
    for (std::size_t i = 0; i < plan.order.size() && stage > 0; ++i) {
      if (plan.order[i] == operation{work::forward, m, stage - 1}) return plan.begins[i] + detail::forward_takes;
    }
    return 0.0;  // done in an earlier attempt
  };
  std::vector<operation> order;
  double now = 0;
  const auto fill = [&](double until) {
    for (; !missing.empty(); missing = missing.subspan(1)) {
      const double end = std::max(now, ready(missing.front())) + detail::forward_takes;
      if (end > until) return;
      order.push_back({work::forward, missing.front(), stage});
      now = end;
    }
  };
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    fill(plan.begins[i]);
    order.push_back(plan.order[i]);
    const bool goes_forward = plan.order[i].kind == work::forward;
    now = plan.begins[i] + (goes_forward ? detail::forward_takes : detail::backward_takes);
  }
  fill(all ? std::numeric_limits<double>::infinity() : plan.end);
  return order;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RESUMED_ORDER_HPP
