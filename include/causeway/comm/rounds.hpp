// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ROUNDS_HPP
#define CAUSEWAY_COMM_ROUNDS_HPP

// Exchanges in rounds, composed of axes: trigger, content, fragments, group, exchange (topology, codec, aggregator),
// residual, participation, outer optimizer, landing. presets/ has the published systems as such compositions;
// docs/policies/rounds.md explains the axes, docs/reference/rules.md which of them go together.
//
// Invariant: all peers begin and end the exchanges of a fragment in the same order. What a hook that fails has done stays
// done, fragment by fragment; calling it again goes on where it stopped.

#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/groups.hpp>
#include <causeway/axis/landing.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/participation.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/comm/round_rows.hpp>
#include <causeway/comm/round_rules.hpp>
#include <causeway/comm/round_state.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::comm {

/// For each fragment that its trigger finds due: row ← content; row ← β·residual + η·row; mean over the group, through the
/// exchange; the outer optimizer moves the shared parameters; the landing says what the live ones become.
///
/// `rounds<>` is DiLoCo with H = 500: every, pseudo_gradient, whole, all_peers, all_reduce, no_residual, everyone,
/// outer<nesterov>{0.7}, blocking. Give axis values in any order: `rounds{axis::every{100}, axis::strided{}, ...}`.
///
/// State: shared parameters (anchored contents), the outer optimizer's, residuals, and the rows under way. Bytes and rounds
/// are the exchange's, for each fragment. Options that do not fit are errc::invalid_argument from start(). Beside a model
/// on a device rows, state and arithmetic are there, if the outer optimizer is (cuda/nesterov.hpp).
template <class... Axes>
class rounds : round_rules<Axes...> {
  using trigger_type = axis::pick<axis::part::trigger, axis::every, Axes...>;
  using content_type = axis::pick<axis::part::content, axis::pseudo_gradient, Axes...>;
  using fragments_type = axis::pick<axis::part::fragments, axis::whole, Axes...>;
  using group_type = axis::pick<axis::part::group, axis::all_peers, Axes...>;
  using recipe_type = axis::pick<axis::part::exchange, axis::all_reduce<>, Axes...>;
  using residual_type = axis::pick<axis::part::residual, axis::no_residual, Axes...>;
  using participation_type = axis::pick<axis::part::participation, axis::everyone, Axes...>;
  using outer_type = axis::pick<axis::part::outer, axis::outer<>, Axes...>;
  using landing_type = axis::pick<axis::part::landing, axis::blocking, Axes...>;
  using state = detail::round_state<recipe_type, outer_type, group_type>;
  using rows_type = detail::round_rows<state, Axes...>;
  using laws = round_rules<Axes...>;
  // Parameters are replaced where something came; a gradient of which nothing came is zero.
  static constexpr bool wants_counts =
      laws::mix.sparse && laws::mix.gives_counts && !laws::mix.anchored && !laws::mix.before_inner_step;
  static constexpr bool accumulates = laws::mix.accumulates;
  static constexpr bool chooses = requires(const trigger_type& t) { t.chosen(std::size_t{}); };
  // Parameters themselves are exchanged, and where peers come and go the last mean of each is what all hold alike.
  static constexpr bool keeps_means = !laws::mix.anchored && !laws::mix.before_inner_step;
  static constexpr bool parted = laws::mix.lasting && !laws::mix.everybody;  // peers have different models, for good
  static constexpr bool measures_speed = requires { trigger_type::follows_speed; };
  static constexpr bool overlaps = landing_type::waits == axis::waiting::some_steps;

 public:
  static constexpr std::string_view name = "rounds";
  static constexpr comm_traits traits{.tolerates = laws::elastic ? peers::elastic : peers::fixed,
                                      .needs_global_step = content_type::before_inner_step,
                                      .identical_replicas = laws::identical,
                                      .rounds_by_steps = !measures_speed && !accumulates && !laws::mix.watches_movement};
  static constexpr std::uint32_t state_version = 2;

  rounds() : rounds(std::tuple<>{}) {}
  explicit rounds(Axes... values) requires(sizeof...(Axes) > 0) : rounds(std::tuple<Axes...>{std::move(values)...}) {}

