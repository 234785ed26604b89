// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_FLIGHT_HPP
#define CAUSEWAY_COLLECTIVE_FLIGHT_HPP

// The sends and receives that one collective has under way. Buffers belong to the caller, so a collective must not return
// while the transport still reads or writes them: whatever is under way when this object goes, is cancelled.

#include <causeway/collective/channels.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/scoped_operation.hpp>
#include <causeway/net/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

inline std::string peer_name(net::peer_index peer) { return "peer " + std::to_string(peer); }

/// Which message of a collective.
struct part {
  std::uint32_t phase = 0;  ///< below channel_stride
  std::size_t chunk = 0;
};

namespace detail {

CAUSEWAY_DECL net::message_id id_of(net::message_id id, const part& what);

/// An error says which peer was waited for.
CAUSEWAY_DECL result<std::size_t> naming(net::peer_index peer, result<std::size_t> moved);

CAUSEWAY_DECL result<void> without_size(result<std::size_t> moved);

}  // namespace detail

/// Numbered places, each empty or holding one operation of a collective on `id`. What the message is, its phase and the
/// number of its chunk, becomes part of its channel.
template <net::Transport T>
class flight {
 public:
  flight(T& transport, const net::message_id& id, time_point deadline, std::vector<net::scoped_operation>& places,
         std::size_t count)
      : transport_{transport}, id_{id}, deadline_{deadline}, places_{places} {
    places_.clear();
    places_.resize(count);
  }
  flight(const flight&) = delete;
  flight& operator=(const flight&) = delete;
  ~flight() { places_.clear(); }

  [[nodiscard]] net::peer_index self() const { return transport_.self(); }
  [[nodiscard]] std::uint32_t size() const { return transport_.size(); }

  void send(std::size_t place, net::peer_index to, const part& what, std::span<const std::byte> bytes) {
    CAUSEWAY_EXPECT(!places_[place].started());
    places_[place] = {transport_, transport_.send(to, detail::id_of(id_, what), bytes)};
  }

  void receive(std::size_t place, net::peer_index from, const part& what, std::span<std::byte> buffer) {
    CAUSEWAY_EXPECT(!places_[place].started());
    places_[place] = {transport_, transport_.receive(from, detail::id_of(id_, what), buffer)};
  }

  /// One more place than the constructor was asked for.
  std::size_t add_place() {
    places_.emplace_back();
    return places_.size() - 1;
  }

  /// Bytes moved by the operation in `place`; 0 where there is none. An error names the peer.
  result<std::size_t> wait(std::size_t place, net::peer_index peer) {
    return detail::naming(peer, places_[place].wait(deadline_));
  }

  /// As wait, for a send.
  result<void> finish(std::size_t place, net::peer_index peer) { return detail::without_size(wait(place, peer)); }

  /// As wait, for a message whose length is known.
  result<void> wait_exact(std::size_t place, net::peer_index peer, std::size_t bytes) {
    CAUSEWAY_ASSIGN(const std::size_t moved, wait(place, peer));
    if (moved != bytes) {
      return fail(errc::protocol, peer_name(peer),
                  "it sent " + std::to_string(moved) + " bytes where " + std::to_string(bytes) +
                      " belong; do all peers run the same model, options and version?");
    }
    return {};
  }

 private:
  T& transport_;
  net::message_id id_;
  time_point deadline_;
  std::vector<net::scoped_operation>& places_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/flight.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_FLIGHT_HPP
