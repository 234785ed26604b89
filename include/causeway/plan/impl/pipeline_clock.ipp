// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_PIPELINE_CLOCK_IPP
#define CAUSEWAY_PLAN_IMPL_PIPELINE_CLOCK_IPP

#include <causeway/plan/pipeline_clock.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL pipeline_clock::pipeline_clock(const schedule& shape, const stage_costs& costs, const jitter& noise)
    : shape_{shape},
      costs_{costs},
      noise_{noise},
      running_(shape.ranks),
      link_free_(std::size_t{2} * shape.ranks),
      arrives_(std::size_t{2} * virtual_stages(shape) * shape.micro_batches, never),
      expected_(arrives_) {}

CAUSEWAY_DECL void pipeline_clock::wake(std::uint32_t rank) { wake(now_, rank); }

CAUSEWAY_DECL void pipeline_clock::wake(double when, std::uint32_t rank) { events_.emplace(when, rank); }

CAUSEWAY_DECL bool pipeline_clock::arrived(std::uint32_t rank, const operation& op) const noexcept {
  return !source_of(shape_, rank, op) || arrives_[input(virtual_stage(shape_, {rank, op.chunk}), op)] <= now_;
}

CAUSEWAY_DECL double pipeline_clock::expected(std::uint32_t rank, const operation& op) const noexcept {
  return source_of(shape_, rank, op) ? expected_[input(virtual_stage(shape_, {rank, op.chunk}), op)] : 0;
}

CAUSEWAY_DECL double pipeline_clock::cost(std::uint32_t rank, const operation& op) const noexcept {
  return costs_.stages[virtual_stage(shape_, {rank, op.chunk})].of(op.kind);
}

CAUSEWAY_DECL std::size_t pipeline_clock::input(std::uint32_t stage, const operation& op) const noexcept {
  const std::size_t pass = op.kind == work::forward ? 0 : 1;
  return (pass * virtual_stages(shape_) + stage) * shape_.micro_batches + op.micro_batch;
}

CAUSEWAY_DECL timed_operation pipeline_clock::start(std::uint32_t rank, const operation& op) {
  const std::uint32_t stage = virtual_stage(shape_, {rank, op.chunk});
  const double end = now_ + costs_.stages[stage].of(op.kind) * noise_.factor(stage, op, false);
  running_[rank] = {true, op, end};
  if (const auto target = target_of(shape_, rank, op)) {
    const double way = target->rank == rank ? 0 : transfer(stage, *target, op) + edge(stage, *target).latency;
    expected_[input(virtual_stage(shape_, *target), op)] = end + way;
  }
  wake(end, rank);
  return {op, now_, end};
}

CAUSEWAY_DECL bool pipeline_clock::take_events(std::vector<std::uint32_t>& awake) {
  awake.clear();
  if (events_.empty()) return false;
  now_ = events_.top().first;
  while (!events_.empty() && events_.top().first == now_) {
    const std::uint32_t rank = events_.top().second;
    events_.pop();
    if (awake.empty() || awake.back() != rank) awake.push_back(rank);
    if (running_[rank].busy && running_[rank].end <= now_) finish(rank);
  }
  return true;
}

CAUSEWAY_DECL void pipeline_clock::finish(std::uint32_t rank) {
  running_[rank].busy = false;
  const operation& op = running_[rank].op;
  const auto target = target_of(shape_, rank, op);
  if (!target) return;
  const double there = target->rank == rank ? now_ : send(rank, *target, op);
  arrives_[input(virtual_stage(shape_, *target), op)] = there;
  if (target->rank != rank) wake(there, target->rank);
}

CAUSEWAY_DECL double pipeline_clock::send(std::uint32_t rank, const stage_place& target, const operation& op) {
  const std::uint32_t from = virtual_stage(shape_, {rank, op.chunk});
  const double factor = noise_.factor(from, op, true);
  double& free = link_free_[std::size_t{2} * rank + (is_next(rank, target.rank) ? 1 : 0)];
  free = std::max(free, now_) + transfer(from, target, op) * factor;
  return free + edge(from, target).latency * factor;
}

CAUSEWAY_DECL const edge_cost& pipeline_clock::edge(std::uint32_t from, const stage_place& target) const noexcept {
  return costs_.edges[std::min(from, virtual_stage(shape_, target))];
}

CAUSEWAY_DECL double pipeline_clock::transfer(std::uint32_t from, const stage_place& target,
                                              const operation& op) const noexcept {
  const edge_cost& e = edge(from, target);
  return (op.kind == work::forward ? e.bytes_forward : e.bytes_backward) / e.bytes_per_second;
}

CAUSEWAY_DECL bool pipeline_clock::is_next(std::uint32_t rank, std::uint32_t target) const noexcept {
  return target == (rank + 1) % shape_.ranks;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

#endif  // CAUSEWAY_PLAN_IMPL_PIPELINE_CLOCK_IPP
