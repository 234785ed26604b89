// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ASYNC_PARAMETER_SERVER_HPP
#define CAUSEWAY_COMM_ASYNC_PARAMETER_SERVER_HPP

// Exchanges that wait for nobody. A hub holds the shared parameters; every peer pushes how far it has come since it pulled
// them, whenever it is done with its inner steps, and pulls what they have become meanwhile. Composed of the axes of
// comm::rounds that have a meaning here, and two of its own: what a hub does with pushes, and who is whose hub.
//
// The hub is one of the peers. It looks after its clients between its own inner steps, and whenever it waits; one that has
// nothing to train on calls finish at once, and then does nothing else.

#include <causeway/axis/fragments.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/collective/sum.hpp>
#include <causeway/comm/arrival_rules.hpp>
#include <causeway/comm/elastic_pushes.hpp>
#include <causeway/comm/push_core.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/policy/concepts.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

/// Peer m, after H inner steps: pushes Δ_m = (what it pulled) − θ_m; the hub: θ ← outer(θ, Δ_m) in the order in which
/// pushes arrive, and answers with θ; m applies it at once, or τ inner steps later.
///
/// `async_parameter_server<>` is Async Local-SGD (Liu et al. 2024): every, whole, star, push, no_residual, one_by_one,
/// outer<delayed_nesterov>{0.7}, blocking. Give axis values in any order. The period of delayed_nesterov should be about
/// the number of peers; a shorter one lets quick peers rule the momentum.
///
/// In pipelines each stage has a hub of its own, all of them in one pipeline, and pushes as if it were a model: two stages
/// may have pulled after different steps. A hub serves its clients between its steps, for which it needs the other stages,
/// so none may wait for a push there: no `quorum` above 1, no `most_ahead`, and no parameters that two stages hold.
///
/// State: what was pulled; of a hub the shared parameters, the outer optimizer's and the pushes that wait. Cost of a round
/// of one peer: its encoded row to the hub, 4 bytes a value back; one round trip, plus what is left of the hub's inner
/// step. A client that is lost is not waited for; a lost hub is an error that names it.
template <class... Axes>
class async_parameter_server : arrival_rules<Axes...> {
  using core_type = detail::push_core<Axes...>;
  using trigger_type = typename core_type::trigger_type;
  using merge_rule_type = typename core_type::merge_rule_type;

  static constexpr bool has_regions = core_type::tiers_type::has_upper;
  static constexpr std::uint32_t rounds_at_hand = 8;  ///< quick peers take more steps than others from record to record

 public:
  static constexpr std::string_view name = "async_parameter_server";
  static constexpr comm_traits traits{.tolerates = peers::elastic,
                                      .identical_replicas = false,
                                      .rounds_by_steps = false,
                                      .rounds_over_stages = true,
                                      .allows_late_steps = true,
                                      .moves_with_blocks = true,
                                      .in_regions = has_regions,
                                      .talks_between = true,
                                      .rounds_at_hand = rounds_at_hand};
  static constexpr std::uint32_t state_version = has_regions ? 6 : 5;

  async_parameter_server() : async_parameter_server(std::tuple<>{}) {}
  explicit async_parameter_server(Axes... values) requires(sizeof...(Axes) > 0)
      : async_parameter_server(std::tuple<Axes...>{std::move(values)...}) {}

  [[nodiscard]] const trigger_type& trigger() const noexcept { return core_.trigger; }
  /// On a hub the shared parameters of its clients, elsewhere what was pulled last. Where peers come and go, those of the
  /// last record.
  [[nodiscard]] std::span<const float> shared_parameters() const noexcept {
    if (!elastic_.trained().empty()) return elastic_.trained();
    return core_.tiers.is_hub() ? core_.tiers.server().shared() : core_.tiers.client().anchor();
  }

