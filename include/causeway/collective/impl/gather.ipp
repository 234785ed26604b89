// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_GATHER_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_GATHER_IPP

#include <causeway/collective/gather.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL error detail::too_long(net::peer_index peer, std::size_t offered, std::size_t limit) {
  return fail(errc::too_large, peer_name(peer),
              std::to_string(offered) + " bytes to gather, where the caller allows " + std::to_string(limit));
}

#ifdef CAUSEWAY_COMPILED
template result<void> all_gather(net::any_transport&, const net::message_id&, std::span<const std::byte>, std::size_t,
                                 std::vector<std::vector<std::byte>>&, const collective_options&);
template result<void> all_gather(net::any_transport&, const net::message_id&, std::span<const std::byte>,
                                 std::span<std::byte>, const collective_options&);
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_GATHER_IPP
