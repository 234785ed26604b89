// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ROUND_CORE_HPP
#define CAUSEWAY_COMM_ROUND_CORE_HPP

// What comm::rounds is made of, whoever says when: the axes' values, a state for each fragment, and the parts of one
// exchange. The order of things is in comm/fixed_turns.hpp, and where peers come and go in comm/round_turns.hpp.

#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/groups.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/participation.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/comm/own_parameters.hpp>
#include <causeway/comm/path_modules.hpp>
#include <causeway/comm/round_links.hpp>
#include <causeway/comm/round_rows.hpp>
#include <causeway/comm/round_rules.hpp>
#include <causeway/comm/round_state.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

template <class... Axes>
struct round_core {
  using trigger_type = axis::pick<axis::part::trigger, axis::every, Axes...>;
  using content_type = axis::pick<axis::part::content, axis::pseudo_gradient, Axes...>;
  using fragments_type = axis::pick<axis::part::fragments, axis::whole, Axes...>;
  using group_type = axis::pick<axis::part::group, axis::all_peers, Axes...>;
  using recipe_type = axis::pick<axis::part::exchange, axis::all_reduce<>, Axes...>;
  using residual_type = axis::pick<axis::part::residual, axis::no_residual, Axes...>;
  using participation_type = axis::pick<axis::part::participation, axis::everyone, Axes...>;
  using outer_type = axis::pick<axis::part::outer, axis::outer<>, Axes...>;
  using merge_rule_type = axis::pick<axis::part::merge_rule, axis::blocking, Axes...>;
  using state = detail::round_state<recipe_type, outer_type, group_type>;
  using rows_type = detail::round_rows<state, Axes...>;
  using laws = round_rules<Axes...>;
  // Peers that come and go train different models, each of modules that all keep.
  static constexpr bool by_path = trains_paths<laws>();
  using modules_type = typename modules_of<by_path, state, group_type>::type;
  // Parameters are replaced where something came; a gradient of which nothing came is zero.
  static constexpr bool wants_counts =
      laws::mix.sparse && laws::mix.gives_counts && !laws::mix.anchored && !laws::mix.before_inner_step;
  static constexpr bool accumulates = laws::mix.accumulates;
  static constexpr bool meets = laws::mix.meets;
  static constexpr bool chooses = requires(const trigger_type& t) { t.chosen(std::size_t{}); };
  static constexpr bool own_parameters = laws::own_parameters;
  // Parameters themselves are exchanged, and where peers come and go the last mean of each is what all hold alike: where
  // peers have their own, the one that a run begins with or ends with.
  static constexpr bool keeps_means = (!laws::mix.anchored || own_parameters) && !laws::mix.before_inner_step;
  static constexpr bool measures_speed = requires { trigger_type::follows_speed; };
  static constexpr bool tells = requires { trigger_type::tells; };  // the trigger: other peers, in every exchange
  // The exchange keeps what must be equal on all peers from round to round, and is this round's only once it is over.
  static constexpr bool keeps_factors = requires(typename state::exchange_type & e) { e.keep(); };
  using links_type = round_links<recipe_type, group_type>;
  static constexpr bool overlaps = merge_rule_type::waits == axis::waiting::some_steps;
  static constexpr bool looks_ahead = requires { content_type::looks_ahead; };
  static constexpr bool moves_with_blocks = rules::moves_with_blocks(laws::mix, keeps_factors);
  static constexpr bool draws_peers = requires { participation_type::only_drawn_train; };
  static constexpr bool applies_late = merge_rule_type::waits == axis::waiting::a_round;
  static constexpr bool notes_departure =
      merge_rule_type::keeps_departure && laws::mix.anchored && !rows_type::keeps_in_parameters;

  template <class... Given>
  explicit round_core(std::tuple<Given...> values)
      : trigger{axis::take<axis::part::trigger, trigger_type>(values)},
        fragments{axis::take<axis::part::fragments, fragments_type>(values)},
        group{axis::take<axis::part::group, group_type>(values)},
        recipe{axis::take<axis::part::exchange, recipe_type>(values)},
        participation{axis::take<axis::part::participation, participation_type>(values)},
        outer{axis::take<axis::part::outer, outer_type>(values)},
        rows{axis::take<axis::part::residual, residual_type>(values),
             axis::take<axis::part::merge_rule, merge_rule_type>(values)} {}