  [[nodiscard]] const trigger_type& trigger() const noexcept { return trigger_; }
  [[nodiscard]] const recipe_type& exchange() const noexcept { return recipe_; }
  [[nodiscard]] const landing_type& landing() const noexcept { return rows_.landing(); }
  /// The shared parameters: what to evaluate and export, where the live ones differ from peer to peer.
  [[nodiscard]] std::span<const float> shared_parameters() const noexcept { return rows_.anchor(); }

  result<void> start(auto& ctx) {
    CAUSEWAY_TRY(check(ctx));
    CAUSEWAY_ASSIGN(cuts_, fragments_.cut(ctx.view().segments, ctx.parameters().size()));
    CAUSEWAY_TRY(trigger_.check(cuts_.size()));
    if constexpr (requires { group_.check_fragments(cuts_.size()); }) {
      CAUSEWAY_TRY(group_.check_fragments(cuts_.size()));
    }
    memory_ = row_memory(ctx);
    rows_.keep_in(memory_);
    for (state& s : states_) s.keep_in(memory_);
    if (states_.empty()) found(ctx);
    for (std::size_t i = 0; i < states_.size(); ++i) CAUSEWAY_TRY(prepare(ctx, i));
    if constexpr (content_type::sums_updates) CAUSEWAY_TRY(ctx.track_updates(rows_.updates()));
    if constexpr (accumulates) {
      trigger_.open(ctx);
      ctx.schedule_by_rounds();
      samples_seen_ = ctx.samples();
    }
    if constexpr (laws::mix.weighs) CAUSEWAY_TRY(trigger_.open(ctx));
    for (state& s : states_) {
      if (s.pending && !ctx.elastic()) CAUSEWAY_TRY(begin(ctx, s));
    }
    if (measures_speed) left_ = ctx.clock().now();
    return {};
  }

  result<void> before_inner_step(auto& ctx) {
    if constexpr (accumulates) {
      return gather_samples(ctx);
    } else if constexpr (content_type::before_inner_step) {
      return count_and_exchange(ctx);
    }
    return {};
  }

  result<void> after_inner_step(auto& ctx) {
    if constexpr (content_type::before_inner_step) {
      return !accumulates || gathered_ == 0 ? commit(ctx, states_[0]) : result<void>{};
    } else {
      return count_and_exchange(ctx);
    }
  }

  /// Ends what is under way, and brings the peers together: after a last exchange of what is left, and a mean over all
  /// where they would not be alike otherwise, unless their models are different ones (module groups).
  result<void> finish(auto& ctx) {
    if constexpr (accumulates) return finish_samples(ctx);
    if constexpr (content_type::before_inner_step) return {};
    for (state& s : states_) {
      if (s.pending) CAUSEWAY_TRY(complete(ctx, s));
      if (s.since > 0) CAUSEWAY_TRY(exchange_now(ctx, s));
    }
    if constexpr (!laws::identical && !parted) {
      CAUSEWAY_TRY(ctx.mean(compress::none{}, ctx.parameters()));
      CAUSEWAY_TRY(ctx.rows().copy(rows_.anchor(), ctx.parameters().first(rows_.anchor().size())));
      ctx.commit_round(ctx.parameters());
    } else if constexpr (content_type::anchored) {
      CAUSEWAY_TRY(ctx.rows().copy(ctx.parameters(), rows_.anchor()));
    }
    ctx.parameters_changed();
    return {};
  }

  void serialize(auto& ar) {
    std::uint64_t count = states_.size();
    ar(count);
    while (states_.size() < count) add_state();
    for (state& s : states_) s.serialize(ar);
    ar(trigger_, rows_, counted_, outer_steps_, gathered_, at_, committed_at_);
  }

  void shared(auto& ar) {
    if constexpr (content_type::anchored) ar(rows_.anchor());
    if constexpr (keeps_means) ar(rows_.means());
    for (state& s : states_) ar(s.outer, s.number, s.due_at);
    if constexpr (chooses) {
      trigger_.shared(ar);
    } else {
      ar(trigger_);
    }
    ar(outer_steps_, committed_at_);
  }

