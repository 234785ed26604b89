// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_ACCEPTOR_HPP
#define CAUSEWAY_MEMBERSHIP_ACCEPTOR_HPP

// The part of a member on which everything else rests: what it promised, what it voted for, what it knows to be committed.
// Each step is durable before it is told to anybody, each step is refused where it would break an earlier one, and nothing
// else in the protocol writes these values. docs/design/membership.md numbers the rules (A1 to A4).

#include <causeway/membership/messages.hpp>
#include <causeway/membership/situation.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::membership::detail {

/// After a failed write, or proof that two histories exist, `broken` says why and every step is refused.
class acceptor {
 public:
  acceptor(durable_record record, effects& fx) : durable_{std::move(record)}, fx_{&fx} {
    know_newest();
    if (durable_.accepted) accepted_chain_ = durable_.accepted->value.chain();
  }

  [[nodiscard]] const durable_record& durable() const noexcept { return durable_; }
  [[nodiscard]] const position& newest() const noexcept { return newest_; }
  /// The newest commit known, for reading and writing what comes after it.
  [[nodiscard]] base_record base() const noexcept { return {durable_.newest ? &*durable_.newest : nullptr, newest_.chain}; }
  /// chain() of the value voted for, 0 where there is none.
  [[nodiscard]] std::uint64_t accepted_chain() const noexcept { return accepted_chain_; }
  [[nodiscard]] const std::string& broken() const noexcept { return broken_; }

  [[nodiscard]] bool is_member(net::peer_id peer) const {
    return std::binary_search(members_.begin(), members_.end(), peer);
  }

  void note_boot(time_point now) {
    event e = about(event::boot, now);
    e.at = durable_.floor;
    e.chain = newest_.chain;
    e.round = newest_.round;
    e.from = durable_.promised_to;
    e.hash = accepted_chain_;
    if (durable_.accepted) e.voted = durable_.accepted->at;
    fx_->note(e);
    if (durable_.newest) note_newest(now);
  }

  /// A1: a term is promised once, to one peer, and never a lower one afterwards.
  bool promise(std::uint32_t term, net::peer_id to, time_point now) {
    if (!broken_.empty() || term < durable_.floor.term || term > ballot::max_term) return false;
    if (term == durable_.floor.term) return durable_.promised_to == to;
    durable_.floor = {term, 0};
    durable_.promised_to = to;
    if (!save()) return false;
    event e = about(event::promise, now);
    e.at = durable_.floor;
    e.from = to;
    fx_->note(e);
    return true;
  }

  /// A2: never votes below `floor` any more. Only within the promised term.
  bool bar(ballot floor, time_point now) {
    if (!broken_.empty() || floor.term != durable_.floor.term) return false;
    if (floor <= durable_.floor) return true;
    durable_.floor = floor;
    if (!save()) return false;
    event e = about(event::bar, now);
    e.at = durable_.floor;
    fx_->note(e);
    return true;
  }

  /// A3: votes only in the promised term, never below its floor, and only for a round that follows the newest commit.
  bool accept(ballot at, const commit_record& value, time_point now) {
    if (!broken_.empty() || at.term != durable_.floor.term || at < durable_.floor || !follows(value)) return false;
    if (durable_.accepted && durable_.accepted->at == at && durable_.accepted->value != value) return false;
    durable_.floor = at;
    durable_.accepted = acceptance{at, value};
    if (!save()) return false;
    accepted_chain_ = value.chain();
    event e = about(event::accept, now);
    e.at = at;
    e.round = value.round;
    e.hash = accepted_chain_;
    e.parent = value.parent;
    fx_->note(e);
    return true;
  }

  /// Whether `value` could be the next commit: run, round, parent and the sample ledger fit what is known.
  [[nodiscard]] bool follows(const commit_record& value) const {
    return newest_.known() && value.run == durable_.run && value.round == newest_.round + 1 &&
           value.parent == newest_.chain && !value.members.empty() &&
           (same_samples(value) || durable_.samples.fits(value)) && value.ledger == hash_after(value);
  }

