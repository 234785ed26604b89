// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_COMMON_STEPS_HPP
#define CAUSEWAY_COMM_COMMON_STEPS_HPP

// How peers that go at their own pace between two records count their steps, and how those do who make the same ones, in a
// swarm: when a record is due, and where a newcomer's count begins after it.

#include <causeway/config/config.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// As many as more than half of the peers say that they have taken, so that one which counts wrongly moves nobody; never
/// fewer than `before`.
CAUSEWAY_DECL std::uint64_t common_steps(std::vector<std::uint64_t> said, std::uint64_t before);

/// `steps`: at the last record. In a swarm the first step is followed by one: so those who begin the run together talk from
/// then on.
[[nodiscard]] bool record_is_due(auto& ctx, std::uint64_t steps) {
  return ctx.announce_samples() || (steps == 0 && ctx.membership().is_swarm());
}

/// The steps at which a newcomer begins after a record: those of the stages, where all have made the same.
[[nodiscard]] std::uint64_t steps_after_record(auto& ctx, std::vector<std::uint64_t> said, std::uint64_t before) {
  return ctx.exchanges_at_once() ? ctx.step() + 1 : common_steps(std::move(said), before);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/common_steps.ipp>
#endif

#endif  // CAUSEWAY_COMM_COMMON_STEPS_HPP