  /// As comm::periodic: local progress moves along with the shared parameters. What is under way is not for this round any
  /// more; it goes out with the next.
  void adopt(auto& ctx, std::span<const float> previous) {
    for (state& s : states_) {
      s.cancel();
      s.pending = s.begun = false;
    }
    if (previous.empty()) {
      for (state& s : states_) {
        s.restart();
        s.residual.clear();  // of rows that are gone
      }
      counted_ = false;
      at_ = committed_at_;
      ctx.resume_at(at_);
    } else {
      at_ += committed_at_ - moved_from_;  // as many steps away from the next round as before
      if constexpr (content_type::before_inner_step) ctx.resume_at(committed_at_, true);
    }
    moved_from_ = committed_at_;
    if constexpr (content_type::anchored) follow_shared(ctx, rows_.anchor(), previous);
    if constexpr (keeps_means) {
      follow_shared(ctx, rows_.means().front(), previous);
      if (previous.empty()) rows_.take_means(ctx);
    }
    ctx.parameters_changed();
  }

  result<void> catch_up(auto& ctx) {
    if constexpr (content_type::before_inner_step) {
      CAUSEWAY_TRY(ctx.rows().zero(ctx.gradients()));
      CAUSEWAY_TRY(exchange_turn(ctx));
      CAUSEWAY_TRY(ctx.inner_step());
      CAUSEWAY_TRY(commit(ctx, states_[0]));
    } else {
      CAUSEWAY_TRY(exchange_turn(ctx));
    }
    at_ = std::max(at_, committed_at_);
    ctx.resume_at(at_);
    return {};
  }

 private:
  template <class... Given>
  explicit rounds(std::tuple<Given...> values)
      : trigger_{axis::take<axis::part::trigger, trigger_type>(values)},
        fragments_{axis::take<axis::part::fragments, fragments_type>(values)},
        group_{axis::take<axis::part::group, group_type>(values)},
        recipe_{axis::take<axis::part::exchange, recipe_type>(values)},
        participation_{axis::take<axis::part::participation, participation_type>(values)},
        outer_{axis::take<axis::part::outer, outer_type>(values)},
        rows_{axis::take<axis::part::residual, residual_type>(values),
              axis::take<axis::part::landing, landing_type>(values)} {}

  // ---- at the start -----------------------------------------------------------------------------------------------------

  result<void> check(auto& ctx) const {
    if (!ctx.elastic()) CAUSEWAY_TRY(group_.check(ctx.peers()));
    CAUSEWAY_TRY(participation_.check());
    if constexpr (content_type::before_inner_step) {
      if (ctx.elastic() && trigger_.next(0, 1) != 1) {
        return fail(errc::invalid_argument, "trigger", "where peers come and go, gradients are exchanged in every step");
      }
    }
    if constexpr (!overlaps) return {};
    if (rows_.landing().steps >= 1 && rows_.landing().steps < trigger_.next(0, 1)) return {};
    return fail(errc::invalid_argument, "landing",
                "a result that is waited for " + std::to_string(rows_.landing().steps) + " inner steps, in a round of " +
                    std::to_string(trigger_.next(0, 1)) + "; it must be at least 1 and less than the round");
  }

  /// The outer optimizer's, where it has one: that says where the outer step is made. Else the parameters', unless an
  /// optimizer of the host is to move the shared ones.
  [[nodiscard]] memory_source row_memory(auto& ctx) const {
    if constexpr (requires { outer_.memory(); } && content_type::anchored) {
      return outer_.memory();
    } else if constexpr (!content_type::anchored || requires(outer_type & o) { o.keep_in(memory_source{}); }) {
      return ctx.memory();
    }
    return {};
  }

  void add_state() {
    states_.emplace_back();
    states_.back().part = states_.size() - 1;
    states_.back().outer = outer_;
    states_.back().keep_in(memory_);
    states_.back().group_axis = group_;
    if constexpr (!axis::by_context<recipe_type>) states_.back().exchange.emplace(recipe_.make(states_.back().part));
  }