  /// Of the sample ledger once `value` is applied. Precondition: it fits. The last one is kept: a round asks three times.
  [[nodiscard]] std::uint64_t hash_after(const commit_record& value) const {
    if (!same_samples(value)) {
      after_ = durable_.samples;
      after_.apply(value);
      after_hash_ = after_.hash();
      after_of_ = value;
    }
    return after_hash_;
  }

  /// A4: a commit is a fact, whoever tells it. True: it is new, and known from now on. False: known before, or it cannot be
  /// applied (a commit before it is missing), or two histories exist.
  bool learn(const commit_record& record, time_point now, const certificate& votes = {}) {
    if (!broken_.empty() || !newest_.known() || record.round > newest_.round + 1) return false;
    if (record.round < newest_.round) return false;
    if (record.round == newest_.round) return expect_same(record), false;
    if (record.run != durable_.run) return false;
    if (!follows(record)) return fork(record), false;
    return take(record, after_, votes, now);
  }

  /// The same where commits between were missed; `samples` is the ledger after it.
  bool learn(const commit_record& record, const ledger& samples, time_point now, const certificate& votes = {}) {
    if (!broken_.empty() || record.run != durable_.run || record.members.empty()) return false;
    if (newest_.known() && record.round < newest_.round) return false;
    if (newest_.known() && record.round == newest_.round) return expect_same(record), false;
    if (newest_.known() && record.round == newest_.round + 1 && record.parent != newest_.chain) return fork(record), false;
    if (samples.hash() != record.ledger) return false;
    return take(record, samples, votes, now);
  }

  /// Keeps where others can be dialled; written with the next step that has to be written anyway.
  void remember(std::vector<located_peer> others) { durable_.others = std::move(others); }

  /// The last step could not be made durable after all: nobody may hear of it, nor of anything else.
  void lose_disk() { broken_ = disk_failed; }

 private:
  static constexpr const char* disk_failed =
      "the membership record could not be written: mend the disk, then start this peer again";

  [[nodiscard]] event about(event::kind what, time_point now) const {
    event e;
    e.what = what;
    e.at_time = now;
    e.peer = durable_.self;
    return e;
  }

  /// Writes what was just changed. After a failure nobody hears of the change, or of anything else.
  bool save() {
    if (fx_->persist(durable_)) return true;
    lose_disk();
    return false;
  }

  bool take(const commit_record& record, const ledger& samples, const certificate& votes, time_point now) {
    durable_.newest = record;
    durable_.votes = votes;
    durable_.samples = samples;
    durable_.accepted.reset();
    if (!save()) return false;
    know_newest();
    accepted_chain_ = 0;
    note_newest(now);
    return true;
  }

  void know_newest() {
    if (!durable_.newest) return;
    newest_ = {durable_.newest->round, durable_.newest->chain()};
    members_ = durable_.newest->members;
    std::sort(members_.begin(), members_.end());
  }

  [[nodiscard]] bool same_samples(const commit_record& value) const {
    return after_of_.parent == newest_.chain && after_of_.parent == value.parent && after_of_.members == value.members &&
           after_of_.contributions == value.contributions && after_of_.returned == value.returned;
  }

  void note_newest(time_point now) {
    const commit_record& record = *durable_.newest;
    event e = about(event::commit, now);
    e.at = record.at;
    e.round = record.round;
    e.hash = record.state;
    e.parent = record.parent;
    e.chain = newest_.chain;
    e.ledger = record.ledger;
    e.members = record.members;
    e.contributions = record.contributions;
    e.returned = record.returned;
    fx_->note(e);
  }

  void expect_same(const commit_record& record) {
    if (record.chain() != newest_.chain) fork(record);
  }

  /// Cannot happen while every member keeps its durable record. Going on would make it worse.
  void fork(const commit_record& record) {
    broken_ = "round " + std::to_string(record.round) +
              " was committed twice with different contents: a member lost its durable record and kept its id, or two runs "
              "share an id. Stop the run and keep the side whose checkpoints you trust";
    fx_->log(severity::error, broken_);
  }

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

}  // namespace causeway::inline CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_ACCEPTOR_HPP
