// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_MEETING_HPP
#define CAUSEWAY_NET_ASIO_MEETING_HPP

// What two peers of a fabric tell each other on a new connection, and which connection becomes their link. Both say who
// they are. Then the peer with the smaller id decides alone, so that two who dial each other at once cannot decide
// differently: the other one says which connection it had last and whether that still stands; the smaller one takes the new
// connection, under a number that only grows, or declines it.

#include <causeway/core/result.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/fields.hpp>
#include <causeway/net/frame.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

inline constexpr std::uint32_t most_data_streams = 64;

/// The body of `meet`.
struct introduction {
  peer_id id = 0;
  std::uint64_t incarnation = 0;  ///< tells a restarted program from its predecessor
  std::uint64_t nonce = 0;        ///< of this connection; the other side repeats it, so that a recording is of no use
  std::uint32_t streams = 1;      ///< for data; the smaller wish counts
  std::uint32_t chunk = 0;        ///< bytes in a chunk of what it sends
  std::string host{};             ///< where it listens; empty: wherever it seems to be
  std::uint16_t port = 0;

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<introduction> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(id, incarnation, nonce, streams, chunk, text{host, 255}, port); }
};

/// The body of `want`: what the peer with the larger id knows of earlier connections.
struct wish {
  std::uint64_t nonce = 0;  ///< of the other side's introduction
  std::uint64_t last = 0;   ///< number of the last connection that was taken; 0: none of this incarnation
  std::uint8_t alive = 0;   ///< that one still stands, as far as it knows

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<wish> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(nonce, last, alive); }
};

/// The body of `take`: the answer to a wish.
struct decision {
  std::uint64_t nonce = 0;   ///< of the other side's introduction
  std::uint64_t serial = 0;  ///< the number of the link from now on; 0: we have another connection

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<decision> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(nonce, serial); }
};

/// One link among all that there ever were with a peer.
struct link_key {
  peer_id id = 0;                 ///< the other side
  std::uint64_t incarnation = 0;  ///< of the other side
  std::uint64_t serial = 0;

  void fields(auto& wire) { wire(id, incarnation, serial); }
  friend bool operator==(const link_key&, const link_key&) = default;
};

/// The body of `stream`: to which link a connection belongs. The key names the sender.
struct stream_request {
  link_key key;
  std::uint32_t index = 0;  ///< from 0; smaller than the number agreed on

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::byte> encode() const;
  CAUSEWAY_DECL static result<stream_request> decode(std::span<const std::byte> bytes);
  void fields(auto& wire) { wire(key, index); }
};

/// What the peer with the smaller id knows of its link to the other: for `may_replace`.
struct standing {
  bool alive = false;             ///< a connection stands, or one was taken just now
  std::uint64_t incarnation = 0;  ///< of the other side, on that connection
  std::uint64_t serial = 0;
};

/// Whether a new connection takes the place of what stands. It does not where the other side has not heard yet that a
/// connection was taken (both dialled at once), or still has it. It does where the other side has lost it, or is a new
/// program.
CAUSEWAY_DECL bool may_replace(const standing& ours, std::uint64_t their_incarnation, const wish& theirs) noexcept;

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_meeting.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_MEETING_HPP
