// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ROUNDS_HPP
#define CAUSEWAY_COMM_ROUNDS_HPP

// Exchanges in rounds, composed of axes: trigger, content, fragments, group, exchange (topology, codec, aggregator),
// residual, participation, outer optimizer, merge rule. presets/ has the published systems as such compositions;
// docs/policies/rounds.md explains the axes, docs/reference/rules.md which of them go together.
//
// Invariant: all peers begin and end the exchanges of a fragment in the same order. What a hook that fails has done stays
// done, fragment by fragment; calling it again goes on where it stopped.

#include <causeway/comm/block_rows.hpp>
#include <causeway/comm/fixed_turns.hpp>
#include <causeway/comm/look_ahead.hpp>
#include <causeway/comm/round_core.hpp>
#include <causeway/comm/round_rules.hpp>
#include <causeway/comm/round_turns.hpp>
#include <causeway/comm/stacked_turns.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/policy/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

/// For each fragment that its trigger finds due: row ← content; row ← β·residual + η·row; mean over the group, through the
/// exchange; the outer optimizer moves the shared parameters; the merge rule says what the live ones become.
///
/// `rounds<>` is DiLoCo with H = 500: every, pseudo_gradient, whole, all_peers, all_reduce, no_residual, everyone,
/// outer<nesterov>{0.7}, blocking. Give axis values in any order: `rounds{axis::every{100}, axis::strided{}, ...}`.
///
/// State: shared parameters (anchored contents), the outer optimizer's, residuals, and the rows under way. Bytes and rounds
/// are the exchange's, for each fragment. Options that do not fit are errc::invalid_argument from start(). Beside a model
/// on a device rows, state and arithmetic are there, if the outer optimizer is (cuda/nesterov.hpp).
template <class... Axes>
class rounds : round_rules<Axes...> {
  using core_type = detail::round_core<Axes...>;
  using laws = typename core_type::laws;
  using state = typename core_type::state;
  using fixed = detail::fixed_turns<core_type>;
  using trigger_type = typename core_type::trigger_type;
  using recipe_type = typename core_type::recipe_type;
  using content_type = typename core_type::content_type;
  using merge_rule_type = typename core_type::merge_rule_type;
  static constexpr bool accumulates = core_type::accumulates;
  static constexpr bool measures_speed = core_type::measures_speed;
  static constexpr bool keeps_rows = !laws::mix.waits_at_once;  // one may wait, or be on its way, in a checkpoint

 public:
  static constexpr std::string_view name = "rounds";
  static constexpr comm_traits traits{.tolerates = laws::elastic ? peers::elastic : peers::fixed,
                                      .exchanges_gradients = content_type::before_inner_step,
                                      .identical_replicas = laws::identical,
                                      .rounds_by_steps = !measures_speed && !accumulates && !laws::mix.watches_movement,
                                      .rounds_over_stages = true,
                                      .allows_late_steps = laws::allows_late_steps,
                                      .moves_with_blocks = core_type::moves_with_blocks,
                                      .rows_in_parts = core_type::moves_with_blocks,
                                      .own_parameters = laws::own_parameters,
                                      .trains_paths = core_type::by_path,
                                      .gathers_samples = accumulates,
                                      .rounds_by_clock = laws::mix.meets,
                                      .looks_ahead = core_type::looks_ahead,
                                      .draws_peers = core_type::draws_peers,
                                      .divides_batches = laws::mix.tells && !laws::mix.meets,
                                      .takes_turns = rules::takes_turns(laws::mix),
                                      .rounds_at_hand = core_type::applies_late ? 2U : 1U};
  static constexpr std::uint32_t state_version =
      (laws::own_parameters || core_type::by_path                                             ? 5
       : merge_rule_type::own_is_fresh || (core_type::keeps_means && !content_type::anchored) ? 4
                                                                                              : 3) +
      (core_type::links_type::measured ? 3 : 0) + (accumulates ? 6 : 0) + (keeps_rows ? 12 : 0);

