// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_CONVERSATION_HPP
#define CAUSEWAY_COLLECTIVE_CONVERSATION_HPP

// The sends and receives of an exchange that is cut into phases: as `flight`, but it lives in the exchange and stays open
// between its calls. Closing it, and destroying it, cancels what is under way: buffers are free again.

#include <causeway/collective/exchange.hpp>
#include <causeway/collective/flight.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// Numbered places, each empty or holding one operation. Movable: buffers belong to somebody else. Not thread-safe.
class conversation {
 public:
  CAUSEWAY_DECL void open(const exchange_port& port, std::size_t places);

  [[nodiscard]] bool is_open() const noexcept { return !places_.empty(); }

  /// Cancels what is under way.
  void close() { places_.clear(); }

  CAUSEWAY_DECL net::operation send(std::size_t place, net::peer_index to, const part& what,
                                    std::span<const std::byte> bytes);

  CAUSEWAY_DECL void receive(std::size_t place, net::peer_index from, const part& what, std::span<std::byte> buffer);

  /// Of the transport; 0 where the place is empty.
  [[nodiscard]] net::operation at(std::size_t place) const { return places_[place].number(); }
  /// Whether `wait` returns at once.
  [[nodiscard]] bool done(std::size_t place) const { return places_[place].done(); }
  /// As Transport::wait_any.
  bool wait_any(std::span<const net::operation> ops, time_point deadline) { return transport_->wait_any(ops, deadline); }

  /// Bytes moved by the operation in `place`; 0 where there is none. An error names the peer, and closes.
  CAUSEWAY_DECL result<std::size_t> wait(std::size_t place, net::peer_index peer, time_point deadline);

  /// As wait, for a send.
  CAUSEWAY_DECL result<void> finish(std::size_t place, net::peer_index peer, time_point deadline);

 private:
  net::any_transport* transport_ = nullptr;
  net::message_id id_;
  std::vector<net::scoped_operation> places_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/conversation.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_CONVERSATION_HPP
