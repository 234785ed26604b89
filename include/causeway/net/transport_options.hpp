// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_TRANSPORT_OPTIONS_HPP
#define CAUSEWAY_NET_TRANSPORT_OPTIONS_HPP

// What transports and fabrics over TCP are told about their connections.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>

#include <chrono>
#include <cstddef>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct transport_options {
  std::size_t chunk_bytes = 0;                            ///< 0: 1 MiB on one stream, 256 KiB on several
  std::size_t unexpected_bytes = std::size_t{64} << 20U;  ///< kept per peer before reading from it pauses
  std::size_t unexpected_total = std::size_t{1} << 30U;   ///< the same for all peers together
  std::size_t socket_buffer = 0;                          ///< 0: the kernel tunes it
  bool bbr = true;                                        ///< ask the kernel for BBR; false keeps its default
  bool shared_memory = true;  ///< with peers on this machine, for large messages: docs/design/shared_memory.md
  duration heartbeat = std::chrono::seconds{1};    ///< how often an idle link says that it lives
  duration silence = std::chrono::seconds{10};     ///< a peer silent for longer is lost (or longer, see deadline.hpp)
  duration close_grace = std::chrono::seconds{2};  ///< how long `close` waits for the others' goodbye
  bool digest = false;  ///< send a checksum of the content with every chunk; the other side verifies it in any case
  std::size_t control_backlog = std::size_t{256} << 20U;  ///< unsent control messages at which a peer is given up
  std::size_t control_total = std::size_t{1} << 30U;      ///< of all peers; above it one with a sixteenth is given up
  log_sink log;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_TRANSPORT_OPTIONS_HPP
