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
#include <causeway/axis/residual.hpp>
#include <causeway/collective/sum.hpp>
#include <causeway/comm/arrival_rules.hpp>
#include <causeway/comm/hub_record.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/hub_tier.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/policy/concepts.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

namespace detail {

/// The tiers for an outer optimizer of the lowest level and a tuple of those above.
template <class Outer, class Uppers>
struct tiers_for;
template <class Outer, class... Upper>
struct tiers_for<Outer, std::tuple<Upper...>> {
  using type = hub_tier<Outer, Upper...>;
};

}  // namespace detail

/// Peer m, after H inner steps: pushes Δ_m = (what it pulled) − θ_m; the hub: θ ← outer(θ, Δ_m) in the order in which
/// pushes arrive, and answers with θ; m applies it at once, or τ inner steps later.
///
/// `async_parameter_server<>` is Async Local-SGD (Liu et al. 2024): every, whole, star, push, no_residual, one_by_one,
/// outer<delayed_nesterov>{0.7}, blocking. Give axis values in any order. The period of delayed_nesterov should be about
/// the number of peers; a shorter one lets quick peers rule the momentum.
///
/// State: what was pulled; of a hub the shared parameters, the outer optimizer's and the pushes that wait. Cost of a round
/// of one peer: its encoded row to the hub, 4 bytes a value back; one round trip, plus what is left of the hub's inner
/// step. A client that is lost is not waited for; a lost hub is an error that names it.
template <class... Axes>
class async_parameter_server : arrival_rules<Axes...> {
  using laws = arrival_rules<Axes...>;
  using typename laws::arrivals_type;
  using typename laws::fragments_type;
  using typename laws::hubs_type;
  using typename laws::merge_rule_type;
  using typename laws::outer_type;
  using typename laws::push_type;
  using typename laws::residual_type;
  using typename laws::trigger_type;
  using codec_type = typename push_type::codec_type;
  using aggregator_type = decltype(push_type::aggregator);
  using rules_type = detail::hub_rules<trigger_type, arrivals_type, codec_type, aggregator_type>;
  using tiers_type = typename detail::tiers_for<outer_type, decltype(std::declval<const hubs_type&>().outers())>::type;

  static constexpr std::uint32_t rounds_at_hand = 8;  ///< quick peers take more steps than others from record to record

 public:
  static constexpr std::string_view name = "async_parameter_server";
  static constexpr comm_traits traits{.tolerates = laws::elastic ? peers::elastic : peers::fixed,
                                      .identical_replicas = false,
                                      .rounds_by_steps = false,
                                      .rounds_at_hand = laws::elastic ? rounds_at_hand : 1U};
  static constexpr std::uint32_t state_version = 4;

  async_parameter_server() : async_parameter_server(std::tuple<>{}) {}
  explicit async_parameter_server(Axes... values) requires(sizeof...(Axes) > 0)
      : async_parameter_server(std::tuple<Axes...>{std::move(values)...}) {}

  [[nodiscard]] const trigger_type& trigger() const noexcept { return trigger_; }
  /// On a hub the shared parameters of its clients, elsewhere what was pulled last. Where peers come and go, those of the
  /// last record.
  [[nodiscard]] std::span<const float> shared_parameters() const noexcept {
    if constexpr (laws::elastic) {
      if (!record_.copy().shared.empty()) return record_.copy().shared;
    }
    return tiers_.is_hub() ? tiers_.server().shared() : tiers_.client().anchor();
  }

  result<void> start(auto& ctx) {
    CAUSEWAY_TRY(check(ctx));
    CAUSEWAY_ASSIGN(cuts_, fragments_.cut(ctx.view().segments, ctx.parameters().size()));
    CAUSEWAY_TRY(trigger_.check(cuts_.size()));
    if constexpr (laws::elastic) {
      if (ctx.elastic()) return start_elastic(ctx);
    }
    const auto terms = terms_of(ctx);
    const bool is_new = tiers_.client().anchor().empty();
    CAUSEWAY_TRY(tiers_.open(terms, hubs_.levels(ctx.peers()), 0, ctx.parameters(), most_bytes(terms)));
    if (is_new) schedule();
    tiers_.greet();
    CAUSEWAY_TRY(tiers_.meet(terms));
    CAUSEWAY_TRY(tiers_.agree(terms));
    samples_seen_ = ctx.contribution().ever();
    leave(ctx);
    return {};
  }

  result<void> before_inner_step(auto&) { return {}; }

