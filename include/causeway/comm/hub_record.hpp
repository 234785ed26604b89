// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_RECORD_HPP
#define CAUSEWAY_COMM_HUB_RECORD_HPP

// A hub as a role, for comm::async_parameter_server among peers that come and go. From one record of the membership to the
// next one peer is the hub: a reign. In the exchange of a record everybody says what it has not pushed yet, and the hub
// gives everybody what its heir would need: that is the state that all vote on. A hub that is lost costs nothing but the
// order in which pushes were applied: everybody still has what it pushed in its reign, and pushes it to the heir at once.
// docs/design/asynchronous.md

#include <causeway/axis/fragments.hpp>
#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/comm/common_steps.hpp>
#include <causeway/comm/hub_copy.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/server_client.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// What a peer says of itself when a record's exchange begins.
struct hub_claim {
  std::uint64_t serves = 0;   ///< names the time as a hub that it has pushes of; 0: it is none
  std::uint64_t follows = 0;  ///< names that of the hub that it pushed to last; 0: it has not pushed since the last record
  std::uint64_t steps = 0;    ///< inner steps that it has taken
};

/// Who is the hub in a record's exchange, and which time of its it is.
struct chosen_hub {
  net::peer_index peer = 0;
  std::uint64_t time = 0;
};

/// The hub that somebody has pushed to last, if it is there; else the first peer begins a new time, `fresh`. Times are
/// named by attempts at rounds, which only grow: so no peer goes back to a hub that it has left, which has some of its
/// pushes. Nobody can have pushed to one of a later attempt than this, `fresh`.
CAUSEWAY_DECL chosen_hub choose_hub(std::span<const hub_claim> claims, std::uint64_t fresh);

/// Not a regular value: the lines of a reign refer to it.
template <class Outer>
class hub_record {
 public:
  void found(std::span<const axis::fragment> cuts, std::span<const float> parameters, const Outer& prototype) {
    copy_.found(cuts, parameters, prototype);
  }
  [[nodiscard]] const hub_copy<Outer>& copy() const noexcept { return copy_; }
  void shared(auto& ar) { ar(copy_); }

  /// The lines of the reign under way; none before the first record, and when the hub is lost.
  [[nodiscard]] net::any_transport* lines() const noexcept { return lines_.get(); }
  /// Whether this peer has not been in a record, since it last took the others' state over.
  [[nodiscard]] bool is_new() const noexcept { return follows_ == 0; }

  void count_step(std::uint64_t samples) {
    ++steps_;
    samples_ += samples;
  }
  /// Fragment `cut` was pushed, which had come from `pulled` to `live`.
  void note_push(const axis::fragment& cut, std::span<const float> pulled, std::span<const float> live) {
    pushed_.resize(copy_.shared.size());
    add_pushed(1.0F, cut, pulled, live, pushed_);
  }

  /// Nothing is said in this reign any more.
  void hang_up(auto& tier) {
    tier.hang_up();
    lines_.reset();
  }

  /// The copy is another one: what this peer pushed and served is nobody's business any more.
  void begin_anew(auto& tier) {
    hang_up(tier);
    tier.server().dissolve();
    tier.client().begin_from(copy_.shared);
    follows_ = serves_ = 0;
    forget_pushes();
  }

  /// The same for a peer that keeps what it has not pushed yet: `live` has come as far from the copy.
  void move_along(auto& tier, std::span<float> live, const hub_terms& terms) {
    std::vector<std::uint64_t> taken;
    for (const hub_leg& leg : tier.client().legs()) taken.push_back(leg.number);
    tier.client().resume_from(taken, {}, terms);
    tier.client().take_back({}, copy_.shared, live, {samples_, steps_}, terms);
    hang_up(tier);
    tier.server().dissolve();
    follows_ = serves_ = 0;
    pushed_.clear();
  }

  /// The exchange of a record. `flush()` pushes what is left of all fragments, by tier.deliver; `terms_on(transport)` gives
  /// the terms. On an error it can be tried again, with others. Then the copy is the hub's, and a reign begins. Bytes: one
  /// encoded row to the hub; parameters and the outer optimizers' state from peer to peer.
  template <class TermsOn, class Flush>
  result<void> exchange(auto& ctx, auto& tier, const auto& rules, std::size_t most, const TermsOn& terms_on,
                        const Flush& flush) {
    CAUSEWAY_TRY(ctx.enter_exchange());
    end_reign(tier, rules, terms_on);
    CAUSEWAY_ASSIGN(const auto claims, claims_of_all(ctx));
    const chosen_hub hub = choose_hub(claims, ctx.attempt());
    const auto terms = terms_on(ctx.transport());
    follow(ctx, tier, terms, hub);
    names_ = ctx.entry().identities;
    const auto outcome = talk(ctx, tier, rules, most, terms, hub.peer, flush);
    tier.hang_up();  // the lines of an attempt end with it
    CAUSEWAY_TRY(outcome);
    CAUSEWAY_TRY(ctx.left_exchange(std::span<const float>{}));
    apply(ctx, tier, claims, hub.peer);
    lines_ = std::make_unique<net::any_transport>(ctx.lasting_transport());
    return tier.set_peers(terms_on(*lines_), hub.peer, names_, copy_.shared, most);
  }

