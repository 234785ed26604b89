// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_CANDIDATE_HPP
#define CAUSEWAY_MEMBERSHIP_CANDIDATE_HPP

// How a member becomes the leader: first it asks whether a quorum would promise it a term (a trial, which disturbs nobody
// who has a leader), then it asks in earnest. Members try one after the other, beginning with the one that follows the lost
// leader in the membership.

#include <causeway/core/rng.hpp>
#include <causeway/membership/peer_table.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

class candidate {
 public:
  explicit candidate(peer_table& t) : t_{t} {}

  /// There is no leader: asks when our turn comes. `lost` is who led before, 0 where nobody is known.
  void schedule(net::peer_id lost) {
    if (next_try_ == no_deadline) next_try_ = t_.now + turn(lost) + (lost == 0 ? t_.settings.heartbeat : duration{0});
  }

  /// A leader needs a higher term to be followed by everybody.
  void renew() {
    leads_ = true;
    if (phase_ == phase::none && next_try_ == no_deadline) next_try_ = t_.now;
  }

  /// Somebody else was promised a term, or leads.
  void stand_back() {
    phase_ = phase::none;
    next_try_ = no_deadline;
    tries_ = 0;
    leads_ = false;
  }

  /// Asks for a term in earnest, above all that were seen.
  void run() {
    term_ = std::max(t_.votes.durable().floor.term, seen_) + 1;
    if (!t_.votes.promise(term_, t_.self, t_.now)) return;
    begin(phase::campaign);
  }

  /// The own turn, or the end of a try that did not get enough answers.
  void wake() {
    if (t_.now < next_try_) return;
    if (!t_.votes.is_member(t_.self) && !leads_) return stand_back();
    ++tries_;
    term_ = std::max(t_.votes.durable().floor.term, seen_) + 1;
    begin(phase::trial);
  }

  void on(net::peer_id from, const report& m) {
    if (!t_.acquainted(from)) return;
    const std::uint32_t known = std::max(seen_, t_.known_term());
    if (m.floor.term > known && t_.allow_term(m.floor.term, from, known)) seen_ = m.floor.term;
    if (phase_ == phase::trial && m.trial_term == term_) granted_.insert(from);
    if (phase_ == phase::campaign && m.floor.term == term_ && m.promised_to == t_.self) granted_.insert(from);
  }

  void peer_up(net::peer_id id) {
    if (phase_ != phase::none && t_.votes.is_member(id)) t_.post(id, question());
  }

  /// Whether a quorum promised, said once. A trial that succeeded becomes a campaign.
  bool won() {
    if (phase_ == phase::trial && has_quorum()) run();
    if (phase_ != phase::campaign || !has_quorum()) return false;
    const durable_record& d = t_.votes.durable();
    const bool ours = d.floor.term == term_ && d.promised_to == t_.self;  // or we promised a later one meanwhile
    stand_back();
    return ours;
  }

  [[nodiscard]] bool active() const noexcept { return phase_ != phase::none; }
  [[nodiscard]] std::uint32_t term() const noexcept { return term_; }
  [[nodiscard]] std::uint32_t highest_seen() const noexcept { return seen_; }
  [[nodiscard]] time_point next_wake() const noexcept { return next_try_; }
  [[nodiscard]] std::size_t answers() const noexcept { return granted_.size(); }

 private:
  enum class phase : std::uint8_t { none, trial, campaign };

  [[nodiscard]] bool has_quorum() const { return is_quorum(t_.members(), {granted_.begin(), granted_.end()}); }

  [[nodiscard]] campaign question() const { return campaign{term_, phase_ == phase::trial, t_.votes.newest()}; }

  void begin(phase p) {
    phase_ = p;
    granted_ = {t_.self};
    const std::uint32_t wait = std::min<std::uint32_t>(2 + tries_, 8);
    const auto jitter = duration{static_cast<std::int64_t>(mix(t_.self, term_, tries_) %
                                                           static_cast<std::uint64_t>(t_.settings.heartbeat.count() + 1))};
    next_try_ = t_.now + wait * t_.settings.heartbeat + jitter;
    for (const net::peer_id id : t_.members()) {
      if (id != t_.self && !t_.up(id) && !t_.address_of(id).empty()) t_.out->dial(t_.address_of(id));
    }
    std::vector<net::peer_id> others = t_.members();
    std::erase(others, t_.self);
    t_.post_all(others, question());
  }

  /// How long we wait for those before us: half a heartbeat each, less beyond the first eight.
  [[nodiscard]] duration turn(net::peer_id lost) const {
    const auto& c = t_.members();
    const auto place = [&](net::peer_id id) { return std::find(c.begin(), c.end(), id) - c.begin(); };
    const auto n = static_cast<std::ptrdiff_t>(c.size());
    if (n == 0) return duration{0};
    const std::ptrdiff_t first = (place(lost) + 1) % (n + 1) % n;  // nobody: the first in C
    const std::ptrdiff_t k = (place(t_.self) - first + n) % n;
    return std::min<std::int64_t>(k, 8) * t_.settings.heartbeat / 2 +
           std::max<std::int64_t>(k - 8, 0) * t_.settings.heartbeat / 8;
  }

  peer_table& t_;
  phase phase_ = phase::none;
  std::uint32_t term_ = 0;
  std::uint32_t seen_ = 0;
  std::uint32_t tries_ = 0;
  bool leads_ = false;
  time_point next_try_ = no_deadline;
  std::set<net::peer_id> granted_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_CANDIDATE_HPP
