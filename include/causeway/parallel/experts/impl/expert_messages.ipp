// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_MESSAGES_IPP
#define CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_MESSAGES_IPP

#include <causeway/parallel/experts/expert_messages.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace expert_wire {

inline constexpr net::envelope::kind messages{"expert message", ", or of another grid or width of experts", 1};

CAUSEWAY_DECL std::vector<std::byte> encode(std::uint64_t run, const message& m) {
  return net::envelope::seal(messages, run, m);
}

CAUSEWAY_DECL result<message> decode(std::uint64_t run, std::span<const std::byte> bytes) {
  return net::envelope::open<message>(messages, run, bytes);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::expert_wire

#endif  // CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_MESSAGES_IPP
