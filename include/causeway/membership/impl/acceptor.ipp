// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_ACCEPTOR_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_ACCEPTOR_IPP

#include <causeway/membership/acceptor.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL acceptor::acceptor(durable_record record, effects& fx) : durable_{std::move(record)}, fx_{&fx} {
  know_newest();
  if (durable_.accepted) accepted_chain_ = durable_.accepted->value.chain();
}

CAUSEWAY_DECL void acceptor::remember(std::vector<located_peer> others) { durable_.others = std::move(others); }

CAUSEWAY_DECL void acceptor::lose_disk() { broken_ = disk_failed; }

CAUSEWAY_DECL bool acceptor::is_member(net::peer_id peer) const {
  return std::binary_search(members_.begin(), members_.end(), peer);
}

CAUSEWAY_DECL void acceptor::note_boot(time_point now) {
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

CAUSEWAY_DECL bool acceptor::promise(std::uint32_t term, net::peer_id to, time_point now) {
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

CAUSEWAY_DECL bool acceptor::bar(ballot floor, time_point now) {
  if (!broken_.empty() || floor.term != durable_.floor.term) return false;
  if (floor <= durable_.floor) return true;
  durable_.floor = floor;
  if (!save()) return false;
  event e = about(event::bar, now);
  e.at = durable_.floor;
  fx_->note(e);
  return true;
}

CAUSEWAY_DECL bool acceptor::accept(ballot at, const commit_record& value, time_point now) {
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

CAUSEWAY_DECL bool acceptor::follows(const commit_record& value) const {
  return newest_.known() && value.run == durable_.run && value.round == newest_.round + 1 &&
         value.parent == newest_.chain && !value.members.empty() && (same_samples(value) || durable_.samples.fits(value)) &&
         value.ledger == hash_after(value);
}

CAUSEWAY_DECL std::uint64_t acceptor::hash_after(const commit_record& value) const {
  if (!same_samples(value)) {
    after_ = durable_.samples;
    after_.apply(value);
    after_hash_ = after_.hash();
    after_of_ = value;
  }
  return after_hash_;
}

CAUSEWAY_DECL bool acceptor::learn(const commit_record& record, time_point now, const certificate& votes) {
  if (!broken_.empty() || !newest_.known() || record.round > newest_.round + 1) return false;
  if (record.round < newest_.round) return false;
  if (record.round == newest_.round) return expect_same(record), false;
  if (record.run != durable_.run) return false;
  if (!follows(record)) return fork(record), false;
  return take(record, after_, votes, now);
}

CAUSEWAY_DECL bool acceptor::learn(const commit_record& record, const ledger& samples, time_point now,
                                   const certificate& votes) {
  if (!broken_.empty() || record.run != durable_.run || record.members.empty()) return false;
  if (newest_.known() && record.round < newest_.round) return false;
  if (newest_.known() && record.round == newest_.round) return expect_same(record), false;
  if (newest_.known() && record.round == newest_.round + 1 && record.parent != newest_.chain) return fork(record), false;
  if (samples.hash() != record.ledger) return false;
  return take(record, samples, votes, now);
}

CAUSEWAY_DECL event acceptor::about(event::kind what, time_point now) const {
  event e;
  e.what = what;
  e.at_time = now;
  e.peer = durable_.self;
  return e;
}

CAUSEWAY_DECL bool acceptor::save() {
  if (fx_->persist(durable_)) return true;
  lose_disk();
  return false;
}

CAUSEWAY_DECL bool acceptor::take(const commit_record& record, const ledger& samples, const certificate& votes,
                                  time_point now) {
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

CAUSEWAY_DECL void acceptor::know_newest() {
  if (!durable_.newest) return;
  newest_ = {durable_.newest->round, durable_.newest->chain()};
  members_ = durable_.newest->members;
  std::sort(members_.begin(), members_.end());
}

CAUSEWAY_DECL bool acceptor::same_samples(const commit_record& value) const {
  return after_of_.parent == newest_.chain && after_of_.parent == value.parent && after_of_.members == value.members &&
         after_of_.contributions == value.contributions && after_of_.returned == value.returned;
}

CAUSEWAY_DECL void acceptor::note_newest(time_point now) {
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

CAUSEWAY_DECL void acceptor::expect_same(const commit_record& record) {
  if (record.chain() != newest_.chain) fork(record);
}

CAUSEWAY_DECL void acceptor::fork(const commit_record& record) {
  broken_ = "round " + std::to_string(record.round) +
            " was committed twice with different contents: a member lost its durable record and kept its id, or two runs "
            "share an id. Stop the run and keep the side whose checkpoints you trust";
  fx_->log(severity::error, broken_);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_ACCEPTOR_IPP