  // The state of a run that begins, not one from a checkpoint.
  void found(auto& ctx) {
    while (states_.size() < cuts_.size() * content_type::tensor_count) add_state();
    if constexpr (content_type::anchored) rows_.anchor().assign(ctx.parameters().begin(), ctx.parameters().end());
    if constexpr (content_type::sums_updates) rows_.updates().assign(rows_.anchor().size(), 0.0F);
    if constexpr (keeps_means) {
      if (ctx.elastic()) rows_.found_means(ctx);
    }
    for (std::size_t i = 0; i < states_.size(); ++i) {
      states_[i].due_at = trigger_.first(i, states_.size());
      if constexpr (content_type::anchored) {
        states_[i].outer.reset(static_cast<std::int64_t>(cuts_[i % cuts_.size()].size));
      }
    }
    if (ctx.elastic()) choose_next();
  }

  result<void> prepare(auto& ctx, std::size_t i) {
    if (states_.size() != cuts_.size() * content_type::tensor_count ||
        (content_type::anchored && rows_.anchor().size() != ctx.parameters().size())) {
      return fail(errc::wrong_model, "rounds",
                  "the checkpoint was written with other fragments or another model; start with the settings it had");
    }
    state& s = states_[i];
    s.cut = &cuts_[i % cuts_.size()];
    s.tensor = i / cuts_.size();
    s.matrices = s.cut->matrices;
    if constexpr (content_type::with_anchor) {
      for (auto m : s.cut->matrices) s.matrices.push_back({m.offset + s.cut->size, m.rows, m.columns});
    }
    return {};
  }

  // ---- gradients of many steps, until all peers together have enough samples ------------------------------------------

  result<void> gather_samples(auto& ctx) {
    if (!counted_) {
      const std::uint64_t samples = ctx.samples() - std::exchange(samples_seen_, ctx.samples());
      CAUSEWAY_TRY(add_gradient(ctx, samples));
      counted_ = true;
    }
    CAUSEWAY_ASSIGN(const bool enough, trigger_.reached(ctx, gathered_));
    if (enough) {
      CAUSEWAY_TRY(exchange_samples(ctx));
    } else {
      ctx.skip_inner_step();
    }
    counted_ = false;
    return {};
  }

  /// updates ← Σ samples · gradient.
  result<void> add_gradient(auto& ctx, std::uint64_t samples) {
    const auto g = ctx.gradients();
    rows_.updates().resize(g.size());
    CAUSEWAY_TRY(ctx.rows().add(rows_.updates(), static_cast<float>(samples), g));
    gathered_ += samples;
    return {};
  }

  /// Gradients ← the mean over all samples of all peers.
  result<void> exchange_samples(auto& ctx) {
    const auto g = ctx.gradients();
    CAUSEWAY_TRY(ctx.rows().copy(g, rows_.updates()));
    if (gathered_ > 0) CAUSEWAY_TRY(ctx.rows().scale(g, 1.0F / static_cast<float>(gathered_)));
    for (state& s : states_) CAUSEWAY_TRY(exchange_now(ctx, s));
    gathered_ = 0;
    return ctx.rows().zero(rows_.updates());
  }

  /// Takes part until all peers have ended their training; what is left over then is one more step.
  result<void> finish_samples(auto& ctx) {
    rows_.updates().resize(ctx.parameters().size());
    for (;;) {
      CAUSEWAY_ASSIGN(const bool enough, trigger_.reached_by_others(ctx, gathered_));
      if (!enough && trigger_.total(gathered_) == 0) return {};
      CAUSEWAY_TRY(exchange_samples(ctx));
      CAUSEWAY_TRY(ctx.inner_step());
      CAUSEWAY_TRY(commit(ctx, states_[0]));
      if (!enough) return {};
    }
  }

  // ---- the flow of a step ---------------------------------------------------------------------------------------------

