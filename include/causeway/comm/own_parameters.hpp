// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_OWN_PARAMETERS_HPP
#define CAUSEWAY_COMM_OWN_PARAMETERS_HPP

// Peers with parameters of their own, in groups that meet now and then (gossip), where peers come and go: who has some that
// it can go on from, and whose it takes where it has none.

#include <causeway/axis/groups.hpp>
#include <causeway/comm/meeting_places.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// The group in which a peer meets others. Where peers come and go their numbers change, so that groups with a memory begin
/// again after some exchanges. `number`: of the next.
template <class Group>
[[nodiscard]] std::vector<net::peer_index> own_members(auto& ctx, Group group, std::uint64_t number,
                                                       axis::group_question q) {
  if constexpr (requires { group.cycle(); }) {
    for (q.number -= q.number % group.cycle(); q.number < number; ++q.number) group.formed(q);
  }
  auto all = group.members(q);
  const auto contributes = [&](net::peer_index p) { return meeting_places{ctx}.share_of(p) > 0; };
  if (std::any_of(all.begin(), all.end(), contributes)) return all;
  return {q.self};  // nobody has anything to say
}

/// Of one policy, whose `Core` is given to each call. Where blocks move, so do their parameters. Without any of its own a
/// peer trains on nothing, so that its rows count nothing.
template <class Core>
class own_parameters {
  using state = typename Core::state;

 public:
  /// Before the first step, also after a checkpoint.
  void start(auto& ctx, const Core& c) {
    const auto live = ctx.parameters();
    if (keeps_left(ctx) && left_.size() != live.size()) left_.assign(live.begin(), live.end());
    move_to(c.memory, left_);
  }
  void serialize(Core& c, auto& ar) {
    for (state& s : c.states) ar(s.own_at);
    ar(left_);
  }
  void shared(Core& c, auto& ar) {
    for (state& s : c.states) ar.own(s.own_at, s.outer);
    ar.own(c.rows.anchor(), left_);
  }

  /// What all hold alike was replaced. Who missed more than one exchange of a fragment, or has values that are not finite,
  /// has nothing of its own to go on from. `ended`: the run has, with a mean that all have. Where an exchange is entered
  /// when its mean is wanted, what was trained since the last one is others' to train again: back to what that left.
  void adopt(auto& ctx, Core& c, bool keeps_progress, bool ended) {
    if (ctx.moves_blocks()) return;
    if (ended) return c.rows.begin_anew(ctx, c.states);
    if (ctx.exchanges_at_once()) {
      const auto& left = Core::content_type::anchored ? c.rows.anchor() : left_;
      std::copy(left.begin(), left.end(), ctx.parameters().begin());
    }
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
    if (ctx.moves_blocks()) return {};
    ctx.contribution().passed();
    for (state* s : due) {
      const bool came = s->terms.members.size() > 1 && !s->terms.contributes;
      if (s->own_at == nothing && came) CAUSEWAY_TRY(take_over(ctx, c, *s));
      if (s->own_at != nothing || came || s->terms.contributes) s->own_at = s->number + 1;
    }
    look_for_others(ctx, c);
    return {};
  }
  /// After they were applied.
  result<void> note_left(auto& ctx) { return keeps_left(ctx) ? ctx.rows().copy(left_, ctx.parameters()) : result<void>{}; }

 private:
  static constexpr auto nothing = std::numeric_limits<std::uint64_t>::max();

  /// Where there are shared parameters of its own, these are what an exchange left. Where blocks move, a row of theirs is.
  static bool keeps_left(auto& ctx) { return !Core::content_type::anchored && ctx.membership().is_swarm(); }

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

  source_vector<float> left_;  ///< the parameters after the last exchange
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_OWN_PARAMETERS_HPP
