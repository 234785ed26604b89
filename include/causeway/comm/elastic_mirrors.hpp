// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ELASTIC_MIRRORS_HPP
#define CAUSEWAY_COMM_ELASTIC_MIRRORS_HPP

// comm::mirrors where peers come and go. From one record of the membership to the next its peers tell each other what they
// change, and who is lost holds nobody. In the exchange of a record all that they have computed is added up: all hold the
// same then, and can be followed by who joins. docs/design/asynchronous.md

#include <causeway/axis/peer_groups.hpp>
#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/comm/common_steps.hpp>
#include <causeway/comm/mirror_core.hpp>
#include <causeway/comm/mirror_record.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy, whose core is given to each call. Not a regular value: declare it before the core, whose lines lead over
/// a transport of the record's.
template <class Core>
class elastic_mirrors {
 public:
  result<void> start(auto& ctx, Core& c, std::uint64_t record_samples) {
    if (record_samples == 0) {
      return fail(errc::invalid_argument, "mirrors",
                  "record_samples is 0, but peers come and go: say how many samples all of them train on together from one "
                  "record to the next, such as 32 steps of each peer");
    }
    c.begin(ctx.parameters());
    c.outlives_others = true;
    ctx.contribution().gather(record_samples);
    return {};
  }

  void shared(auto& ar, Core& c) { ar(c.origin, steps_, counted_); }

  /// What all hold alike was replaced. What was computed here moves along with it, but for what is counted in it already;
  /// where it is all to begin `anew`, nothing does.
  void adopt(auto& ctx, Core& c, bool anew) {
    const std::uint64_t counted = heard_.name() == 0 ? 0 : counted_.of(ctx.identity(), heard_.name());
    c.gather_own(ctx.parameters());
    if (anew || counted == counted_senders::unknown) {
      c.row.assign(c.row.size(), 0.0F);
    } else {
      add_heard(ctx, c, heard_.self(), counted, -1.0F);
    }
    c.restart(ctx);
    hang_up(c);
    heard_.end();
    if (anew) ctx.resume_at(steps_);
  }

  /// Tells the others what this peer has changed, once a step, and waits for those who are too far behind: not for who is
  /// overdue, nor where a record is due.
  result<void> after_step(auto& ctx, Core& c, bool tells, std::uint32_t most_ahead) {
    hear_all(ctx, c);
    if (tells && c.audiences[0].is_in_reach()) CAUSEWAY_TRY(tell(ctx, c));
    await_others(ctx, c, most_ahead);
    return ctx.announce_samples() ? make_record(ctx, c) : result<void>{};
  }

  /// A record by a peer that made no step for it.
  result<void> catch_up(auto& ctx, Core& c) {
    const bool is_new = heard_.name() == 0;
    CAUSEWAY_TRY(make_record(ctx, c));
    if (is_new) ctx.resume_at(steps_);
    return {};
  }

  /// Before that, as long as others still train: hears them, and holds nobody.
  void stand_by(auto& ctx, Core& c) {
    mirror_audience& all = c.audiences[0];
    all.say(mirror_word::rests, c.clock);
    while (all.is_in_reach() && !ctx.stand_by()) {
      const auto m =
          std::find_if(all.mirrors.begin(), all.mirrors.end(), [](const mirror& o) { return o.line != nullptr; });
      rest_a_moment(ctx, *m);
      hear_all(ctx, c);
    }
  }

 private:
  // ---- between records ------------------------------------------------------------------------------------------------

  result<void> tell(auto& ctx, Core& c) {
    auto told = c.tell(ctx, [this](std::span<const std::byte> updates) { heard_.keep(heard_.self(), updates); });
    // The row is what was refused: this peer gives up what it computed.
    if (!told && told.error().code == errc::non_finite) CAUSEWAY_TRY(ctx.check_own(c.row));
    return told;
  }

  // What has arrived. Who cannot be heard any more is out of reach until the next record.
  void hear_all(auto& ctx, Core& c) {
    for (mirror& m : c.audiences[0].mirrors) {
      while (m.has_arrived()) hear(ctx, c, m);
    }
  }

  void hear(auto& ctx, Core& c, mirror& m) {
    const auto news = c.hear(ctx, c.audiences[0], m, time_point{});
    if (news && news->word == mirror_word::updates) heard_.keep(m.line->peer(), news->updates);
    if (news) return;
    ctx.log()(severity::info, "peer " + std::to_string(heard_.peer(m.line->peer())) + " is out of reach (" +
                                  std::string{to_string(news.error().code)} + "): nobody waits for it");
    m.line.reset();
  }