 private:
  /// What has arrived is applied; what is on its way is pushed again in the record.
  template <class TermsOn>
  void end_reign(auto& tier, const auto& rules, const TermsOn& terms_on) {
    if (serves_ != 0) {
      auto alone = net::any_transport{};
      const auto terms = terms_on(lines_ ? *lines_ : alone);
      if (lines_) tier.server().serve(rules, terms);
      tier.server().close(rules, terms);
    }
    hang_up(tier);
  }

  result<std::vector<hub_claim>> claims_of_all(auto& ctx) {
    const hub_claim mine{serves_, follows_, ctx.step()};
    std::vector<hub_claim> all(ctx.peers());
    CAUSEWAY_TRY(collective::all_gather(ctx.transport(), ctx.exchange_id(collective::channels::state),
                                        std::as_bytes(std::span{&mine, 1}), std::as_writable_bytes(std::span{all}),
                                        ctx.exchange_options()));
    return all;
  }

  /// Where it is another hub than the one that this peer has pushed to, its pushes were in vain.
  void follow(auto& ctx, auto& tier, const hub_terms& terms, const chosen_hub& hub) {
    const bool is_hub = hub.peer == ctx.self();
    if (!is_hub || serves_ != hub.time) {
      tier.server().dissolve();
      serves_ = 0;
      if (is_hub) begin_to_serve(ctx, tier, terms);
    }
    if (is_hub) serves_ = hub.time;
    if (std::exchange(follows_, hub.time) == hub.time) return;
    tier.client().take_back(pushed_, copy_.shared, ctx.parameters(), {samples_, steps_}, terms);
    ctx.parameters_changed();
    pushed_.clear();
  }

  void begin_to_serve(auto& ctx, auto& tier, const hub_terms& terms) {
    tier.server().found_on(terms.cuts, copy_.state());
    ctx.log()(severity::info, "round " + std::to_string(ctx.round() + 1) + ": this peer is the hub");
  }

  template <class Flush>
  result<void> talk(auto& ctx, auto& tier, const auto& rules, std::size_t most, const hub_terms& terms, net::peer_index hub,
                    const Flush& flush) {
    CAUSEWAY_TRY(tier.set_peers(terms, hub, names_, copy_.shared, most));
    if (tier.is_hub()) tier.server().tell_taken();
    CAUSEWAY_ASSIGN(const auto taken, tier.hear_taken(terms));
    tier.client().resume_from(taken, pushed_, terms);
    CAUSEWAY_TRY(flush());
    tier.deliver(terms, tier.client().farewell());
    if (tier.is_hub()) {
      CAUSEWAY_TRY(tier.server().hear_out(terms));
      tier.server().close(rules, terms);
    }
    return spread(ctx, tier, hub);
  }

  /// next_ ← the hub's state.
  result<void> spread(auto& ctx, auto& tier, net::peer_index hub) {
    next_ = tier.is_hub() ? tier.server().state() : room_.like(copy_.state());
    for (std::size_t k = 0; k < next_.size(); ++k) {
      CAUSEWAY_TRY(collective::broadcast(ctx.transport(), ctx.exchange_id(collective::channels::parameters, k), hub,
                                         next_[k], ctx.exchange_options()));
    }
    return {};
  }

  void apply(auto& ctx, auto& tier, std::span<const hub_claim> claims, net::peer_index hub) {
    copy_parts(next_, copy_.state());
    std::vector<std::uint64_t> steps;
    for (const hub_claim& c : claims) steps.push_back(c.steps);
    copy_.steps = common_steps(std::move(steps), copy_.steps);
    room_ = {};
    std::copy(copy_.shared.begin(), copy_.shared.end(), ctx.parameters().begin());
    ctx.parameters_changed();
    tier.client().begin_from(copy_.shared);
    follows_ = ctx.attempt();
    serves_ = hub == ctx.self() ? follows_ : 0;
    forget_pushes();
  }

  void forget_pushes() {
    pushed_.clear();
    samples_ = 0;
    steps_ = 0;
  }

  hub_copy<Outer> copy_;  ///< as of the last record
  std::unique_ptr<net::any_transport> lines_;
  std::vector<std::uint64_t> names_;
  std::uint64_t serves_ = 0;
  std::uint64_t follows_ = 0;

  // Since the last record.
  std::vector<float> pushed_;  ///< how far this peer has come, as far as that was pushed; empty: nothing was
  std::uint64_t samples_ = 0;
  std::uint32_t steps_ = 0;

  std::vector<std::span<std::byte>> next_;
  part_room room_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/hub_record.ipp>
#endif

#endif  // CAUSEWAY_COMM_HUB_RECORD_HPP
