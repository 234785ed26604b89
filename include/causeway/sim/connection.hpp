// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_CONNECTION_HPP
#define CAUSEWAY_SIM_CONNECTION_HPP

// Connections as the kernels of two hosts know them, and what travels on them. Each way has three lanes (control, data,
// bulk): pieces of a lane keep their order, and an earlier lane goes first. A piece of a message carries only its size; the
// message itself rides on its last piece.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/sim/links.hpp>
#include <causeway/sim/options.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

// First in, first out, in one block of memory that grows by doubling; unused it owns nothing. A simulated network has
// millions of queues, most of them never used and the others for a message at a time: std::deque would spend half a
// kilobyte on each.

template <class T>
class queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void push(T value) {
    if (size_ == places_.size()) grow();
    places_[(first_ + size_++) & (places_.size() - 1)] = std::move(value);
  }

  [[nodiscard]] T& front() {
    CAUSEWAY_EXPECT(size_ != 0);
    return places_[first_];
  }

  T pop() {
    T value = std::move(front());
    places_[first_] = T{};
    first_ = (first_ + 1) & (places_.size() - 1);
    --size_;
    return value;
  }

  /// Frees the memory too.
  void clear() { *this = queue{}; }

  /// Takes out what `unwanted(value)` says, the others keep their order.
  template <class F>
  void erase_if(F&& unwanted) {
    for (std::size_t n = size_; n != 0; --n) {
      T value = pop();
      if (!unwanted(value)) push(std::move(value));
    }
  }

 private:
  void grow() {
    std::vector<T> bigger(places_.empty() ? 1 : 2 * places_.size());
    for (std::size_t i = 0; i < size_; ++i) bigger[i] = std::move(places_[(first_ + i) & (places_.size() - 1)]);
    places_ = std::move(bigger);
    first_ = 0;
  }

  std::vector<T> places_;  // as many as a power of two
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

// Messages between simulated hosts, and where used ones wait for their next use: their memory would otherwise go back to
// the operating system and come from it again in every round, which cost more than all the rest of the simulator.

enum class lane : std::uint8_t { control, data, bulk };
inline constexpr std::size_t lanes = 3;

enum class content : std::uint8_t { hello, welcome, refusal, control, data, goodbye };

/// One message on its way.
struct sent_message {
  content what = content::control;
  lane way = lane::control;
  bool aborted = false;                  ///< the sender gave it up after a part of it
  std::uint32_t operation = UINT32_MAX;  ///< of the sender; to be told when the last piece is on the wire
  net::message_id id{};                  ///< of data
  std::uint64_t from_id = 0;             ///< of hello and welcome: who speaks
  std::vector<std::byte> bytes{};
  std::uint64_t wire_bytes = 0;
  std::uint64_t sent = 0;
};

class message_pool;

/// Takes a message back to its pool; without one, frees it.
struct message_return {
  message_pool* pool = nullptr;
  CAUSEWAY_DECL void operator()(sent_message* p) const;
};
using sent_message_ptr = std::unique_ptr<sent_message, message_return>;

/// Must outlive its messages.
class message_pool {
 public:
  message_pool() = default;
  message_pool(const message_pool&) = delete;
  message_pool& operator=(const message_pool&) = delete;

  /// An empty message; its `bytes` may have room already.
  CAUSEWAY_DECL [[nodiscard]] sent_message_ptr make(content what, lane way);

  CAUSEWAY_DECL void take_back(std::unique_ptr<sent_message> p);

  /// Bytes of memory that wait.
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_; }

 private:
  static constexpr std::size_t most_messages = 4096;
  static constexpr std::size_t most_bytes = std::size_t{16} << 20U;

  std::vector<std::unique_ptr<sent_message>> free_;
  std::size_t held_ = 0;
};

struct piece {
  std::uint64_t bytes = 0;
  duration spread{0};     ///< from its first bit to its last
  sent_message_ptr last;  ///< the message, if this is its last piece
};

/// One end of a connection: which one, and which side. Never names a later connection.
struct end_ref {
  std::uint64_t value = 0;  ///< slot (32 bits), generation (31), side (1); 0 names none

  [[nodiscard]] static end_ref make(std::uint32_t slot, std::uint32_t generation, unsigned side) {
    return {std::uint64_t{slot} << 32U | std::uint64_t{generation} << 1U | side};
  }
  [[nodiscard]] std::uint32_t slot() const noexcept { return static_cast<std::uint32_t>(value >> 32U); }
  [[nodiscard]] std::uint32_t generation() const noexcept { return static_cast<std::uint32_t>(value) >> 1U; }
  [[nodiscard]] unsigned side() const noexcept { return static_cast<unsigned>(value & 1U); }
  [[nodiscard]] end_ref other() const noexcept { return {value ^ 1U}; }
  friend bool operator==(const end_ref&, const end_ref&) = default;
};

/// Whose sockets they are. Called only while the host's process can run; never for an end that it closed itself.
class socket_owner {
 public:
  virtual ~socket_owner() = default;
  /// A dial succeeded: `end` is ours. `tag` is what the dial was given.
  virtual void on_connected(end_ref end, std::uint64_t tag) = 0;
  virtual void on_refused(std::uint64_t tag, const error& why) = 0;
  virtual void on_message(end_ref end, sent_message_ptr message) = 0;
  virtual void on_closed(end_ref end, const error& why) = 0;
  /// The last piece of a message is on the wire. Comes at any time, also from inside a call of ours.
  virtual void on_sent(end_ref end, std::uint32_t operation) = 0;
};

/// One way of a connection.
struct flow {
  enum class state : std::uint8_t { idle, ready, paced };  ///< ready: queued at the uplink; paced: an event will go on

  host_index from = no_host;
  host_index to = no_host;
  link* there = nullptr;
  link* back = nullptr;
  std::array<queue<sent_message_ptr>, lanes> waiting;
  queue<piece> wire;      ///< between uplink and downlink, in the order of arrival
  queue<piece> held;      ///< arrived where the line is a black hole
  queue<piece> arriving;  ///< in the downlink
  queue<piece> unread;    ///< in the kernel of a stopped process
  state now = state::idle;
  bool paused = false;     ///< the receiver has no room for data
  bool releasing = false;  ///< an event will let `held` out
  time_point last_arrival;
  time_point last_delivery;
  time_point next_start;          ///< no piece starts before: the connection's own rate
  std::uint64_t outstanding = 0;  ///< bytes on their way and not acknowledged
  std::uint64_t unread_bytes = 0;
  std::uint64_t unacknowledged = 0;  ///< taken in without an acknowledgement, for want of room or of a way back
  double cap = unlimited;            ///< bytes/s; from here on worked out from the line, as of `version`
  std::uint64_t window = 0;
  std::uint64_t version = 0;
};

struct connection {
  struct end {
    socket_owner* owner = nullptr;
    bool open = false;
  };

  std::uint32_t generation = 1;
  bool used = false;
  bool broken = false;  ///< nothing travels any more but the news of it
  bool silent = false;  ///< one side lost power: the other hears nothing
  std::string why;      ///< what the side that ended it gave as reason
  std::array<end, 2> ends;
  std::array<flow, 2> flows;  ///< [s]: from ends[s] to the other
};

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/connection.ipp>
#endif

#endif  // CAUSEWAY_SIM_CONNECTION_HPP
