// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_AGREEMENT_HPP
#define CAUSEWAY_COLLECTIVE_AGREEMENT_HPP

// Whether all peers hold the same thing, by a number that names it.

#include <causeway/collective/gather.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// errc::diverged, with `complaint`, names the first peer whose number is another one. 8 bytes from and to everybody.
template <net::Transport T>
result<void> all_equal(T& transport, const net::message_id& id, std::uint64_t own, const std::string& complaint,
                       const collective_options& options = {}) {
  if (transport.size() == 1) return {};
  std::vector<std::uint64_t> all(transport.size());
  CAUSEWAY_TRY(
      all_gather(transport, id, std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}), options));
  for (net::peer_index peer = 0; peer < transport.size(); ++peer) {
    if (all[peer] != own) return fail(errc::diverged, "peer " + std::to_string(peer), complaint);
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_AGREEMENT_HPP