  /// As they were given.
  [[nodiscard]] auto axes() const {
    return std::tuple{trigger, fragments, group, recipe, participation, outer, rows.residual(), rows.merge_rule()};
  }

  // ---- at the start -----------------------------------------------------------------------------------------------------

  result<void> start(auto& ctx) {
    CAUSEWAY_TRY(check(ctx));
    CAUSEWAY_ASSIGN(cuts, axis::cut_part(fragments, ctx));
    CAUSEWAY_TRY(trigger.check(fragment_count()));
    if constexpr (requires { group.check_fragments(fragment_count()); }) {
      CAUSEWAY_TRY(group.check_fragments(fragment_count()));
    }
    if (has_modules(ctx)) modules.list(group, cuts);
    memory = row_memory(ctx);
    rows.keep_in(memory);
    for (state& s : states) s.keep_in(memory);
    modules.keep_in(memory);
    if (states.empty()) found(ctx);
    for (std::size_t i = 0; i < states.size(); ++i) CAUSEWAY_TRY(prepare(ctx, i));
    if (has_modules(ctx)) CAUSEWAY_TRY(modules.start(ctx, states, group));
    if constexpr (content_type::sums_updates) CAUSEWAY_TRY(ctx.track_updates(rows.updates()));
    return {};
  }

  result<void> check(auto& ctx) const {
    CAUSEWAY_TRY(group.check(ctx.numbered_peers()));
    CAUSEWAY_TRY(participation.check());
    if constexpr (content_type::before_inner_step) {
      if (trigger.next(0, 1) != 1) {
        return fail(
            errc::invalid_argument, "trigger",
            "gradients are exchanged in every step: with a step of each peer's own between two, replicas would part");
      }
    }
    CAUSEWAY_TRY(links_type::check(ctx, recipe, group));
    if constexpr (!overlaps) return {};
    if (rows.merge_rule().steps >= 1 && rows.merge_rule().steps < trigger.next(0, 1)) return {};
    return fail(errc::invalid_argument, "merge rule",
                "a result that is waited for " + std::to_string(rows.merge_rule().steps) + " inner steps, in a round of " +
                    std::to_string(trigger.next(0, 1)) + "; it must be at least 1 and less than the round");
  }

  /// The outer optimizer's, where it has one: that says where the outer step is made. Else the parameters', unless an
  /// optimizer of the host is to move the shared ones.
  [[nodiscard]] memory_source row_memory(auto& ctx) const {
    if constexpr (requires { outer.memory(); } && content_type::anchored) {
      return outer.memory();
    } else if constexpr (!content_type::anchored || requires(outer_type & o) { o.keep_in(memory_source{}); }) {
      return ctx.memory();
    }
    return {};
  }

  void add_state() {
    states.emplace_back();
    states.back().part = states.size() - 1;
    states.back().outer = outer;
    states.back().keep_in(memory);
    states.back().group_axis = group;
    if constexpr (!axis::by_context<recipe_type>) states.back().exchange.emplace(recipe.make(states.back().part));
  }

  // The state of a run that begins, not one from a checkpoint.
  void found(auto& ctx) {
    while (states.size() < state_count(ctx)) add_state();
    if constexpr (content_type::anchored) rows.anchor().assign(ctx.parameters().begin(), ctx.parameters().end());
    if constexpr (content_type::sums_updates) rows.updates().assign(rows.anchor().size(), 0.0F);
    for (std::size_t i = 0; i < states.size(); ++i) {
      place(ctx, states[i]);
      states[i].due_at = trigger.first(in_schedule(states[i]), schedule_size());
      if constexpr (content_type::anchored) {
        states[i].outer.reset(static_cast<std::int64_t>(cuts[states[i].fragment].size));
      }
    }
    if (has_modules(ctx)) modules.found(states, cuts, ctx.parameters());
  }

