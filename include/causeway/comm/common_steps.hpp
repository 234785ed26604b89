// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_COMMON_STEPS_HPP
#define CAUSEWAY_COMM_COMMON_STEPS_HPP

// Where a newcomer's count of inner steps begins, and where that of a run ends, among peers each of which has taken another
// number of them.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// As many as more than half of the peers say that they have taken, so that one which counts wrongly moves nobody; never
/// fewer than `before`.
CAUSEWAY_DECL std::uint64_t common_steps(std::vector<std::uint64_t> said, std::uint64_t before);

/// `steps`, which this peer has taken, become the most that any of the exchange under way has: the same on all. 8 bytes to
/// each, named by `part`; none where all take each step together.
result<void> most_steps(auto& ctx, std::uint64_t& steps, std::uint64_t part) {
  if (ctx.peers() == 1 || ctx.exchanges_at_once()) return {};
  std::vector<std::uint64_t> all(ctx.peers());
  CAUSEWAY_TRY(collective::all_gather(ctx.transport(), ctx.exchange_id(collective::channels::metrics, part),
                                      std::as_bytes(std::span{&steps, 1}), std::as_writable_bytes(std::span{all}),
                                      ctx.exchange_options()));
  steps = *std::max_element(all.begin(), all.end());
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/common_steps.ipp>
#endif

#endif  // CAUSEWAY_COMM_COMMON_STEPS_HPP
