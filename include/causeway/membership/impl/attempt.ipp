// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_IMPL_ATTEMPT_IPP
#define CAUSEWAY_MEMBERSHIP_IMPL_ATTEMPT_IPP

#include <causeway/membership/attempt.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership { namespace detail {

CAUSEWAY_DECL bool attempt::voted(net::peer_id id) const { return votes_.contains(id); }

CAUSEWAY_DECL bool attempt::silent(net::peer_id id) const { return !votes_.contains(id) && !gone_.contains(id); }

CAUSEWAY_DECL void attempt::begin_exchange(ballot at, commit_record proposal, const std::vector<net::peer_id>& who,
                                           time_point now) {
  begin(kind::exchange, at, std::move(proposal), who, now);
}

CAUSEWAY_DECL void attempt::begin_adoption(ballot at, commit_record value, const std::vector<net::peer_id>& who,
                                           time_point now) {
  begin(kind::adoption, at, std::move(value), who, now);
}

CAUSEWAY_DECL void attempt::ask(net::peer_id id) {
  if (!asked_.insert(id).second) gone_.erase(id);
}

CAUSEWAY_DECL void attempt::voted(net::peer_id id, std::uint64_t state, time_point now) {
  if (!asked_.contains(id) || votes_.contains(id)) return;
  if (votes_.empty()) first_vote_ = now;
  last_vote_ = now;
  votes_[id] = state;
  gone_.erase(id);
}

CAUSEWAY_DECL void attempt::failed(net::peer_id id) {
  if (asked_.contains(id) && !votes_.contains(id)) gone_.insert(id);
}

CAUSEWAY_DECL std::optional<std::uint64_t> attempt::choice(const std::vector<net::peer_id>& members) const {
  if (2 * votes_.size() < members.size()) return std::nullopt;
  std::map<std::uint64_t, std::vector<net::peer_id>> by_state;
  for (const auto& [id, state] : votes_) by_state[state].push_back(id);
  for (const auto& [state, voters] : by_state) {
    if (kind_ == kind::adoption && state != proposal_.state) continue;
    if (is_quorum(members, voters)) return state;
  }
  return std::nullopt;
}

CAUSEWAY_DECL certificate attempt::votes_for(std::uint64_t state, const std::vector<net::peer_id>& members) const {
  certificate votes;
  for (const net::peer_id id : members) {
    if (voted_for(id, state)) votes.push_back({id, {}});
  }
  return votes;
}

CAUSEWAY_DECL bool attempt::voted_for(net::peer_id id, std::uint64_t state) const {
  const auto vote = votes_.find(id);
  return vote != votes_.end() && vote->second == state;
}

CAUSEWAY_DECL bool attempt::diverged(net::peer_id id, std::uint64_t state) const {
  const auto vote = votes_.find(id);
  return vote != votes_.end() && vote->second != state;
}

CAUSEWAY_DECL std::string attempt::summary() const {
  return std::to_string(votes_.size()) + " of " + std::to_string(asked_.size()) + " voted, " +
         std::to_string(gone_.size()) + " failed or are gone";
}

CAUSEWAY_DECL void attempt::begin(kind k, ballot at, commit_record value, const std::vector<net::peer_id>& who,
                                  time_point now) {
  *this = attempt{};
  kind_ = k;
  at_ = at;
  proposal_ = std::move(value);
  asked_ = {who.begin(), who.end()};
  began_ = now;
}

CAUSEWAY_DECL wait_times::wait_times(const options& o)
    : options_{o},
      grace_{o.grace},
      vote_{o.vote},
      exchange_{o.exchange},
      pace_{o.pace},
      answer_{{.floor = o.grace.floor, .cap = o.silence.cap}} {}

CAUSEWAY_DECL void wait_times::begin_round(time_point now) {
  ready_.clear();
  enough_ = false;
  late_at_first_ = 0;
  begun_ = enough_at_ = last_ready_ = failed_at_ = now;
}

CAUSEWAY_DECL bool wait_times::somebody_ready(time_point now, net::peer_id id) {
  if (!ready_.insert(id).second) return false;
  last_ready_ = now;
  return true;
}

CAUSEWAY_DECL void wait_times::enough_ready(time_point now, std::uint64_t samples) {
  if (std::exchange(enough_, true)) return;
  enough_at_ = now;
  pace_.observe(now - begun_);
  if (samples > 0) sample_time_ = (now - begun_) / static_cast<duration::rep>(samples);
}

CAUSEWAY_DECL duration wait_times::training_time(std::uint64_t samples) const {
  return sample_time_ * static_cast<duration::rep>(std::min(samples, most_samples));
}

CAUSEWAY_DECL void wait_times::began(std::uint32_t failures) {
  if (failures == 0 && ready_.size() > 1) grace_.observe(std::max(last_ready_ - enough_at_, duration{0}));
}

CAUSEWAY_DECL void wait_times::committed(const attempt& a) {
  if (a.adopting() || !a.somebody_voted()) return;
  vote_.observe(a.last_vote() - a.first_vote());
  if (!a.proposal().contributions.empty()) exchange_.observe(a.first_vote() - a.began());
}

CAUSEWAY_DECL time_point wait_times::grace_deadline(double late) {
  late_at_first_ = std::max(late_at_first_, late);
  const duration round = enough_at_ - begun_;
  const duration most = std::max(part_of(round, options_.grace_share), options_.grace.floor);
  const duration lost = round + catch_up_time();
  const duration whole = std::min({grace_.patience(), most, part_of(lost, late_at_first_)});
  return std::min(enough_at_ + whole, std::max(enough_at_, last_ready_) + part_of(lost, late));
}

CAUSEWAY_DECL time_point wait_times::attempt_deadline(const attempt& a) const {
  if (a.adopting() || a.recorded()) return no_deadline;
  if (a.somebody_voted()) return a.first_vote() + vote_.patience();
  return a.began() + 2 * exchange_.patience();
}

CAUSEWAY_DECL time_point wait_times::pause_until(std::uint32_t failures) const {
  if (failures <= options_.max_attempts) return {duration::min()};
  return failed_at_ + options_.heartbeat * (1U << std::min(failures - options_.max_attempts - 1, 6U));
}

CAUSEWAY_DECL duration wait_times::catch_up_time() const {
  return exchange_.count() == 0 ? options_.grace.floor : exchange_.patience();
}

CAUSEWAY_DECL duration wait_times::part_of(duration whole, double part) {
  return std::chrono::duration_cast<duration>(std::chrono::duration<double>{part * seconds(whole)});
}

}}}}  // namespace causeway::CAUSEWAY_ABI::membership::detail

#endif  // CAUSEWAY_MEMBERSHIP_IMPL_ATTEMPT_IPP