  rounds() : rounds(std::tuple<>{}) {}
  explicit rounds(Axes... values) requires(sizeof...(Axes) > 0) : rounds(std::tuple<Axes...>{std::move(values)...}) {}
  [[nodiscard]] const trigger_type& trigger() const noexcept { return core_.trigger; }
  [[nodiscard]] const recipe_type& exchange() const noexcept { return core_.recipe; }
  [[nodiscard]] const merge_rule_type& merge_rule() const noexcept { return core_.rows.merge_rule(); }
  [[nodiscard]] auto& group() noexcept { return core_.group; }  ///< its weights may change between rounds, as shards do
  /// The shared parameters: what to evaluate and export, where the live ones differ from peer to peer.
  [[nodiscard]] std::span<const float> shared_parameters() const noexcept { return core_.rows.anchor(); }

  result<void> start(auto& ctx) {
    const bool begins = core_.states.empty();
    CAUSEWAY_TRY(core_.start(ctx));
    if constexpr (laws::mix.watches_movement) ctx.stages().will_ask(2 * core_.states.size());
    if constexpr (laws::own_parameters) turns_.own().start(ctx, core_);
    if constexpr (accumulates) {
      ctx.schedule_at(core_.states.front().number);
      ctx.contribution().gather(core_.trigger.target());
    } else if constexpr (requires { core_.trigger.open(ctx); }) {
      CAUSEWAY_TRY(core_.trigger.open(ctx));
    }
    if constexpr (core_type::meets) {
      const auto& o = core_.trigger.options();
      ctx.contribution().gather_by_clock(o.fewest_steps, o.seconds);
    }
    if (laws::mix.tells && ctx.moves_blocks()) ctx.contribution().divide_batches();
    samples_used_ = ctx.contribution().ever();
    CAUSEWAY_TRY(in_order(ctx, [&](auto& order) { return order.start(ctx, core_, begins); }));
    if (measures_speed) left_ = ctx.clock().now();
    return {};
  }

  /// Gradients where this peer expects the parameters to be once its last row has been applied.
  result<double> compute(auto& ctx, const auto& pass) {
    static_assert(merge_rule_type::waits == axis::waiting::a_round, "gradient_ahead is for results that are a round late");
    return detail::at_look_ahead(ctx, core_.states, before_pass_, pass);
  }

  /// Whether this peer computes in the next inner step: not where it was not drawn for the next exchange.
  [[nodiscard]] bool trains(auto& ctx) const { return core_.trains(ctx); }

  /// Of each batch this peer's sequences in the next step; of replicas of these speeds each one's part, in multiples.
  [[nodiscard]] index_range part_of_batch() const { return core_.trigger.part_of_batch(); }
  [[nodiscard]] std::vector<std::size_t> parts_for(const std::vector<double>& speeds) const {
    return core_.trigger.parts_for(speeds);
  }

  result<void> before_inner_step(auto& ctx) {
    if constexpr (accumulates) return gather_samples(ctx);
    if constexpr (content_type::before_inner_step && !accumulates) {
      return count_and_exchange(ctx);
    } else if constexpr (requires { core_.trigger.rate_factor(std::uint32_t{}); }) {
      ctx.multiply_learning_rate(core_.trigger.rate_factor(core_.states[0].since));
    }
    return {};
  }

  result<void> after_inner_step(auto& ctx) {
    if constexpr (content_type::before_inner_step) {
      const bool applied = in_order(ctx, [&](auto& order) { return order.applied(core_); });
      return applied ? core_.commit(ctx, core_.states[0]) : result<void>{};
    } else {
      return count_and_exchange(ctx);
    }
  }