  result<void> after_inner_step(auto& ctx) {
    count(ctx);
    if (ctx.elastic()) {
      if constexpr (laws::elastic) CAUSEWAY_TRY(reign(ctx));
    } else {
      CAUSEWAY_TRY(serve(ctx));
      for (std::size_t f = 0; f < cuts_.size(); ++f) CAUSEWAY_TRY(visit(ctx, f));
      CAUSEWAY_TRY(serve(ctx));
    }
    counted_ = false;
    leave(ctx);
    return {};
  }

  /// Pushes what is left, waits until all peers have done so, and takes the final shared parameters over: equal bits on all
  /// peers. A hub serves the others until then.
  result<void> finish(auto& ctx) {
    for (std::size_t f = 0; f < cuts_.size(); ++f) {
      if (legs()[f].pending) CAUSEWAY_TRY(complete(ctx, f));
      if (legs()[f].since > 0) CAUSEWAY_TRY(push(ctx, f, false));
    }
    const auto nap_here = [&] { return nap(ctx.transport(), ctx.clock()); };
    CAUSEWAY_ASSIGN(const auto all, tiers_.conclude(rules(), residual_, terms_of(ctx), nap_here));
    std::copy(all.begin(), all.end(), ctx.parameters().begin());
    std::copy(all.begin(), all.end(), tiers_.client().anchor().begin());
    ctx.parameters_changed();
    return {};
  }

  void serialize(auto& ar) { ar(tiers_, trigger_, counted_); }

  // ---- among peers that come and go: comm/hub_record.hpp --------------------------------------------------------------

  void shared(auto& ar) requires(laws::elastic) { record_.shared(ar); }

  /// What was not pushed yet moves along with the shared parameters.
  void adopt(auto& ctx, std::span<const float> previous) requires(laws::elastic) {
    if (previous.empty()) {
      record_.begin_anew(tiers_);
      counted_ = false;
      std::copy(record_.copy().shared.begin(), record_.copy().shared.end(), ctx.parameters().begin());
      ctx.resume_at(record_.copy().steps);
    } else {
      record_.move_along(tiers_, ctx.parameters(), terms_of(ctx));
    }
    schedule();
    ctx.parameters_changed();
    leave(ctx);
  }

  result<void> catch_up(auto& ctx) requires(laws::elastic) {
    const bool is_new = record_.is_new();
    CAUSEWAY_TRY(make_record(ctx));
    if (is_new) ctx.resume_at(record_.copy().steps);
    return {};
  }

  /// Before `catch_up`, as long as others still train: a hub that has nothing to train on serves them.
  void stand_by(auto& ctx) requires(laws::elastic) {
    while (tiers_.is_hub() && record_.lines() != nullptr && !ctx.stand_by()) {
      if (!nap(*record_.lines(), ctx.clock()) || !serve_lines(ctx)) return;
    }
  }

 private:
  template <class... Given>
  explicit async_parameter_server(std::tuple<Given...> values)
      : trigger_{laws::template taken<axis::part::trigger, trigger_type>(values)},
        fragments_{laws::template taken<axis::part::fragments, fragments_type>(values)},
        hubs_{laws::template taken<axis::part::group, hubs_type>(values)},
        push_{laws::template taken<axis::part::exchange, push_type>(values)},
        residual_{laws::template taken<axis::part::residual, residual_type>(values)},
        arrivals_{laws::template taken<axis::part::participation, arrivals_type>(values)},
        merge_rule_{laws::template taken<axis::part::merge_rule, merge_rule_type>(values)},
        outer_{laws::template taken<axis::part::outer, outer_type>(values)},
        tiers_{std::tuple_cat(std::tuple<outer_type>{outer_}, hubs_.outers())} {}

  result<void> check(auto& ctx) const {
    CAUSEWAY_TRY(hubs_.check(ctx.peers()));
    CAUSEWAY_TRY(arrivals_.check(ctx.peers()));
    if constexpr (merge_rule_type::waits == axis::waiting::some_steps) {
      if (merge_rule_.steps < 1) {
        return fail(errc::invalid_argument, "merge rule",
                    "a result that is applied after 0 inner steps; use axis::blocking");
      }
    }
    return {};
  }

  // ---- the flow of a step -----------------------------------------------------------------------------------------------

  void leave(auto& ctx) {
    left_ = ctx.clock().now();
    left_in_ = ctx.round();
  }

