// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_LATE_ROWS_HPP
#define CAUSEWAY_COMM_LATE_ROWS_HPP

// Rows of comm::rounds whose results are applied a round later, with fixed peers and with those that come and go. A row is
// made when the result of the one before is applied, the first one of a run a round before its own is.

#include <causeway/core/result.hpp>

#include <cstdint>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy, whose `Core` is given to each call.
template <class Core>
struct late_rows {
  using state = typename Core::state;

  /// Whether the first row of a run is to be made after `step`.
  [[nodiscard]] static bool is_first(const Core& c, const state& s, std::uint64_t step) {
    return !s.pending && c.outer_steps == 0 && step + c.period(s) >= s.due_at;
  }

  /// Whether a row is of the step before, or there is none: gradients, of stages of a model. While a step is attempted,
  /// what it is made of may be given to others.
  [[nodiscard]] static bool of_step_before(auto& ctx) {
    return Core::applies_late && Core::content_type::before_inner_step && ctx.exchanges_at_once();
  }

  /// Makes a row. What is sent early of this peer's own lies apart from what all hold alike.
  static result<void> compose(auto& ctx, Core& c, state& s) {
    if constexpr (Core::merge_rule_type::own_is_fresh) {
      if (!c.rows.own().is_there()) c.rows.own().found(c.states, c.rows.anchor());
    }
    return c.rows.compose(ctx, s);
  }

  /// Applies what `came`, and makes the rows of the next turn.
  static result<void> make(auto& ctx, Core& c, const auto& due, bool came) {
    for (state* s : due) {
      if (came && !Core::has_statistics(ctx)) CAUSEWAY_TRY(c.measure(ctx, *s));
      if (came) CAUSEWAY_TRY(c.rows.keep_late(ctx, *s));
      if (came) c.close(ctx, *s);
      s->arrived = came;
      CAUSEWAY_TRY(compose(ctx, c, *s));
      CAUSEWAY_TRY(c.rows.land_late(ctx, *s));
      if (came && c.leads(*s)) CAUSEWAY_TRY(c.trigger.exchanged(ctx, c.report_of(*s)));
      s->pending = s->since > 0 && !s->is_of_nothing(ctx);  // who made no step for it has nothing to keep
      s->waited = 0;
      s->restart();
    }
    if (due.front()->pending) {
      ctx.contribution().close();
    } else {
      ctx.contribution().open();
    }
    return {};
  }

  /// Who has none when a turn comes makes it then, of the steps since it began: its rows are not late from then on.
  static result<void> make_missing(auto& ctx, Core& c, const auto& due) {
    if (!Core::applies_late || due.front()->pending || of_step_before(ctx)) return {};
    return make(ctx, c, due, false);
  }

  /// What was moved since a row was made goes along with it, in the run's last exchange, which may be begun several times.
  static result<void> take_progress_along(auto& ctx, Core& c, const auto& due) {
    ctx.contribution().open();
    for (state* s : due) {
      if (!s->pending) continue;
      const std::uint64_t behind = s->behind + std::exchange(s->samples, 0);
      if constexpr (Core::rows_type::keeps_in_parameters) {
        CAUSEWAY_TRY(c.rows.compose(ctx, *s));  // the live parameters still have all of it
      } else if constexpr (Core::content_type::anchored) {
        CAUSEWAY_TRY(c.rows.take_progress(ctx, *s));
      }
      s->behind = behind;
    }
    return {};
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_LATE_ROWS_HPP
