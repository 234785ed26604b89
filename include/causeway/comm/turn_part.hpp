// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_TURN_PART_HPP
#define CAUSEWAY_COMM_TURN_PART_HPP

// A policy of comm::rounds as comm::stacked sees it, among peers that come and go: when it is due, and the parts of its
// turn.

#include <causeway/comm/round_turns.hpp>
#include <causeway/core/result.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// A policy that takes part in turns: its own state, which stays where it is.
template <class Core>
struct turn_part {
  using due_fragments = typename round_turns<Core>::due_fragments;

  Core& core;
  round_turns<Core>& turns;

  [[nodiscard]] std::uint64_t next() const { return turns.next(core); }
  [[nodiscard]] due_fragments due(std::uint64_t step, bool last) const {
    return last ? turns.all(core) : turns.due_at(core, step);
  }
  result<void> set_aside(auto& ctx, std::uint64_t step) const { return turns.set_aside(ctx, core, step); }
  result<void> prepare(auto& ctx, const due_fragments& due) const { return turns.prepare(ctx, core, due); }
  /// Sends what was prepared, and waits for the means.
  result<void> talk(auto& ctx, const due_fragments& due) const {
    if (due.empty()) return {};
    CAUSEWAY_TRY(turns.launch(ctx, core, due));
    return turns.receive(ctx, core, due);
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_TURN_PART_HPP
