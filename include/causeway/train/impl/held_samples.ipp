// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_HELD_SAMPLES_IPP
#define CAUSEWAY_TRAIN_IMPL_HELD_SAMPLES_IPP

// Bodies of train/held_samples.hpp.

#include <causeway/train/held_samples.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_DECL held_samples::held_samples(net::peer_id self) : self_{self} {}

CAUSEWAY_DECL void held_samples::follow(const membership::commit_record& record) {
  if (!as_of_.fits(record)) return;
  membership::ledger after = as_of_;
  after.apply(record);
  if (after.hash() == record.ledger) as_of_ = std::move(after);
}

CAUSEWAY_DECL bool held_samples::still_ours(const membership::ledger& newest, std::uint64_t count) const {
  return membership::still_held(as_of_, newest, self_, count) == count;
}

CAUSEWAY_DECL std::vector<std::uint64_t> held_samples::draw(const membership::ledger& newest, std::uint64_t skipped,
                                                            std::uint64_t count) {
  if (drawn_.size() > skipped) drawn_.erase(drawn_.begin(), drawn_.end() - static_cast<std::ptrdiff_t>(skipped));
  auto numbers = as_of_.take(self_, skipped, count);
  if (!still_ours(newest, skipped + numbers.size())) return {};
  drawn_.insert(drawn_.end(), numbers.begin(), numbers.end());
  return numbers;
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_HELD_SAMPLES_IPP
