// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ROUND_TURNS_HPP
#define CAUSEWAY_COMM_ROUND_TURNS_HPP

// The order of things in comm::rounds where peers come and go. When each fragment is due is part of what all hold alike, so
// that it does not matter how many steps a peer has made. The fragments that are due first are a turn: its exchange is one
// attempt of the membership, and the membership's record is made when it is applied. One turn is under way at a time.
//
// Where a result is waited for until the next turn, the row that is made when one turn is applied goes out with the attempt
// after it, and is applied with the next.

#include <causeway/comm/alike_at_end.hpp>
#include <causeway/comm/late_rows.hpp>
#include <causeway/comm/outer_rows.hpp>
#include <causeway/comm/own_parameters.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/state_image.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy, whose `Core` is given to each call. Nothing that all hold alike changes before the exchange went through
/// for this peer; what is under way when an attempt fails is sent again as it was.
template <class Core>
class round_turns {
  using state = typename Core::state;
  using due_list = std::vector<state*>;
  using late = late_rows<Core>;
  using at_end = alike_at_end<Core>;
  static constexpr bool overlaps = Core::overlaps;
  static constexpr bool keeps_means = Core::keeps_means;
  static constexpr bool applies_late = Core::applies_late;
  static constexpr auto never = std::numeric_limits<std::uint64_t>::max();

 public:
  void shared(Core& c, auto& ar) {
    for (state& s : c.states) {
      ar(s.number, s.due_at);
      if constexpr (!Core::own_parameters) ar(s.outer);
      if constexpr (Core::keeps_factors) s.exchange->shared(ar);
    }
    if constexpr (Core::own_parameters) own_.shared(c, ar);
    if constexpr (requires { c.trigger.shared(ar); }) {
      c.trigger.shared(ar);
    } else {
      ar(c.trigger);
    }
    ar(c.outer_steps, committed_at_, ended_);
  }

  /// The first turns of a run, if it begins.
  result<void> start(auto& ctx, Core& c, bool begins) {
    if (!begins) return {};
    c.found_means(ctx);
    for (state& s : c.states) {
      if (applies_late && !late::of_step_before(ctx)) s.due_at += c.period(s);
    }
    choose_next(c);
    return {};
  }
  static void count_step(Core&) {}
  /// Whether a turn was applied since this was asked last.
  [[nodiscard]] bool applied(const Core&) noexcept { return std::exchange(applied_, false); }
  /// The leader adds up: 100 bytes to it. A sum that `is_late` goes out before gradients at other parameters are added.
  static result<bool> enough_samples(auto& ctx, Core&, bool is_late) { return is_late || ctx.announce_samples(); }

  /// After an inner step, or before it where gradients are exchanged.
  result<void> visit(auto& ctx, Core& c) {
    if constexpr (Core::meets) return visit_by_clock(ctx, c);
    if (ctx.exchanges_at_once()) return c.at < next(c) && !ctx.run_ends() ? set_aside(ctx, c, c.at) : exchange(ctx, c);
    const due_list due = turn(c);
    const state& one = *due.front();
    if (applies_late) return c.at < one.due_at ? before_apply(ctx, c, due) : exchange(ctx, c);
    if (!one.pending) {
      if (c.at < one.due_at) return {};
      return overlaps ? depart(ctx, c, due) : exchange(ctx, c);
    }
    const bool others_wait = !due_between(c, one.due_at + 1, c.at).empty();  // they depart in the next step
    if (others_wait || one.waited >= c.rows.merge_rule().steps) return exchange(ctx, c);
    if (2 * one.waited < c.rows.merge_rule().steps || !is_under_way(ctx, one)) return {};
    return turn_all(ctx, due);
  }

  /// A turn from where it is to its end. The run's last is that of all fragments. Where nothing may be under way during
  /// steps, rows that are made before their results are wanted wait until then.
  result<void> exchange(auto& ctx, Core& c) {
    due_list due = turn(c);
    if (applies_late && ctx.exchanges_at_once() && ctx.run_ends()) CAUSEWAY_TRY(late::take_progress_along(ctx, c, due));
    if (!is_under_way(ctx, *due.front())) CAUSEWAY_TRY(send(ctx, c, due));
    if (ctx.is_last_exchange() && !keeps_means && due.size() < c.states.size()) {
      due_list later = due_between(c, due.front()->due_at + 1, never);
      CAUSEWAY_TRY(send(ctx, c, later));
      due.insert(due.end(), later.begin(), later.end());
    }
    ctx.in_parts(parts(ctx, c, due));
    CAUSEWAY_TRY(receive(ctx, c, due));
    CAUSEWAY_TRY(apply(ctx, c, due));
    if (ctx.exchanges_at_once()) {
      if (!Core::meets) passed(std::max(c.at, committed_at_));  // else peers have made different steps
      CAUSEWAY_TRY(set_aside(ctx, c, c.at));
    }
    return Core::content_type::before_inner_step ? result<void>{} : c.commit(ctx, *due.front());
  }