  /// Ends what is under way, and brings the peers together: after a last exchange of what is left, and a mean over all
  /// where they would not be alike otherwise, unless their models are different ones (module groups).
  result<void> finish(auto& ctx) {
    if constexpr (accumulates) return finish_samples(ctx);
    if constexpr (content_type::before_inner_step) return {};
    if constexpr (core_type::meets) CAUSEWAY_TRY(meet_until_all_end(ctx));
    for (state& s : core_.states) {
      if (s.pending) CAUSEWAY_TRY(fixed::complete(ctx, core_, s));
      if (s.since > 0) CAUSEWAY_TRY(fixed::exchange_now(ctx, core_, s));
    }
    if constexpr (!laws::identical && !rules::by_path(laws::mix)) {
      CAUSEWAY_TRY(ctx.mean(compress::none{}, ctx.parameters()));
      CAUSEWAY_TRY(ctx.rows().copy(core_.rows.anchor(), ctx.parameters().first(core_.rows.anchor().size())));
      ctx.commit_round(ctx.parameters());
    } else if constexpr (content_type::anchored) {
      CAUSEWAY_TRY(ctx.rows().copy(ctx.parameters(), core_.rows.anchor()));
    }
    ctx.parameters_changed();
    return {};
  }

  void serialize(auto& ar) {
    std::uint64_t count = core_.states.size();
    ar(count);
    for (std::size_t i = 0; i < count; ++i) {  // one by one: a count without bytes behind it takes no memory
      if (i == core_.states.size()) core_.add_state();
      core_.states[i].serialize(ar);
      if constexpr (keeps_rows) ar(core_.states[i].behind);
      if constexpr (merge_rule_type::own_is_fresh) core_.rows.own().serialize(ar, core_.states[i], i == 0);
    }
    if constexpr (laws::own_parameters) turns_.own().serialize(core_, ar);
    ar(core_.trigger, core_.rows, counted_, core_.outer_steps, core_.gathered, core_.at, core_.modules);
    if constexpr (core_type::links_type::measured) ar(core_.links);
    if constexpr (accumulates) ar(gathered_for_);
  }

  void shared(auto& ar) {
    if constexpr (core_type::by_path) core_.modules.shared(ar);
    if constexpr (content_type::anchored && !laws::own_parameters && !core_type::by_path) ar(core_.rows.anchor());
    if constexpr (core_type::keeps_means) ar(core_.rows.means());
    turns_.shared(core_, ar);
  }

  /// As comm::periodic: local progress moves along with the shared parameters.
  void adopt(auto& ctx, std::span<const float> previous) {
    turns_.adopt(ctx, core_, !previous.empty());
    if (previous.empty()) {
      core_.gathered = 0;
      counted_ = false;
      if (accumulates) (void)ctx.contribution().after(samples_used_);  // they are given up
    }
    if constexpr (accumulates) ctx.schedule_at(core_.states.front().number);
    if constexpr (core_type::by_path) {
      core_.modules.follow(ctx, core_.states, core_.group, core_.rows, previous);
    } else if constexpr (!content_type::before_inner_step) {
      if (!laws::own_parameters || ctx.moves_blocks()) core_.rows.follow_shared(ctx, previous);
    }
    ctx.parameters_changed();
  }

  /// In a round in which nobody has anything to give: who is there for the first time gets a path.
  result<void> admit(auto& ctx) { return core_.modules.admit_alone(ctx, core_.states, core_.group, core_.rows); }
  /// Where pipelines come and go: how many paths they share out, and the one that this peer's is on from now on, if it is
  /// in one. Whether that is another than before: the shared parameters are that path's, and the live ones are not yet.
  [[nodiscard]] std::size_t paths() const { return core_.group.paths.size(); }
  bool follow(auto& ctx, std::optional<std::uint32_t> path) {
    return core_.modules.give(ctx, core_.states, core_.group, core_.rows, path);
  }
  /// Where peers come and go: this peer's path, if it has one by now; and the shared parameters of any.
  [[nodiscard]] std::optional<std::uint32_t> path() const requires core_type::by_path { return core_.modules.path(); }
  void parameters_of(std::uint32_t path, std::span<float> to) const requires core_type::by_path {
    core_.modules.put(core_.states, core_.group, path, to);
  }