  result<void> count_and_exchange(auto& ctx) {
    if (!counted_) {  // once a step, however often the hook is called
      const double computed = measures_speed ? seconds(ctx.clock().now() - left_) : 0;
      for (state& s : states_) {
        ++s.since;
        s.compute_seconds += computed;
        s.waited += s.pending ? 1 : 0;
      }
      if constexpr (chooses) {
        if (!ctx.elastic()) trigger_.step(states_.size(), [&](std::size_t f) { return states_[f].pending; });
      }
      ++at_;
      counted_ = true;
    }
    if (laws::elastic && ctx.elastic()) {
      CAUSEWAY_TRY(visit_turn(ctx));
    } else {
      for (state& s : states_) CAUSEWAY_TRY(visit(ctx, s));
    }
    counted_ = false;
    if (measures_speed) left_ = ctx.clock().now();
    return {};
  }

  result<void> visit(auto& ctx, state& s) {
    if constexpr (overlaps) {
      if (s.pending && s.waited >= rows_.landing().steps) CAUSEWAY_TRY(complete(ctx, s));
      // Half-way the first phase should be over; then the second has as long.
      if (s.pending && !s.turned && 2 * s.waited >= rows_.landing().steps) CAUSEWAY_TRY(s.turn(ctx));
    } else if constexpr (landing_type::waits == axis::waiting::a_round) {
      if (s.pending && !s.turned && at_ + s.since >= s.due_at) CAUSEWAY_TRY(turn_begun(ctx, s));
    }
    if (!is_due(s)) return {};
    if constexpr (landing_type::waits == axis::waiting::at_once) {
      return exchange_now(ctx, s);
    } else if constexpr (overlaps) {
      return depart(ctx, s);
    } else {
      return relay(ctx, s);
    }
  }

  /// A trigger that chooses says so for one step; who was sent in that step is not sent again when the hook is called
  /// again.
  [[nodiscard]] bool is_due(const state& s) const {
    if constexpr (chooses) return trigger_.chosen(s.part) && s.since > 0;
    return at_ >= s.due_at;
  }

  /// A blocking exchange.
  result<void> exchange_now(auto& ctx, state& s) {
    CAUSEWAY_TRY(rows_.compose(ctx, s));
    CAUSEWAY_TRY(begin(ctx, s));
    return arrive(ctx, s);
  }

  /// Sends a row on its way; its result is waited for in a later step.
  result<void> depart(auto& ctx, state& s) {
    CAUSEWAY_TRY(rows_.compose(ctx, s));
    if constexpr (landing_type::keeps_departure) CAUSEWAY_TRY(rows_.note_departure(ctx, s));
    s.parent = laws::identical ? ctx.parent() : 0;
    CAUSEWAY_TRY(begin(ctx, s));
    if constexpr (rows_type::keeps_in_parameters) CAUSEWAY_TRY(rows_.take_out_sent(ctx, s));
    s.pending = true;
    s.waited = 0;
    restart(s);
    return {};
  }
  void restart(state& s) {
    s.restart();
    s.due_at = at_ + trigger_.next(s.part, states_.size());
  }

  /// Takes the result of the round before, sends this round's row, and lands with what there is.
  result<void> relay(auto& ctx, state& s) {
    if (s.pending) {
      if (!s.begun) CAUSEWAY_TRY(begin(ctx, s));
      if (!s.turned) CAUSEWAY_TRY(s.turn(ctx));
      CAUSEWAY_TRY(s.finish(ctx, recipe_));
      CAUSEWAY_TRY(rows_.keep_late(ctx, s));
      s.pending = false;
      s.arrived = true;
      close(ctx, s);
    }
    CAUSEWAY_TRY(rows_.compose(ctx, s));
    s.parent = 0;
    CAUSEWAY_TRY(begin(ctx, s));
    s.pending = true;
    s.waited = 0;
    if constexpr (rows_type::keeps_in_parameters) CAUSEWAY_TRY(rows_.take_out_sent(ctx, s));
    CAUSEWAY_TRY(rows_.land_late(ctx, s));
    restart(s);
    return content_type::before_inner_step ? result<void>{} : commit(ctx, s);
  }

  result<void> complete(auto& ctx, state& s) {
    if (!s.begun) CAUSEWAY_TRY(begin(ctx, s));
    if constexpr (landing_type::waits == axis::waiting::a_round) return complete_late(ctx, s);
    return arrive(ctx, s);
  }

  result<void> turn_begun(auto& ctx, state& s) {
    if (!s.begun) CAUSEWAY_TRY(begin(ctx, s));
    return s.turn(ctx);
  }