  void count(auto& ctx) {
    if (std::exchange(counted_, true)) return;  // once a step, however often the hook is called
    const double computed = seconds(ctx.clock().now() - left_);
    const bool timed = ctx.round() == left_in_;  // else the others were waited for meanwhile
    const std::uint64_t ever = ctx.contribution().ever();
    const std::uint64_t samples = ever - std::exchange(samples_seen_, ever);
    if constexpr (laws::elastic) record_.count_step(samples);
    for (detail::hub_leg& leg : legs()) {
      ++leg.since;
      leg.samples += samples;
      ++leg.steps;
      leg.timed += timed ? 1 : 0;
      leg.compute_seconds += timed ? computed : 0;
      leg.waited += leg.pending ? 1 : 0;
    }
  }

  result<void> visit(auto& ctx, std::size_t f) {
    detail::hub_leg& leg = legs()[f];
    if (leg.pending && leg.waited >= merge_rule_.steps) CAUSEWAY_TRY(complete(ctx, f));
    if (leg.pending || leg.since < leg.due_after) return {};
    CAUSEWAY_TRY(push(ctx, f, true));
    leg.due_after = trigger_.next(f, cuts_.size());
    return merge_rule_type::waits == axis::waiting::at_once ? complete(ctx, f) : result<void>{};
  }

  result<void> push(auto& ctx, std::size_t f, bool wants_answer) {
    detail::hub_leg& leg = legs()[f];
    local_.resize(cuts_[f].size);
    axis::gather(cuts_[f], ctx.parameters(), local_);
    if constexpr (merge_rule_type::keeps_departure) leg.at_send = local_;
    CAUSEWAY_TRY(tiers_.push(rules(), residual_, ctx.next_learning_rate(), terms_of(ctx), f, local_, wants_answer));
    // The hub finds that, too, and says so; but until then this peer goes on computing, if it may.
    leg.spoilt = !collective::finite_values(local_);
    if (leg.spoilt) give_up(ctx);
    return {};
  }

  /// Waits for the answer, and applies it.
  result<void> complete(auto& ctx, std::size_t f) {
    detail::hub_leg& leg = legs()[f];
    CAUSEWAY_TRY(tiers_.client().poll(terms_of(ctx)));
    if (!leg.answered && cuts_.size() > 1) CAUSEWAY_TRY(tiers_.say_waiting(rules(), terms_of(ctx), f));
    while (!leg.answered) {
      if (!tiers_.client().is_local()) {
        CAUSEWAY_TRY(tiers_.client().wait(terms_of(ctx)));
      } else {
        CAUSEWAY_TRY(nap(ctx.transport(), ctx.clock()));
        CAUSEWAY_TRY(serve(ctx));
      }
    }
    CAUSEWAY_TRY(apply(ctx, f));
    ctx.commit_round(std::span<const float>{});
    return {};
  }

  result<void> apply(auto& ctx, std::size_t f) {
    detail::hub_leg& leg = legs()[f];
    if (leg.unsound && !leg.spoilt) give_up(ctx);  // it was finite before it was encoded
    local_.resize(cuts_[f].size);
    axis::gather(cuts_[f], ctx.parameters(), local_);
    if (leg.fresh || leg.spoilt || leg.unsound) {
      local_ = leg.answer;
      leg.since = 0;
    } else if (merge_rule_type::waits == axis::waiting::at_once && leg.since > 0) {  // it was not waited for any longer
      CAUSEWAY_TRY(axis::replayed{}.apply(ctx.rows(), cuts_[f].matrices, local_, leg.answer, leg.at_send));
    } else {
      CAUSEWAY_TRY(merge_rule_.apply(ctx.rows(), cuts_[f].matrices, local_, leg.answer, leg.at_send));
    }
    axis::scatter(cuts_[f], local_, ctx.parameters());
    axis::scatter(cuts_[f], leg.answer, tiers_.client().anchor());
    tiers_.client().applied(leg);
    ctx.parameters_changed();
    return {};
  }

  /// Who was told a number of steps keeps it.
  void schedule() {
    for (std::size_t f = 0; f < cuts_.size(); ++f) {
      detail::hub_leg& leg = legs()[f];
      leg.due_after = leg.answer_steps != 0 ? leg.answer_steps : trigger_.first(f, cuts_.size());
    }
  }

  // ---- among peers that come and go -----------------------------------------------------------------------------------

  result<void> start_elastic(auto& ctx) {
    if (hubs_.record_samples == 0) {
      return fail(errc::invalid_argument, "star",
                  "record_samples is 0, but peers come and go: say how many samples all of them train on together from one "
                  "record to the next, such as 4 pushes of each peer");
    }
    record_.found(cuts_, ctx.parameters(), outer_);
    auto alone = net::any_transport{};
    CAUSEWAY_TRY(tiers_.set_peers(terms_of(ctx, alone), 0, {}, ctx.parameters(), 0));
    tiers_.server().dissolve();
    ctx.contribution().gather(hubs_.record_samples);
    schedule();
    leave(ctx);
    return {};
  }

