// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_RECORD_HPP
#define CAUSEWAY_COMM_HUB_RECORD_HPP

// Hubs as roles, for comm::async_parameter_server among peers that come and go. From one record of the membership to the
// next the same peers are hubs: a reign. In the exchange of a record everybody says what it has not pushed yet, and hubs
// give everybody what their heirs would need: that is the state that all vote on. A hub that is lost costs nothing but the
// order in which pushes were applied: everybody still has what it pushed in its reign, and pushes it to the heir at once.
// A star is one region; with hubs of hubs each region does the same, and then their hubs do. docs/design/asynchronous.md

#include <causeway/axis/fragments.hpp>
#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/comm/common_steps.hpp>
#include <causeway/comm/hub_copy.hpp>
#include <causeway/comm/hub_roles.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/server_client.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// `Tier`: of hubs, two levels at most. Not a regular value: the lines of a reign refer to it.
template <class Tier>
class hub_record {
  using outer_type = typename Tier::outer_type;
  using top_type = typename Tier::top_type;
  static constexpr bool has_upper = Tier::has_upper;

 public:
  /// A run begins: with so many regions, of which this peer is in `region`; `outers`: of each level.
  void found(std::span<const axis::fragment> cuts, std::span<const float> parameters, std::size_t regions,
             std::size_t region, const auto& outers) {
    region_ = region;
    kept_.resize(regions);
    copies_.found(cuts, parameters, regions, outers);
  }
  /// As of the last record: what training comes to, what this peer pulls, inner steps at which a newcomer begins.
  [[nodiscard]] std::span<const float> trained() const noexcept {
    return copies_.regions.empty() ? std::span<const float>{} : std::span<const float>{copies_.trained()};
  }
  [[nodiscard]] std::span<const float> own() const noexcept { return copies_.of_region(region_); }
  /// The same with what outer optimizers keep of it, of all hubs.
  [[nodiscard]] hub_copies<outer_type, top_type>& copies() noexcept { return copies_; }
  [[nodiscard]] bool is_founded() const noexcept { return !copies_.regions.empty(); }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  void shared(auto& ar) { ar(copies_, steps_, reign_, reign_before_, kept_); }

  /// The lines of the reign under way; none before the first record, and when the hub is lost.
  [[nodiscard]] net::any_transport* lines() const noexcept { return lines_; }
  /// Whether this peer has not been in a record, since it last took the others' state over.
  [[nodiscard]] bool is_new() const noexcept { return follows_ == 0; }

  /// The record, and what was pushed since. Who goes on from a checkpoint is no hub, and pushes all of it again.
  void serialize(auto& ar, auto& tier, std::size_t regions, const auto& outers) {
    std::uint64_t fragments = is_founded() ? copies_.regions.front().outers.size() : 0;
    ar(fragments);
    if (fragments == 0) return;
    kept_.resize(regions);
    copies_.keep(ar, fragments, regions, outers);
    ar(follows_);
    if constexpr (has_upper) ar(region_);
    tier.serialize_pushes(ar);
  }

  /// Where pipelines share the regions out: this peer's is in that one from now on, or in none. Whether it is another.
  bool move_to(std::optional<std::uint32_t> region) noexcept {
    return region && std::exchange(region_, std::size_t{*region}) != *region;
  }

  /// Nothing is said in this reign any more.
  void hang_up(auto& tier) {
    tier.hang_up();
    lines_ = nullptr;
  }

  /// The copies are other ones: what this peer pushed and served is nobody's business any more.
  void begin_anew(auto& tier, std::size_t fragments) {
    end_roles(tier);
    tier.begin_from(own(), fragments);
    for (hub_leg& leg : tier.client().legs()) leg.residual.clear();
  }

  /// Where blocks move: after a record a reign begins with the attempt that follows, of those who hold the same blocks in
  /// it. The first of them is the hub. In all stages that is the same replica: so no hub waits for one that waits for it.
  result<void> open_lines(auto& ctx, auto& tier, std::size_t most, const auto& terms_on) {
    hang_up(tier);
    const auto with = ctx.membership().lines();
    if (!with) return {};
    names_ = with->identities;
    claims_.assign(names_.size(), {});
    const bool rests = names_.size() < with->paths.size();  // alone
    for (std::size_t p = 0; p < with->paths.size() && !rests; ++p) claims_[p].region = with->paths[p];
    roles_ = hub_roles::of(claims_, names_, copies_.regions.size(), std::uint64_t{1} + with->attempt);
    lines_ = with->transport;
    follow(ctx, tier, terms_on(*lines_));
    return set_groups(tier, terms_on(*lines_), most);
  }