  result<void> start(auto& ctx) {
    CAUSEWAY_TRY(core_.check(ctx));
    CAUSEWAY_ASSIGN(core_.cuts, axis::cut_part(core_.fragments, ctx));
    CAUSEWAY_TRY(core_.trigger.check(core_.cuts.size()));
    if (ctx.elastic()) {
      CAUSEWAY_TRY(elastic_.start(ctx, core_));
      leave(ctx);
      return {};
    }
    const auto terms = core_.terms_of(ctx);
    const bool is_new = core_.tiers.client().anchor().empty();
    CAUSEWAY_TRY(core_.tiers.open(terms, core_.hubs.levels(ctx.peers()), 0, ctx.parameters(), core_.most_bytes(terms)));
    if (is_new) core_.schedule();
    core_.tiers.greet();
    CAUSEWAY_TRY(core_.tiers.meet(terms));
    CAUSEWAY_TRY(core_.tiers.agree(terms));
    samples_seen_ = ctx.contribution().ever();
    leave(ctx);
    return {};
  }

  result<void> before_inner_step(auto&) {
    elastic_.before_step(core_);
    return {};
  }

  result<void> after_inner_step(auto& ctx) {
    count(ctx);
    if (ctx.elastic()) {
      CAUSEWAY_TRY(elastic_.after_step(ctx, core_));
    } else {
      CAUSEWAY_TRY(serve(ctx));
      for (std::size_t f = 0; f < core_.cuts.size(); ++f) CAUSEWAY_TRY(visit(ctx, f));
      CAUSEWAY_TRY(serve(ctx));
    }
    counted_ = false;
    leave(ctx);
    return {};
  }

  /// Pushes what is left, waits until all peers have done so, and takes the final shared parameters over: equal bits on all
  /// peers. A hub serves the others until then.
  result<void> finish(auto& ctx) {
    for (std::size_t f = 0; f < core_.cuts.size(); ++f) {
      if (core_.legs()[f].pending) CAUSEWAY_TRY(complete(ctx, f));
      if (core_.legs()[f].since > 0 && core_.cuts[f].size > 0) CAUSEWAY_TRY(push(ctx, f, false));
    }
    const auto nap_here = [&] { return core_.nap(ctx.transport(), ctx.clock()); };
    CAUSEWAY_ASSIGN(const auto all, core_.tiers.conclude(core_.rules(), core_.residual, core_.terms_of(ctx), nap_here));
    std::copy(all.begin(), all.end(), ctx.parameters().begin());
    std::copy(all.begin(), all.end(), core_.tiers.client().anchor().begin());
    ctx.parameters_changed();
    return {};
  }

  void serialize(auto& ar) {
    ar(core_.tiers, core_.trigger, counted_);
    elastic_.serialize(ar, core_);
  }

  // ---- among peers that come and go: comm/elastic_pushes.hpp ----------------------------------------------------------

  void shared(auto& ar) { elastic_.shared(ar); }

  /// What was not pushed yet moves along with the shared parameters.
  void adopt(auto& ctx, std::span<const float> previous) {
    if (previous.empty()) counted_ = false;
    elastic_.adopt(ctx, core_, previous);
    leave(ctx);
  }

  result<void> catch_up(auto& ctx) { return elastic_.catch_up(ctx, core_); }

  /// Where blocks of the model move between peers: what goes along.
  [[nodiscard]] std::vector<parameter_row> block_rows() { return elastic_.block_rows(core_); }
  result<void> divide(auto& ctx, std::span<const parameter_segment> before) { return elastic_.divide(ctx, core_, before); }
  /// Of hubs of hubs: pipelines share the regions out, so all stages of one are in the same.
  [[nodiscard]] std::uint32_t regions() const { return core_.hubs.label.fewest; }
  bool follow(auto&, std::optional<std::uint32_t> region) { return elastic_.follow(region); }
  void parameters_of(std::uint32_t region, std::span<float> to) requires has_regions { elastic_.parameters_of(region, to); }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() const { return {}; }
  result<void> forget(auto&) const { return {}; }
  [[nodiscard]] bool exchanges_next() const noexcept { return false; }  ///< it is not known before
  [[nodiscard]] static std::optional<bool> row_waits() { return {}; }

  /// Before `catch_up`, as long as others still train: a hub that has nothing to train on serves them.
  void stand_by(auto& ctx) { elastic_.stand_by(ctx, core_); }

  /// In a step of a swarm, while this peer waits.
  [[nodiscard]] std::function<void()> meanwhile(auto& ctx) {
    return [this, &ctx] { elastic_.meanwhile(ctx, core_); };
  }
  result<void> meet_holders(auto&, const auto&) { return {}; }  ///< hubs open their lines themselves