  /// The same by a peer that made no step for it.
  result<void> catch_up(auto& ctx, Core& c) {
    CAUSEWAY_TRY(exchange(ctx, c));
    c.at = std::max(c.at, committed_at_);
    return {};
  }

  // ---- the parts of a turn, for who puts those of several policies under one record (comm/stacked_turns.hpp) ------------

  using due_fragments = due_list;

  /// The step after which the next turn is due. A row that is made before its result is wanted waits till then: only one
  /// turn is under way at a time, and it must not keep others from theirs.
  [[nodiscard]] std::uint64_t next(Core& c) const { return turn(c).front()->due_at + delay(c); }
  [[nodiscard]] due_list due_at(Core& c, std::uint64_t step) const {
    return step < delay(c) ? due_list{} : due_between(c, step - delay(c), step - delay(c));
  }
  [[nodiscard]] due_list all(Core& c) const { return due_between(c, 0, never); }

  /// Makes the rows that wait, of what is due after `step`, or was before. Of results that are a round late that is the
  /// first row of a run: the others are made when the turn before is applied.
  result<void> set_aside(auto& ctx, Core& c, std::uint64_t step) {
    if constexpr (applies_late) {
      const due_list due = turn(c);
      if (!late::is_first(c, *due.front(), step)) return {};
      if constexpr (Core::content_type::before_inner_step) ctx.skip_inner_step();
      sent_in_ = 0;
      return late::make(ctx, c, due, false);
    }
    if constexpr (overlaps) {
      for (state& s : c.states) {
        if (s.pending || s.due_at > step || s.is_of_nothing(ctx)) continue;
        CAUSEWAY_TRY(compose(ctx, c, s));
        s.leave_pending();
      }
    }
    return {};
  }
  /// Makes the rows, and lets this peer into the exchange. At the run's end parameters themselves are the row.
  result<void> prepare(auto& ctx, Core& c, const due_list& due) {
    for (state* s : due) {
      if (!s->pending) CAUSEWAY_TRY(compose(ctx, c, *s));
      CAUSEWAY_TRY(ctx.check_own(s->input));
    }
    CAUSEWAY_TRY(ctx.enter_exchange());
    if (!ends_alike(ctx) || ctx.entry().keeps_rows()) return {};
    c.rows.updates().resize(ctx.parameters().size());
    return ctx.rows().copy(c.rows.updates(), ctx.parameters());
  }
  /// Sends them. Parameters themselves go by `receive` alone.
  result<void> launch(auto& ctx, Core& c, const due_list& due) {
    sent_in_ = ctx.attempt();
    if (ends_alike(ctx)) return {};
    for (state* s : due) CAUSEWAY_TRY(c.begin(ctx, *s));
    return {};
  }
  /// Exchanges that `receive` ends.
  [[nodiscard]] std::size_t parts(auto& ctx, const Core& c, const due_list& due) const {
    if (due.empty()) return 0;
    if (ends_alike(ctx)) return at_end::rows_of(c);
    return due.size() + (Core::has_statistics(ctx) ? 1 : 0);
  }
  /// Waits for the means.
  result<void> receive(auto& ctx, Core& c, const due_list& due) {
    if (due.empty()) return {};
    if constexpr (keeps_means) {
      if (ends_alike(ctx)) return at_end::mean_of_all(ctx, c);
    }
    CAUSEWAY_TRY(turn_all(ctx, due));
    for (state* s : due) CAUSEWAY_TRY(c.finish(ctx, *s));
    return Core::has_statistics(ctx) ? c.exchange_statistics(ctx, due) : result<void>{};
  }
  /// Calls `then` with the live parameters as they will be once what was received has been applied, and takes it back. Only
  /// where nothing is applied a round late. Memory meanwhile: what is applied, again.
  result<void> ahead(auto& ctx, Core& c, const due_list& due, auto&& then) {
    if (due.empty()) return then();
    membership::image_collector changing;
    c.rows.visit_applied(ctx, changing);
    for (state* s : due) changing(s->outer);
    const memory_as_it_was before{changing.parts()};
    result<void> outcome = land_rows(ctx, c, due);
    if (outcome) outcome = then();
    before.put_back();
    ctx.parameters_changed();
    return outcome;
  }
  /// What was received is applied, for good. `alike`: where several policies share the live parameters, what all peers hold
  /// alike of these, which follows.
  result<void> apply(auto& ctx, Core& c, const due_list& due, std::span<float> alike = {}) {
    if (due.empty()) return {};
    applied_ = true;
    if constexpr (keeps_means) {
      if (ends_alike(ctx)) {
        CAUSEWAY_TRY(at_end::take(ctx, c));
        ended_ = 1;
        end(c, due);
        return alike.empty() ? result<void>{} : ctx.rows().copy(alike, ctx.parameters());
      }
    }
    if constexpr (applies_late) {
      sent_in_ = 0;
      CAUSEWAY_TRY(late::make(ctx, c, due, true));
    }
    if constexpr (Core::own_parameters) CAUSEWAY_TRY(own_.take(ctx, c, due));
    for (state* s : due) {
      if (applies_late) continue;
      if constexpr (!Core::content_type::anchored && keeps_means) {
        if (!Core::own_parameters || ctx.moves_blocks()) CAUSEWAY_TRY(c.rows.note_mean(ctx, *s));
      }
      CAUSEWAY_TRY(c.apply(ctx, *s));
      if (!alike.empty()) CAUSEWAY_TRY(c.rows.note_alike(ctx, *s, alike));
    }
    if constexpr (Core::meets) c.trigger.begin_anew(ctx);
    if constexpr (Core::own_parameters) CAUSEWAY_TRY(own_.note_left(ctx));
    if constexpr (Core::by_path) c.modules.admit(ctx, c.states, c.group, c.rows);
    end(c, due);
    if constexpr (Core::content_type::anchored && !Core::content_type::before_inner_step) {
      if (ctx.is_last_exchange()) CAUSEWAY_TRY(ctx.rows().copy(ctx.parameters(), c.rows.anchor()));
      if (ctx.is_last_exchange() && !alike.empty()) CAUSEWAY_TRY(ctx.rows().copy(alike, ctx.parameters()));
    }
    return {};
  }
  /// Exchanges of the last turn of a run, where that is of parameters.
  [[nodiscard]] static std::size_t rows_at_end(const Core& c) noexcept { return at_end::rows_of(c); }
  [[nodiscard]] std::uint64_t committed_at() const noexcept { return committed_at_; }
  [[nodiscard]] std::uint64_t adoptions() const noexcept { return adoptions_; }
  [[nodiscard]] own_parameters<Core>& own() noexcept { return own_; }
  /// A turn was made after `step`: of another policy with the one record that both have, or of rows that waited.
  void passed(std::uint64_t step) noexcept { committed_at_ = moved_from_ = step; }

