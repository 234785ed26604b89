// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_FIXED_TURNS_HPP
#define CAUSEWAY_COMM_FIXED_TURNS_HPP

// The order of things in comm::rounds among fixed peers: for each fragment by itself, its row is made, sent, waited for and
// applied, at once or some steps later. comm/round_turns.hpp has the one among peers that come and go.

#include <causeway/axis/merge_rule.hpp>
#include <causeway/core/result.hpp>

#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy, whose `Core` is given to each call.
template <class Core>
class fixed_turns {
  using state = typename Core::state;

 public:
  /// Before the first step. What was under way when a checkpoint was written is sent again.
  static result<void> start(auto& ctx, Core& c, bool) {
    if constexpr (Core::accumulates) {
      CAUSEWAY_TRY(ctx.stages().refuse_copies("global_samples", ctx.exchange_options()));
      if (ctx.stages().is_first()) c.trigger.open(ctx);
    }
    for (state& s : c.states) {
      if (s.pending) CAUSEWAY_TRY(c.begin(ctx, s));
    }
    return {};
  }

  /// One inner step more.
  static void count_step(Core& c) {
    if constexpr (Core::chooses) c.trigger.step(c.states.size(), [&](std::size_t f) { return c.states[f].pending; });
  }

  /// Whether all peers together have gathered the samples that an exchange is of: they tell each other.
  static result<bool> enough_samples(auto& ctx, Core& c, bool) {
    CAUSEWAY_ASSIGN(const double enough, Core::ask_first(ctx, [&]() -> result<double> {
                      CAUSEWAY_ASSIGN(const bool reached, c.trigger.reached(ctx, c.gathered));
                      return reached ? 1.0 : 0.0;
                    }));
    return enough > 0;
  }

  /// Whether the gradient of this step was exchanged, with all that were gathered for it.
  [[nodiscard]] static bool applied(const Core& c) { return !Core::accumulates || c.gathered == 0; }

  /// After an inner step, or before it where gradients are exchanged: what there is to do. Blocking exchanges of several
  /// fragments are under way together.
  static result<void> visit(auto& ctx, Core& c) {
    if constexpr (Core::meets) CAUSEWAY_TRY(c.trigger.meet(ctx, c.states.front().since, false));
    if constexpr (Core::merge_rule_type::waits == axis::waiting::at_once) {
      std::vector<state*> due;
      for (state& s : c.states) {
        if (is_due(c, s)) due.push_back(&s);
      }
      for (state* s : due) CAUSEWAY_TRY(send_now(ctx, c, *s));
      for (state* s : due) CAUSEWAY_TRY(s->turn(ctx));
      for (state* s : due) CAUSEWAY_TRY(arrive(ctx, c, *s));
    } else {
      for (state& s : c.states) CAUSEWAY_TRY(visit_one(ctx, c, s));
    }
    return {};
  }

  /// A blocking exchange, at the end of training also of what is waited for some steps otherwise.
  static result<void> exchange_now(auto& ctx, Core& c, state& s) {
    CAUSEWAY_TRY(send_now(ctx, c, s));
    return arrive(ctx, c, s);
  }

  /// The same of all fragments, whenever they are due.
  static result<void> catch_up(auto& ctx, Core& c) {
    for (state& s : c.states) CAUSEWAY_TRY(exchange_now(ctx, c, s));
    return {};
  }

  /// Ends what is under way of a fragment, when training ends.
  static result<void> complete(auto& ctx, Core& c, state& s) {
    if (!s.begun) CAUSEWAY_TRY(c.begin(ctx, s));
    if constexpr (Core::merge_rule_type::waits == axis::waiting::a_round && !replaces) return complete_late(ctx, c, s);
    return arrive(ctx, c, s);
  }

 private:
  // Tensors themselves become their mean. That is applied before they are sent again: else what was set right is set right
  // twice.
  static constexpr bool replaces = !Core::laws::mix.anchored && !Core::laws::mix.before_inner_step;

  static result<void> visit_one(auto& ctx, Core& c, state& s) {
    if constexpr (Core::overlaps) {
      if (s.pending && s.waited >= c.rows.merge_rule().steps) CAUSEWAY_TRY(complete(ctx, c, s));
      // Half-way the first phase should be over; then the second has as long.
      if (s.pending && !s.turned && 2 * s.waited >= c.rows.merge_rule().steps) CAUSEWAY_TRY(s.turn(ctx));
    } else if constexpr (Core::merge_rule_type::waits == axis::waiting::a_round) {
      if (s.pending && !s.turned && is_half_way(c, s)) CAUSEWAY_TRY(turn_begun(ctx, c, s));
    }
    if (!is_due(c, s)) return {};
    if constexpr (Core::overlaps) {
      return depart(ctx, c, s);
    } else {
      return relay(ctx, c, s);
    }
  }