 private:
  template <class... Given>
  explicit async_parameter_server(std::tuple<Given...> values) : core_{std::move(values)} {}

  // ---- the flow of a step -----------------------------------------------------------------------------------------------

  void leave(auto& ctx) {
    left_ = ctx.clock().now();
    left_in_ = ctx.round();
  }

  void count(auto& ctx) {
    // Once a step, however often the hook is called; and what was computed late.
    if (std::exchange(counted_, true) && !ctx.contribution().has_late()) return;
    const double computed = seconds(ctx.clock().now() - left_);
    // Else the others were waited for meanwhile: in a swarm in every step, whose quick peers have more of it instead.
    const bool timed = ctx.round() == left_in_ && !ctx.membership().is_swarm();
    const std::uint64_t ever = ctx.contribution().ever();
    const std::uint64_t samples = ever - std::exchange(samples_seen_, ever);
    if (ctx.elastic()) elastic_.count_step(core_, samples);
    for (detail::hub_leg& leg : core_.legs()) {
      ++leg.since;
      leg.samples += samples;
      ++leg.steps;
      leg.timed += timed ? 1 : 0;
      leg.compute_seconds += timed ? computed : 0;
      leg.waited += leg.pending ? 1 : 0;
    }
  }

  result<void> visit(auto& ctx, std::size_t f) {
    detail::hub_leg& leg = core_.legs()[f];
    if (core_.cuts[f].size == 0) return {};  // it is in other stages of the model
    if (leg.pending && leg.waited >= core_.merge_rule.steps) CAUSEWAY_TRY(complete(ctx, f));
    if (leg.pending || leg.since < leg.due_after) return {};
    CAUSEWAY_TRY(push(ctx, f, true));
    leg.due_after = core_.trigger.next(f, core_.cuts.size());
    return merge_rule_type::waits == axis::waiting::at_once ? complete(ctx, f) : result<void>{};
  }

  result<void> push(auto& ctx, std::size_t f, bool wants_answer) {
    detail::hub_leg& leg = core_.legs()[f];
    core_.row.resize(core_.cuts[f].size);
    axis::gather(core_.cuts[f], ctx.parameters(), core_.row);
    if constexpr (merge_rule_type::keeps_departure) leg.at_send = core_.row;
    CAUSEWAY_TRY(core_.tiers.push(core_.rules(), core_.residual, ctx.next_learning_rate(), core_.terms_of(ctx), f,
                                  core_.row, wants_answer));
    // The hub finds that, too, and says so; but until then this peer goes on computing, if it may.
    leg.spoilt = !collective::finite_values(core_.row);
    if (leg.spoilt) core_.give_up(ctx);
    return {};
  }

  /// Waits for the answer, and applies it.
  result<void> complete(auto& ctx, std::size_t f) {
    detail::hub_leg& leg = core_.legs()[f];
    CAUSEWAY_TRY(core_.tiers.client().poll(core_.terms_of(ctx)));
    if (!leg.answered && core_.cuts.size() > 1)
      CAUSEWAY_TRY(core_.tiers.say_waiting(core_.rules(), core_.terms_of(ctx), f));
    while (!leg.answered) {
      if (!core_.tiers.client().is_local()) {
        CAUSEWAY_TRY(core_.tiers.client().wait(core_.terms_of(ctx)));
      } else {
        CAUSEWAY_TRY(core_.nap(ctx.transport(), ctx.clock()));
        CAUSEWAY_TRY(serve(ctx));
      }
    }
    CAUSEWAY_TRY(core_.apply(ctx, f));
    ctx.commit_round(std::span<const float>{});
    return {};
  }

  result<void> serve(auto& ctx) { return core_.tiers.serve(core_.rules(), core_.residual, core_.terms_of(ctx)); }

  detail::elastic_pushes<core_type> elastic_;  // before the core
  core_type core_;
  bool counted_ = false;  ///< this inner step is in the counters already
  std::uint64_t samples_seen_ = 0;
  time_point left_{};          ///< when the last hook ended
  std::uint64_t left_in_ = 0;  ///< in that round
};
static_assert(CommunicationPolicy<async_parameter_server<>>);

template <class... Axes>
async_parameter_server(Axes...) -> async_parameter_server<Axes...>;

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_ASYNC_PARAMETER_SERVER_HPP