  /// The same for a peer that keeps what others do not have: `live` has come as far from the copy. What it pushed they
  /// have, but where the record that it missed was made without its hub.
  void move_along(auto& tier, std::span<float> live, const hub_terms& terms) {
    std::vector<std::uint64_t> taken;
    for (const hub_leg& leg : tier.client().legs()) taken.push_back(leg.number);
    const bool hub_was_lost = was_in_ == reign_before_ && region_ < kept_.size() && kept_[region_] != follows_;
    if (!hub_was_lost) tier.forget_pushes();
    tier.resume_from(taken, terms);
    tier.take_back(own(), live, terms);
    end_roles(tier);
  }

  /// The exchange of a record. `flush()` pushes what is left of all fragments, by tier.deliver; `terms_on(transport)` gives
  /// the terms. On an error it can be tried again, with others. Then the copies are the hubs', and a reign begins. Bytes:
  /// one encoded row to the hub; parameters and the outer optimizers' state, of all hubs, from peer to peer.
  template <class TermsOn, class Flush>
  result<void> exchange(auto& ctx, auto& tier, const auto& rules, const auto& residual, std::size_t most,
                        const TermsOn& terms_on, const Flush& flush) {
    CAUSEWAY_TRY(ctx.enter_exchange());
    const auto terms = terms_on(ctx.transport());
    if (!ctx.keeps_result()) {  // else `next_` is it
      end_reign(tier, rules, terms_on);
      CAUSEWAY_TRY(settle(ctx, tier, rules, residual, most, terms, flush));
    }
    CAUSEWAY_TRY(ctx.left_exchange(std::span<const float>{}));
    apply(ctx, tier, terms.cuts);
    if (ctx.moves_blocks()) return {};  // who holds what in the next attempt is not known yet
    lasting_ = ctx.membership().lasting();
    lines_ = &lasting_;
    return set_groups(tier, terms_on(*lines_), most);
  }

 private:
  // ---- hubs -----------------------------------------------------------------------------------------------------------

  [[nodiscard]] const chosen_hub& own_hub() const { return roles_.regions[region_]; }

  result<void> set_groups(auto& tier, const hub_terms& terms, std::size_t most) {
    return tier.set_groups(terms, roles_.groups_of(terms.transport.self(), names_), 0, own(), most);
  }

  void end_roles(auto& tier) {
    hang_up(tier);
    tier.server().dissolve();
    if constexpr (has_upper) tier.upper().server().dissolve();
    follows_ = serves_ = follows_hubs_ = serves_hubs_ = 0;
    was_in_ = reign_;
  }

  /// What has arrived is applied; what is on its way is pushed again in the record.
  void end_reign(auto& tier, const auto& rules, const auto& terms_on) {
    auto alone = net::any_transport{};
    const auto terms = terms_on(lines_ ? *lines_ : alone);
    const auto end = [&](auto& server) {
      if (lines_) server.serve(rules, terms);
      server.close(rules, terms);
    };
    if (serves_ != 0) end(tier.server());
    if constexpr (has_upper) {
      if (serves_hubs_ != 0) end(tier.upper().server());
    }
    hang_up(tier);
  }

  result<void> claims_of_all(auto& ctx) {
    const hub_claim mine{.serves = serves_,
                         .follows = follows_,
                         .steps = ctx.step(),
                         .region = region_,
                         .serves_hubs = serves_hubs_,
                         .follows_hubs = follows_hubs_,
                         .hubs = hubs_,
                         .clients = ctx.membership().is_swarm() ? names_.size() : 0};
    claims_.assign(ctx.peers(), mine);
    return collective::all_gather(ctx.transport(), ctx.exchange_id(collective::channels::state),
                                  std::as_bytes(std::span{&mine, 1}), std::as_writable_bytes(std::span{claims_}),
                                  ctx.exchange_options());
  }

  /// Where it is another hub than the one that this peer has pushed to, its pushes were in vain.
  void follow(auto& ctx, auto& tier, const hub_terms& terms) {
    region_ = roles_.region_of[terms.transport.self()];
    const chosen_hub hub = own_hub();
    const bool is_hub = hub.peer == terms.transport.self();
    const std::string of = has_upper ? " of region " + std::to_string(region_) : "";
    if (take_role(ctx, tier.server(), is_hub, hub.time, serves_, of, copies_.regions[region_], terms)) {
      if constexpr (has_upper) tier.upper().begin_from(own(), terms.cuts.size());
    }
    if (std::exchange(follows_, hub.time) != hub.time) {
      tier.take_back(own(), ctx.parameters(), terms);
      ctx.parameters_changed();
    }
    if constexpr (has_upper) follow_hub_of_hubs(ctx, tier.upper(), is_hub, terms);
  }