  static result<void> send_now(auto& ctx, Core& c, state& s) {
    CAUSEWAY_TRY(c.rows.compose(ctx, s));
    if constexpr (Core::notes_departure) CAUSEWAY_TRY(c.rows.note_departure(ctx, s));
    return c.begin(ctx, s);
  }

  /// From one exchange to the next.
  [[nodiscard]] static bool is_half_way(const Core& c, const state& s) {
    if constexpr (Core::meets) return c.trigger.has_passed(0.5);
    return c.at + s.since >= s.due_at;
  }
  /// A trigger that chooses says so for one step; who was sent in that step is not sent again when the hook is called
  /// again.
  [[nodiscard]] static bool is_due(const Core& c, const state& s) {
    if constexpr (Core::chooses) return c.trigger.chosen(s.part) && s.since > 0;
    if constexpr (Core::meets) return s.number + (s.pending ? 1 : 0) < c.trigger.exchanges();
    return c.at >= s.due_at;
  }

  /// Sends a row on its way; its result is waited for in a later step.
  static result<void> depart(auto& ctx, Core& c, state& s) {
    CAUSEWAY_TRY(c.rows.compose(ctx, s));
    if constexpr (Core::notes_departure) CAUSEWAY_TRY(c.rows.note_departure(ctx, s));
    s.parent = Core::laws::identical ? ctx.parent() : 0;
    CAUSEWAY_TRY(c.begin(ctx, s));
    s.pending = true;
    s.waited = 0;
    restart(c, s);
    return {};
  }
  static void restart(Core& c, state& s) {
    s.restart();
    s.due_at = c.at + c.period(s);
  }

  /// Takes the result of the round before, sends this round's row, and applies what there is.
  static result<void> relay(auto& ctx, Core& c, state& s) {
    const bool came = s.pending;
    if (came) {
      if (!s.begun) CAUSEWAY_TRY(c.begin(ctx, s));
      if (!s.turned) CAUSEWAY_TRY(s.turn(ctx));
      CAUSEWAY_TRY(c.finish(ctx, s));
      if constexpr (replaces) {
        CAUSEWAY_TRY(apply(ctx, c, s));
      } else {
        CAUSEWAY_TRY(c.measure(ctx, s));
        CAUSEWAY_TRY(c.rows.keep_late(ctx, s));
        c.close(ctx, s);
        s.arrived = true;
      }
      s.pending = false;
    }
    CAUSEWAY_TRY(c.rows.compose(ctx, s));
    s.parent = 0;
    CAUSEWAY_TRY(c.begin(ctx, s));
    s.pending = true;
    s.waited = 0;
    if constexpr (!replaces) CAUSEWAY_TRY(c.rows.land_late(ctx, s));
    if (Core::meets || (came && !replaces)) CAUSEWAY_TRY(c.trigger.exchanged(ctx, c.report_of(s)));
    if (came && !replaces) CAUSEWAY_TRY(tell(ctx, c, s));
    restart(c, s);
    return Core::content_type::before_inner_step ? result<void>{} : c.commit(ctx, s);
  }

  static result<void> apply(auto& ctx, Core& c, state& s) {
    CAUSEWAY_TRY(c.apply(ctx, s));
    return tell(ctx, c, s);
  }
  static result<void> tell(auto& ctx, Core& c, const state& s) {
    if constexpr (Core::tells && !Core::meets) return c.trigger.tell(ctx, c.report_of(s));
    return {};
  }

  static result<void> turn_begun(auto& ctx, Core& c, state& s) {
    if (!s.begun) CAUSEWAY_TRY(c.begin(ctx, s));
    return s.turn(ctx);
  }

  /// Waits for the result and applies it.
  static result<void> arrive(auto& ctx, Core& c, state& s) {
    if (!s.turned) CAUSEWAY_TRY(s.turn(ctx));
    CAUSEWAY_TRY(c.finish(ctx, s));
    CAUSEWAY_TRY(apply(ctx, c, s));
    if (!std::exchange(s.pending, false)) restart(c, s);
    return Core::content_type::before_inner_step ? result<void>{} : c.commit(ctx, s);
  }
  /// The result that is still under way when training ends.
  static result<void> complete_late(auto& ctx, Core& c, state& s) {
    if (!s.turned) CAUSEWAY_TRY(s.turn(ctx));
    CAUSEWAY_TRY(c.finish(ctx, s));
    CAUSEWAY_TRY(c.rows.land_last(ctx, s));
    s.pending = s.arrived = false;
    c.close(ctx, s);
    return c.commit(ctx, s);
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_FIXED_TURNS_HPP
