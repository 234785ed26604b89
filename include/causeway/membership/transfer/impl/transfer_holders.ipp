// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_HOLDERS_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_HOLDERS_IPP

#include <causeway/membership/transfer/transfer_holders.hpp>

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace membership {

CAUSEWAY_DECL void transfer_pace::answered(duration latency, unsigned out) noexcept {
  quickest_ = quickest_ ? std::min(*quickest_, latency) : latency;
  const double share = latency > duration{0} ? seconds(*quickest_) / seconds(latency) : 1.0;
  const auto target = static_cast<unsigned>(std::ceil(2.0 * out * share)) + 1;
  window_ = std::clamp(target, std::min(least_window, most_), most_);
}

CAUSEWAY_DECL void transfer_pace::overdue(duration waited) noexcept {
  gaps_.overdue(waited);
  window_ = 1;
}

CAUSEWAY_DECL void transfer_pace::reconnected() noexcept {
  window_ = std::min(first_window, most_);
  quickest_.reset();
}

CAUSEWAY_DECL duration transfer_pace::answer_in(std::size_t ahead) const noexcept {
  const duration queued = gaps_.mean() * static_cast<duration::rep>(ahead + 1);
  return std::max(queued, quickest_.value_or(queued));
}

CAUSEWAY_DECL transfer_holder::transfer_holder(net::peer_id peer, const transfer_options& options)
    : id{peer}, pace{options} {}

CAUSEWAY_DECL bool transfer_holder::waited_for() const noexcept {
  return std::any_of(asked.begin(), asked.end(), [](const auto& r) { return r.second.at != standing::lost; });
}

CAUSEWAY_DECL bool transfer_holder::expects(std::uint64_t key) const {
  const auto at = asked.find(key);
  return at != asked.end() && at->second.at != standing::lost;
}

CAUSEWAY_DECL std::ptrdiff_t transfer_holder::place_of(const request& r) const {
  return 1 + std::count_if(asked.begin(), asked.end(), [&](const auto& entry) {
           return entry.second.at == standing::active && entry.second.serial < r.serial;
         });
}

CAUSEWAY_DECL bool transfer_holder::gave_bad(std::uint64_t chunk) const {
  return std::find(bad_chunks.begin(), bad_chunks.end(), chunk) != bad_chunks.end();
}

CAUSEWAY_DECL void transfer_holder::note_asked(std::uint64_t key, std::uint64_t serial, time_point now) {
  if (!waited_for()) waiting_since = now;
  const bool again = asked.contains(key);
  ++active;
  asked[key] = {now, serial, active, standing::active, again};
}

CAUSEWAY_DECL auto transfer_holder::note_answer(std::uint64_t key, time_point now) -> std::optional<answer> {
  const auto at = asked.find(key);
  if (at == asked.end()) return std::nullopt;
  const request r = at->second;
  asked.erase(at);
  if (r.at == standing::active) --active;
  const duration gap = now - std::max(waiting_since, r.sent);
  if ((key & manifest_bit) == 0) {  // pieces of the manifest have other sizes: they say nothing about chunks
    pace.arrived(gap);
    if (!r.again) pace.answered(now - r.sent, r.out);
  }
  waiting_since = now;
  overdue = 0;
  return answer{r.at == standing::active, gap};
}

CAUSEWAY_DECL void transfer_holder::disconnected() {
  asked.clear();
  active = 0;
  up = false;
  overdue = 0;
  not_before = {};
  pace.reconnected();
}

CAUSEWAY_DECL void transfer_holder::forget(std::uint64_t key) {
  const auto at = asked.find(key);
  if (at == asked.end()) return;
  if (at->second.at == standing::active) --active;
  at->second.at = standing::lost;
}

CAUSEWAY_DECL transfer_plan::transfer_plan(const std::vector<std::uint64_t>& local,
                                           const std::vector<std::uint64_t>& wanted)
    : chunks_(wanted.size()) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (local[i] == wanted[i]) continue;
    chunks_[i] = {.missing = true, .free = true, .askers = 0};
    free_.push_back(i);
  }
  missing_ = free_.size();
}

CAUSEWAY_DECL void transfer_plan::given_up(std::uint64_t chunk) {
  state& c = chunks_[chunk];
  if (c.askers > 0) --c.askers;
  if (c.askers > 0 || c.free || !c.missing) return;
  c.free = true;
  free_.push_front(chunk);
}