  /// The same of the means that all hold alike, if these are asked for by who is there for the first time.
  void found_means(auto& ctx) {
    if constexpr (keeps_means) {
      const bool of_anchor = content_type::anchored && ctx.moves_blocks();  // which a block takes along
      if (!of_anchor) rows.found_means(ctx);
    }
  }

  [[nodiscard]] static bool has_modules(auto& ctx) { return by_path && ctx.numbered_peers() == 0; }
  /// One for each fragment of each tensor, or for each module.
  [[nodiscard]] std::size_t state_count(auto& ctx) const {
    return has_modules(ctx) ? modules.count() : cuts.size() * content_type::tensor_count;
  }
  void place(auto& ctx, state& s) const {
    s.fragment = has_modules(ctx) ? modules.cut_of(s.part) : s.part % cuts.size();
    s.tensor = has_modules(ctx) ? 0 : s.part / cuts.size();
  }

  result<void> prepare(auto& ctx, std::size_t i) {
    if (states.size() != state_count(ctx) || (content_type::anchored && rows.anchor().size() != ctx.parameters().size())) {
      return fail(errc::wrong_model, "rounds",
                  "the checkpoint was written with other fragments or another model; start with the settings it had");
    }
    state& s = states[i];
    place(ctx, s);
    s.cut = &cuts[s.fragment];
    s.matrices = s.cut->matrices;
    if constexpr (content_type::with_anchor) {
      for (auto m : s.cut->matrices) s.matrices.push_back({m.offset + s.cut->size, m.rows, m.columns});
    }
    if constexpr (keeps_factors) s.exchange->prepare(s.size() * (content_type::with_anchor ? 2 : 1), s.matrices);
    return {};
  }

  /// As if the run began with the parameters as they are. Before the first exchange, with fixed peers.
  result<void> begin_here(auto& ctx) {
    if constexpr (requires { trigger.open(ctx); }) CAUSEWAY_TRY(trigger.open(ctx));
    if constexpr (content_type::sums_updates) CAUSEWAY_TRY(ctx.rows().zero(rows.updates()));
    if constexpr (content_type::anchored) return ctx.rows().copy(rows.anchor(), ctx.parameters());
    return {};
  }

  /// Of the model; where rows are of single blocks there are more cuts.
  [[nodiscard]] std::size_t fragment_count() const noexcept { return cuts.empty() ? 0 : cuts.back().number + 1; }
  /// Its number among the fragments of all tensors; all blocks of one have the same.
  [[nodiscard]] std::size_t number_of(const state& s) const noexcept {
    return s.tensor * fragment_count() + cuts[s.fragment].number;
  }
  /// Whether it is the first of that number.
  [[nodiscard]] bool leads(const state& s) const noexcept {
    return s.fragment == 0 || cuts[s.fragment - 1].number != cuts[s.fragment].number;
  }
  /// Its number in the trigger's list. Modules of a fragment are exchanged together.
  [[nodiscard]] std::size_t in_schedule(const state& s) const noexcept {
    constexpr bool by_tensor = requires { trigger_type::by_tensor; };
    return by_tensor && content_type::tensor_count > 1 ? s.tensor : number_of(s);
  }
  [[nodiscard]] std::size_t schedule_size() const noexcept { return fragment_count() * content_type::tensor_count; }
  /// Inner steps to its next exchange.
  [[nodiscard]] std::uint32_t period(const state& s) const { return trigger.next(in_schedule(s), schedule_size()); }

  // ---- the parts of an exchange -----------------------------------------------------------------------------------------