  /// Nobody waits for more than an answer, and for that only as long as it can be expected.
  result<void> reign(auto& ctx) {
    if (record_.lines() != nullptr) {
      auto talked = serve_lines(ctx);
      for (std::size_t f = 0; f < cuts_.size() && talked; ++f) talked = visit_lines(ctx, f);
      if (talked) talked = serve_lines(ctx);
      if (!talked) {
        record_.hang_up(tiers_);
        ctx.log()(severity::info, "the hub is out of reach (" + std::string{to_string(talked.error().code)} +
                                      "): this peer trains on, and pushes again at the next record");
      }
    }
    return ctx.announce_samples() ? make_record(ctx) : result<void>{};
  }

  result<void> serve_lines(auto& ctx) { return tiers_.serve(rules(), residual_, terms_of(ctx, *record_.lines())); }

  result<void> visit_lines(auto& ctx, std::size_t f) {
    detail::hub_leg& leg = legs()[f];
    if (leg.pending && leg.answered && leg.waited >= merge_rule_.steps) CAUSEWAY_TRY(apply(ctx, f));
    if (leg.pending || leg.since < leg.due_after) return {};
    gather_local(ctx, f);
    leg.spoilt = !collective::finite_values(local_);
    if (!leg.spoilt) record_.note_push(cuts_[f], tiers_.client().anchor(), local_);
    CAUSEWAY_TRY(
        tiers_.push(rules(), residual_, ctx.next_learning_rate(), terms_of(ctx, *record_.lines()), f, local_, true));
    if (leg.spoilt) give_up(ctx);
    leg.due_after = trigger_.next(f, cuts_.size());
    return merge_rule_type::waits == axis::waiting::at_once ? await_answer(ctx, f) : result<void>{};
  }

  /// Applies the answer that this peer waits for. Without it where a record is due, or the answer is overdue: then it is
  /// applied when it comes.
  result<void> await_answer(auto& ctx, std::size_t f) {
    const detail::hub_leg& leg = legs()[f];
    const time_point begin = ctx.clock().now();
    const time_point overdue = answers_.deadline(begin);
    if (!leg.answered && cuts_.size() > 1) {
      CAUSEWAY_TRY(tiers_.say_waiting(rules(), terms_of(ctx, *record_.lines()), f));
    }
    while (!leg.answered && !ctx.announce_samples()) {
      const duration waited = ctx.clock().now() - begin;
      if (begin + waited >= overdue) {
        answers_.overdue(waited);
        return {};
      }
      CAUSEWAY_TRY(nap(*record_.lines(), ctx.clock()));
      CAUSEWAY_TRY(serve_lines(ctx));
    }
    if (!leg.answered) return {};
    answers_.observe(ctx.clock().now() - begin);
    return apply(ctx, f);
  }

  result<void> make_record(auto& ctx) {
    const auto on = [&](net::any_transport& transport) { return terms_of(ctx, transport); };
    auto alone = net::any_transport{};
    CAUSEWAY_TRY(record_.exchange(ctx, tiers_, rules(), most_bytes(on(alone)), on, [&] { return push_rest(ctx); }));
    schedule();
    ctx.commit_round();
    return {};
  }

  /// What this peer has not pushed yet. What is not finite counts for nothing: it takes the others' state in any case.
  result<void> push_rest(auto& ctx) {
    const auto terms = terms_of(ctx);
    for (std::size_t f = 0; f < cuts_.size(); ++f) {
      detail::hub_leg& leg = legs()[f];
      if (leg.since == 0) continue;
      gather_local(ctx, f);
      if (!collective::finite_values(local_)) {
        ctx.reset_inner();
        continue;
      }
      record_.note_push(cuts_[f], tiers_.client().anchor(), local_);
      tiers_.deliver(terms, tiers_.client().compose(rules(), residual_, ctx.next_learning_rate(), terms, f, local_, false));
      leg.pending = true;  // until the record has it
    }
    return {};
  }

  void gather_local(auto& ctx, std::size_t f) {
    local_.resize(cuts_[f].size);
    axis::gather(cuts_[f], ctx.parameters(), local_);
    legs()[f].at_send = local_;
  }

