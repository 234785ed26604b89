// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_VARUNA_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_VARUNA_IPP

#include <causeway/plan/schedule_varuna.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// What one rank has done, and what the rule wants next.
class varuna_rule {
 public:
  varuna_rule(const schedule& shape, std::uint32_t rank, std::uint32_t stored_inputs)
      : rank_{rank}, last_{rank + 1 == shape.ranks}, micro_batches_{shape.micro_batches}, most_stored_{stored_inputs} {}

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> choose(const pipeline_clock& clock) {
    if (backwards_ == micro_batches_) return std::nullopt;
    const operation backward{work::backward, backwards_}, recompute{work::recompute, backwards_};
    if (has_activations_ && clock.arrived(rank_, backward)) return take(backward);
    const double gradient = forwards_ == backwards_ ? pipeline_clock::never : clock.expected(rank_, backward);
    const double needed = has_activations_ ? 0 : clock.cost(rank_, recompute);
    const auto forward = next_forward(clock);
    if (forward && clock.now() + clock.cost(rank_, *forward) + needed <= gradient) return take(*forward);
    if (!has_activations_ && gradient < pipeline_clock::never) return take(recompute);
    return std::nullopt;
  }

 private:
  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> next_forward(const pipeline_clock& clock) const {
    const operation forward{work::forward, forwards_};
    const bool room = last_ ? forwards_ == backwards_ : forwards_ - backwards_ - (has_activations_ ? 1 : 0) < most_stored_;
    if (forwards_ == micro_batches_ || !room || !clock.arrived(rank_, forward)) return std::nullopt;
    return forward;
  }

  CAUSEWAY_DECL [[nodiscard]] operation take(const operation& op) {
    forwards_ += op.kind == work::forward ? 1 : 0;
    backwards_ += op.kind == work::backward ? 1 : 0;
    if (op.kind != work::forward || last_) has_activations_ = op.kind != work::backward;
    return op;
  }

  std::uint32_t rank_;
  bool last_;
  std::uint32_t micro_batches_;
  std::uint32_t most_stored_;
  std::uint32_t forwards_ = 0;
  std::uint32_t backwards_ = 0;
  bool has_activations_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<schedule> varuna(const stage_costs& costs, std::uint32_t micro_batches, std::uint32_t stored_inputs) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(static_cast<std::uint32_t>(costs.stages.size()), 1, micro_batches));
  CAUSEWAY_TRY(plan::check(costs, s.ranks));
  if (stored_inputs == 0) return fail(errc::invalid_argument, "varuna", "a rank must have room for at least one input");
  std::vector<detail::varuna_rule> rules;
  for (std::uint32_t r = 0; r < s.ranks; ++r) rules.emplace_back(s, r, stored_inputs);
  detail::pipeline_clock clock{s, costs, {}};
  clock.run([&](std::uint32_t rank) { return rules[rank].choose(clock); },
            [&](std::uint32_t rank, const timed_operation& t) {
              s.orders[rank].push_back(t.op);
              if (t.op.kind == work::backward && rank > 0) clock.wake(rank - 1);  // its gradient is on the way
            });
  return s;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_VARUNA_IPP