  [[nodiscard]] axis::group_question question(auto& ctx, const state& s) const {
    const meeting_places places{ctx};
    return {.seed = mix(ctx.options().seed, stream, number_of(s)),
            .number = s.number,
            .self = places.self(),
            .peers = places.count(),
            .fragment = cuts[s.fragment].number,
            .link_costs = links.costs()};
  }
  [[nodiscard]] std::vector<net::peer_index> members(auto& ctx, const state& s, const axis::group_question& q) const {
    if constexpr (own_parameters) {
      if (ctx.numbered_peers() == 0) return own_members(ctx, group, s.number, q);
    }
    if (applies_late && content_type::before_inner_step && ctx.entry().nobody_counts()) return {q.self};
    return has_modules(ctx) ? std::vector<net::peer_index>{} : s.group_axis.members(q);
  }
  [[nodiscard]] net::message_id id_of(auto& ctx, const state& s) const {
    const bool at_once = merge_rule_type::waits == axis::waiting::at_once;
    return ctx.exchange_id({.channel = channel,
                            .step = s.number * states.size() + s.part,
                            .parent = at_once && laws::identical ? ctx.parent() : s.parent},
                           first_part + s.part);
  }

  /// Whether this peer computes for the next exchange. Lots are drawn by number.
  [[nodiscard]] bool trains(auto& ctx) const {
    const auto drawn = [&](const state& s) { return participation.contributes(question(ctx, s)); };
    return ctx.numbered_peers() == 0 || std::any_of(states.begin(), states.end(), drawn);
  }

  /// Sends `input`, for the first time or again.
  result<void> begin(auto& ctx, state& s) {
    s.cancel();  // before its transport may go
    if (ctx.keeps_result() && !(axis::by_context<recipe_type> && ctx.knows_result())) return s.begin_at_kept();
    float weight = 1;
    if constexpr (!axis::by_context<recipe_type>) {
      CAUSEWAY_ASSIGN(weight, ctx.enter_exchange(accumulates ? gathered : s.counts_as(ctx, laws::mix.weighs)));
    }
    if constexpr (links_type::measured) CAUSEWAY_TRY(links.plan(ctx, recipe, group, s));
    axis::group_question q = question(ctx, s);
    if constexpr (requires { group.weight(q); }) weight *= has_modules(ctx) ? 1.0F : group.weight(q);
    s.terms = {.members = members(ctx, s, q),
               .contributors = 0,
               .rescale = 1,
               .contributes = weight > 0,
               .weight = weight,
               .length = 1,
               .seed = mix(mix(ctx.options().seed, stream, s.part), s.number),
               .id = id_of(ctx, s),
               .part = first_part + s.part,
               .reference = {}};
    s.terms.contributors = static_cast<std::uint32_t>(s.terms.members.size());
    if constexpr (!participation_type::always) draw_lots(ctx, participation, s.terms, q);
    if constexpr (laws::mix.anchored && requires { group.length(q); })
      s.terms.length = has_modules(ctx) ? 1 : group.length(q);
    if (has_modules(ctx)) modules.invite(ctx, group, s);
    s.meet_holders(ctx, !participation_type::always);
    if (has_modules(ctx)) modules.weigh(ctx, group, s);
    CAUSEWAY_TRY(rows.refer(ctx, s));
    CAUSEWAY_TRY(s.begin(ctx, laws::mix.keeps_residual || laws::mix.own_is_fresh, wants_counts));
    return rows.clear_padding(ctx, s, s.next_residual);
  }
  /// Waits until the mean is in `row`.
  result<void> finish(auto& ctx, state& s) {
    CAUSEWAY_TRY(s.finish(ctx, recipe, content_type::before_inner_step ? &s.cut->ranges : nullptr));
    CAUSEWAY_TRY(rows.clear_padding(ctx, s, s.row));
    CAUSEWAY_TRY(rows.clear_padding(ctx, s, s.next_residual));
    if (s.terms.only_takes) CAUSEWAY_TRY(ctx.rows().zero(s.next_residual));
    const float length = std::exchange(s.terms.length, 1.0F);  // an earlier attempt's mean has it already
    return length != 1.0F ? ctx.rows().scale(s.row, length) : result<void>{};
  }
  /// How far results that are there will move the whole model, for a trigger that watches that. All stages ask at once.
  result<void> measure(auto& ctx, std::span<state* const> due) {
    if constexpr (laws::mix.watches_movement) {
      squares.clear();
      for (state* s : due) {
        if (squares.empty() || leads(*s)) squares.insert(squares.end(), 2, 0.0);
        s->squares_at = squares.size() - 2;
        if (!s->terms.only_takes) CAUSEWAY_TRY(rows.add_squares(ctx, *s, std::span{squares}.last(2)));
      }
      return ctx.stages().sum(squares, ctx.exchange_options());
    }
    return {};
  }
  result<void> measure(auto& ctx, state& one) { return measure(ctx, std::array{&one}); }
  [[nodiscard]] double movement(const state& s) const {
    if (!laws::mix.watches_movement || squares[s.squares_at + 1] <= 0) return 0;
    return std::sqrt(squares[s.squares_at] / squares[s.squares_at + 1]);
  }
  /// Whether a turn has one more part, after the rows: what peers tell each other, for a trigger that asks them; or, among
  /// stages, which divide batches, how far results move: who knows the result, but has missed the vote, knows that, too.
  [[nodiscard]] static bool has_statistics(auto& ctx) {
    return ctx.exchanges_at_once() ? laws::mix.watches_movement : tells;
  }
  result<void> exchange_statistics(auto& ctx, std::span<state* const> due) {
    if (!ctx.keeps_result()) CAUSEWAY_TRY(measure(ctx, due));
    if constexpr (tells) CAUSEWAY_TRY(trigger.tell(ctx, report_of(*due.front())));
    return ctx.left_exchange({});
  }
  [[nodiscard]] axis::exchange_report report_of(const state& s) const {
    return {.fragment = number_of(s),
            .steps = s.since,
            .samples = s.samples,
            .movement = movement(s),
            .compute_seconds = s.compute_seconds};
  }

