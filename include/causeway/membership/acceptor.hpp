// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_ACCEPTOR_HPP
#define CAUSEWAY_MEMBERSHIP_ACCEPTOR_HPP

// The part of a member on which everything else rests: what it promised, what it voted for, what it knows to be committed.
// Each step is durable before it is told to anybody, each step is refused where it would break an earlier one, and nothing
// else in the protocol writes these values. docs/design/membership.md numbers the rules (A1 to A4).

#include <causeway/membership/messages.hpp>
#include <causeway/membership/situation.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

/// After a failed write, or proof that two histories exist, `broken` says why and every step is refused.
class acceptor {
 public:
  CAUSEWAY_DECL acceptor(durable_record record, effects& fx);

  [[nodiscard]] const durable_record& durable() const noexcept { return durable_; }
  [[nodiscard]] const position& newest() const noexcept { return newest_; }
  /// The newest commit known, for reading and writing what comes after it.
  [[nodiscard]] base_record base() const noexcept { return {durable_.newest ? &*durable_.newest : nullptr, newest_.chain}; }
  /// chain() of the value voted for, 0 where there is none.
  [[nodiscard]] std::uint64_t accepted_chain() const noexcept { return accepted_chain_; }
  [[nodiscard]] const std::string& broken() const noexcept { return broken_; }

  CAUSEWAY_DECL [[nodiscard]] bool is_member(net::peer_id peer) const;

  CAUSEWAY_DECL void note_boot(time_point now);

  /// A1: a term is promised once, to one peer, and never a lower one afterwards.
  CAUSEWAY_DECL bool promise(std::uint32_t term, net::peer_id to, time_point now);

  /// A2: never votes below `floor` any more. Only within the promised term.
  CAUSEWAY_DECL bool bar(ballot floor, time_point now);

  /// A3: votes only in the promised term, never below its floor, and only for a round that follows the newest commit.
  CAUSEWAY_DECL bool accept(ballot at, const commit_record& value, time_point now);

  /// Whether `value` could be the next commit: run, round, parent and the sample ledger fit what is known.
  CAUSEWAY_DECL [[nodiscard]] bool follows(const commit_record& value) const;

  /// Of the sample ledger once `value` is applied. Precondition: it fits. The last one is kept: a round asks three times.
  CAUSEWAY_DECL [[nodiscard]] std::uint64_t hash_after(const commit_record& value) const;

  /// A4: a commit is a fact, whoever tells it. True: it is new, and known from now on. False: known before, or it cannot be
  /// applied (a commit before it is missing), or two histories exist.
  CAUSEWAY_DECL bool learn(const commit_record& record, time_point now, const certificate& votes = {});

  /// The same where commits between were missed; `samples` is the ledger after it.
  CAUSEWAY_DECL bool learn(const commit_record& record, const ledger& samples, time_point now,
                           const certificate& votes = {});

  /// Keeps where others can be dialled; written with the next step that has to be written anyway.
  CAUSEWAY_DECL void remember(std::vector<located_peer> others);

  /// The last step could not be made durable after all: nobody may hear of it, nor of anything else.
  CAUSEWAY_DECL void lose_disk();

 private:
  static constexpr const char* disk_failed =
      "the membership record could not be written: mend the disk, then start this peer again";

  CAUSEWAY_DECL [[nodiscard]] event about(event::kind what, time_point now) const;

  /// Writes what was just changed. After a failure nobody hears of the change, or of anything else.
  CAUSEWAY_DECL bool save();

  CAUSEWAY_DECL bool take(const commit_record& record, const ledger& samples, const certificate& votes, time_point now);

  CAUSEWAY_DECL void know_newest();

  CAUSEWAY_DECL [[nodiscard]] bool same_samples(const commit_record& value) const;

  CAUSEWAY_DECL void note_newest(time_point now);

  CAUSEWAY_DECL void expect_same(const commit_record& record);

  /// Cannot happen while every member keeps its durable record. Going on would make it worse.
  CAUSEWAY_DECL void fork(const commit_record& record);

  durable_record durable_;
  effects* fx_;
  position newest_;
  std::uint64_t accepted_chain_ = 0;
  std::string broken_;
  std::vector<net::peer_id> members_;  // of the newest commit, ascending
  mutable ledger after_;               // of after_of_
  mutable std::uint64_t after_hash_ = 0;
  mutable commit_record after_of_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/membership/impl/acceptor.ipp>
#endif

#endif  // CAUSEWAY_MEMBERSHIP_ACCEPTOR_HPP
