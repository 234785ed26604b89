// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_OWN_PARAMETERS_HPP
#define CAUSEWAY_COMM_OWN_PARAMETERS_HPP

// Peers with parameters of their own, in groups that meet now and then (gossip), where peers come and go: who has some that
// it can go on from, and whose it takes where it has none.

#include <causeway/core/result.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// Of one policy, whose `Core` is given to each call. Without parameters of its own a peer trains on nothing, so that its
/// rows count nothing.
template <class Core>
class own_parameters {
  using state = typename Core::state;

 public:
  void shared(Core& c, auto& ar) {
    for (state& s : c.states) ar.own(s.own_at, s.outer);
    ar.own(c.rows.anchor());
  }

  /// What all hold alike was replaced. Who missed more than one exchange of a fragment, or has values that are not finite,
  /// has nothing of its own to go on from. `ended`: the run has, with a mean that all have.
  void adopt(auto& ctx, Core& c, bool keeps_progress, bool ended) {
    if (ended) return c.rows.begin_anew(ctx, c.states);
    const bool sound = is_finite(ctx, c);
    if (!sound) c.rows.begin_anew(ctx, c.states);
    for (state& s : c.states) {
      const bool usable = sound && (keeps_progress || s.number <= s.own_at + 1);
      s.own_at = usable ? s.number : nothing;
    }
    look_for_others(ctx, c);
  }

  /// Before the rows of these fragments are applied: what they are applied to. Who had nothing takes what came, if anything
  /// did.
  result<void> take(auto& ctx, Core& c, const std::vector<state*>& due) {
    ctx.contribution().passed();
    for (state* s : due) {
      const bool came = s->terms.members.size() > 1 && !s->terms.contributes;
      if (s->own_at == nothing && came) CAUSEWAY_TRY(take_over(ctx, c, *s));
      if (s->own_at != nothing || came || s->terms.contributes) s->own_at = s->number + 1;
    }
    look_for_others(ctx, c);
    return {};
  }

 private:
  static constexpr auto nothing = std::numeric_limits<std::uint64_t>::max();

  static bool is_finite(auto& ctx, Core& c) {
    const auto& anchor = c.rows.anchor();
    return std::isfinite(ctx.norm_of(ctx.parameters())) && (anchor.empty() || std::isfinite(ctx.norm_of(anchor)));
  }

  /// The parameters of the peers that this one met are its own now, before what they have to say is applied.
  static result<void> take_over(auto& ctx, Core& c, state& s) {
    if constexpr (Core::content_type::with_anchor) {
      const auto theirs = std::span{s.row}.subspan(s.size());
      s.outer.reset(static_cast<std::int64_t>(s.size()));
      if (!s.at_send.empty()) CAUSEWAY_TRY(ctx.rows().copy(s.at_send, theirs));
      CAUSEWAY_TRY(ctx.rows().scatter(s.cut->ranges, theirs, c.rows.anchor()));
      return ctx.rows().scatter(s.cut->ranges, theirs, c.rows.live(ctx, s));
    }
    return {};
  }

  static void look_for_others(auto& ctx, Core& c) {
    const auto lacks = [](const state& s) { return s.own_at == nothing; };
    if (std::any_of(c.states.begin(), c.states.end(), lacks)) {
      ctx.contribution().pause();
    } else {
      ctx.contribution().resume();
    }
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_OWN_PARAMETERS_HPP