  result<void> catch_up(auto& ctx) {
    if constexpr (accumulates) {
      CAUSEWAY_TRY(mean_gradient(ctx));
    } else if constexpr (content_type::before_inner_step) {
      CAUSEWAY_TRY(ctx.rows().zero(ctx.gradients()));
    }
    CAUSEWAY_TRY(turns_.catch_up(ctx, core_));
    core_.gathered = 0;
    if constexpr (content_type::before_inner_step) {
      CAUSEWAY_TRY(ctx.inner_step());
      (void)turns_.applied(core_);
      CAUSEWAY_TRY(core_.commit(ctx, core_.states[0]));
    }
    ctx.resume_at(core_.at);
    return {};
  }

  /// What is exchanged first counts from here on, not from where the run began (comm::post_local; fixed peers).
  result<void> begin_here(auto& ctx) {
    samples_used_ = ctx.contribution().ever();
    left_ = ctx.clock().now();
    return core_.begin_here(ctx);
  }

  /// Where blocks of the model move between peers (comm/block_rows.hpp): what goes along.
  [[nodiscard]] std::vector<parameter_row> block_rows() { return blocks().all(); }
  result<void> divide(auto& ctx, std::span<const parameter_segment> before) { return blocks().divide(ctx, before); }
  /// What the exchange remembers of the one before, and to begin without it.
  [[nodiscard]] std::vector<std::span<std::byte>> memory() { return blocks().memory(); }
  result<void> forget(auto& ctx) { return blocks().forget(ctx); }
  /// Of results that are a round late: whether a row waits for the next exchange.
  [[nodiscard]] std::optional<bool> row_waits() { return blocks().row_waits(); }
  /// Whether an exchange comes after the step under way, but for the run's last, and for those that come by the clock.
  [[nodiscard]] bool exchanges_next() { return !core_type::meets && core_.at + 1 >= turns_.next(core_); }

  [[nodiscard]] rounds another() const { return rounds{core_.axes()}; }  ///< as it was given
  [[nodiscard]] detail::turn_part<core_type> turn_part() { return detail::turn_part<core_type>{core_, turns_}; }
  /// What all hold alike, which the live parameters follow.
  [[nodiscard]] std::span<const float> followed() const noexcept { return core_.rows.followed(); }
  /// One inner step more.
  void count_step(auto& ctx) {
    const time_point began = std::max(left_, ctx.contribution().drawn_at());
    const double computed = measures_speed ? seconds(ctx.clock().now() - began) : 0;
    const std::uint64_t samples = ctx.contribution().after(samples_used_);
    for (state& s : core_.states) {
      ++s.since;
      s.samples += samples;
      s.compute_seconds += computed;
      s.waited += s.pending ? 1 : 0;
    }
    in_order(ctx, [&](auto& order) { order.count_step(core_); });
    ++core_.at;
  }

 private:
  template <class... Given>
  explicit rounds(std::tuple<Given...> values) : core_{std::move(values)} {}
  [[nodiscard]] auto blocks() { return detail::block_rows<core_type>{core_}; }

  // ---- gradients of many steps, until all peers together have enough samples ------------------------------------------

  result<void> gather_samples(auto& ctx) {
    const bool late = ctx.contribution().has_late();
    if (late || !counted_) CAUSEWAY_TRY(add_gradient(ctx, ctx.contribution().after(samples_used_)));
    if (!std::exchange(counted_, true) && ctx.exchanges_at_once()) ++core_.at;
    const bool is_late = core_.gathered > 0 && gathered_for_ != core_.states.front().number;
    CAUSEWAY_ASSIGN(const bool enough,
                    in_order(ctx, [&](auto& order) { return order.enough_samples(ctx, core_, is_late); }));
    if (!enough) ctx.skip_inner_step();
    if (enough) CAUSEWAY_TRY(exchange_samples(ctx));
    counted_ = false;
    return {};
  }