  /// Waits for the result and lands.
  result<void> arrive(auto& ctx, state& s) {
    if (!s.turned) CAUSEWAY_TRY(s.turn(ctx));
    CAUSEWAY_TRY(s.finish(ctx, recipe_));
    CAUSEWAY_TRY(land(ctx, s));
    if (!std::exchange(s.pending, false)) restart(s);
    return content_type::before_inner_step ? result<void>{} : commit(ctx, s);
  }
  result<void> land(auto& ctx, state& s) {
    CAUSEWAY_ASSIGN(const double movement, rows_.movement(ctx, s));
    const axis::exchange_report report{
        .fragment = s.part, .steps = s.since, .movement = movement, .compute_seconds = s.compute_seconds};
    CAUSEWAY_TRY(rows_.land(ctx, s));
    close(ctx, s);
    return trigger_.exchanged(ctx, report);
  }

  // ---- where peers come and go ----------------------------------------------------------------------------------------

  /// The fragments whose turn it is. When each is due all hold alike, however many steps a peer has made. One turn is under
  /// way at a time, and has a record of its own.
  [[nodiscard]] std::vector<state*> turn() {
    std::uint64_t first = states_.front().due_at;
    for (const state& s : states_) first = std::min(first, s.due_at);
    return due_between(first, first);
  }
  [[nodiscard]] std::vector<state*> due_between(std::uint64_t first, std::uint64_t last) {
    std::vector<state*> due;
    for (state& s : states_) {
      if (s.due_at >= first && s.due_at <= last) due.push_back(&s);
    }
    return due;
  }
  [[nodiscard]] bool is_under_way(auto& ctx, const state& s) const { return s.pending && sent_in_ == ctx.attempt(); }

  result<void> visit_turn(auto& ctx) {
    const std::vector<state*> due = turn();
    const state& one = *due.front();
    if (!one.pending) {
      if (at_ < one.due_at) return {};
      return overlaps ? depart(ctx, due) : exchange_turn(ctx);
    }
    const bool others_wait = !due_between(one.due_at + 1, at_).empty();  // they depart in the next step
    if (others_wait || one.waited >= rows_.landing().steps) return exchange_turn(ctx);
    if (2 * one.waited < rows_.landing().steps || !is_under_way(ctx, one)) return {};
    for (state* s : due) {
      if (!s->turned) CAUSEWAY_TRY(s->turn(ctx));
    }
    return {};
  }

  result<void> depart(auto& ctx, const std::vector<state*>& due) {
    CAUSEWAY_TRY(send(ctx, due));
    for (state* s : due) {
      s->pending = true;
      s->waited = 0;
      s->restart();
    }
    return ctx.is_last_exchange() ? exchange_turn(ctx) : result<void>{};
  }

  /// Rows that were sent before are sent again as they were.
  result<void> send(auto& ctx, const std::vector<state*>& due) {
    for (state* s : due) {
      if (s->pending) continue;
      CAUSEWAY_TRY(rows_.compose(ctx, *s));
      if constexpr (landing_type::keeps_departure) CAUSEWAY_TRY(rows_.note_departure(ctx, *s));
    }
    for (state* s : due) CAUSEWAY_TRY(ctx.check_own(s->input));
    CAUSEWAY_TRY(ctx.enter_exchange());
    sent_in_ = ctx.attempt();
    if (keeps_means && ctx.is_last_exchange()) return {};
    for (state* s : due) CAUSEWAY_TRY(begin(ctx, *s));
    return {};
  }

  /// A turn from where it is to its end. The run's last is that of all fragments.
  result<void> exchange_turn(auto& ctx) {
    std::vector<state*> due = turn();
    if (!is_under_way(ctx, *due.front())) CAUSEWAY_TRY(send(ctx, due));
    if constexpr (keeps_means) {
      if (ctx.is_last_exchange()) return end_alike(ctx, due);
    }
    if (ctx.is_last_exchange() && due.size() < states_.size()) {
      const auto later = due_between(due.front()->due_at + 1, std::numeric_limits<std::uint64_t>::max());
      CAUSEWAY_TRY(send(ctx, later));
      due.insert(due.end(), later.begin(), later.end());
    }
    ctx.in_parts(due.size());
    for (state* s : due) {
      if (!s->turned) CAUSEWAY_TRY(s->turn(ctx));
    }
    for (state* s : due) CAUSEWAY_TRY(s->finish(ctx, recipe_));
    return land_turn(ctx, due);
  }

