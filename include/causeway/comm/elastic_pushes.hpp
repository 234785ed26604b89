// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ELASTIC_PUSHES_HPP
#define CAUSEWAY_COMM_ELASTIC_PUSHES_HPP

// The order of things in comm::async_parameter_server where peers come and go: from one record of the membership to the
// next the same peers are hubs (comm/hub_record.hpp), and a peer that cannot reach it trains on until the next record.

#include <causeway/axis/fragments.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/collective/sum.hpp>
#include <causeway/comm/common_steps.hpp>
#include <causeway/comm/hub_record.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy, whose `Core` is given to each call. Not a regular value: declare it before the core, whose lines lead
/// over a transport of the record's.
template <class Core>
class elastic_pushes {
 public:
  result<void> start(auto& ctx, Core& c) {
    const bool goes_on = ctx.moves_blocks() && record_.is_founded();  // from a checkpoint
    if (!goes_on) record_.found(c.cuts, ctx.parameters(), c.hubs.label.fewest, c.hubs.label.own, outers_of(c));
    auto alone = net::any_transport{};
    c.tiers.configure(c.hubs.levels(0));
    CAUSEWAY_TRY(c.tiers.set_groups(c.terms_of(ctx, alone), std::vector<hub_group>(2), 0, ctx.parameters(), 0));
    if (!goes_on) record_.begin_anew(c.tiers, c.cuts.size());
    ctx.contribution().gather(c.hubs.record_samples, true, true);
    if (ctx.membership().is_swarm())
      answers_ = net::arrival_statistics{{.cap = std::chrono::seconds{10}}};  // all wait meanwhile
    c.schedule();
    return {};
  }
  void serialize(auto& ar, Core& c) { record_.serialize(ar, c.tiers, c.hubs.label.fewest, outers_of(c)); }

  // ---- where blocks of the model move between peers --------------------------------------------------------------------

  [[nodiscard]] std::vector<parameter_row> block_rows(Core& c) { return record_.copies().rows(c.cuts); }
  result<void> divide(auto& ctx, Core& c, std::span<const parameter_segment> before) {
    const std::vector<axis::fragment> was = std::exchange(c.cuts, {});
    CAUSEWAY_ASSIGN(c.cuts, axis::cut_part(c.fragments, ctx));
    record_.copies().visit([&](auto& copy) { copy.divide(was, c.cuts, ctx.parameters(), before, ctx.view().segments); });
    divided_ = true;
    return {};
  }
  /// This peer's pipeline is in that region from now on, or in none. Whether it is another than before.
  bool follow(std::optional<std::uint32_t> region) {
    const bool another = record_.move_to(region);
    divided_ = divided_ || another;
    return another;
  }
  void parameters_of(std::uint32_t region, std::span<float> to) {
    const auto& shared = record_.copies().of_region(region);
    std::copy(shared.begin(), shared.end(), to.begin());
  }
  /// Before an inner step: whoever has got blocks, or another region, goes on from there.
  void before_step(Core& c) {
    if (std::exchange(divided_, false)) record_.begin_anew(c.tiers, c.cuts.size());
  }

  /// What training has come to, as of the last record; with a fixed set of peers nothing.
  [[nodiscard]] std::span<const float> trained() const noexcept { return record_.trained(); }
  void shared(auto& ar) { record_.shared(ar); }
  void count_step(Core& c, std::uint64_t samples) {
    for (std::size_t f = 0; f < c.cuts.size(); ++f) c.tiers.note_work(f, {samples, 1});
  }

  /// What all hold alike was replaced. What was not pushed yet moves along with it; where there is no `previous`, nothing
  /// was.
  void adopt(auto& ctx, Core& c, std::span<const float> previous) {
    if (previous.empty()) {
      record_.begin_anew(c.tiers, c.cuts.size());
      std::copy(record_.own().begin(), record_.own().end(), ctx.parameters().begin());
      ctx.resume_at(record_.steps());
    } else {
      record_.move_along(c.tiers, ctx.parameters(), c.terms_of(ctx));
    }
    c.schedule();
    ctx.parameters_changed();
  }

  /// Nobody waits for more than an answer, and for that only as long as it can be expected.
  result<void> after_step(auto& ctx, Core& c) {
    if (ctx.membership().is_swarm() && !collective::finite_values(ctx.parameters())) {
      return fail(errc::non_finite, "this peer", "its parameters are not finite");  // others get what it had
    }
    if (ctx.moves_blocks() && record_.lines() == nullptr) CAUSEWAY_TRY(open_lines(ctx, c));
    if (record_.lines() != nullptr) {
      auto talked = serve_lines(ctx, c);
      for (std::size_t f = 0; f < c.cuts.size() && talked; ++f) talked = visit_lines(ctx, c, f);
      if (talked) talked = serve_lines(ctx, c);
      if (!talked) {
        record_.hang_up(c.tiers);
        ctx.log()(severity::info, "the hub is out of reach (" + std::string{to_string(talked.error().code)} +
                                      "): this peer trains on, and pushes again at the next record");
      }
    }
    return record_is_due(ctx, record_.steps()) ? make_record(ctx, c) : result<void>{};
  }

