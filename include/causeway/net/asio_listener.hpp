// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_LISTENER_HPP
#define CAUSEWAY_NET_ASIO_LISTENER_HPP

// What host, join and connect_static are told, and the port that a peer listens on.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/net/transport_options.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// How many of the peers are in.
struct rendezvous_progress {
  std::uint32_t joined = 0;  ///< peers that are in, ourselves included
  std::uint32_t wanted = 0;  ///< 0 while a joiner has not reached the host
  bool connecting = false;   ///< everybody is in; the links are being made
};

struct rendezvous_options {
  std::uint64_t run_id = 0;                  ///< which run; a joiner may leave it 0 to take the one that is served
  std::uint64_t model_hash = 0;              ///< hash of what must be equal on all peers; 0 leaves it unchecked
  std::optional<peer_index> wanted_index{};  ///< the index we had before; the host's default is 0
  endpoint listen{};                 ///< where others reach us; anything but loopback is unencrypted and warned about
  std::string announce{};            ///< host name under which others reach us; empty: the address that the host sees
  std::uint16_t announce_port = 0;   ///< port under which others reach us; 0: the one that we listen at
  std::size_t streams_per_link = 0;  ///< 0: one on loopback or where the kernel has BBR, else 16
  time_point deadline = no_deadline;
  duration link_patience = std::chrono::seconds{60};  ///< how long no link may be made before those without are given up
  const std::atomic<bool>* stop = nullptr;            ///< set it to give up (errc::cancelled)
  std::function<void(const rendezvous_progress&)> progress{};
  transport_options transport{};
  piece_source pieces{};  ///< what a host tells those who ask what run this is; none: they are refused
};

namespace detail {
struct bound_port;
}

/// A port that we listen on. `open_listener` makes it, so that its address is known before anybody waits.
class listener {
 public:
  /// The address as bound: give it to the others.
  [[nodiscard]] const endpoint& address() const noexcept { return address_; }

  listener(listener&&) noexcept;
  listener& operator=(listener&&) noexcept;
  ~listener();

  // For the functions of this folder.
  CAUSEWAY_DECL listener(std::unique_ptr<detail::bound_port> bound, endpoint address);
  std::unique_ptr<detail::bound_port> port;

 private:
  endpoint address_;
};

namespace detail {

/// Where others dial us.
CAUSEWAY_DECL std::uint16_t announced_port(const rendezvous_options& options, const endpoint& own) noexcept;

CAUSEWAY_DECL error bind_error(const endpoint& where, const std::error_code& failure);

}  // namespace detail

/// Listens at `where` (port 0: any free port). errc::address_in_use when another program has the port.
CAUSEWAY_DECL result<listener> open_listener(const endpoint& where, const log_sink& log = {});

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_listener.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_LISTENER_HPP