  /// What a region shares stays, whatever it has taken of answers: those are no progress, and never pushed.
  void follow_hub_of_hubs(auto& ctx, auto& upper, bool is_hub, const hub_terms& terms) {
    const chosen_hub& top = roles_.top;
    take_role(ctx, upper.server(), top.peer == ctx.self(), top.time, serves_hubs_, " of all regions", copies_.top[0],
              terms);
    hubs_ = roles_.hubs;
    if (std::exchange(follows_hubs_, top.time) != top.time && is_hub) upper.take_back(terms);
  }

  /// Whoever is to serve a time that it does not serve yet begins with the copy, and is told so; others hold nothing.
  bool take_role(auto& ctx, auto& server, bool serves, std::uint64_t time, std::uint64_t& served, std::string_view of,
                 auto& copy, const hub_terms& terms) {
    if (serves && served == time) return false;
    server.dissolve();
    const bool is_new = std::exchange(served, serves ? time : 0) == 0;
    if (!serves) return false;
    server.found_on(terms.cuts, copy.state());
    if (is_new || !ctx.moves_blocks())  // there every record begins anew, with the same hub
      ctx.log()(severity::info, "round " + std::to_string(ctx.round() + 1) + ": this peer is the hub" + std::string{of});
    return true;
  }

  // ---- a record -------------------------------------------------------------------------------------------------------

  /// next_ ← what the hubs have come to with all that was pushed.
  result<void> settle(auto& ctx, auto& tier, const auto& rules, const auto& residual, std::size_t most,
                      const hub_terms& terms, const auto& flush) {
    CAUSEWAY_TRY(claims_of_all(ctx));
    names_ = ctx.entry().identities;
    roles_ = hub_roles::of(claims_, names_, copies_.regions.size(), ctx.attempt());
    follow(ctx, tier, terms);
    auto outcome = talk(ctx, tier, rules, residual, most, terms, flush);
    if (outcome) outcome = spread(ctx, tier, terms.cuts);
    tier.hang_up();  // the lines of an attempt end with it
    if (outcome && ctx.moves_blocks()) return agree_on_counts(ctx);
    return outcome;
  }

  /// Blocks may go from stage to stage: what an optimizer counts is in all stages what the first of them has. Stages differ
  /// in it where a push was under way in one of them when the reign ended; who rests knows only this.
  result<void> agree_on_counts(auto& ctx) {
    const auto counts = copies_.counts_in(next_);
    std::vector<double> bytes;
    for (const auto count : counts) {
      for (const std::byte b : count) bytes.push_back(ctx.stages().is_first() ? std::to_integer<int>(b) : 0);
    }
    CAUSEWAY_TRY(ctx.stages().sum(bytes, ctx.exchange_options()));
    auto from = bytes.begin();
    for (const auto count : counts) {
      for (std::byte& b : count) b = static_cast<std::byte>(*from++);
    }
    return {};
  }

  result<void> talk(auto& ctx, auto& tier, const auto& rules, const auto& residual, std::size_t most,
                    const hub_terms& terms, const auto& flush) {
    CAUSEWAY_TRY(set_groups(tier, terms, most));
    CAUSEWAY_TRY(push_to(tier, own_hub().peer == ctx.self(), rules, terms, flush));
    if constexpr (has_upper) {
      if (own_hub().peer != ctx.self()) return {};
      return push_to(tier.upper(), roles_.top.peer == ctx.self(), rules, terms, [&]() -> result<void> {
        tier.push_rest_up(rules, residual, terms);
        return {};
      });
    }
    return {};
  }

  /// All of one level push what their hub does not have.
  result<void> push_to(auto& tier, bool is_hub, const auto& rules, const hub_terms& terms, const auto& flush) {
    if (is_hub) tier.server().clients().tell_taken();
    CAUSEWAY_ASSIGN(const auto taken, tier.hear_taken(terms));
    tier.resume_from(taken, terms);
    CAUSEWAY_TRY(flush());
    tier.deliver(terms, tier.client().farewell());
    if (!is_hub) return {};
    CAUSEWAY_TRY(tier.server().hear_out(terms));
    tier.server().close(rules, terms);
    return {};
  }

