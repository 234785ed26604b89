// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_ELASTIC_MIRRORS_HPP
#define CAUSEWAY_COMM_ELASTIC_MIRRORS_HPP

// comm::mirrors where peers come and go. From one record of the membership to the next its peers tell each other what they
// change, and who is lost holds nobody. In the exchange of a record all that they have computed is added up: all hold the
// same then, and can be followed by who joins. docs/design/asynchronous.md
//
// Where they are stages of pipelines (docs/design/local_pipelines.md, P24), they meet each time that somebody comes or
// goes, and go on with what they have told each other. What a lost replica told is taken back. In swarms with local steps
// (docs/design/swarm.md, L21) a record takes back what the lost ones of a stage told, and is made of what the others moved.

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/comm/common_steps.hpp>
#include <causeway/comm/mirror_lines.hpp>
#include <causeway/comm/mirror_record.hpp>
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
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy, whose core is given to each call. Not a regular value: declare it before the core, whose lines lead over
/// a transport of the record's.
template <class Core>
class elastic_mirrors {
 public:
  result<void> start(auto& ctx, Core& c, std::uint64_t record_samples, const collective::region_label& label) {
    if (record_samples == 0) {
      return fail(errc::invalid_argument, "mirrors",
                  "record_samples is 0, but peers come and go: say how many samples all of them train on together from one "
                  "record to the next, such as 32 steps of each peer");
    }
    label_ = label;
    const bool restored = ctx.moves_blocks() && c.origin.size() == ctx.parameters().size();
    if (!restored) c.begin(ctx.parameters());
    c.outlives_others = true;
    ctx.contribution().gather(record_samples, true);
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
    if (!ctx.membership().is_swarm()) {
      hang_up(c);
    } else if (talks(ctx, c)) {
      c.audiences[0].say(mirror_word::rests, c.clock);
    }
    heard_.end();
    if (!anew) return;
    c.clock = steps_;
    ctx.resume_at(steps_);
  }

  /// Tells the others what this peer has changed, once a step, and waits for those who are too far behind: not for who is
  /// overdue, nor where a record is due.
  result<void> after_step(auto& ctx, Core& c, bool tells, std::uint32_t most_ahead) {
    hear_all(ctx, c);
    if (tells && talks(ctx, c)) CAUSEWAY_TRY(tell(ctx, c));
    if (!record_is_due(ctx, steps_)) await_others(ctx, c, most_ahead);
    return record_is_due(ctx, steps_) ? make_record(ctx, c) : result<void>{};
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
    for (mirror_audience& a : c.audiences) a.say(mirror_word::rests, c.clock);
    while (c.is_in_reach() && !ctx.stand_by()) {
      rest_a_moment(ctx, *first_mirror(c, [](const mirror& m) { return m.line != nullptr; }));
      hear_all(ctx, c);
      if (c.passes_on) (void)c.pass_on(ctx);  // what is not finite is found in the record
    }
  }

  // ---- pipelines whose blocks move ------------------------------------------------------------------------------------

  /// The model of `ctx` has another part than `before`: what was told of the old one is worth nothing.
  void divide(auto& ctx, Core& c, std::span<const parameter_segment> before) {
    const std::vector<float> old = std::move(c.origin);
    c.begin(ctx.parameters());
    for_common_pieces(before, ctx.view().segments, [&](const parameter_segment& from, const parameter_segment& to) {
      std::copy_n(old.begin() + from.offset, to.size(), c.origin.begin() + to.offset);
    });
    c.audiences[0].copy = c.origin;
    c.clock = steps_;
    heard_.end();
  }

  /// An attempt has begun, in which `who` hold the same blocks: each tells the others what they have not heard of it. A
  /// clock is a step of the replica, told or not, so that all its stages have the same.
  result<void> meet_holders(auto& ctx, Core& c, const auto& who) {
    hang_up(c);
    for (std::size_t s = 0; s < heard_.peers(); ++s) {
      const bool is_here = std::find(who.replicas.begin(), who.replicas.end(), heard_.peer(s)) != who.replicas.end();
      if (s != heard_.self() && !is_here) take_back(ctx, c, s, 0);
    }
    const std::size_t self = who.transport.self(), peers = who.replicas.size();
    heard_.regroup(who.replicas, self);
    if (peers < 2) return {};
    CAUSEWAY_ASSIGN(const auto counts, counts_of_all(ctx, who));
    const auto heard = [&](std::size_t by, std::size_t of) { return counts[by * peers + of]; };
    for (std::size_t s = 0; s < peers; ++s) {
      if (s != self) take_back(ctx, c, s, heard(s, s));  // who was started again does not know of all that it told
    }
    lines_ = std::make_unique<net::any_transport>(ctx.membership().lasting());
    c.audiences[0].open(*lines_, who.peers, c.most_bytes(ctx));
    for (mirror& m : c.audiences[0].mirrors) tell_from(m, std::min(heard(m.place, self), heard(self, self)));
    return {};
  }