CAUSEWAY_DECL void transfer_plan::done(std::uint64_t chunk) noexcept {
  if (chunks_[chunk].missing) --missing_;
  chunks_[chunk].missing = false;
}

CAUSEWAY_DECL transfer_holders::transfer_holders(const transfer_options& options)
    : options_{options}, gaps_{options.arrival} {}

CAUSEWAY_DECL transfer_holder& transfer_holders::known(net::peer_id peer) {
  return all_.try_emplace(peer, peer, options_).first->second;
}

CAUSEWAY_DECL void transfer_holders::erase(net::peer_id peer) { all_.erase(peer); }

CAUSEWAY_DECL transfer_holder* transfer_holders::find(net::peer_id peer) {
  const auto at = all_.find(peer);
  return at == all_.end() ? nullptr : &at->second;
}

CAUSEWAY_DECL void transfer_holders::begin_anew() {
  for (auto& [id, h] : all_) {
    const bool up = h.up;
    h = transfer_holder{id, options_};
    h.up = up;
  }
}

CAUSEWAY_DECL auto transfer_holders::outlook() const -> prospects {
  prospects p;
  for (const auto& [id, h] : all_) {
    p.eligible |= h.eligible();
    p.within_reach |= h.eligible() && h.up;
    p.answers |= h.eligible() && h.up && h.overdue < options_.max_overdue;
  }
  return p;
}

CAUSEWAY_DECL error transfer_holders::none_left(std::uint64_t round, std::uint64_t newest_seen) const {
  const std::string name = "round " + std::to_string(round);
  if (any_listed(&transfer_holder::gone)) {
    return fail(errc::not_found, "state transfer",
                "the state of " + name + " is gone; the newest round heard of is " + std::to_string(newest_seen));
  }
  if (any_listed(&transfer_holder::banned)) {
    return fail(errc::corrupt, "state transfer", "all holders of " + name + " sent bytes that do not fit its hash");
  }
  return fail(errc::peer_lost, "state transfer", "no holder of " + name + " is within reach");
}

CAUSEWAY_DECL transfer_holder* transfer_holders::best(time_point now) {
  const auto rank = [](const transfer_holder& h) { return std::pair{h.overdue, h.bad}; };
  transfer_holder* found = nullptr;
  for (auto& [id, h] : all_) {
    if (h.usable(now) && (found == nullptr || rank(h) < rank(*found))) found = &h;
  }
  return found;
}

CAUSEWAY_DECL time_point transfer_holders::next_deadline(time_point now) const {
  time_point next = no_deadline;
  for (const auto& [id, h] : all_) {
    if (!h.eligible() || !h.up) continue;
    if (h.waited_for()) next = std::min(next, deadline(h));
    if (h.not_before > now) next = std::min(next, h.not_before);
  }
  return next;
}

CAUSEWAY_DECL std::optional<std::uint64_t> transfer_holders::worth_asking_twice(const transfer_holder& h,
                                                                                const transfer_plan& plan,
                                                                                time_point now) const {
  if (!h.pace.known() || h.overdue > 0) return std::nullopt;
  std::optional<std::uint64_t> last;
  time_point latest = now + h.pace.answer_in(h.active) * 5 / 4;  // a quarter more: it costs bytes
  for (const auto& [id, other] : all_) {
    if (id == h.id || other.active == 0) continue;
    for (const auto& [key, r] : other.asked) {
      if (r.at != transfer_holder::standing::active || (key & transfer_holder::manifest_bit) != 0) continue;
      if (plan.askers(key) > 1 || h.expects(key) || h.gave_bad(key)) continue;
      const time_point comes = comes_at(other, r);
      if (comes <= latest) continue;
      latest = comes;
      last = key;
    }
  }
  return last;
}

CAUSEWAY_DECL bool transfer_holders::any_listed(bool transfer_holder::*what) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const auto& entry) { return entry.second.listed && entry.second.*what; });
}

CAUSEWAY_DECL duration transfer_holders::patience(const transfer_holder& h) const {
  if (h.pace.known()) return h.pace.patience();
  if (gaps_.count() == 0) return options_.first_answer;
  return std::min(gaps_.patience() * 2, options_.first_answer);
}

CAUSEWAY_DECL time_point transfer_holders::comes_at(const transfer_holder& h, const transfer_holder::request& r) const {
  return h.pace.known() ? h.waiting_since + h.pace.gap() * h.place_of(r) : deadline(h);
}

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_HOLDERS_IPP
