// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_MIRRORS_HPP
#define CAUSEWAY_COMM_MIRRORS_HPP

// Copies of the parameters that learn of each other's changes without a barrier. Every peer adds what it computes to its
// own copy, tells the others of what is significant in it, and adds what it is told when it comes. Peers go at their own
// pace, up to a bound: approximate synchronous parallel, ASP, between the sites of Gaia (Hsieh et al. 2017).

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/comm/elastic_mirrors.hpp>
#include <causeway/comm/mirror_core.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/policy/concepts.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

struct mirrors_options {
  /// DS: clocks from one on that a peer makes before the others' updates of that one are all here. 1: a barrier in every
  /// step.
  std::uint32_t most_ahead = 4;
  /// Peers that are close to each other, in groups, the hub of each first: only hubs talk to those of other groups. All
  /// peers, each once. None: everybody talks to everybody.
  std::vector<std::vector<net::peer_index>> groups{};
  /// Where peers come and go, instead of `groups`: this peer's group, and how many there are if so many peers are; the
  /// first of a group is its hub from one record to the next. One: everybody talks to everybody. `fewest` is equal on all
  /// peers. Not in pipelines and swarms.
  collective::region_label label{.fewest = 1};
  /// Where peers come and go: samples of all of them from one record of the membership to the next. To be set there.
  std::uint64_t record_samples = 0;
};

/// After each inner step, which is a clock: x̄ is this peer's copy of what has been told, x its parameters.
///   u = x̄ − x;  sent = what the codec takes of u in this clock;  x̄ ← x̄ − sent;  to all others: sent, and the clock
///   of each `sent` of another: x̄ ← x̄ − sent;  x ← x − sent
/// So updates of n peers add up; the learning rate is to be 1/n of that for their mean.
///
/// - Mirror clock: a peer whose clock is `most_ahead` over the slowest one's that it has heard of waits for that.
/// - Selective barrier: where a line has not carried an earlier clock's updates yet, `barrier` goes before the next ones:
///   the other does not begin a step until these are there. A step reads all parameters, so it waits for whatever is
///   announced, and no places have to be told.
/// - Groups: a hub has an x̄ for its group and one for the other hubs. What it is told moves x and the x̄ of those who told
///   it: so it is in the u of the others, who are told the sum with the hub's next clock. Clocks are those of neighbours.
///
/// `finish` adds up what all have computed: equal bits on all peers. So does `start`, so that peers can be restored from
/// checkpoints of different steps: what was under way then counts.
///
/// Where peers come and go, a record does that: elastic_mirrors.hpp. A lost peer holds nobody, and takes with it only what
/// nobody of its group has heard. Groups are of one record, by what each peer says of itself (`label`).
///
/// Codecs: of values, each message by itself; peers at different clocks have no masks in common.
///
/// State: the parameters of the start, the copy (a hub's two; where peers come and go, also what it is to pass on), and the
/// sum of what this peer has sent: 12 bytes a parameter; and room for one message of each other peer. Where peers come and
/// go, also all messages since the last record. Sent in a step: the codec's message and 16 bytes to each other peer, f32
/// and an all-reduce at the start and at the end, or in each record. In a fixed set a lost peer is an error that names it.
template <compress::MessageCodec Codec = compress::sparse<compress::no_transform, compress::significant, compress::none>>
  requires(!compress::codec_traits{Codec::traits}.transform && !compress::codec_traits{Codec::traits}.shared_support)
class mirrors {
  using core_type = detail::mirror_core<Codec>;

 public:
  static constexpr std::string_view name = "mirrors";
  static constexpr comm_traits traits{.tolerates = peers::elastic,
                                      .identical_replicas = false,
                                      .rounds_by_steps = false,
                                      .rounds_over_stages = true,
                                      .allows_late_steps = true,
                                      .moves_with_blocks = true,
                                      .talks_between = true,
                                      .rounds_at_hand = 64};
  static constexpr std::uint32_t state_version = 2;

  explicit mirrors(mirrors_options options = {}, Codec codec = Codec{})
      : options_{std::move(options)}, core_{std::move(codec)} {}