  /// In a step, where peers make steps together: a hub answers, or it would wait for whom it keeps waiting.
  void meanwhile(auto& ctx, Core& c) {
    if (c.tiers.is_hub() && record_.lines() != nullptr) (void)serve_lines(ctx, c);  // the next step says what failed
  }

  /// A record by a peer that made no step for it.
  result<void> catch_up(auto& ctx, Core& c) {
    const bool is_new = record_.is_new();
    CAUSEWAY_TRY(make_record(ctx, c));
    if (is_new) ctx.resume_at(record_.steps());
    return {};
  }

  /// Before that, as long as others still train: a hub that has nothing to train on serves them.
  void stand_by(auto& ctx, Core& c) {
    while (c.tiers.is_hub() && record_.lines() != nullptr && !ctx.stand_by()) {
      if (!c.nap(*record_.lines(), ctx.clock()) || !serve_lines(ctx, c)) return;
    }
  }

 private:
  static auto outers_of(const Core& c) { return std::tuple_cat(std::tuple{c.outer}, c.hubs.outers()); }

  result<void> open_lines(auto& ctx, Core& c) {
    const auto on = [&](net::any_transport& transport) { return c.terms_of(ctx, transport); };
    return record_.open_lines(ctx, c.tiers, c.most_bytes(c.terms_of(ctx)), on);
  }

  result<void> make_record(auto& ctx, Core& c) {
    const auto on = [&](net::any_transport& transport) { return c.terms_of(ctx, transport); };
    auto alone = net::any_transport{};
    CAUSEWAY_TRY(record_.exchange(ctx, c.tiers, c.rules(), c.residual, c.most_bytes(on(alone)), on,
                                  [&] { return push_rest(ctx, c); }));
    c.schedule();
    ctx.commit_round();
    return {};
  }

  result<void> serve_lines(auto& ctx, Core& c) {
    return c.tiers.serve(c.rules(), c.residual, c.terms_of(ctx, *record_.lines()));
  }

  result<void> visit_lines(auto& ctx, Core& c, std::size_t f) {
    hub_leg& leg = c.legs()[f];
    if (leg.pending && leg.answered && leg.waited >= c.merge_rule.steps) CAUSEWAY_TRY(c.apply(ctx, f));
    if (leg.pending || leg.since < leg.due_after || c.cuts[f].size == 0) return {};
    gather_local(ctx, c, f);
    const auto terms = c.terms_of(ctx, *record_.lines());
    leg.spoilt = !collective::finite_values(c.row);
    if (!leg.spoilt) c.tiers.note_push(terms, f, c.row);
    CAUSEWAY_TRY(c.tiers.push(c.rules(), c.residual, ctx.next_learning_rate(), terms, f, c.row, true));
    if (leg.spoilt) c.give_up(ctx);
    leg.due_after = c.trigger.next(f, c.cuts.size());
    return Core::merge_rule_type::waits == axis::waiting::at_once ? await_answer(ctx, c, f) : result<void>{};
  }

  /// Applies the answer that this peer waits for. Without it where a record is due, or the answer is overdue: then it is
  /// applied when it comes.
  result<void> await_answer(auto& ctx, Core& c, std::size_t f) {
    const hub_leg& leg = c.legs()[f];
    const time_point begin = ctx.clock().now();
    const time_point overdue = answers_.deadline(begin);
    if (!leg.answered && c.cuts.size() > 1) {
      CAUSEWAY_TRY(c.tiers.say_waiting(c.rules(), c.terms_of(ctx, *record_.lines()), f));
    }
    while (!leg.answered && !ctx.announce_samples() && !ctx.membership().exchange_waits()) {
      const duration waited = ctx.clock().now() - begin;
      if (begin + waited >= overdue) {
        answers_.overdue(waited);
        return {};
      }
      CAUSEWAY_TRY(c.nap(*record_.lines(), ctx.clock()));
      CAUSEWAY_TRY(serve_lines(ctx, c));
    }
    if (!leg.answered) return {};
    answers_.observe(ctx.clock().now() - begin);
    return c.apply(ctx, f);
  }

  /// What this peer has not pushed yet. What is not finite counts for nothing: it takes the others' state in any case.
  result<void> push_rest(auto& ctx, Core& c) {
    const auto terms = c.terms_of(ctx);
    for (std::size_t f = 0; f < c.cuts.size(); ++f) {
      hub_leg& leg = c.legs()[f];
      if (leg.since == 0 || c.cuts[f].size == 0) continue;
      gather_local(ctx, c, f);
      if (!collective::finite_values(c.row)) {
        ctx.reset_inner();
        continue;
      }
      c.tiers.note_push(terms, f, c.row);
      c.tiers.deliver(terms,
                      c.tiers.client().compose(c.rules(), c.residual, ctx.next_learning_rate(), terms, f, c.row, false));
      leg.pending = true;  // until the record has it
    }
    return {};
  }

  static void gather_local(auto& ctx, Core& c, std::size_t f) {
    c.row.resize(c.cuts[f].size);
    axis::gather(c.cuts[f], ctx.parameters(), c.row);
    c.legs()[f].at_send = c.row;  // also of what is not finite
  }

  hub_record<typename Core::tiers_type> record_;
  net::arrival_statistics answers_;  ///< that were waited for
  bool divided_ = false;             ///< the model has another part since the last step
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ELASTIC_PUSHES_HPP