  /// updates ← Σ samples · gradient.
  result<void> add_gradient(auto& ctx, std::uint64_t samples) {
    const auto g = ctx.gradients();
    auto& sum = core_.rows.updates();
    sum.resize(g.size());
    if (core_.gathered == 0) {
      CAUSEWAY_TRY(ctx.rows().zero(sum));
      gathered_for_ = core_.states.front().number;
    }
    CAUSEWAY_TRY(ctx.rows().add(sum, static_cast<float>(samples), g));
    core_.gathered += samples;
    return {};
  }

  /// Gradients ← the mean over this peer's samples.
  result<void> mean_gradient(auto& ctx) {
    const auto g = ctx.gradients();
    ctx.schedule_at(core_.states.front().number);
    if (core_.gathered == 0) return ctx.rows().zero(g);
    CAUSEWAY_TRY(ctx.rows().copy(g, core_.rows.updates()));
    return ctx.rows().scale(g, 1.0F / static_cast<float>(core_.gathered));
  }

  /// Gradients ← the mean over all samples of all peers.
  result<void> exchange_samples(auto& ctx) {
    CAUSEWAY_TRY(mean_gradient(ctx));
    CAUSEWAY_TRY(in_order(ctx, [&](auto& order) { return order.catch_up(ctx, core_); }));
    core_.gathered = 0;
    return {};
  }

  /// Takes part until all peers have ended their training; what is left over then is one more step.
  result<void> finish_samples(auto& ctx) {
    const auto target = static_cast<double>(core_.trigger.target());
    for (;;) {
      CAUSEWAY_ASSIGN(const double left, core_type::ask_first(ctx, [&]() -> result<double> {
                        CAUSEWAY_ASSIGN(const bool enough, core_.trigger.reached_by_others(ctx, core_.gathered));
                        return enough ? target : static_cast<double>(core_.trigger.total(core_.gathered));
                      }));
      if (left == 0) return {};
      CAUSEWAY_TRY(exchange_samples(ctx));
      CAUSEWAY_TRY(ctx.inner_step());
      CAUSEWAY_TRY(core_.commit(ctx, core_.states[0]));
      if (left < target) return {};
    }
  }

  // ---- the flow of a step ---------------------------------------------------------------------------------------------
  result<void> count_and_exchange(auto& ctx) {
    if (!counted_) count_step(ctx);  // once a step, however often the hook is called
    counted_ = true;
    CAUSEWAY_TRY(in_order(ctx, [&](auto& order) { return order.visit(ctx, core_); }));
    if constexpr (core_type::meets) core_.trigger.step_is_over();
    counted_ = false;
    if (measures_speed) left_ = ctx.clock().now();
    return {};
  }

  /// When this peer's training has ended, and others' may go on.
  result<void> meet_until_all_end(auto& ctx) {
    while (!core_.trigger.all_ended()) {
      CAUSEWAY_TRY(core_.trigger.meet(ctx, core_.states.front().since, true));
      CAUSEWAY_TRY(fixed::visit(ctx, core_));
      core_.trigger.step_is_over();
    }
    return {};
  }

  /// `f` of the order of things that fits the group: by turns under a record each, or without any.
  decltype(auto) in_order(auto& ctx, auto&& f) {
    if constexpr (laws::elastic) {
      if (ctx.elastic()) return f(turns_);
    }
    return f(fixed_);
  }

  core_type core_;
  detail::round_turns<core_type> turns_;
  [[no_unique_address]] fixed fixed_;
  std::uint64_t samples_used_ = 0;  ///< of all that this peer trained on: what is in rows already, or counted for them
  std::uint64_t gathered_for_ = 0;  ///< the exchange that the sum of gradients was begun for
  bool counted_ = false;            ///< this inner step is in the counters already
  time_point left_{};               ///< when the last hook ended
  std::vector<float> before_pass_;  ///< working memory
};
static_assert(CommunicationPolicy<rounds<>>);

template <class... Axes>
rounds(Axes...) -> rounds<Axes...>;

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_ROUNDS_HPP
