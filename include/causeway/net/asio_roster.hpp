// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_ROSTER_HPP
#define CAUSEWAY_NET_ASIO_ROSTER_HPP

// Everybody that a fabric has met, and which connection with each counts. Pure bookkeeping, without sockets: the fabric
// says whether the link of a peer is alive.

#include <causeway/core/result.hpp>
#include <causeway/net/asio_meeting.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/fabric.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

inline std::string name_of(peer_id id) { return "peer " + std::to_string(id); }

class roster {
 public:
  /// A peer that we met. Its number is that of its link.
  struct place {
    peer_id id = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t serial = 0;  ///< of its last connection
    std::string address;
    std::set<std::string> aliases;   ///< addresses that we dialled and found it at
    std::uint64_t connected_at = 0;  ///< when its last connection was made, counted in connections
    std::uint32_t streams = 1;       ///< for data
    std::uint64_t streams_seen = 0;  ///< one bit for each
    bool told = false;               ///< on_up was the last that was told of it
  };

  CAUSEWAY_DECL roster(peer_id self, std::uint64_t incarnation, std::size_t most_peers);

  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  place& operator[](peer_index peer) { return places_[peer]; }
  const place& operator[](peer_index peer) const { return places_[peer]; }

  CAUSEWAY_DECL [[nodiscard]] std::optional<peer_index> find(peer_id id) const;

  /// Why we do not talk to this peer; null if we do. `alive(peer)`: its link stands.
  template <class Alive>
  [[nodiscard]] std::optional<error> objection(const introduction& them, Alive alive) const {
    if (them.id == self_ && them.incarnation == incarnation_) {
      return fail(errc::invalid_argument, "", "that is this peer itself");
    }
    if (them.id == self_) {
      return fail(errc::invalid_argument, "",
                  "two peers have the id " + std::to_string(self_) + "; each needs its own folder, and with it its own id");
    }
    if (!find(them.id) && places_.size() >= most_peers_ && !longest_gone(alive)) {
      return fail(errc::too_large, "", "this peer has as many connections as it may have; try another one");
    }
    return std::nullopt;
  }

  /// What a peer with a smaller id wants to know.
  CAUSEWAY_DECL [[nodiscard]] wish wish_for(const introduction& them, bool alive) const;

  /// The number of a new connection with a peer with a larger id, or 0 if another one counts. One that was chosen counts
  /// until it is claimed or given back.
  CAUSEWAY_DECL std::uint64_t choose(const introduction& them, const wish& theirs, bool alive);

  CAUSEWAY_DECL void give_back(peer_id id, std::uint64_t serial);

  /// A connection stands; whether it counts. Of those that we chose only the last does.
  CAUSEWAY_DECL bool claim(peer_id id, std::uint64_t serial);

  /// The place of a peer; if it has none a new one, or that of whoever is gone the longest. Null when all are taken.
  template <class Alive>
  std::optional<peer_index> place_for(peer_id id, Alive alive) {
    if (const auto known = find(id)) return known;
    auto peer = static_cast<peer_index>(places_.size());
    if (places_.size() >= most_peers_) {
      const auto free = longest_gone(alive);
      if (!free) return std::nullopt;
      peer = *free;
      numbers_.erase(places_[peer].id);
      places_[peer] = {};
    } else {
      places_.emplace_back();
    }
    numbers_[id] = peer;
    places_[peer].id = id;
    return peer;
  }

  /// A connection became the link of a place.
  CAUSEWAY_DECL void connected(peer_index peer, const introduction& us, const introduction& them, std::uint64_t serial,
                               const std::string& dialled);

  /// The place whose link lacks this stream.
  CAUSEWAY_DECL [[nodiscard]] std::optional<peer_index> lacking(const stream_request& which) const;

 private:
  static constexpr std::size_t most_aliases = 16;

  template <class Alive>
  [[nodiscard]] std::optional<peer_index> longest_gone(Alive alive) const {
    std::optional<peer_index> oldest;
    for (peer_index p = 0; p < places_.size(); ++p) {
      if (!alive(p) && (!oldest || places_[p].connected_at < places_[*oldest].connected_at)) oldest = p;
    }
    return oldest;
  }

  peer_id self_;
  std::uint64_t incarnation_;
  std::size_t most_peers_;
  std::vector<place> places_;  // by link
  std::map<peer_id, peer_index> numbers_;
  std::map<peer_id, standing> choices_;  // connections that we chose and that are about to be taken
  std::uint64_t last_serial_ = 0;
  std::uint64_t connections_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_roster.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_ROSTER_HPP
