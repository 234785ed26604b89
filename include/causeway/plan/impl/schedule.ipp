// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_IPP

#include <causeway/plan/schedule.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::string to_string(const operation& op) {
  std::string text = letter(op.kind) + std::to_string(op.micro_batch);
  if (op.chunk > 0) text += '.' + std::to_string(op.chunk);
  return text;
}

CAUSEWAY_DECL std::vector<held_memory> memory_changes(const schedule& s, std::uint32_t rank) {
  CAUSEWAY_EXPECT(rank < s.orders.size());
  const std::vector<operation>& order = s.orders[rank];
  const auto unit = [&](const operation& op) {
    CAUSEWAY_EXPECT(op.chunk < s.chunks && op.micro_batch < s.micro_batches);
    return std::size_t{op.chunk} * s.micro_batches + op.micro_batch;
  };
  std::vector<bool> recomputed(std::size_t{s.chunks} * s.micro_batches);
  for (const operation& op : order) {
    if (op.kind == work::recompute) recomputed[unit(op)] = true;
  }
  std::vector<held_memory> changes;
  changes.reserve(order.size());
  for (const operation& op : order) {
    switch (op.kind) {
      case work::forward: changes.push_back(recomputed[unit(op)] ? held_memory{0, 1} : held_memory{1, 0}); break;
      case work::recompute: changes.push_back({1, -1}); break;
      case work::input_gradient: changes.push_back({0, 0}); break;  // the weight gradient needs the activations, too
      default: changes.push_back({-1, 0}); break;
    }
  }
  return changes;
}

CAUSEWAY_DECL held_memory peak_memory(const schedule& s, std::uint32_t rank) {
  held_memory now, peak;
  for (const held_memory& change : memory_changes(s, rank)) {
    now += change;
    peak = larger(peak, now);
  }
  return peak;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_IPP