  result<void> start(auto& ctx) {
    CAUSEWAY_TRY(check(ctx));
    if (ctx.elastic()) return elastic_.start(ctx, core_, options_.record_samples, options_.label);
    if (core_.origin.size() != ctx.parameters().size()) core_.begin(ctx.parameters());  // else from a checkpoint
    CAUSEWAY_TRY(meet(ctx));
    return add_up(ctx);
  }

  result<void> before_inner_step(auto&) { return {}; }

  result<void> after_inner_step(auto& ctx) {
    const bool tells = !std::exchange(told_, true);  // once a step, however often the hook is called
    if (ctx.elastic()) {
      CAUSEWAY_TRY(elastic_.after_step(ctx, core_, tells, options_.most_ahead));
      told_ = false;
      return {};
    }
    CAUSEWAY_TRY(hear_all(ctx));
    if (tells) CAUSEWAY_TRY(tell(ctx));
    CAUSEWAY_TRY(await_others(ctx));
    told_ = false;
    ctx.commit_round(std::span<const float>{});
    return {};
  }

  result<void> finish(auto& ctx) {
    CAUSEWAY_TRY(conclude(ctx));
    for (auto& a : core_.audiences) {
      for (detail::mirror& m : a.mirrors) CAUSEWAY_TRY(m.line->flush(ctx.exchange_options().deadline));
    }
    return add_up(ctx);
  }

  void serialize(auto& ar) { ar(core_, elastic_); }

  // ---- among peers that come and go -----------------------------------------------------------------------------------

  void shared(auto& ar) { elastic_.shared(ar, core_); }

  /// What this peer computed alone moves along with the shared parameters.
  void adopt(auto& ctx, std::span<const float> previous) {
    if (previous.empty()) told_ = false;
    elastic_.adopt(ctx, core_, previous.empty());
  }

  result<void> catch_up(auto& ctx) { return elastic_.catch_up(ctx, core_); }

  void stand_by(auto& ctx) { elastic_.stand_by(ctx, core_); }
  [[nodiscard]] static std::function<void()> meanwhile(auto&) { return {}; }  ///< nobody waits for an answer

  /// Where blocks of the model move between pipelines: the parameters of the last record go along, what was told since is
  /// of a peer and its replica.
  [[nodiscard]] std::vector<parameter_row> block_rows() { return {{{core_.origin}}}; }
  result<void> divide(auto& ctx, std::span<const parameter_segment> before) {
    elastic_.divide(ctx, core_, before);
    return {};
  }
  [[nodiscard]] std::vector<std::span<std::byte>> memory() { return {}; }
  result<void> forget(auto&) { return {}; }
  [[nodiscard]] static bool exchanges_next() { return false; }  // who counts samples knows
  [[nodiscard]] static std::optional<bool> row_waits() { return {}; }
  /// Those who hold the same blocks talk from now on.
  result<void> meet_holders(auto& ctx, const auto& who) { return elastic_.meet_holders(ctx, core_, who); }

  // ---- what there is to see -------------------------------------------------------------------------------------------

  /// Steps that this peer has told the others of.
  [[nodiscard]] std::uint64_t clock() const noexcept { return core_.clock; }
  /// This peer's copy without what it has not sent; of a hub, to its group.
  [[nodiscard]] std::span<const float> shared_parameters() const noexcept { return core_.audiences[0].copy; }

 private:
  result<void> check(auto& ctx) const {
    if (options_.most_ahead == 0) {
      return fail(errc::invalid_argument, "mirrors", "most_ahead is 0; 1 is a barrier in every step");
    }
    if (ctx.numbered_peers() == 0 && !options_.groups.empty()) {
      return fail(errc::unsupported, "mirrors",
                  "groups name peers by their numbers, but peers come and go: leave `groups` empty, and say in `label` "
                  "which group this peer is in, or use fault::fail_stop");
    }
    if (ctx.exchanges_at_once() && (options_.label.own != collective::region_label::any || options_.label.fewest > 1)) {
      return fail(errc::unsupported, "mirrors",
                  "in pipelines and swarms whose peers come and go what a lost peer told is taken back, which a hub has "
                  "mixed with others' changes: leave `label` as it is");
    }
    if (!options_.groups.empty() && !collective::has_each_once(options_.groups, ctx.peers())) {
      return fail(errc::invalid_argument, "mirrors", "every peer must be in one group, and no group empty");
    }
    return ctx.stages().refuse_copies("mirrors", ctx.exchange_options());
  }

