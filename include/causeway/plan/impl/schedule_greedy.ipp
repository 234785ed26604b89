// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_GREEDY_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_GREEDY_IPP

#include <causeway/plan/schedule_greedy.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// How a rank chooses among operations that are ready.
struct list_rule {
  bool forwards_first = false;  ///< else gradients first
  bool patient = false;         ///< start nothing else when a gradient arrives before that ends
  bool deep_first = false;      ///< the last of the chunks first; else in groups of `ranks` micro-batches, as interleaved
};

/// One rank's progress, and its next operation by a rule.
class list_scheduler {
 public:
  CAUSEWAY_DECL list_scheduler(const greedy_options& options, const list_rule& rule, std::uint32_t rank)
      : options_{options}, rule_{rule}, rank_{rank}, done_(options.chunks) {}

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> choose(const pipeline_clock& clock) {
    const auto forward = best(clock, work::forward);
    const auto gradient = best(clock, options_.halves ? work::input_gradient : work::backward);
    const auto weight = options_.halves ? best(clock, work::weight_gradient) : std::nullopt;
    const bool first = rule_.forwards_first;
    for (const auto& candidate : {first ? forward : gradient, first ? gradient : forward, weight}) {
      if (candidate && (gives_input_gradient(candidate->kind) || !must_wait(clock, *candidate))) return take(*candidate);
    }
    return std::nullopt;
  }

 private:
  struct progress {  // of a chunk: how many micro-batches
    std::uint32_t forward = 0, input = 0, weight = 0;
  };

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> candidate(std::uint32_t chunk, work kind) const {
    const progress& p = done_[chunk];
    switch (kind) {
      case work::forward: return at(kind, chunk, p.forward, has_room(chunk) ? options_.micro_batches : 0);
      case work::weight_gradient: return at(kind, chunk, p.weight, p.input);
      default: return at(kind, chunk, p.input, p.forward);
    }
  }

  CAUSEWAY_DECL static std::optional<operation> at(work kind, std::uint32_t chunk, std::uint32_t next, std::uint32_t end) {
    return next < end ? std::optional{operation{kind, next, chunk}} : std::nullopt;
  }

  // Room for the chunks behind this one stays free, so that the oldest micro-batch always comes to its end.
  CAUSEWAY_DECL [[nodiscard]] bool has_room(std::uint32_t chunk) const {
    return held_ + (options_.chunks - chunk) <= options_.activations;
  }

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> best(const pipeline_clock& clock, work kind) const {
    std::optional<operation> found;
    for (std::uint32_t c = 0; c < options_.chunks; ++c) {
      const auto op = candidate(c, kind);
      if (op && clock.arrived(rank_, *op) && (!found || order_key(*op) < order_key(*found))) found = op;
    }
    return found;
  }

  CAUSEWAY_DECL [[nodiscard]] std::tuple<std::uint32_t, std::uint32_t, std::uint32_t> order_key(const operation& op) const {
    const std::uint32_t behind = options_.chunks - 1 - op.chunk;  // chunks that the forward has still to go through
    const std::uint32_t group = op.micro_batch / options_.ranks;
    if (op.kind == work::forward) return rule_.deep_first ? std::tuple{behind, 0U, 0U} : std::tuple{group, op.chunk, 0U};
    return rule_.deep_first ? std::tuple{op.chunk, 0U, 0U} : std::tuple{group, behind, 0U};
  }

  // Whether a gradient arrives while this would run.
  CAUSEWAY_DECL [[nodiscard]] bool must_wait(const pipeline_clock& clock, const operation& op) const {
    if (!rule_.patient) return false;
    const double end = clock.now() + clock.cost(rank_, op);
    for (std::uint32_t c = 0; c < options_.chunks; ++c) {
      const auto gradient = candidate(c, options_.halves ? work::input_gradient : work::backward);
      if (gradient && !clock.arrived(rank_, *gradient) && clock.expected(rank_, *gradient) < end) return true;
    }
    return false;
  }