  /// next_ ← the hubs' states: first that of the hub of hubs, which is an answer to the others. A region that nobody is in
  /// begins there.
  result<void> spread(auto& ctx, auto& tier, std::span<const axis::fragment> cuts) {
    next_.clear();
    room_.clear();
    parts_sent_ = 0;
    if constexpr (has_upper) {
      CAUSEWAY_TRY(spread(ctx, roles_.top, tier.upper().server(), copies_.top.front()));
      if (own_hub().peer == ctx.self()) tier.take_answer(shared_of(next_.front()));
    }
    for (std::size_t r = 0; r < roles_.regions.size(); ++r) {
      if (roles_.regions[r].time != 0) {
        CAUSEWAY_TRY(spread(ctx, roles_.regions[r], tier.server(), copies_.regions[r]));
        continue;
      }
      next_.push_back(room_.emplace_back().like(copies_.regions[r].state()));
      copies_.begin_anew(r, cuts, shared_of(next_.front()), next_.back());
    }
    return {};
  }
  static std::span<const float> shared_of(const std::vector<std::span<std::byte>>& parts) {
    return {reinterpret_cast<const float*>(parts.front().data()), parts.front().size() / sizeof(float)};
  }
  result<void> spread(auto& ctx, const chosen_hub& hub, auto& server, auto& copy) {
    auto parts = hub.peer == ctx.self() ? server.state() : room_.emplace_back().like(copy.state());
    for (const auto part : parts) {
      CAUSEWAY_TRY(collective::broadcast(ctx.transport(), ctx.exchange_id(collective::channels::parameters, parts_sent_++),
                                         hub.peer, part, ctx.exchange_options()));
    }
    next_.push_back(std::move(parts));
    return {};
  }

  void apply(auto& ctx, auto& tier, std::span<const axis::fragment> cuts) {
    take_copies(ctx.is_last_exchange());
    std::copy(own().begin(), own().end(), ctx.parameters().begin());
    ctx.parameters_changed();
    tier.begin_from(own(), cuts.size());
    if (!ctx.moves_blocks()) note_reign(ctx);
    roles_.begin(ctx.attempt(), names_);
    follows_ = own_hub().time;
    serves_ = own_hub().peer == ctx.self() ? follows_ : 0;
    if constexpr (has_upper) {
      if (serves_ != 0) tier.upper().begin_from(own(), cuts.size());
      follows_hubs_ = roles_.top.time;
      serves_hubs_ = roles_.top.peer == ctx.self() ? follows_hubs_ : 0;
      hubs_ = roles_.hubs;
    }
  }

  /// For who misses a record. Where blocks move it gives up what it has, and the pipelines have the step.
  void note_reign(auto& ctx) {
    std::vector<std::uint64_t> steps;
    for (const hub_claim& c : claims_) steps.push_back(c.steps);
    steps_ = steps_after_record(ctx, std::move(steps), steps_);
    for (std::size_t r = 0; r < kept_.size(); ++r) kept_[r] = roles_.regions[r].time;
    reign_before_ = std::exchange(reign_, ctx.attempt());
    was_in_ = reign_;
  }

  /// After the run's last record all regions begin where training has come to.
  void take_copies(bool is_last) {
    auto next = next_.begin();
    copies_.visit([&](auto& c) { copy_parts(*next++, c.state()); });
    for (auto& c : copies_.regions) {
      if (is_last && has_upper) std::copy(copies_.trained().begin(), copies_.trained().end(), c.shared.begin());
    }
    room_.clear();
  }

  // Alike on all peers, as of the last record.
  hub_copies<outer_type, top_type> copies_;
  std::uint64_t steps_ = 0;          ///< common_steps
  std::uint64_t reign_ = 0;          ///< names the record
  std::uint64_t reign_before_ = 0;   ///< and the one before
  std::vector<std::uint64_t> kept_;  ///< of each region, the time of its hub of which the record has the pushes

  net::any_transport* lines_ = nullptr;
  net::any_transport lasting_{};
  std::vector<hub_claim> claims_;
  std::vector<std::uint64_t> names_;
  hub_roles roles_;  ///< in the exchange entered last, and from its end on

  std::uint64_t was_in_ = 0;  ///< names the record that this peer was in last, or was given

  // See hub_claim.
  std::size_t region_ = 0;
  std::uint64_t serves_ = 0;
  std::uint64_t follows_ = 0;
  std::uint64_t serves_hubs_ = 0, follows_hubs_ = 0;
  std::uint64_t hubs_ = 0;

  std::vector<std::vector<std::span<std::byte>>> next_;
  std::deque<part_room> room_;
  std::uint64_t parts_sent_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_HUB_RECORD_HPP