  void await_others(auto& ctx, Core& c, std::uint32_t most_ahead) {
    auto& all = c.audiences[0].mirrors;
    const auto holds = [&](const mirror& m) { return m.holds(c.clock, most_ahead); };
    const time_point begin = ctx.clock().now();
    const time_point overdue = waits_.deadline(begin);
    bool waits = false;
    for (;;) {
      const auto holder = std::find_if(all.begin(), all.end(), holds);
      if (holder == all.end()) break;
      if (ctx.announce_samples()) return;
      if (ctx.clock().now() >= overdue) {
        waits_.overdue(ctx.clock().now() - begin);
        for (mirror& m : all) m.rests = m.rests || holds(m);
        return;
      }
      waits = true;
      rest_a_moment(ctx, *holder);
      hear_all(ctx, c);
    }
    if (waits) waits_.observe(ctx.clock().now() - begin);
  }

  void rest_a_moment(auto& ctx, const mirror& m) {
    nap(*lines_, m.line->peer(), ctx.clock().now() + std::chrono::milliseconds{5});
  }

  void hang_up(Core& c) {
    c.audiences[0].mirrors.clear();
    lines_.reset();
  }

  // ---- records --------------------------------------------------------------------------------------------------------

  result<void> make_record(auto& ctx, Core& c) {
    hear_all(ctx, c);
    c.gather_own(ctx.parameters());
    CAUSEWAY_TRY(ctx.check_own(c.row));
    CAUSEWAY_TRY(ctx.enter_exchange());
    hear_all(ctx, c);
    hang_up(c);
    CAUSEWAY_ASSIGN(const auto tally, tally_of(ctx));
    c.gather_own(ctx.parameters());
    for (std::size_t i = 0; i < tally.lost.size(); ++i) {
      if (tally.heard_by[i] == ctx.self()) add_heard(ctx, c, tally.senders[i], tally.updates[i], 1.0F);
    }
    CAUSEWAY_TRY(ctx.or_unusable(collective::all_reduce_sum(
        ctx.transport(), ctx.exchange_id(collective::channels::parameters), c.row, ctx.exchange_options())));
    CAUSEWAY_TRY(ctx.left_exchange(std::span<const float>{}));
    apply(ctx, c, tally);
    ctx.commit_round();
    return {};
  }

  result<mirror_tally> tally_of(auto& ctx) {
    std::vector<std::vector<std::byte>> claims;
    CAUSEWAY_TRY(collective::all_gather(ctx.transport(), ctx.exchange_id(collective::channels::state),
                                        heard_.claim(ctx.step()), mirror_record::most_claim_bytes, claims,
                                        ctx.exchange_options()));
    return mirror_tally::of(claims, ctx.entry().identities, ctx.attempt());
  }

  // row ← row + weight · the first updates that a peer told, which were decoded before.
  void add_heard(auto& ctx, Core& c, std::size_t sender, std::uint64_t count, float weight) {
    heard_.for_each(sender, count, [&](std::span<const std::byte> updates) {  //
      (void)c.decode_add(ctx, updates, c.row, weight);
    });
  }

  void apply(auto& ctx, Core& c, const mirror_tally& tally) {
    c.settle(ctx);
    c.move_origin(ctx.parameters());
    steps_ = common_steps(tally.steps, steps_);
    const auto& present = ctx.entry().identities;
    tally.note(counted_, present);
    lines_ = std::make_unique<net::any_transport>(ctx.membership().lasting());
    heard_.begin(ctx.attempt(), present, lines_->self());
    c.clock = steps_;
    axis::peer_group all(present.size());
    std::iota(all.begin(), all.end(), net::peer_index{0});
    c.audiences[0].meet(*lines_, all, c.most_bytes(ctx), c.clock);
  }

  std::unique_ptr<net::any_transport> lines_;
  net::arrival_statistics waits_;  ///< for others, between records

  // Alike on all peers, as of the last record, with the core's origin.
  std::uint64_t steps_ = 0;  ///< inner steps at which a newcomer begins
  counted_senders counted_;

  mirror_record heard_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ELASTIC_MIRRORS_HPP
