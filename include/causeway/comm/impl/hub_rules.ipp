// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_HUB_RULES_IPP
#define CAUSEWAY_COMM_IMPL_HUB_RULES_IPP

#include <causeway/comm/hub_rules.hpp>

#include <cmath>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL compress::message_context hub_terms::about(std::uint32_t level, std::size_t f) const {
  constexpr std::uint64_t stream = 0x6875627075736800;
  return {.pool = pool, .matrices = cuts[f].matrices, .seed = mix(seed, stream + level, f)};
}

CAUSEWAY_DECL result<hub_work> credible(const push_limits& most, const push_header& said, net::peer_index from) {
  if (most.batch > 0 && said.samples > std::uint64_t{said.steps} * most.batch) {
    return fail(errc::protocol, "peer " + std::to_string(from),
                "its push claims " + std::to_string(said.samples) + " samples in " + std::to_string(said.steps) +
                    " inner steps, of which each has at most " + std::to_string(most.batch) +
                    " (axis::quorum::most_batch); give all peers the same batch");
  }
  if (said.samples <= most.samples) return hub_work{said.samples, said.steps};
  const double part = static_cast<double>(most.samples) / static_cast<double>(said.samples);
  return hub_work{most.samples, static_cast<std::uint32_t>(std::ceil(part * said.steps))};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_HUB_RULES_IPP
