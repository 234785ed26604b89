// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_MEETING_HPP
#define CAUSEWAY_NET_ASIO_MEETING_HPP

// What two peers of a fabric tell each other on a new connection, and which connection becomes their link. Both say who
// they are. Then the peer with the smaller id decides alone, so that two who dial each other at once cannot decide
// differently: the other one says which connection it had last and whether that still stands; the smaller one takes the new
// connection, under a number that only grows, or declines it.

#include <causeway/core/result.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/fields.hpp>
#include <causeway/net/frame.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
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

// Everybody that a fabric has met, and which connection with each counts. Pure bookkeeping, without sockets: the fabric
// says whether the link of a peer is alive.

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
#include <causeway/net/impl/asio_meeting.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_MEETING_HPP