  result<void> land_turn(auto& ctx, const std::vector<state*>& due) {
    for (state* s : due) {
      if constexpr (keeps_means) CAUSEWAY_TRY(rows_.note_mean(ctx, *s));
      CAUSEWAY_TRY(land(ctx, *s));
    }
    end_turn(due);
    if constexpr (content_type::before_inner_step) return {};
    if constexpr (content_type::anchored) {
      if (ctx.is_last_exchange()) CAUSEWAY_TRY(ctx.rows().copy(ctx.parameters(), rows_.anchor()));
    }
    return commit(ctx, *due.front());
  }

  void end_turn(const std::vector<state*>& due) {
    committed_at_ = moved_from_ = due.front()->due_at;
    for (state* s : due) {
      if (!std::exchange(s->pending, false)) s->restart();
      s->due_at += trigger_.next(s->part, states_.size());
    }
    choose_next();
  }
  /// Where the trigger says which fragment is next, the others are not due.
  void choose_next() {
    if constexpr (chooses) {
      const std::uint64_t at = committed_at_ + trigger_.step_to_next(states_.size());
      for (state& s : states_) s.due_at = trigger_.chosen(s.part) ? at : std::numeric_limits<std::uint64_t>::max();
    }
  }

  /// The run's last turn where parameters are exchanged: their mean over all, whatever else was due.
  result<void> end_alike(auto& ctx, const std::vector<state*>& due) {
    for (state& s : states_) s.cancel();
    auto& mean = rows_.updates();
    mean.resize(ctx.parameters().size());
    CAUSEWAY_TRY(ctx.rows().copy(mean, ctx.parameters()));
    ctx.in_parts(1);
    CAUSEWAY_TRY(ctx.mean(compress::none{}, mean, states_.size()));
    CAUSEWAY_TRY(ctx.rows().copy(ctx.parameters(), mean));
    CAUSEWAY_TRY(ctx.rows().copy(rows_.means().front(), mean));
    mean.clear();
    ctx.parameters_changed();
    end_turn(due);
    return commit(ctx, *due.front());
  }

  /// What all hold alike moved away from `previous`, or is new.
  void follow_shared(auto& ctx, std::span<const float> shared, std::span<const float> previous) {
    const auto local = ctx.parameters();
    if (previous.empty()) {
      std::copy(shared.begin(), shared.end(), local.begin());
      std::fill(rows_.updates().begin(), rows_.updates().end(), 0.0F);
    } else {
      for (std::size_t i = 0; i < local.size(); ++i) local[i] += shared[i] - previous[i];
    }
  }

  result<void> commit(auto& ctx, state& s) {
    CAUSEWAY_ASSIGN(const std::span<const float> shared, rows_.shared_of(ctx, s));
    ctx.commit_round(shared);
    return {};
  }

  /// The exchange is over and cannot fail any more.
  void close(auto& ctx, state& s) {
    if constexpr (residual_type::keeps == axis::keeping::in_a_buffer) std::swap(s.residual, s.next_residual);
    s.group_axis.formed(question(ctx, s));
    ++s.number;
    ++outer_steps_;
  }

  // ---- the parts of an exchange -----------------------------------------------------------------------------------------

  [[nodiscard]] axis::group_question question(auto& ctx, const state& s) const {
    const std::uint64_t seed = mix(ctx.options().seed, stream, s.part);
    return {.seed = seed, .number = s.number, .self = ctx.self(), .peers = ctx.peers(), .fragment = s.part % cuts_.size()};
  }
  [[nodiscard]] net::message_id id_of(auto& ctx, const state& s) const {
    if (ctx.elastic()) return ctx.exchange_id(channel, s.part);
    const bool at_once = landing_type::waits == axis::waiting::at_once;
    return {.channel = channel,
            .step = s.number * states_.size() + s.part,
            .parent = at_once && laws::identical ? ctx.parent() : s.parent};
  }