  void serialize(auto& ar) { ar(steps_, counted_, heard_); }

 private:
  // What each has heard of each, and told itself: [by][of].
  result<std::vector<std::uint64_t>> counts_of_all(auto& ctx, const auto& who) const {
    const std::size_t peers = who.replicas.size();
    std::vector<std::uint64_t> all(peers * peers);
    const auto own = std::span{all}.subspan(heard_.self() * peers, peers);
    for (std::size_t s = 0; s < peers; ++s) own[s] = heard_.count(s);
    collective::collective_options options = ctx.exchange_options();
    options.deadline = who.deadline;
    CAUSEWAY_TRY(
        collective::all_gather(who.transport, who.id, std::as_bytes(own), std::as_writable_bytes(std::span{all}), options));
    return all;
  }

  void take_back(auto& ctx, Core& c, std::size_t sender, std::uint64_t from) {
    heard_.for_each(sender, from, heard_.count(sender), [&](auto updates) { c.take_back(ctx, updates); });
    heard_.keep_first(sender, from);
  }

  // All that this peer has told since the record but the first `known`.
  void tell_from(mirror& m, std::uint64_t known) {
    std::uint64_t clock = steps_ + known;
    m.say(mirror_word::hello, clock);
    heard_.for_each(heard_.self(), known, heard_.count(heard_.self()), [&](std::span<const std::byte> updates) {
      auto message = with_header(mirror_header{.clock = ++clock}, updates.size());
      std::copy(updates.begin(), updates.end(), message.begin() + sizeof(mirror_header));
      m.line->send(std::move(message));
    });
  }

  // ---- between records ------------------------------------------------------------------------------------------------

  [[nodiscard]] bool talks(auto& ctx, const Core& c) const {
    return ctx.exchanges_at_once() ? heard_.name() != 0 : c.is_in_reach();
  }

  result<void> tell(auto& ctx, Core& c) {
    auto told = c.tell(ctx, [this](std::span<const std::byte> updates) { heard_.keep(heard_.self(), updates); });
    // The row is what was refused: this peer gives up what it computed.
    if (!told && told.error().code == errc::non_finite) CAUSEWAY_TRY(ctx.check_own(c.row));
    return told;
  }

  // What has arrived. Who cannot be heard any more is out of reach until the next record.
  void hear_all(auto& ctx, Core& c) {
    if (ctx.membership().is_swarm() && !talks(ctx, c)) return;  // it began anew, and does not know what was told before
    for (mirror_audience& a : c.audiences) {
      for (mirror& m : a.mirrors) {
        while (m.has_arrived()) hear(ctx, c, a, m);
      }
    }
  }

  // What other hubs tell is counted by those who computed it.
  void hear(auto& ctx, Core& c, mirror_audience& a, mirror& m) {
    const auto news = c.hear(ctx, a, m, time_point{});
    const bool counts = news && news->word == mirror_word::updates && &a == c.audiences.data();
    if (counts) heard_.keep(m.place, news->updates);
    if (news) return;
    ctx.log()(severity::info, "peer " + std::to_string(heard_.peer(m.place)) + " is out of reach (" +
                                  std::string{to_string(news.error().code)} + "): nobody waits for it");
    m.line.reset();
  }

  void await_others(auto& ctx, Core& c, std::uint32_t most_ahead) {
    const auto holds = [&](const mirror& m) { return m.holds(c.clock, most_ahead); };
    const time_point begin = ctx.clock().now();
    const time_point overdue = waits_.deadline(begin);
    bool waits = false;
    for (;;) {
      const mirror* const holder = first_mirror(c, holds);
      if (holder == nullptr) break;
      if (ctx.announce_samples() || (ctx.membership().is_swarm() && ctx.membership().exchange_waits())) return;
      if (ctx.clock().now() >= overdue) {
        waits_.overdue(ctx.clock().now() - begin);
        for (mirror_audience& a : c.audiences) {
          for (mirror& m : a.mirrors) m.rests = m.rests || holds(m);
        }
        return;
      }
      waits = true;
      rest_a_moment(ctx, *holder);
      hear_all(ctx, c);
    }
    if (waits) waits_.observe(ctx.clock().now() - begin);
  }