  /// What all hold alike was replaced. What was under way is not for this round any more: it goes out with
  /// the next, as a row that is made already, or as part of the progress that is still there.
  void adopt(auto& ctx, Core& c, bool keeps_progress) {
    for (state& s : c.states) {
      s.cancel();
      s.begun = false;
      s.pending = s.pending && applies_late && keeps_progress;
      if (keeps_progress) continue;
      s.restart();
      s.arrived = false;
      s.residual.clear();  // of rows that are gone
      if constexpr (Core::merge_rule_type::own_is_fresh) c.rows.own().forget();
    }
    sent_in_ = 0;
    ++adoptions_;
    if (applies_late && !keeps_progress) ctx.contribution().open();
    if constexpr (Core::meets) c.trigger.begin_anew(ctx);
    if (keeps_progress) {
      c.at += committed_at_ - moved_from_;  // as many steps away from the next round as before
      if constexpr (Core::content_type::before_inner_step) ctx.resume_at(committed_at_, true);
    } else {
      c.at = committed_at_;
      ctx.resume_at(c.at);
    }
    moved_from_ = committed_at_;
    if constexpr (Core::own_parameters) own_.adopt(ctx, c, keeps_progress, ended_ != 0);
  }

 private:
  static result<void> turn_all(auto& ctx, const due_list& due) {
    for (state* s : due) {
      if (!s->turned) CAUSEWAY_TRY(s->turn(ctx));
    }
    return {};
  }
  [[nodiscard]] static std::uint64_t delay(const Core& c) { return overlaps ? c.rows.merge_rule().steps : 0; }
  result<void> compose(auto& ctx, Core& c, state& s) {
    if (late::of_step_before(ctx)) return s.compose_nothing(ctx);
    CAUSEWAY_TRY(late::compose(ctx, c, s));
    return Core::notes_departure ? c.rows.note_departure(ctx, s) : result<void>{};
  }

  /// What `apply` does to rows, and nothing else.
  result<void> land_rows(auto& ctx, Core& c, const due_list& due) {
    if (ends_alike(ctx)) return ctx.rows().copy(ctx.parameters(), c.rows.updates());
    for (state* s : due) CAUSEWAY_TRY(c.rows.apply(ctx, *s));
    if (!Core::content_type::anchored || !ctx.is_last_exchange()) return {};
    return ctx.rows().copy(ctx.parameters(), c.rows.anchor());
  }

