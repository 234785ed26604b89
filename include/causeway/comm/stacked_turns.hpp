// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_STACKED_TURNS_HPP
#define CAUSEWAY_COMM_STACKED_TURNS_HPP

// The order of things where two policies of comm::rounds exchange among peers that come and go. What is due first is a
// turn, of one of them or of both; a turn is one attempt of the membership and one record, and the last turn of a run is of
// everything. In a turn of both the second policy's rows are made of parameters that the first one's results have been
// applied to, as among fixed peers. These have not been applied yet: nothing that all hold alike moves before all exchanges
// of the attempt went through. So they are applied, the rows are made, and it is taken back.
//
// A row that is made before its result is wanted waits until then, and is sent in the turn in which it is applied. So what
// peers hold is what it is among fixed ones, and the exchange overlaps with nothing.
//
// Both policies move the live parameters. What all hold alike of these is a row of its own: where a newcomer begins, and
// what the progress of a peer that missed a turn is moved along with.

#include <causeway/comm/round_turns.hpp>
#include <causeway/core/result.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// Of two policies, which are given to each call.
class stacked_turns {
 public:
  /// The first part holds what all have alike of the live parameters.
  void shared(auto& ar) { ar(alike_); }

  void serialize(auto& ar) { ar(alike_); }

  /// When a run begins, or goes on from a checkpoint.
  void found(auto& ctx, auto first, auto second) {
    move_to(ctx.memory(), alike_);
    if (alike_.empty()) alike_.assign(ctx.parameters().begin(), ctx.parameters().end());
    second.core.first_part =
        first.core.states.size() + first.turns.rows_at_end(first.core);  // its messages have other names
  }

  /// After an inner step.
  result<void> visit(auto& ctx, auto first, auto second) {
    if (first.core.at >= next(first, second) || ctx.run_ends()) return exchange(ctx, first, second);
    CAUSEWAY_TRY(first.set_aside(ctx, first.core.at));
    return second.set_aside(ctx, first.core.at);
  }

  /// A turn. By a peer that made no step for it, too.
  result<void> exchange(auto& ctx, auto first, auto second) {
    CAUSEWAY_ASSIGN(const std::uint64_t step, enter(ctx, first, second));
    const bool last = ctx.is_last_exchange();
    const auto a = first.due(step, last);
    const auto b = second.due(step, last);
    if (last) CAUSEWAY_TRY(first.prepare(ctx, a));
    ctx.in_parts(first.turns.parts(ctx, first.core, a) + second.turns.parts(ctx, second.core, b));
    CAUSEWAY_TRY(first.talk(ctx, a));
    if (!b.empty()) CAUSEWAY_TRY(first.turns.ahead(ctx, first.core, a, [&] { return second.prepare(ctx, b); }));
    CAUSEWAY_TRY(second.talk(ctx, b));
    return apply(ctx, first, a, second, b, ctx.exchanges_at_once() ? first.core.at : step);
  }

  result<void> catch_up(auto& ctx, auto first, auto second) {
    CAUSEWAY_TRY(exchange(ctx, first, second));
    first.core.at = second.core.at = std::max(first.core.at, first.turns.committed_at());
    ctx.resume_at(first.core.at);
    return {};
  }

  /// What goes with the blocks of the model: where who gets one begins.
  [[nodiscard]] std::span<float> alike() { return {alike_.data(), alike_.size()}; }
  /// The model has another part than `before`, and its parameters are there.
  void divide(auto& ctx, std::span<const parameter_segment> before) {
    const std::vector<float> old{alike_.begin(), alike_.end()};
    alike_.assign(ctx.parameters().begin(), ctx.parameters().end());
    for_common_pieces(before, ctx.view().segments, [&](const parameter_segment& from, const parameter_segment& to) {
      std::copy_n(old.data() + from.offset, to.size(), alike_.data() + to.offset);
    });
  }

  /// What all hold alike was replaced: the live parameters move along from `previous`, or are that where it is empty.
  void follow(auto& ctx, std::span<const float> previous) {
    const auto local = ctx.parameters();
    for (std::size_t i = 0; i < previous.size(); ++i) local[i] += alike_[i] - previous[i];
    if (previous.empty()) std::copy(alike_.begin(), alike_.end(), local.begin());
    ctx.parameters_changed();
  }

 private:
  [[nodiscard]] static std::uint64_t next(auto first, auto second) { return std::min(first.next(), second.next()); }

  /// Lets this peer in, with the rows that go out first. The step of the turn: while this peer waits it may take the
  /// others' state over, and then another turn may be due, of other rows.
  result<std::uint64_t> enter(auto& ctx, auto first, auto second) {
    for (;;) {
      const std::uint64_t adopted = first.turns.adoptions();
      const std::uint64_t step = next(first, second);
      const auto a = first.due(step, false);
      CAUSEWAY_TRY(a.empty() ? second.prepare(ctx, second.due(step, false)) : first.prepare(ctx, a));
      if (first.turns.adoptions() == adopted) return step;
    }
  }

  result<void> apply(auto& ctx, auto first, const auto& a, auto second, const auto& b, std::uint64_t step) {
    CAUSEWAY_TRY(first.turns.apply(ctx, first.core, a, alike_));
    CAUSEWAY_TRY(first.set_aside(ctx, step));
    CAUSEWAY_TRY(second.turns.apply(ctx, second.core, b, alike_));
    CAUSEWAY_TRY(second.set_aside(ctx, step));
    first.turns.passed(step);
    second.turns.passed(step);
    ctx.commit_round();
    return {};
  }

  source_vector<float> alike_;  ///< of the live parameters
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_STACKED_TURNS_HPP
