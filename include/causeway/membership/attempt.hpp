// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_ATTEMPT_HPP
#define CAUSEWAY_MEMBERSHIP_ATTEMPT_HPP

// A leader's book-keeping: who was asked to make a round and what they answered, and how long such things take.

#include <causeway/membership/records.hpp>
#include <causeway/membership/situation.hpp>
#include <causeway/net/deadline.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

/// One ballot: an exchange, or the adoption of a value that earlier voters hold.
class attempt {
 public:
  CAUSEWAY_DECL void begin_exchange(ballot at, commit_record proposal, const std::vector<net::peer_id>& who,
                                    time_point now);
  CAUSEWAY_DECL void begin_adoption(ballot at, commit_record value, const std::vector<net::peer_id>& who, time_point now);
  void over() { *this = attempt{}; }
  void wait_for_record() { kind_ = kind::recorded; }

  /// One more for an adoption.
  CAUSEWAY_DECL void ask(net::peer_id id);

  CAUSEWAY_DECL void voted(net::peer_id id, std::uint64_t state, time_point now);
  CAUSEWAY_DECL void failed(net::peer_id id);
  void lost(net::peer_id id) { failed(id); }

  /// The state that a quorum voted for.
  CAUSEWAY_DECL [[nodiscard]] std::optional<std::uint64_t> choice(const std::vector<net::peer_id>& members) const;

  /// Those of `members` who voted for it.
  CAUSEWAY_DECL [[nodiscard]] certificate votes_for(std::uint64_t state, const std::vector<net::peer_id>& members) const;

  [[nodiscard]] bool running() const noexcept { return kind_ != kind::none; }
  [[nodiscard]] bool adopting() const noexcept { return kind_ == kind::adoption; }
  [[nodiscard]] bool recorded() const noexcept { return kind_ == kind::recorded; }
  [[nodiscard]] ballot at() const noexcept { return at_; }
  [[nodiscard]] const commit_record& proposal() const noexcept { return proposal_; }
  [[nodiscard]] const std::set<net::peer_id>& asked() const noexcept { return asked_; }
  [[nodiscard]] bool all_answered() const noexcept { return votes_.size() + gone_.size() >= asked_.size(); }
  [[nodiscard]] bool somebody_gone() const noexcept { return !gone_.empty(); }
  [[nodiscard]] bool somebody_voted() const noexcept { return !votes_.empty(); }
  CAUSEWAY_DECL [[nodiscard]] bool voted(net::peer_id id) const;
  CAUSEWAY_DECL [[nodiscard]] bool silent(net::peer_id id) const;
  CAUSEWAY_DECL [[nodiscard]] bool voted_for(net::peer_id id, std::uint64_t state) const;
  CAUSEWAY_DECL [[nodiscard]] bool diverged(net::peer_id id, std::uint64_t state) const;
  [[nodiscard]] time_point began() const noexcept { return began_; }
  [[nodiscard]] time_point first_vote() const noexcept { return first_vote_; }
  [[nodiscard]] time_point last_vote() const noexcept { return last_vote_; }

  CAUSEWAY_DECL [[nodiscard]] std::string summary() const;

 private:
  enum class kind : std::uint8_t { none, exchange, adoption, recorded };

  CAUSEWAY_DECL void begin(kind k, ballot at, commit_record value, const std::vector<net::peer_id>& who, time_point now);

  kind kind_ = kind::none;
  ballot at_;
  commit_record proposal_;
  std::set<net::peer_id> asked_;
  std::map<net::peer_id, std::uint64_t> votes_;  ///< state hashes
  std::set<net::peer_id> gone_;                  ///< failed or lost before they voted
  time_point began_;
  time_point first_vote_;
  time_point last_vote_;
};

/// How long a leader waits for what, learned from the run.
class wait_times {
 public:
  CAUSEWAY_DECL explicit wait_times(const options& o);

  CAUSEWAY_DECL void begin_round(time_point now);

  /// True: for the first time in this round.
  CAUSEWAY_DECL bool somebody_ready(time_point now, net::peer_id id);

  /// Those who are ready could make the round. Who brings work from an earlier one is ready at once and says nothing of how
  /// long this one takes, so the wait for the others begins here. `samples`: what most of them bring at least.
  CAUSEWAY_DECL void enough_ready(time_point now, std::uint64_t samples);
  /// How long a peer takes to train so many samples, after the last round that had any; 0: nothing is known.
  CAUSEWAY_DECL [[nodiscard]] duration training_time(std::uint64_t samples) const;
  [[nodiscard]] bool had_enough() const noexcept { return enough_; }
  /// By when most of those who train should be ready, after earlier rounds.
  [[nodiscard]] time_point pace_deadline() const { return begun_ + pace_.patience(); }

  [[nodiscard]] std::size_t ready_count() const noexcept { return ready_.size(); }

  /// The round's first attempt begins: those who made it teach us how long they take.
  CAUSEWAY_DECL void began(std::uint32_t failures);
  void failed(time_point now) { failed_at_ = now; }
  /// All who took part in the failed attempt are ready for another.
  void answered(time_point now) { answer_.observe(now - failed_at_); }

  CAUSEWAY_DECL void committed(const attempt& a);

  /// Who is left out is idle until the next round, and has to catch up; who waits is idle meanwhile. So one of many is
  /// waited for as long as that is the smaller loss: after each that comes, for the ones still missing anew, and in all for
  /// no longer than was worth it for those who were missing at the beginning. `late`: part of the peers that would be
  /// waited for.
  CAUSEWAY_DECL [[nodiscard]] time_point grace_deadline(double late);
  /// By when those of a failed attempt have confirmed its end and are ready again, or are known to be silent or to hang.
  [[nodiscard]] time_point answer_deadline() const { return failed_at_ + answer_.patience(); }

  CAUSEWAY_DECL [[nodiscard]] time_point attempt_deadline(const attempt& a) const;

  /// No attempt before: pauses that double once max_attempts failed.
  CAUSEWAY_DECL [[nodiscard]] time_point pause_until(std::uint32_t failures) const;

 private:
  static constexpr std::uint64_t most_samples = std::uint64_t{1} << 20U;

  // What a round exchanged has to be sent once more.
  CAUSEWAY_DECL [[nodiscard]] duration catch_up_time() const;

  CAUSEWAY_DECL static duration part_of(duration whole, double part);

  options options_;
  net::arrival_statistics grace_;
  net::arrival_statistics vote_;
  net::arrival_statistics exchange_;
  net::arrival_statistics pace_;
  net::arrival_statistics answer_;
  std::set<net::peer_id> ready_;
  time_point begun_;
  duration sample_time_{0};
  bool enough_ = false;
  time_point enough_at_;
  double late_at_first_ = 0;  ///< part of the peers that was missing when there were enough
  time_point last_ready_;
  time_point failed_at_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/attempt.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_ATTEMPT_HPP
