// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_HUB_LINE_HPP
#define CAUSEWAY_COMM_HUB_LINE_HPP

// What a hub and one of its clients say to each other: messages in both directions, each in order, any number of them under
// way. And what these messages begin with.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

enum class hub_word : std::uint32_t {
  hello = 1,  ///< client: who I am and what I wait for; hub: what I have of you
  push,       ///< client: a fragment's row
  waits,      ///< client: I do nothing before this push is answered
  done,       ///< client: nothing more will come
  answer,     ///< hub: a fragment's shared parameters
  last,       ///< hub: all shared parameters, for good
  refused,    ///< hub: what you sent cannot be used, go away
};

/// Of a message to a hub. Plain numbers: hostile until checked.
struct push_header {
  hub_word word = hub_word::push;
  std::uint32_t fragment = 0;
  std::uint64_t number = 0;   ///< of this client's pushes of this fragment, from 1
  std::uint64_t samples = 0;  ///< trained on since the last answer was applied
  double speed = 0;           ///< inner steps a second of computing; 0: unknown
  double sync_seconds = 0;    ///< from the push before to its answer, without the time that it lay at the hub
  std::uint32_t wants_answer = 1;
  std::uint32_t steps = 0;  ///< inner steps that the samples were trained on in
};

/// Of a message from a hub.
struct answer_header {
  hub_word word = hub_word::answer;
  std::uint32_t fragment = 0;
  std::uint64_t number = 0;  ///< of the push that is answered
  double held_seconds = 0;   ///< from its arrival to the answer
  std::uint32_t steps = 0;   ///< inner steps before the next push; 0: as before
  std::uint32_t code = 0;    ///< why it was refused; of an answer: why the push could not be used, 0 where it was
};

std::vector<std::byte> with_header(const auto& h, std::size_t payload) {
  std::vector<std::byte> bytes(sizeof h + payload);
  std::memcpy(bytes.data(), &h, sizeof h);
  return bytes;
}

/// The header of a message, and its payload in `bytes`.
template <class Header>
result<Header> take_header(std::span<const std::byte>& bytes, net::peer_index from) {
  Header h;
  if (bytes.size() < sizeof h) {
    return fail(errc::protocol, "peer " + std::to_string(from),
                "it sent a message that is too short; do all peers run the same version?");
  }
  std::memcpy(&h, bytes.data(), sizeof h);
  bytes = bytes.subspan(sizeof h);
  return h;
}

/// Returns at `end`. A transport can wait for one operation only, and who talks on several lines has to look at all of
/// them: so it waits for a message that `other` never sends, and then looks.
CAUSEWAY_DECL void nap(net::any_transport& transport, net::peer_index other, time_point end);

/// One end. Stays where it is: the transport knows its buffers. Destroying it cancels what is under way.
class hub_line {
 public:
  hub_line(net::any_transport& transport, net::peer_index peer, std::uint32_t out, std::uint32_t in, std::size_t most)
      : transport_{transport}, peer_{peer}, out_{out}, in_{in}, buffer_(most) {}
  hub_line(const hub_line&) = delete;
  hub_line& operator=(const hub_line&) = delete;

  [[nodiscard]] net::peer_index peer() const noexcept { return peer_; }

  /// Whether `take` would return at once.
  CAUSEWAY_DECL [[nodiscard]] bool arrived();

  /// The next message; valid until the next call of arrived or take.
  CAUSEWAY_DECL result<std::span<const std::byte>> take(time_point deadline);

  CAUSEWAY_DECL void send(std::vector<std::byte> bytes);

  /// Forgets sends that have ended.
  CAUSEWAY_DECL result<void> sweep();
  /// Whether some have not ended, as of the last sweep.
  [[nodiscard]] bool is_sending() const noexcept { return !outgoing_.empty(); }
  /// Waits for all sends.
  CAUSEWAY_DECL result<void> flush(time_point deadline);

 private:
  struct departure {
    std::vector<std::byte> bytes;
    net::scoped_operation operation;
  };

  CAUSEWAY_DECL void listen();

  CAUSEWAY_DECL result<void> end_oldest(time_point deadline);

  net::any_transport& transport_;
  net::peer_index peer_;
  std::uint32_t out_;
  std::uint32_t in_;
  std::vector<std::byte> buffer_;
  net::scoped_operation receive_;
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;
  std::deque<departure> outgoing_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/comm/impl/hub_line.ipp>
#endif

#endif  // CAUSEWAY_COMM_HUB_LINE_HPP
