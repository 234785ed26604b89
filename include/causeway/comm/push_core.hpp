// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_PUSH_CORE_HPP
#define CAUSEWAY_COMM_PUSH_CORE_HPP

// What comm::async_parameter_server is made of, whoever is there: the axes' values, the tiers of hubs, and the parts of a
// push. comm/async_parameter_server.hpp has the order of things among fixed peers, comm/elastic_pushes.hpp the one among
// peers that come and go.

#include <causeway/axis/arrivals.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/comm/arrival_rules.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/hub_tier.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// The tiers for an outer optimizer of the lowest level and a tuple of those above.
template <class Outer, class Uppers>
struct tiers_for;
template <class Outer, class... Upper>
struct tiers_for<Outer, std::tuple<Upper...>> {
  using type = hub_tier<Outer, Upper...>;
};

template <class... Axes>
struct push_core {
  using laws = arrival_rules<Axes...>;
  using arrivals_type = typename laws::arrivals_type;
  using fragments_type = typename laws::fragments_type;
  using hubs_type = typename laws::hubs_type;
  using merge_rule_type = typename laws::merge_rule_type;
  using outer_type = typename laws::outer_type;
  using push_type = typename laws::push_type;
  using residual_type = typename laws::residual_type;
  using trigger_type = typename laws::trigger_type;
  using codec_type = typename push_type::codec_type;
  using aggregator_type = decltype(push_type::aggregator);
  using rules_type = hub_rules<trigger_type, arrivals_type, codec_type, aggregator_type>;
  using tiers_type = typename tiers_for<outer_type, decltype(std::declval<const hubs_type&>().outers())>::type;

  template <class... Given>
  explicit push_core(std::tuple<Given...> values)
      : trigger{laws::template taken<axis::part::trigger, trigger_type>(values)},
        fragments{laws::template taken<axis::part::fragments, fragments_type>(values)},
        hubs{laws::template taken<axis::part::group, hubs_type>(values)},
        push_axis{laws::template taken<axis::part::exchange, push_type>(values)},
        residual{laws::template taken<axis::part::residual, residual_type>(values)},
        arrivals{laws::template taken<axis::part::participation, arrivals_type>(values)},
        merge_rule{laws::template taken<axis::part::merge_rule, merge_rule_type>(values)},
        outer{laws::template taken<axis::part::outer, outer_type>(values)},
        tiers{std::tuple_cat(std::tuple<outer_type>{outer}, hubs.outers())} {}

  result<void> check(auto& ctx) const {
    CAUSEWAY_TRY(hubs.check(ctx.numbered_peers()));
    CAUSEWAY_TRY(arrivals.check(ctx.peers()));
    if (ctx.stages().count() > 1 || ctx.exchanges_at_once()) CAUSEWAY_TRY(check_stages(ctx));
    if constexpr (merge_rule_type::waits == axis::waiting::some_steps) {
      if (merge_rule.steps < 1) {
        return fail(errc::invalid_argument, "merge rule",
                    "a result that is applied after 0 inner steps; use axis::blocking");
      }
    }
    return {};
  }

  /// A hub that waited for a push, between two steps of its pipeline, would keep the hubs of the other stages from serving
  /// theirs, which may be what that push is waiting for.
  result<void> check_stages(auto& ctx) const {
    if (ctx.moves_blocks() && hubs.label.own != collective::region_label::any) {
      return fail(errc::invalid_argument, who,
                  "pipelines whose peers come and go share the regions out, whatever place their peers are in: say how "
                  "many there may be (`label.fewest`), and leave `label.own` as it is");
    }
    const double first = 0;
    const bool waits = std::isinf(arrivals.closes_after({.arrived = {&first, 1}, .expected = 2}));
    if (!waits && arrivals.most_ahead == axis::no_bound) {
      return ctx.stages().refuse_copies(who, ctx.exchange_options());
    }
    return fail(errc::unsupported, who,
                "the hubs of a pipeline's stages must answer a push without waiting for others': use a quorum of 1 and "
                "no `most_ahead`, or peers that hold the whole model");
  }

  // ---- the parts of a push ----------------------------------------------------------------------------------------------

  /// Who was told a number of steps keeps it.
  void schedule() {
    for (std::size_t f = 0; f < cuts.size(); ++f) {
      hub_leg& leg = legs()[f];
      leg.due_after = leg.answer_steps != 0 ? leg.answer_steps : trigger.first(f, cuts.size());
    }
  }