  CAUSEWAY_DECL [[nodiscard]] operation take(const operation& op) {
    progress& p = done_[op.chunk];
    p.forward += op.kind == work::forward ? 1 : 0;
    p.input += gives_input_gradient(op.kind) ? 1 : 0;
    p.weight += gives_weight_gradient(op.kind) ? 1 : 0;
    if (op.kind == work::forward) ++held_;
    if (gives_weight_gradient(op.kind)) --held_;
    return op;
  }

  greedy_options options_;
  list_rule rule_;
  std::uint32_t rank_;
  std::vector<progress> done_;  // [chunk]
  std::uint32_t held_ = 0;      // sets of activations
};

CAUSEWAY_DECL schedule list_schedule(const schedule& shape, const stage_costs& costs, const greedy_options& options,
                                     const list_rule& rule) {
  schedule s = shape;
  std::vector<list_scheduler> ranks;
  for (std::uint32_t r = 0; r < s.ranks; ++r) ranks.emplace_back(options, rule, r);
  pipeline_clock clock{shape, costs, {}};
  clock.run([&](std::uint32_t rank) { return ranks[rank].choose(clock); },
            [&](std::uint32_t rank, const timed_operation& t) {
              s.orders[rank].push_back(t.op);
              // a patient rank may have waited for this one in vain, or must wait for it now
              if (const auto target = target_of(shape, rank, t.op)) clock.wake(target->rank);
            });
  return s;
}

/// The same stages, with links that take `factor` times as long.
CAUSEWAY_DECL stage_costs with_links(const stage_costs& costs, double factor) {
  stage_costs scaled = costs;
  for (edge_cost& e : scaled.edges) {
    e.latency *= factor;
    e.bytes_forward *= factor;
    e.bytes_backward *= factor;
  }
  return scaled;
}

/// The orders of all rules on links of all speeds; the first is for the links as they are.
CAUSEWAY_DECL std::vector<schedule> list_schedules(const schedule& shape, const stage_costs& costs,
                                                   const greedy_options& options) {
  std::vector<schedule> all;
  for (const double factor : {1.0, 0.0, 0.5, 2.0}) {
    const stage_costs scaled = with_links(costs, factor);
    for (unsigned bits = 0; bits < (options.chunks == 1 ? 4U : 8U); ++bits) {  // with one chunk none is deeper
      all.push_back(list_schedule(shape, scaled, options, {(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0}));
    }
  }
  return all;
}

/// The schedule with a closed form for such a pipeline, if there is one that fits its room.
CAUSEWAY_DECL std::optional<schedule> closed_form(const greedy_options& o) {
  if (o.halves && o.chunks > 1) return std::nullopt;
  auto s = o.halves       ? zero_bubble(o.ranks, o.micro_batches)
           : o.chunks > 1 ? interleaved(o.ranks, o.chunks, o.micro_batches)
                          : one_f_one_b(o.ranks, o.micro_batches);
  if (!s || !plan::check(*s, {o.activations, 0})) return std::nullopt;
  return *std::move(s);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<schedule> greedy(const stage_costs& costs, const greedy_options& options) {
  CAUSEWAY_ASSIGN(const schedule shape, detail::start_schedule(options.ranks, options.chunks, options.micro_batches));
  CAUSEWAY_TRY(plan::check(costs, virtual_stages(shape)));
  if (options.activations < options.chunks) {
    return fail(errc::invalid_argument, "greedy",
                "room for " + std::to_string(options.activations) + " sets of activations is less than the " +
                    std::to_string(options.chunks) + " chunks that one micro-batch goes through");
  }
  std::vector<schedule> all = detail::list_schedules(shape, costs, options);
  // last: of two as short, the one that uses the room stands jitter better
  if (auto closed = detail::closed_form(options)) all.push_back(*std::move(closed));
  std::optional<schedule> best;
  double shortest = 0;
  for (schedule& s : all) {
    CAUSEWAY_ASSIGN(const timeline t, timeline_of(s, costs));
    if (best && t.makespan >= shortest) continue;
    shortest = t.makespan;
    best = std::move(s);
  }
  return std::move(*best);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_GREEDY_IPP
