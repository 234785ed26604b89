// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_MIRROR_RECORD_IPP
#define CAUSEWAY_COMM_IMPL_MIRROR_RECORD_IPP

#include <causeway/comm/mirror_record.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL counted_senders::counted_senders() : entries_(3 * most) {}

CAUSEWAY_DECL void counted_senders::forget(std::uint64_t peer) {
  for (std::size_t i = 0; i < entries_.size(); i += 3) {
    if (entries_[i] == peer) entries_[i] = entries_[i + 1] = entries_[i + 2] = 0;
  }
}

CAUSEWAY_DECL void counted_senders::note(std::uint64_t peer, std::uint64_t record, std::uint64_t updates) {
  std::size_t oldest = 0;
  for (std::size_t i = 0; i < entries_.size(); i += 3) {
    if (entries_[i + 1] < entries_[oldest + 1]) oldest = i;
  }
  forgotten_ = std::max(forgotten_, entries_[oldest + 1]);
  entries_[oldest] = peer;
  entries_[oldest + 1] = record;
  entries_[oldest + 2] = updates;
}

CAUSEWAY_DECL std::uint64_t counted_senders::of(std::uint64_t peer, std::uint64_t record) const {
  for (std::size_t i = 0; i < entries_.size(); i += 3) {
    if (entries_[i] == peer && entries_[i + 1] == record) return entries_[i + 2];
  }
  return record <= forgotten_ ? unknown : 0;
}

CAUSEWAY_DECL void mirror_record::begin(std::uint64_t record, std::vector<std::uint64_t> peers, std::size_t self) {
  end();
  name_ = record;
  self_ = self;
  peers_ = std::move(peers);
}

CAUSEWAY_DECL void mirror_record::end() {
  name_ = 0;
  peers_.clear();
  senders_.clear();
  messages_.clear();
}

CAUSEWAY_DECL void mirror_record::regroup(std::vector<std::uint64_t> peers, std::size_t self) {
  constexpr std::uint64_t gone = UINT64_MAX;
  for (std::uint64_t& s : senders_) {
    const auto at = std::find(peers.begin(), peers.end(), peers_[s]);
    s = s == self_ ? self : at == peers.end() ? gone : static_cast<std::uint64_t>(at - peers.begin());
  }
  peers_ = std::move(peers);
  self_ = self;
  name_ = peers_.empty() ? 0 : peers_[self];
  keep_first(gone, 0);
}

CAUSEWAY_DECL std::uint64_t mirror_record::count(std::size_t sender) const {
  return static_cast<std::uint64_t>(std::count(senders_.begin(), senders_.end(), sender));
}

CAUSEWAY_DECL void mirror_record::keep_first(std::size_t sender, std::uint64_t count) {
  std::size_t left = 0;
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    if (senders_[i] == sender && number++ >= count) continue;
    if (left != i) messages_[left] = std::move(messages_[i]);
    senders_[left++] = senders_[i];
  }
  senders_.resize(left);
  messages_.resize(left);
}

CAUSEWAY_DECL void mirror_record::keep(std::size_t sender, std::span<const std::byte> updates) {
  senders_.push_back(sender);
  messages_.emplace_back(updates.begin(), updates.end());
}

CAUSEWAY_DECL std::vector<std::byte> mirror_record::claim(std::uint64_t steps, std::uint32_t region) const {
  std::vector<std::uint64_t> words{name_, steps, region};
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    words.push_back(peers_[p]);
    words.push_back(count(p));
  }
  const auto bytes = std::as_bytes(std::span{words});
  return {bytes.begin(), bytes.end()};
}

/// A claim's numbers: a record, steps, a region, and then of each peer of that record its identity and how many updates
/// were heard.
CAUSEWAY_DECL result<std::vector<std::uint64_t>> words_of_claim(std::span<const std::byte> bytes, std::size_t from) {
  std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
  if (words.size() % 2 == 0 || words.size() < 3 || bytes.size() % sizeof(std::uint64_t) != 0) {
    error e = fail(errc::protocol, "mirrors", "a claim of " + std::to_string(bytes.size()) + " bytes, which none has");
    e.culprit = static_cast<std::uint32_t>(from);
    return e;
  }
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

CAUSEWAY_DECL result<mirror_tally> mirror_tally::of(const std::vector<std::vector<std::byte>>& claims,
                                                    const std::vector<std::uint64_t>& present, std::uint64_t now) {
  mirror_tally tally;
  std::vector<std::vector<std::uint64_t>> all;
  for (const auto& bytes : claims) {
    CAUSEWAY_ASSIGN(auto words, words_of_claim(bytes, all.size()));
    tally.steps.push_back(words[1]);
    tally.regions.push_back(static_cast<std::uint32_t>(words[2]));
    if (words[0] < now) tally.record = std::max(tally.record, words[0]);
    all.push_back(std::move(words));
  }
  if (tally.record == 0) return tally;
  const std::size_t first = static_cast<std::size_t>(
      std::find_if(all.begin(), all.end(), [&](const auto& words) { return words[0] == tally.record; }) - all.begin());
  const auto talks = [&](std::size_t p) { return all[p][0] == tally.record && all[p].size() == all[first].size(); };
  for (std::size_t s = 0; 3 + 2 * s < all[first].size(); ++s) {
    const std::uint64_t peer = all[first][3 + 2 * s];
    const auto heard = [&](std::size_t by) { return all[by][4 + 2 * s]; };
    std::size_t best = first;
    bool is_here = false;
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (!talks(p)) continue;
      is_here = is_here || present[p] == peer;
      if (heard(p) > heard(best)) best = p;
    }
    if (is_here || heard(best) == 0) continue;
    tally.lost.push_back(peer);
    tally.senders.push_back(s);
    tally.updates.push_back(heard(best));
    tally.heard_by.push_back(best);
  }
  return tally;
}

CAUSEWAY_DECL void mirror_tally::note(counted_senders& counted, const std::vector<std::uint64_t>& present) const {
  for (const std::uint64_t peer : present) counted.forget(peer);
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const bool begins_anew = std::find(present.begin(), present.end(), lost[i]) != present.end();
    if (!begins_anew) counted.note(lost[i], record, updates[i]);
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_MIRROR_RECORD_IPP
