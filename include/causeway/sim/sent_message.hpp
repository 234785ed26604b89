// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_SENT_MESSAGE_HPP
#define CAUSEWAY_SIM_SENT_MESSAGE_HPP

// Messages between simulated hosts, and where used ones wait for their next use: their memory would otherwise go back to
// the operating system and come from it again in every round, which cost more than all the rest of the simulator.

#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

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

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/sent_message.ipp>
#endif

#endif  // CAUSEWAY_SIM_SENT_MESSAGE_HPP
