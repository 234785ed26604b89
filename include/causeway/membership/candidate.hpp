// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_CANDIDATE_HPP
#define CAUSEWAY_MEMBERSHIP_CANDIDATE_HPP

// How a member becomes the leader: first it asks whether a quorum would promise it a term (a trial, which disturbs nobody
// who has a leader), then it asks in earnest. Members try one after the other, beginning with the one that follows the lost
// leader in the membership.

#include <causeway/core/rng.hpp>
#include <causeway/membership/peer_table.hpp>

#include <cstdint>
#include <set>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

class candidate {
 public:
  CAUSEWAY_DECL explicit candidate(peer_table& t);

  /// There is no leader: asks when our turn comes. `lost` is who led before, 0 where nobody is known.
  CAUSEWAY_DECL void schedule(net::peer_id lost);

  /// A leader needs a higher term to be followed by everybody.
  CAUSEWAY_DECL void renew();

  /// Somebody else was promised a term, or leads.
  CAUSEWAY_DECL void stand_back();

  /// Asks for a term in earnest, above all that were seen.
  CAUSEWAY_DECL void run();

  /// The own turn, or the end of a try that did not get enough answers.
  CAUSEWAY_DECL void wake();

  CAUSEWAY_DECL void on(net::peer_id from, const report& m);

  CAUSEWAY_DECL void peer_up(net::peer_id id);

  /// Whether a quorum promised, said once. A trial that succeeded becomes a campaign.
  CAUSEWAY_DECL bool won();

  [[nodiscard]] bool active() const noexcept { return phase_ != phase::none; }
  [[nodiscard]] std::uint32_t term() const noexcept { return term_; }
  [[nodiscard]] std::uint32_t highest_seen() const noexcept { return seen_; }
  [[nodiscard]] time_point next_wake() const noexcept { return next_try_; }
  [[nodiscard]] std::size_t answers() const noexcept { return granted_.size(); }

 private:
  enum class phase : std::uint8_t { none, trial, campaign };

  CAUSEWAY_DECL [[nodiscard]] bool has_quorum() const;

  [[nodiscard]] campaign question() const { return campaign{term_, phase_ == phase::trial, t_.votes.newest()}; }

  CAUSEWAY_DECL void begin(phase p);

  /// How long we wait for those before us: half a heartbeat each, less beyond the first eight.
  CAUSEWAY_DECL [[nodiscard]] duration turn(net::peer_id lost) const;

  peer_table& t_;
  phase phase_ = phase::none;
  std::uint32_t term_ = 0;
  std::uint32_t seen_ = 0;
  std::uint32_t tries_ = 0;
  bool leads_ = false;
  time_point next_try_ = no_deadline;
  std::set<net::peer_id> granted_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/candidate.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_CANDIDATE_HPP