  /// The answer to a push is here: use it.
  result<void> apply(auto& ctx, std::size_t f) {
    hub_leg& leg = legs()[f];
    if (leg.unsound && !leg.spoilt) give_up(ctx);  // it was finite before it was encoded
    row.resize(cuts[f].size);
    axis::gather(cuts[f], ctx.parameters(), row);
    if (leg.fresh || leg.spoilt || leg.unsound) {
      row = leg.answer;
      leg.since = 0;
    } else if (merge_rule_type::waits == axis::waiting::at_once && leg.since > 0) {  // it was not waited for any longer
      CAUSEWAY_TRY(axis::replayed{}.apply(ctx.rows(), cuts[f].matrices, row, leg.answer, leg.at_send));
    } else {
      CAUSEWAY_TRY(merge_rule.apply(ctx.rows(), cuts[f].matrices, row, leg.answer, leg.at_send));
    }
    axis::scatter(cuts[f], row, ctx.parameters());
    axis::scatter(cuts[f], leg.answer, tiers.client().anchor());
    tiers.client().applied(leg);
    ctx.parameters_changed();
    return {};
  }

  /// What this peer computed is not finite, wherever that began: of every fragment only what was pulled last, or is under
  /// way, stays; and the inner optimizer, which may be what spoilt it, begins anew.
  void give_up(auto& ctx) {
    ctx.log()(severity::warning,
              "step " + std::to_string(ctx.step() + 1) +
                  ": what this peer pushed is not finite: it gives up what it computed since, and starts again from the "
                  "shared parameters. Lower the learning rate, clip gradients, or look at this machine's memory");
    for (std::size_t f = 0; f < cuts.size(); ++f) {
      hub_leg& leg = legs()[f];
      if (leg.pending && !leg.spoilt && !leg.unsound && !leg.at_send.empty()) {
        axis::scatter(cuts[f], leg.at_send, ctx.parameters());
        continue;
      }
      row.resize(cuts[f].size);
      axis::gather(cuts[f], tiers.client().anchor(), row);
      axis::scatter(cuts[f], row, ctx.parameters());
      leg.samples = leg.steps = 0;
    }
    ctx.reset_inner();
  }

  /// Lets a moment pass, before a hub looks at all of its clients again.
  result<void> nap(net::any_transport& transport, const any_clock& clock) const {
    const net::peer_index other = tiers.somebody(transport.self());
    if (other == transport.self()) {
      return fail(errc::peer_lost, "async_parameter_server", "there is nobody left to wait for");
    }
    detail::nap(transport, other, clock.now() + std::chrono::milliseconds{5});
    return {};
  }

  // ---- what hubs and clients are told -----------------------------------------------------------------------------------

  [[nodiscard]] std::vector<hub_leg>& legs() noexcept { return tiers.client().legs(); }

  [[nodiscard]] rules_type rules() const {
    return {trigger, arrivals, codec_type{push_axis.codec}, push_axis.aggregator, static_cast<double>(merge_rule.steps)};
  }

  [[nodiscard]] hub_terms terms_of(auto& ctx) const { return terms_of(ctx, ctx.transport()); }
  [[nodiscard]] hub_terms terms_of(auto& ctx, net::any_transport& transport) const {
    return {.transport = transport,
            .pool = ctx.pool(),
            .clock = ctx.clock(),
            .log = ctx.log(),
            .cuts = cuts,
            .seed = ctx.options().seed,
            .deadline = ctx.exchange_options().deadline,
            .most = limits(ctx)};
  }

  /// Of a push: where peers come and go the ledger says how much a peer may train on, else the longest round does.
  [[nodiscard]] push_limits limits(auto& ctx) const {
    push_limits most;
    if constexpr (requires { arrivals.most_batch; }) most.batch = arrivals.most_batch;
    if (ctx.entry().quota > 0) most.samples = ctx.entry().quota;
    if (ctx.elastic() || most.batch == 0) return most;
    std::uint64_t steps = 0;
    for (std::size_t f = 0; f < cuts.size(); ++f) {
      steps = std::max<std::uint64_t>({steps, trigger.first(f, cuts.size()), trigger.next(f, cuts.size())});
    }
    most.samples = steps * most.batch;
    return most;
  }

  [[nodiscard]] std::size_t most_bytes(const hub_terms& terms) const {
    const codec_type codec{push_axis.codec};
    std::size_t most = 0;
    for (std::size_t f = 0; f < cuts.size(); ++f) most = std::max(most, codec.most_bytes(terms.about(0, f), cuts[f].size));
    return sizeof(push_header) + most;
  }

  static constexpr const char* who = "async_parameter_server";

  trigger_type trigger;
  fragments_type fragments;
  hubs_type hubs;
  push_type push_axis;
  residual_type residual;
  arrivals_type arrivals;
  merge_rule_type merge_rule;
  outer_type outer;
  std::vector<axis::fragment> cuts;
  tiers_type tiers;
  std::vector<float> row;  ///< working memory: a fragment
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_PUSH_CORE_HPP
