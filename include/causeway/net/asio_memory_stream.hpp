// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_MEMORY_STREAM_HPP
#define CAUSEWAY_NET_ASIO_MEMORY_STREAM_HPP

// What a stream of a link is made of once it has left TCP: two rings in shared memory, and a Unix socket that wakes whoever
// sleeps and ends with the other process. And how two processes come to have them in common: one listens, the other
// connects and hands the memory over. Nothing here waits. docs/design/shared_memory.md.

#include <causeway/core/owned_descriptor.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/shared_rings.hpp>

#include <asio/local/stream_protocol.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// Of a ring. Large enough that a writer is far ahead before it sleeps, small enough to stay in the cache.
inline constexpr std::size_t shared_ring_bytes = std::size_t{1} << 20U;

/// Messages of this length are worth moving a stream for.
inline constexpr std::size_t shared_from_bytes = std::size_t{64} << 10U;

/// Reads and writes as a non-blocking socket does: what cannot move now gives would_block, the end gives eof.
class memory_stream {
 public:
  using wake_socket = asio::basic_stream_socket<asio::local::stream_protocol, tcp::executor>;

  CAUSEWAY_DECL memory_stream(tcp::executor executor, shared_rings rings, owned_descriptor socket);

  CAUSEWAY_DECL std::size_t send(const std::array<asio::const_buffer, 2>& from, std::error_code& failure);
  CAUSEWAY_DECL std::size_t receive(const std::array<asio::mutable_buffer, 2>& to, std::error_code& failure);

  /// From now on the other side wakes us. False when there is something to do already.
  bool sleep_until_readable() noexcept { return !gone_ && rings_.sleep_until_readable(); }
  bool sleep_until_writable() noexcept { return !gone_ && rings_.sleep_until_writable(); }

  /// Takes in what woke us, and notices that the other side is gone.
  CAUSEWAY_DECL void hear();
  [[nodiscard]] bool gone() const noexcept { return gone_; }

  wake_socket& socket() noexcept { return socket_; }

 private:
  CAUSEWAY_DECL void wake();

  shared_rings rings_;
  wake_socket socket_;
  bool gone_ = false;
};

/// What the side that offers holds until the other one has come: a Unix socket that listens at a name nobody else has.
class memory_offer {
 public:
  CAUSEWAY_DECL static result<memory_offer> make();

  /// Makes a memory and hands it to who offered. Fails where that is no process of this user on this machine and in this
  /// network namespace, or the machine has no memory left for it.
  CAUSEWAY_DECL static result<std::unique_ptr<memory_stream>> take(std::uint64_t number, tcp::executor executor);

  /// Tells the other side which name it is.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  /// The memory that the other side handed over, which it does before it says so: errc::not_found where none came.
  CAUSEWAY_DECL result<std::unique_ptr<memory_stream>> accept(tcp::executor executor);

 private:
  memory_offer(owned_descriptor listening, std::uint64_t number) noexcept
      : listening_{std::move(listening)}, number_{number} {}

  CAUSEWAY_DECL static std::uint64_t fresh_number();
  CAUSEWAY_DECL static owned_descriptor make_socket();
  /// Calls ::bind or ::connect with the name of a number.
  template <class Call>
  static bool with_name(std::uint64_t number, Call call);
  CAUSEWAY_DECL static bool is_ours(const owned_descriptor& socket);
  CAUSEWAY_DECL static bool hand_over(const owned_descriptor& memory, const owned_descriptor& socket);
  CAUSEWAY_DECL static owned_descriptor take_over(const owned_descriptor& socket);

  owned_descriptor listening_;
  std::uint64_t number_;
};

/// Whether both ends of a connection seem to be on this machine. A tunnel seems so, too.
CAUSEWAY_DECL bool is_near(const tcp::socket& socket);

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_memory_stream.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_MEMORY_STREAM_HPP