  [[nodiscard]] static const mirror* first_mirror(const Core& c, auto&& is) {
    for (const mirror_audience& a : c.audiences) {
      const auto m = std::find_if(a.mirrors.begin(), a.mirrors.end(), is);
      if (m != a.mirrors.end()) return &*m;
    }
    return nullptr;
  }

  void rest_a_moment(auto& ctx, const mirror& m) {
    nap(*lines_, m.line->peer(), ctx.clock().now() + std::chrono::milliseconds{5});
  }

  void hang_up(Core& c) {
    c.hang_up();
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
    CAUSEWAY_TRY(ctx.result_is_known() ? ctx.take_known_result(c.row, 0) : add_up(ctx, c));
    CAUSEWAY_TRY(ctx.left_exchange(ctx.exchanges_at_once() ? std::span<const float>{c.row} : std::span<const float>{}));
    apply(ctx, c, tally);
    ctx.commit_round();
    return {};
  }

  result<void> add_up(auto& ctx, Core& c) {
    return ctx.or_unusable(collective::all_reduce_sum(ctx.transport(), ctx.exchange_id(collective::channels::parameters),
                                                      c.row, ctx.exchange_options()));
  }

  result<mirror_tally> tally_of(auto& ctx) {
    if (ctx.exchanges_at_once()) {  // who is lost counts for nothing, and there are no groups
      return mirror_tally{.regions = std::vector(ctx.entry().identities.size(), collective::region_label::any)};
    }
    std::vector<std::vector<std::byte>> claims;
    CAUSEWAY_TRY(collective::all_gather(ctx.transport(), ctx.exchange_id(collective::channels::state),
                                        heard_.claim(ctx.step(), label_.own), mirror_record::most_claim_bytes, claims,
                                        ctx.exchange_options()));
    return mirror_tally::of(claims, ctx.entry().identities, ctx.attempt());
  }

  // row ← row + weight · the first updates that a peer told, which were decoded before.
  void add_heard(auto& ctx, Core& c, std::size_t sender, std::uint64_t count, float weight) {
    heard_.for_each(sender, 0, count, [&](std::span<const std::byte> updates) {  //
      (void)c.decode_add(ctx, updates, c.row, weight);
    });
  }

  void apply(auto& ctx, Core& c, const mirror_tally& tally) {
    c.settle(ctx);
    c.move_origin(ctx.parameters());
    heard_.end();
    steps_ = steps_after_record(ctx, tally.steps, steps_);
    c.clock = steps_;
    if (!ctx.moves_blocks()) begin_lines(ctx, c, tally);  // else in the next attempt
  }

  void begin_lines(auto& ctx, Core& c, const mirror_tally& tally) {
    const auto& present = ctx.entry().identities;
    tally.note(counted_, present);
    lines_ = std::make_unique<net::any_transport>(ctx.membership().lasting());
    heard_.begin(ctx.attempt(), present, lines_->self());
    const auto told = audiences_of(collective::regions_by_label(tally.regions, label_.fewest), lines_->self());
    c.begin_audiences(told.size());
    for (std::size_t a = 0; a < told.size(); ++a) {
      c.audiences[a].meet(*lines_, told[a], c.most_bytes(ctx), c.clock);
      for (mirror& m : c.audiences[a].mirrors) m.place = m.line->peer();
    }
    const bool was_hub = std::exchange(is_hub_, told.size() > 1);
    if (is_hub_ && !was_hub) {
      ctx.log()(severity::info, "this peer is the hub of a group of " + std::to_string(told[0].size()));
    }
  }

  collective::region_label label_;
  bool is_hub_ = false;
  std::unique_ptr<net::any_transport> lines_;
  net::arrival_statistics waits_;  ///< for others, between records

  // Alike on all peers, as of the last record, with the core's origin.
  std::uint64_t steps_ = 0;  ///< inner steps at which a newcomer begins
  counted_senders counted_;

  mirror_record heard_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_ELASTIC_MIRRORS_HPP