  /// The result is there: use it.
  result<void> apply(auto& ctx, state& s) {
    if (!has_statistics(ctx)) CAUSEWAY_TRY(measure(ctx, s));
    const axis::exchange_report report = report_of(s);
    CAUSEWAY_TRY(rows.apply(ctx, s));
    close(ctx, s);
    return leads(s) ? trigger.exchanged(ctx, report) : result<void>{};
  }

  /// Of a model in stages the replicas' first ones tell each other, for all of theirs.
  static result<double> ask_first(auto& ctx, auto&& hear) {
    return ctx.stages().of_first(ctx.stages().is_first() ? hear() : result<double>{0.0}, ctx.exchange_options());
  }

  result<void> commit(auto& ctx, state& s) {
    CAUSEWAY_ASSIGN(const std::span<const float> shared, rows.shared_of(ctx, s));
    ctx.commit_round(shared);
    return {};
  }

  /// The exchange is over and cannot fail any more.
  void close(auto& ctx, state& s) {
    if constexpr (residual_type::keeps == axis::keeping::in_a_buffer) std::swap(s.residual, s.next_residual);
    s.group_axis.formed(question(ctx, s));
    if constexpr (keeps_factors) s.exchange->keep();
    ++s.number;
    ++outer_steps;
  }

  static constexpr std::uint64_t stream = 0x726F756E6473;
  static constexpr std::uint32_t channel = content_type::anchored            ? collective::channels::updates
                                           : content_type::before_inner_step ? collective::channels::gradients
                                                                             : collective::channels::parameters;

  trigger_type trigger;
  fragments_type fragments;
  group_type group;
  recipe_type recipe;
  participation_type participation;
  outer_type outer;

  memory_source memory;  ///< of the rows
  rows_type rows;
  std::vector<axis::fragment> cuts;
  std::vector<double> squares;   ///< Σ x² of mean and shared parameters, by fragment: of the whole model, once asked for
  std::vector<state> states;     ///< fragments of the first tensor, then of the next
  std::uint64_t first_part = 0;  ///< names the messages of several policies that exchange in one attempt
  std::uint64_t outer_steps = 0;
  links_type links;
  modules_type modules;
  std::uint64_t gathered = 0;  ///< samples in the sum of gradients, for a trigger that accumulates
  std::uint64_t at = 0;        ///< inner steps of the run; where peers come and go, in the schedule that all hold alike
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ROUND_CORE_HPP