  /// What this peer computed is not finite, wherever that began: of every fragment only what was pulled last, or is under
  /// way, stays; and the inner optimizer, which may be what spoilt it, begins anew.
  void give_up(auto& ctx) {
    ctx.log()(severity::warning,
              "step " + std::to_string(ctx.step() + 1) +
                  ": what this peer pushed is not finite: it gives up what it computed since, and starts again from the "
                  "shared parameters. Lower the learning rate, clip gradients, or look at this machine's memory");
    for (std::size_t f = 0; f < cuts_.size(); ++f) {
      detail::hub_leg& leg = legs()[f];
      if (leg.pending && !leg.spoilt && !leg.unsound && !leg.at_send.empty()) {
        axis::scatter(cuts_[f], leg.at_send, ctx.parameters());
        continue;
      }
      local_.resize(cuts_[f].size);
      axis::gather(cuts_[f], tiers_.client().anchor(), local_);
      axis::scatter(cuts_[f], local_, ctx.parameters());
      leg.samples = leg.steps = 0;
    }
    ctx.reset_inner();
  }

  result<void> serve(auto& ctx) { return tiers_.serve(rules(), residual_, terms_of(ctx)); }

  /// Lets a moment pass. The transport can wait for one operation only, and a hub has to wait for all of its clients: so it
  /// waits for a message that nobody sends, and then looks at all.
  result<void> nap(net::any_transport& transport, const any_clock& clock) {
    const net::peer_index other = tiers_.somebody(transport.self());
    if (other == transport.self()) {
      return fail(errc::peer_lost, "async_parameter_server", "there is nobody left to wait for");
    }
    std::byte none{};
    const auto end = clock.now() + std::chrono::milliseconds{5};
    constexpr std::uint32_t silent = collective::channel_stride - 1;
    const auto op = transport.receive(other, {.channel = collective::channels::updates + silent}, std::span{&none, 1});
    (void)transport.wait(op, end);
    return {};
  }

  [[nodiscard]] std::vector<detail::hub_leg>& legs() noexcept { return tiers_.client().legs(); }

  [[nodiscard]] rules_type rules() const {
    return {trigger_, arrivals_, codec_type{push_.codec}, push_.aggregator, static_cast<double>(merge_rule_.steps)};
  }

  [[nodiscard]] detail::hub_terms terms_of(auto& ctx) const { return terms_of(ctx, ctx.transport()); }
  [[nodiscard]] detail::hub_terms terms_of(auto& ctx, net::any_transport& transport) const {
    return {.transport = transport,
            .pool = ctx.pool(),
            .clock = ctx.clock(),
            .log = ctx.log(),
            .cuts = cuts_,
            .seed = ctx.options().seed,
            .deadline = ctx.exchange_options().deadline,
            .most = limits(ctx)};
  }

  /// Of a push: where peers come and go the ledger says how much a peer may train on, else the longest round does.
  [[nodiscard]] detail::push_limits limits(auto& ctx) const {
    detail::push_limits most;
    if constexpr (requires { arrivals_.most_batch; }) most.batch = arrivals_.most_batch;
    if (ctx.elastic() && ctx.entry().quota > 0) most.samples = ctx.entry().quota;
    if (ctx.elastic() || most.batch == 0) return most;
    std::uint64_t steps = 0;
    for (std::size_t f = 0; f < cuts_.size(); ++f) {
      steps = std::max<std::uint64_t>({steps, trigger_.first(f, cuts_.size()), trigger_.next(f, cuts_.size())});
    }
    most.samples = steps * most.batch;
    return most;
  }

  [[nodiscard]] std::size_t most_bytes(const detail::hub_terms& terms) const {
    const codec_type codec{push_.codec};
    std::size_t most = 0;
    for (std::size_t f = 0; f < cuts_.size(); ++f)
      most = std::max(most, codec.most_bytes(terms.about(0, f), cuts_[f].size));
    return sizeof(detail::push_header) + most;
  }

  trigger_type trigger_;
  fragments_type fragments_;
  hubs_type hubs_;
  push_type push_;
  residual_type residual_;
  arrivals_type arrivals_;
  merge_rule_type merge_rule_;
  outer_type outer_;
  std::vector<axis::fragment> cuts_;
  detail::hub_record<outer_type> record_;  // before the tiers, whose lines lead over its transport
  tiers_type tiers_;

  net::arrival_statistics answers_;  ///< that were waited for, where peers come and go
  bool counted_ = false;             ///< this inner step is in the counters already
  std::uint64_t samples_seen_ = 0;
  time_point left_{};          ///< when the last hook ended
  std::uint64_t left_in_ = 0;  ///< in that round
  std::vector<float> local_;
};
static_assert(CommunicationPolicy<async_parameter_server<>>);

template <class... Axes>
async_parameter_server(Axes...) -> async_parameter_server<Axes...>;

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_ASYNC_PARAMETER_SERVER_HPP