  /// Lines to those who are told what this peer changes, and where their clocks are.
  result<void> meet(auto& ctx) {
    collective::region_list groups = options_.groups;
    if (groups.empty()) groups = collective::regions_by_label(std::vector(ctx.peers(), collective::region_label::any), 1);
    const auto told = detail::audiences_of(groups, ctx.self());
    core_.audiences.resize(told.size());
    for (std::size_t a = 0; a < told.size(); ++a) {
      core_.audiences[a].meet(ctx.transport(), told[a], core_.most_bytes(ctx), core_.clock);
    }
    for (auto& a : core_.audiences) {
      for (detail::mirror& m : a.mirrors) CAUSEWAY_TRY(core_.hear(ctx, a, m, ctx.exchange_options().deadline));
    }
    return {};
  }

  /// The parameters are the origin less all that all have computed; the same bits on all.
  result<void> add_up(auto& ctx) {
    core_.gather_own(ctx.parameters());
    core_.sent = core_.row;
    if (ctx.peers() > 1) {
      const net::message_id id{.channel = collective::channels::parameters, .step = meetings_++};
      CAUSEWAY_TRY(collective::all_reduce_sum(ctx.transport(), id, core_.row, ctx.exchange_options()));
    }
    core_.settle(ctx);
    return {};
  }

  result<void> tell(auto& ctx) {
    return core_.tell(ctx, [](std::span<const std::byte>) {});
  }

  /// What has arrived.
  result<void> hear_all(auto& ctx) {
    for (auto& a : core_.audiences) {
      for (detail::mirror& m : a.mirrors) {
        while (m.has_arrived()) CAUSEWAY_TRY(core_.hear(ctx, a, m, ctx.exchange_options().deadline));
      }
    }
    return {};
  }

  result<void> await_others(auto& ctx) {
    for (bool waited = true; waited;) {
      waited = false;
      for (auto& a : core_.audiences) {
        const auto holds = [this](const detail::mirror& m) { return m.holds(core_.clock, options_.most_ahead); };
        const auto m = std::find_if(a.mirrors.begin(), a.mirrors.end(), holds);
        if (m == a.mirrors.end()) continue;
        waited = true;
        CAUSEWAY_TRY(core_.hear(ctx, a, *m, ctx.exchange_options().deadline));
      }
      CAUSEWAY_TRY(hear_all(ctx));
    }
    return {};
  }

  /// Until all are done. A hub passes on what one audience says until that is done, and says so to the other then.
  result<void> conclude(auto& ctx) {
    auto& all = core_.audiences;
    for (bool tells = true;; tells = core_.passes_on) {  // at first only that it makes no more steps
      if (core_.passes_on) CAUSEWAY_TRY(tell(ctx));
      for (auto& a : all) {
        const auto is_other_done = [&](const auto& b) { return &a == &b || b.is_done(); };
        if (a.is_over) continue;
        a.is_over = std::all_of(all.begin(), all.end(), is_other_done);
        if (a.is_over) a.say(detail::mirror_word::done, core_.clock);
        if (!a.is_over && tells) a.say(detail::mirror_word::rests, core_.clock);
      }
      const auto open = std::find_if(all.begin(), all.end(), [](const auto& a) { return !a.is_done(); });
      if (open == all.end()) return {};
      CAUSEWAY_TRY(hear_more(ctx, *open));
      CAUSEWAY_TRY(hear_all(ctx));
    }
  }

  /// Who has nothing to pass on waits for one after the other.
  result<void> hear_more(auto& ctx, detail::mirror_audience& a) {
    const auto m = std::find_if(a.mirrors.begin(), a.mirrors.end(), [](const detail::mirror& o) { return !o.is_done(); });
    if (core_.audiences.size() > 1) {
      detail::nap(ctx.transport(), m->line->peer(), ctx.clock().now() + std::chrono::milliseconds{5});
      return {};
    }
    CAUSEWAY_TRY(core_.hear(ctx, a, *m, ctx.exchange_options().deadline));
    return {};
  }

  mirrors_options options_;
  detail::elastic_mirrors<core_type> elastic_;  // before the core
  core_type core_;
  bool told_ = false;  ///< the others, of the step whose hook is under way
  std::uint64_t meetings_ = 0;
};
static_assert(CommunicationPolicy<mirrors<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_MIRRORS_HPP
