// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_COMMON_STEPS_HPP
#define CAUSEWAY_COMM_COMMON_STEPS_HPP

// Where a newcomer's count of inner steps begins, among peers each of which has taken another number of them.

#include <causeway/config/config.hpp>

#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

/// As many as more than half of the peers say that they have taken, so that one which counts wrongly moves nobody; never
/// fewer than `before`.
CAUSEWAY_DECL std::uint64_t common_steps(std::vector<std::uint64_t> said, std::uint64_t before);

/// The peers of a stage make the same steps, each with other values, and meet in records alone (parallel::local_swarm).
[[nodiscard]] bool is_in_swarm(auto& ctx) { return ctx.exchanges_at_once() && !ctx.moves_blocks(); }

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/common_steps.ipp>
#endif

#endif  // CAUSEWAY_COMM_COMMON_STEPS_HPP
