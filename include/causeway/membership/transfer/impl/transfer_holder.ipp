// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_HOLDER_IPP
#define CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_HOLDER_IPP

// Bodies of membership/transfer/transfer_holder.hpp.

#include <causeway/membership/transfer/transfer_holder.hpp>

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

}}}  // namespace causeway::CAUSEWAY_ABI::membership

#endif  // CAUSEWAY_MEMBERSHIP_TRANSFER_IMPL_TRANSFER_HOLDER_IPP
