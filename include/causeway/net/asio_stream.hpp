// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_STREAM_HPP
#define CAUSEWAY_NET_ASIO_STREAM_HPP

// The state of one stream of a link, a TCP connection or shared memory: how far it is in reading and in writing. And what
// all links of a transport share. The link drives it.

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_memory_stream.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/inbox.hpp>
#include <causeway/net/memory_budget.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport_options.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

/// A control message on its way to its reader.
struct control_message {
  std::unique_ptr<std::byte[]> bytes;  ///< left uninitialised until it arrives, so that memory follows what came
  std::size_t length = 0;
  [[nodiscard]] std::span<const std::byte> view() const { return {bytes.get(), length}; }
};

/// Who wants to hear of its links. Called with the context's lock held, in the middle of a link's work: it writes down what
/// it heard and touches no link.
class link_owner {
 public:
  virtual ~link_owner() = default;
  virtual void hear_lost(peer_index peer, const error& why) = 0;
  virtual void hear_control(peer_index peer, control_message message) = 0;
};

/// What all links of one transport share. `mutex` guards it and every link.
struct link_context {
  std::mutex mutex;
  operation_table operations;
  traffic stats;
  transport_options options;
  std::uint64_t run_id = 0;
  peer_index self = 0;  ///< what frames name as their sender
  steady_clock clock;
  link_owner* owner = nullptr;  ///< null: control messages are not for us
  memory_budget early;          ///< messages that came before their receive
  memory_budget unsent;         ///< control messages
  std::vector<std::byte> scrap = std::vector<std::byte>(std::size_t{64} << 10U);  ///< for bytes that nobody wants
};

/// What ends a link that there is no memory for.
CAUSEWAY_DECL error out_of_memory(std::string name);

/// The chunk length of a link of `streams` streams; both sides compute the same.
CAUSEWAY_DECL std::size_t chunk_for(std::size_t wanted, std::size_t streams) noexcept;

/// What a stream is writing: a header, perhaps with a digest behind it, then bytes of a send or of a control message.
struct outgoing_frame {
  std::array<std::byte, header_bytes + digest_bytes> header;
  std::size_t header_length = header_bytes;
  std::size_t header_left = 0;
  const std::byte* body = nullptr;
  std::size_t body_left = 0;
  std::size_t body_length = 0;
  frame_kind kind = frame_kind::data;
  slot_index slot = no_slot;
  std::vector<std::byte> own;  ///< a control message, or the rest of a chunk whose send was cancelled

  [[nodiscard]] bool busy() const { return header_left + body_left != 0; }
  CAUSEWAY_DECL [[nodiscard]] std::array<asio::const_buffer, 2> buffers() const;
  /// Starts a frame of this header and this content.
  CAUSEWAY_DECL void begin(frame_header h, std::span<const std::byte> content, bool digest);
  /// The owner of the bytes wants them back.
  CAUSEWAY_DECL void rescue();
  CAUSEWAY_DECL void consume(std::size_t n);
};

/// One stream of a link, and how far it is in reading and writing. Each direction starts over TCP and may move to shared
/// memory, once, between two frames.
struct stream {
  static constexpr std::size_t staging_bytes = std::size_t{16} << 10U;

  CAUSEWAY_DECL explicit stream(tcp::socket s);

  /// One non-blocking attempt, wherever the direction is now.
  CAUSEWAY_DECL std::size_t send(std::error_code& failure);
  CAUSEWAY_DECL std::size_t receive(const std::array<asio::mutable_buffer, 2>& to, std::error_code& failure);

  CAUSEWAY_DECL void close();
  tcp::socket socket;                     ///< closed once both directions have moved
  std::optional<memory_offer> offer;      ///< ours, not answered yet
  std::unique_ptr<memory_stream> memory;  ///< that the other side has, too
  bool memory_asked = false;              ///< an offer was made; there is no second one
  bool reads_memory = false;
  bool writes_memory = false;
  std::size_t wakes = 0;  ///< handlers of `memory` that are still to come
  bool open = true;
  bool read_armed = false;
  bool write_armed = false;
  bool heard_goodbye = false;
  bool goodbye_due = false;   ///< it follows when the control messages are out
  bool said_goodbye = false;  ///< nothing is written any more
  bool wrote_since_tick = false;
  time_point last_heard;
  duration silent{0};

  std::vector<std::byte> staging;  ///< headers, small chunks, and the beginnings of large ones
  std::size_t begin = 0;
  std::size_t end = 0;
  bool in_chunk = false;
  chunk_target spot;
  std::size_t chunk_left = 0;
  std::optional<frame_header> parked;   ///< a chunk that the inbox has no room for yet
  std::optional<std::uint64_t> digest;  ///< of the chunk that is being read
  control_message control;              ///< being read
  frame_kind control_kind = frame_kind::control;

  outgoing_frame out;
  std::deque<frame_header> notices;  ///< frames without content that go before the next chunk
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_stream.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_STREAM_HPP
