// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_OUTLOOK_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_OUTLOOK_IPP

#include <causeway/membership/outlook.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL outlook::outlook(const peer_table& t, const follower& f, const candidate& c, const finder& s, const leader& l)
    : t_{t}, follower_{f}, candidate_{c}, finder_{s}, leader_{l} {}

CAUSEWAY_DECL void outlook::refresh() {
  situation s = look();
  const bool learned = shown_ != t_.votes.newest().chain;
  const bool changed = learned || s.is != situation_.is || s.current.at != situation_.current.at ||
                       s.hash != situation_.hash || s.holders != situation_.holders || s.enough != situation_.enough;
  if (learned) situation_.newest = *t_.votes.durable().newest;
  shown_ = t_.votes.newest().chain;
  if (s.current.at != situation_.current.at || s.current.round != situation_.current.round || s.is != situation_.is) {
    if (s.is == situation::exchange || s.is == situation::committing) {
      if (follower_.current()) s.current = follower_.current()->who;
    }
    situation_.current = std::move(s.current);
  }
  situation_.is = s.is;
  situation_.hash = s.hash;
  situation_.holders = std::move(s.holders);
  situation_.why = std::move(s.why);
  situation_.enough = s.enough;
  if (changed) ++situation_.changes;
}

CAUSEWAY_DECL situation outlook::look() const {
  situation s;
  if (!t_.votes.broken().empty()) {
    s.is = situation::failed;
    s.why = t_.votes.broken();
  } else if (follower_.has_left()) {
    s.is = situation::left;
  } else if (!look_at_attempt(s)) {
    look_at_rest(s);
  }
  return s;
}

CAUSEWAY_DECL bool outlook::look_at_attempt(situation& s) const {
  if (follower_.adopting()) {
    const adoption& a = *follower_.adopting();
    s.is = situation::adopt;
    s.current.at = a.at;
    s.current.round = a.value.round;
    s.current.parent = a.value.parent;
    s.hash = a.value.state;
    s.holders = a.holders;
    return true;
  }
  if (follower_.current()) {
    s.is = follower_.waits_for_commit() ? situation::committing : situation::exchange;
    s.current.at = follower_.current()->who.at;
    s.current.round = follower_.current()->who.round;
    return true;
  }
  return false;
}

CAUSEWAY_DECL void outlook::look_at_rest(situation& s) const {
  const bool known = t_.votes.newest().known();
  if (known && !follower_.holds_newest()) {
    s.is = situation::fetch;
    s.hash = t_.votes.durable().newest->state;
    s.holders = follower_.holders();
    if (!s.holders.empty()) return;
    s.why = "nobody within reach has the state of round " + std::to_string(t_.votes.newest().round) +
            "; start a peer whose disk has it, or found the run anew from an older round (the program: --run.refound true)";
  }
  if (follower_.leader() == 0 && (!known || t_.now - follower_.leaderless_since() <= t_.settings.silence.floor)) {
    if (!known) s.is = situation::joining;
    if (s.is != situation::fetch) s.why = "looks for the run at " + std::to_string(finder_.addresses()) + " addresses";
    if (!known || s.is == situation::fetch) return;
  }
  const bool done =
      known && follower_.holds_newest() && t_.votes.durable().samples.complete();  // nothing is left to be decided
  const std::string trouble = done ? std::string{} : no_quorum();
  if (!trouble.empty()) {
    s.is = situation::no_quorum;
    s.why = trouble;
  } else if (known && s.is != situation::fetch) {
    s.is = follower_.waits_for_commit() ? situation::committing
           : follower_.is_ready()       ? situation::gathering
                                        : situation::idle;
    s.why = leader_.active() ? leader_.waiting_for() : follower_.excluded();
    s.enough = leader_.active() ? leader_.enough_samples() : follower_.enough();
  }
}

CAUSEWAY_DECL std::string outlook::no_quorum() const {
  const std::string of = " of " + std::to_string(t_.members().size()) + " members";
  if (leader_.active()) return leader_.stuck() ? leader_.waiting_for() : std::string{};
  if (follower_.leader() == 0) {
    if (t_.now - follower_.leaderless_since() <= t_.settings.silence.floor) return {};
    return "no leader; " + std::to_string(candidate_.answers()) + of + " answer. It goes on when more than half are there";
  }
  const heartbeat& beat = follower_.last_beat();
  if (beat.number == 0 || beat.quorum) return {};
  return "the leader reaches " + std::to_string(beat.reachable) + of + ". It goes on when more than half are there";
}

CAUSEWAY_DECL std::string outlook::describe(time_point now) const {
  std::string text = "peer " + std::to_string(t_.self) + ": " + std::string{to_string(situation_.is)};
  if (!situation_.why.empty()) text += " (" + situation_.why + ")";
  text += "\nnewest round " + std::to_string(t_.votes.newest().round) + " with " + std::to_string(t_.members().size()) +
          " members, floor " + std::to_string(t_.votes.durable().floor.term) + "." +
          std::to_string(t_.votes.durable().floor.attempt) + ", leader " + std::to_string(follower_.leader());
  if (leader_.active()) text += "\n  leads: " + leader_.describe(now);
  for (const auto& [id, p] : t_.peers) {
    if (id == t_.self) continue;
    text += "\n  peer " + std::to_string(id) + (p.up ? " up" : " down") + ", heard " +
            std::to_string(seconds(now - p.heard)) + " s ago" + (t_.votes.is_member(id) ? ", member" : "") +
            (p.said && p.said->ready ? ", ready" : "") + (p.pause > 0 ? ", sits out " + std::to_string(p.pause) : "");
  }
  for (std::size_t i = 0; i < reject_reasons; ++i) {
    const auto why = static_cast<reject_reason>(i);
    if (t_.rejected(why) > 0)
      text += "\n  refused, " + std::string{to_string(why)} + ": " + std::to_string(t_.rejected(why));
  }
  return text;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_OUTLOOK_IPP
