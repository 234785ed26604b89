// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_CURSOR_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_CURSOR_IPP

#include <causeway/plan/schedule_cursor.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL schedule_cursor::schedule_cursor(const schedule& s, std::uint32_t rank, run_order mode)
    : schedule_cursor{s, rank, mode, peak_memory(s, rank)} {}

CAUSEWAY_DECL schedule_cursor::schedule_cursor(const schedule& s, std::uint32_t rank, run_order mode,
                                               const held_memory& limit)
    : order_{s.orders[rank]},
      changes_{memory_changes(s, rank)},
      done_(order_.size()),
      skipped_units_(std::size_t{s.micro_batches} * s.chunks),
      skipped_kinds_(s.chunks),
      micro_batches_{s.micro_batches},
      mode_{mode},
      limit_{limit} {
  CAUSEWAY_EXPECT(peak_memory(s, rank).within(limit));
}

CAUSEWAY_DECL void schedule_cursor::complete(std::size_t index) {
  CAUSEWAY_EXPECT(index < order_.size() && !done_[index]);
  done_[index] = true;
  held_ += changes_[index];
  while (first_ < order_.size() && done_[first_]) ++first_;
}

CAUSEWAY_DECL void schedule_cursor::rewind() {
  done_.assign(done_.size(), false);
  first_ = 0;
  held_ = {};
}

CAUSEWAY_DECL std::size_t schedule_cursor::unit(const operation& op) const noexcept {
  return std::size_t{op.chunk} * micro_batches_ + op.micro_batch;
}

CAUSEWAY_DECL bool schedule_cursor::may_overtake(std::size_t index, held_memory peak) const {
  const operation& op = order_[index];
  if (skipped_units_[unit(op)] == scan_) return false;
  for (std::size_t l = 0; l < lines; ++l) {
    if (is_on(op.kind, l) && skipped_kinds_[op.chunk][l] == scan_) return false;
  }
  const held_memory& change = changes_[index];
  return (change.activations <= 0 || peak.activations + change.activations <= limit_.activations) &&
         (change.inputs <= 0 || peak.inputs + change.inputs <= limit_.inputs);
}

CAUSEWAY_DECL void schedule_cursor::skip(const operation& op) {
  skipped_units_[unit(op)] = scan_;
  for (std::size_t l = 0; l < lines; ++l) {
    if (is_on(op.kind, l)) skipped_kinds_[op.chunk][l] = scan_;
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_CURSOR_IPP