  /// Sends `input`, for the first time or again.
  result<void> begin(auto& ctx, state& s) {
    s.cancel();  // before its transport may go
    float weight = accumulates ? static_cast<float>(gathered_) : 1.0F;
    if constexpr (laws::mix.weighs) weight = trigger_.weight();
    if constexpr (!axis::by_context<recipe_type>) {
      CAUSEWAY_ASSIGN(const float share, ctx.enter_exchange());
      weight *= share;
    }
    axis::group_question q = question(ctx, s);
    if constexpr (requires { group_.weight(q); }) weight *= group_.weight(q);
    s.terms = {.members = s.group_axis.members(q),
               .contributors = 0,
               .rescale = 1,
               .contributes = participation_.contributes(q) && weight > 0,
               .weight = weight,
               .seed = mix(q.seed, s.number),
               .id = id_of(ctx, s),
               .reference = {}};
    s.terms.contributors = static_cast<std::uint32_t>(s.terms.members.size());
    if constexpr (!participation_type::always) count_contributors(ctx, s, q);
    CAUSEWAY_TRY(rows_.refer(ctx, s));
    return s.begin(ctx, laws::mix.keeps_residual || laws::mix.own_is_fresh, wants_counts);
  }
  /// Of those drawn, the ones with something to say.
  void count_contributors(auto& ctx, state& s, axis::group_question q) const {
    s.terms.contributors = 0;
    double share = 0;
    for (const net::peer_index p : s.terms.members) {
      q.self = p;
      const bool counts = participation_.contributes(q) && (!ctx.elastic() || ctx.share_of(p) > 0);
      s.terms.contributors += counts ? 1U : 0U;
      share += counts && ctx.elastic() ? ctx.share_of(p) : 0;
    }
    if (s.terms.contributors == 0) return;
    s.terms.rescale = ctx.elastic() ? static_cast<float>(1.0 / share)
                                    : static_cast<float>(s.terms.members.size()) / static_cast<float>(s.terms.contributors);
  }
  // ---- at the end -------------------------------------------------------------------------------------------------------

  /// The result that is still under way when training ends.
  result<void> complete_late(auto& ctx, state& s) {
    if (!s.turned) CAUSEWAY_TRY(s.turn(ctx));
    CAUSEWAY_TRY(s.finish(ctx, recipe_));
    CAUSEWAY_TRY(rows_.land_last(ctx, s));
    s.pending = s.arrived = false;
    close(ctx, s);
    return commit(ctx, s);
  }

  static constexpr std::uint64_t stream = 0x726F756E6473;
  static constexpr std::uint32_t channel = content_type::anchored            ? collective::channels::updates
                                           : content_type::before_inner_step ? collective::channels::gradients
                                                                             : collective::channels::parameters;

  trigger_type trigger_;
  fragments_type fragments_;
  group_type group_;
  recipe_type recipe_;
  participation_type participation_;
  outer_type outer_;

  memory_source memory_;  ///< of the rows
  rows_type rows_;
  std::vector<axis::fragment> cuts_;
  std::vector<state> states_;  ///< fragments of the first tensor, then of the next
  std::uint64_t outer_steps_ = 0;
  std::uint64_t gathered_ = 0;  ///< samples in the sum of gradients, for a trigger that accumulates
  std::uint64_t samples_seen_ = 0;
  bool counted_ = false;  ///< this inner step is in the counters already
  std::uint64_t at_ = 0;  ///< inner steps of the run; where peers come and go, in the schedule that all hold alike
  std::uint64_t committed_at_ = 0;  ///< the step that the last turn was due after
  std::uint64_t moved_from_ = 0;    ///< the same, when this peer landed it or took it over
  std::uint64_t sent_in_ = 0;       ///< the attempt that the rows of a turn are under way in
  time_point left_{};               ///< when the last hook ended
};
static_assert(CommunicationPolicy<rounds<>>);

template <class... Axes>
rounds(Axes...) -> rounds<Axes...>;

}  // namespace causeway::inline CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_ROUNDS_HPP
