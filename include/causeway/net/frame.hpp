// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_FRAME_HPP
#define CAUSEWAY_NET_FRAME_HPP

// The wire format: everything on a connection is a frame, and a frame is a header of 80 bytes, a digest of 8 bytes where
// the header announces one, and at most 4 MiB behind it. Encoding and decoding are pure functions. A header that decodes
// has the right magic and version, a valid checksum, a known kind, and lengths that are within their limits and consistent
// with each other. docs/reference/wire_format.md has the table.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/transport.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

inline constexpr std::uint32_t frame_magic = 0x59575343U;  ///< "CSWY"
inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::size_t header_bytes = 80;
inline constexpr std::size_t max_chunk_bytes = std::size_t{4} << 20U;
inline constexpr std::size_t min_chunk_bytes = std::size_t{4} << 10U;
inline constexpr std::size_t max_handshake_bytes = std::size_t{64} << 10U;
inline constexpr std::size_t max_control_bytes = std::size_t{512} << 10U;
inline constexpr std::size_t max_piece_bytes = std::size_t{60} << 10U;  ///< most of one piece of what somebody asks for
inline constexpr std::size_t max_refusal_text = 4096;
inline constexpr std::size_t digest_bytes = sizeof(std::uint64_t);
inline constexpr std::uint64_t max_message_bytes = std::uint64_t{1} << 36U;

/// Gives the bytes of `item` from `offset` on: as many as it likes, at most max_piece_bytes. None where there is nothing:
/// the other side takes that for the end. Called in the event loop of the run: it must not block for long.
using piece_source = std::function<std::vector<std::byte>(std::uint32_t item, std::uint64_t offset)>;

enum class frame_kind : std::uint8_t {
  data = 1,        ///< one chunk of a message
  abort = 2,       ///< the sender gave a message up; `chunk_offset` says how many of its bytes were sent
  heartbeat = 3,   ///< "I am here"; no content
  goodbye = 4,     ///< nothing follows on this stream
  hello = 5,       ///< joiner to host: who I am and what I want
  accepted = 6,    ///< host to joiner: your index; repeated with the number of peers while it waits for the others
  table = 7,       ///< host to joiners: everybody's address
  link = 8,        ///< first frame of a stream between two peers
  link_ok = 9,     ///< answer to `link`
  ready = 10,      ///< joiner to host: all my streams are up
  go = 11,         ///< host to joiners: everybody is ready
  refused = 12,    ///< an errc and a sentence; the connection ends
  welcome = 13,    ///< host to joiners: bytes of the program, before the table
  control = 14,    ///< a control message of a fabric, whole
  meet = 15,       ///< fabric, both sides: who I am
  want = 16,       ///< fabric, higher id to lower: which connection I had last
  take = 17,       ///< fabric, lower id to higher: this connection is our link
  stream = 18,     ///< fabric: first frame of a stream for data, of a link that stands
  stream_ok = 19,  ///< answer to `stream`
  ask = 20,        ///< a stranger to a run, of any id: what are you?
  told = 21,       ///< answer to `ask`: a piece of what the program says to newcomers

  memory_offer = 22,    ///< this stream could move to shared memory; `id.step` says where to fetch it
  memory_taken = 23,    ///< the sender's last frame over TCP: its next one is in shared memory
  memory_declined = 24  ///< answer to `memory_offer`: the stream stays as it is
};

/// The one flag of this version: a digest of the content, `hash_bytes` of it, stands between header and content.
inline constexpr std::uint8_t has_digest = 1;

/// The header of every frame. `sequence` counts the messages of a link; chunks of one message share it and may come over
/// several streams in any order.
struct frame_header {
  frame_kind kind = frame_kind::data;
  std::uint8_t flags = 0;  ///< `has_digest` or 0
  std::uint64_t run_id = 0;
  peer_index sender = 0;
  message_id id = {};
  std::uint64_t sequence = 0;
  std::uint64_t message_length = 0;
  std::uint64_t chunk_offset = 0;
  std::uint32_t chunk_length = 0;  ///< bytes that follow this header

  friend constexpr bool operator==(const frame_header&, const frame_header&) = default;
};

using header_block = std::array<std::byte, header_bytes>;

namespace detail {

constexpr std::size_t checksum_offset = header_bytes - sizeof(std::uint64_t);

CAUSEWAY_DECL std::uint64_t header_checksum(const std::byte* header) noexcept;

}  // namespace detail

/// Writes `h` as 80 bytes at `to`.
CAUSEWAY_DECL void encode_header(const frame_header& h, std::byte* to) noexcept;

CAUSEWAY_DECL header_block encode_header(const frame_header& h) noexcept;

namespace detail {

CAUSEWAY_DECL frame_header read_header_fields(byte_reader& in) noexcept;

/// Frames that are said before a connection carries messages.
constexpr bool is_handshake(frame_kind kind) noexcept {
  return kind >= frame_kind::hello && kind <= frame_kind::told && kind != frame_kind::control;
}

CAUSEWAY_DECL const char* broken_control_rule(const frame_header& h) noexcept;

/// The rules between the fields of a header whose checksum holds. Null when all are kept.
CAUSEWAY_DECL const char* broken_rule(const frame_header& h) noexcept;

}  // namespace detail

/// Reads a header from the first 80 of the given bytes. errc::protocol for bytes that are no frame of ours,
/// errc::version_mismatch for another version, errc::corrupt for a wrong checksum, errc::too_large or errc::protocol for
/// a broken rule. Reads nothing beyond the header.
CAUSEWAY_DECL result<frame_header> decode_header(std::span<const std::byte> bytes);

namespace detail {

/// The body of a `refused` frame.
CAUSEWAY_DECL std::vector<std::byte> encode_refusal(const error& why);

CAUSEWAY_DECL error read_refusal(std::string where, std::span<const std::byte> body);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/frame.ipp>
#endif

#endif  // CAUSEWAY_NET_FRAME_HPP
