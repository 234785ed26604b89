// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_FABRIC_OPTIONS_HPP
#define CAUSEWAY_NET_FABRIC_OPTIONS_HPP

// What a fabric over TCP is told (net/asio_fabric.hpp).

#include <causeway/core/metrics.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/transport_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

struct handshake_options {
  std::uint64_t run_id = 0;
  std::size_t strangers = 128;  ///< accepted connections that are no link yet; see net/half_open.hpp
  std::size_t dials = 64;       ///< under way at once; others wait for their turn
  std::size_t first_frames = std::size_t{4} << 10U;
  std::chrono::nanoseconds frame = std::chrono::seconds{5};       ///< for one frame to come
  std::chrono::nanoseconds handshake = std::chrono::seconds{10};  ///< for all of it, the dialling included
  log_sink log{};
  piece_source pieces{};  ///< for those who ask what run this is; none: they are refused
};

}  // namespace detail

struct fabric_options {
  std::uint64_t run_id = 0;          ///< which run; never 0
  peer_id id = 0;                    ///< who we are in it; never 0
  std::string announce{};            ///< host, or host:port, at which others reach us; empty: where we listen or seem to be
  std::size_t streams_per_link = 0;  ///< connections for data; 0: one on loopback or where the kernel has BBR, else 16
  std::size_t most_peers = 4096;     ///< links; a new peer may get the one of a peer that is gone
  transport_options transport{};     ///< `silence` is the least patience with a silent peer
  detail::handshake_options handshake{};  ///< limits on strangers; run and log are taken from here
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FABRIC_OPTIONS_HPP
