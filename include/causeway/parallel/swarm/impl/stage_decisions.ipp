// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_STAGE_DECISIONS_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_STAGE_DECISIONS_IPP

#include <causeway/parallel/swarm/stage_decisions.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::vector<double> stage_decisions::asked() const {
  std::vector<double> all;
  for (const auto& values : asked_) all.insert(all.end(), values.begin(), values.end());
  return all;
}

CAUSEWAY_DECL std::optional<swarm_wire::stage_sum> stage_decisions::total(const peer_directory& known, std::uint32_t stage,
                                                                          std::uint64_t step) const {
  const auto decided = known.decided(step);
  return decided || (stage > 0 && !asked_.empty()) ? decided : known.total(step);
}

CAUSEWAY_DECL std::span<std::byte> stage_decisions::memory(std::size_t most) {
  memory_.resize(2 + most);
  return std::as_writable_bytes(std::span{memory_});
}

CAUSEWAY_DECL void stage_decisions::decide(std::uint64_t step, std::span<const double> all) {
  if (memory_.empty()) return;
  CAUSEWAY_EXPECT(!all.empty() && all.size() < memory_.size());
  memory_.front() = static_cast<double>(step) + 1;
  std::fill(std::copy(all.begin(), all.end(), memory_.begin() + 1), memory_.end(), 0.0);
  all = all.subspan(1);
  for (const auto& values : asked_) {
    std::copy_n(all.begin(), values.size(), values.begin());
    all = all.subspan(values.size());
  }
}

CAUSEWAY_DECL std::optional<swarm_wire::stage_sum> stage_decisions::last() const {
  if (memory_.empty() || memory_.front() == 0) return std::nullopt;
  return swarm_wire::stage_sum{
      static_cast<std::uint64_t>(memory_.front()) - 1, memory_[1], {memory_.begin() + 2, memory_.end()}};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_STAGE_DECISIONS_IPP