  [[nodiscard]] static due_list turn(Core& c) {
    std::uint64_t first = c.states.front().due_at;
    for (const state& s : c.states) first = std::min(first, s.due_at);
    return due_between(c, first, first);
  }
  [[nodiscard]] static due_list due_between(Core& c, std::uint64_t first, std::uint64_t last) {
    due_list due;
    for (state& s : c.states) {
      if (s.due_at >= first && s.due_at <= last) due.push_back(&s);
    }
    return due;
  }
  [[nodiscard]] bool is_under_way(auto& ctx, const state& s) const {
    return s.pending && sent_in_ != 0 && sent_in_ == ctx.attempt();
  }

  /// The way to a turn that is applied late.
  result<void> before_apply(auto& ctx, Core& c, due_list due) {
    const state& one = *due.front();
    if (!one.pending) return set_aside(ctx, c, c.at);
    if (!is_under_way(ctx, one)) return send(ctx, c, due);
    if (c.at + one.since < one.due_at) return {};
    return turn_all(ctx, due);
  }

  /// By the clock, which pipelines look at. A row that is applied late goes out when half of the time has passed: it has
  /// the other half to travel, and is reduced in the middle of that. A run's first row is made when peers would meet, and
  /// nobody does.
  result<void> visit_by_clock(auto& ctx, Core& c) {
    if (ctx.moves_blocks()) return ctx.announce_samples() ? exchange(ctx, c) : result<void>{};
    const bool is_time = c.trigger.is_time(ctx, c.states.front().since);
    due_list due = turn(c);
    const bool first = applies_late && late::is_first(c, *due.front(), c.at);
    if (first && is_time) c.trigger.begin_anew(ctx);
    if (is_time) return first ? set_aside(ctx, c, c.at) : exchange(ctx, c);
    if (!applies_late || first || !c.trigger.is_near()) return {};
    if (!is_under_way(ctx, *due.front())) return send(ctx, c, due);
    return c.trigger.has_passed(0.75) ? turn_all(ctx, due) : result<void>{};
  }

  result<void> depart(auto& ctx, Core& c, due_list due) {
    CAUSEWAY_TRY(send(ctx, c, due));
    for (state* s : due) s->leave_pending();
    return ctx.is_last_exchange() ? exchange(ctx, c) : result<void>{};
  }

  /// Composes and sends what is due; what was sent before is sent again as it was. A peer may take the others' state over
  /// while it waits to be let in: then another turn may be due, of other rows.
  result<void> send(auto& ctx, Core& c, due_list& due) {
    for (;;) {
      const std::uint64_t adopted = adoptions_;
      CAUSEWAY_TRY(late::make_missing(ctx, c, due));
      CAUSEWAY_TRY(prepare(ctx, c, due));
      if (adoptions_ == adopted) return launch(ctx, c, due);
      due = turn(c);
    }
  }

  /// Whether the turn is the run's last, and of parameters themselves: then it is their mean over all, whatever was due.
  [[nodiscard]] static bool ends_alike(auto& ctx) { return keeps_means && ctx.is_last_exchange(); }

  void end(Core& c, const due_list& due) {
    if constexpr (Core::meets) {  // in the steps of one peer, for who begins with this state
      for (state* s : due) s->due_at = committed_at_ + c.trigger.mean_steps();
    }
    committed_at_ = moved_from_ = due.front()->due_at;
    for (state* s : due) {
      if (!applies_late && !std::exchange(s->pending, false)) s->restart();
      s->due_at += c.period(*s);
    }
    choose_next(c);
  }
  /// Where the trigger says which fragment is next, the others are not due.
  void choose_next(Core& c) {
    if constexpr (Core::chooses) {
      const std::uint64_t at = committed_at_ + c.trigger.step_to_next(c.schedule_size());
      for (state& s : c.states) s.due_at = c.trigger.chosen(c.number_of(s)) ? at : never;
    }
  }

  std::uint64_t committed_at_ = 0;  ///< the step that the last turn was due after
  std::uint64_t moved_from_ = 0;    ///< the same, when this peer applied it or took it over
  std::uint64_t sent_in_ = 0;       ///< the attempt that the rows of a turn are under way in
  std::uint64_t adoptions_ = 0;     ///< of the others' state, by this peer
  bool applied_ = false;
  own_parameters<Core> own_;
  std::uint8_t ended_ = 0;  ///< the run's last record is there: all hold the same, and a mean is what they hold
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ROUND_TURNS_HPP
