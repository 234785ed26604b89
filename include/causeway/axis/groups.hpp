// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_GROUPS_HPP
#define CAUSEWAY_AXIS_GROUPS_HPP

// Who exchanges with whom. All peers work out the same groups from the run's seed and the number of the exchange, so that
// nobody has to be asked. Every peer is in exactly one group of an exchange.

#include <causeway/axis/parts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// Which exchange of which run a group is for. `number` counts exchanges from 0.
struct group_question {
  std::uint64_t seed = 0;
  std::uint64_t number = 0;
  net::peer_index self = 0;
  std::uint32_t peers = 1;
  std::size_t fragment = 0;              ///< which part of the parameters
  std::span<const double> link_costs{};  ///< as measured, equal on all peers; empty: they are not
};

/// - `check(peers)`: errc::invalid_argument for options that do not fit that many peers; 0: any number, for they come and
///   go;
/// - `members(question)`: the peers of self's group, ascending, self included;
/// - `formed(question)`: that exchange is over; groups with a memory move on;
/// - `everybody`: there is only one group;
/// - optional, `lasting`: a fragment's groups are the same in all exchanges, so that their members stay alike;
///   `cycle()`: of groups with a memory, after how many exchanges it can begin anew where peers come and go;
///   `check_fragments(count)`: as check; `weight(question)`: what self's row counts in its group's mean, above 0;
///   `length(question)`: how many times longer the group's mean pseudo-gradient is made, equal in the group.
template <class G>
concept Group = G::decides == part::group&& requires(G& g, const G& c, const group_question& q) {
  { c.check(q.peers) } -> std::same_as<result<void>>;
  { c.members(q) } -> std::same_as<std::vector<net::peer_index>>;
  { g.formed(q) } -> std::same_as<void>;
  {bool{G::everybody}};
};

/// Whether a fragment's groups are the same in all exchanges.
template <class G>
inline constexpr bool groups_last = (requires { requires G::lasting; });

/// errc::invalid_argument where `named`: `what` names peers by their numbers, which change where peers come and go.
CAUSEWAY_DECL result<void> refuse_numbers(const char* what, bool named);

namespace detail {

/// The peers in an order drawn from `draw`.
CAUSEWAY_DECL std::vector<net::peer_index> shuffled(std::uint32_t peers, rng draw);

inline constexpr std::uint64_t group_stream = 0x67726F757073;

}  // namespace detail

/// All peers together.
struct all_peers {
  static constexpr part decides = part::group;
  static constexpr bool everybody = true;

  [[nodiscard]] result<void> check(std::uint32_t) const { return {}; }
  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> members(const group_question& q) const;
  void formed(const group_question&) {}
  void serialize(auto&) {}
};

/// Groups of `size` peers, drawn anew for every exchange; peers that are left over join the last group (NoLoCo: pairs).
/// With N peers in r = N / size groups, averaging once leaves (r−1)/(N−1) of the variance on average.
struct random_groups {
  static constexpr part decides = part::group;
  static constexpr bool everybody = false;

  std::uint32_t size = 2;

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::uint32_t peers) const;

  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> members(const group_question& q) const;
  void formed(const group_question&) {}
  void serialize(auto&) {}
};

/// Moshpit's grid (Ryabinin et al. 2021, section 3.2): peers sit in a grid of `dimensions` axes with `side` places each.
/// Exchange t is among the peers that differ only on axis t mod d; afterwards each takes a place of its own on that axis,
/// so that members of one group meet others next time. With side^dimensions peers, d exchanges give the exact mean of all.
class grid {
 public:
  static constexpr part decides = part::group;
  static constexpr bool everybody = false;

  CAUSEWAY_DECL grid();
  CAUSEWAY_DECL grid(std::uint32_t side, std::uint32_t dimensions);

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::uint32_t) const;

  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> members(const group_question& q) const;

  CAUSEWAY_DECL void formed(const group_question& q);
  [[nodiscard]] std::uint32_t cycle() const noexcept { return dimensions_; }

  void serialize(auto& ar) { ar(places_); }

 private:
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t axis_of(const group_question& q) const;

  // At the start peers fill the grid in order: peer p at the digits of p.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> places(std::uint32_t peers) const;

  CAUSEWAY_DECL [[nodiscard]] bool meets(const std::vector<std::uint32_t>& places, net::peer_index a, net::peer_index b,
                                         std::uint32_t axis) const;

  std::uint32_t side_;
  std::uint32_t dimensions_;
  std::vector<std::uint32_t> places_;  // empty: everybody where they started
};

/// Hivemind's form of the grid: a key of `bits` bits per peer. Peers with equal keys form a group; afterwards each member
/// appends its number in the group to the key, `step` bits of it, and the oldest bits drop out. With 2^(bits+step) peers
/// all groups have 2^step members.
class key_groups {
 public:
  static constexpr part decides = part::group;
  static constexpr bool everybody = false;

  CAUSEWAY_DECL key_groups();
  CAUSEWAY_DECL key_groups(std::uint32_t bits, std::uint32_t step);

  CAUSEWAY_DECL [[nodiscard]] result<void> check(std::uint32_t) const;

  CAUSEWAY_DECL [[nodiscard]] std::vector<net::peer_index> members(const group_question& q) const;

  CAUSEWAY_DECL void formed(const group_question& q);
  [[nodiscard]] std::uint32_t cycle() const noexcept { return bits_ / step_ + 1; }

  void serialize(auto& ar) { ar(keys_); }

 private:
  [[nodiscard]] std::uint32_t mask() const { return (1U << bits_) - 1U; }

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> keys(std::uint32_t peers) const;

  std::uint32_t bits_;
  std::uint32_t step_;
  std::vector<std::uint32_t> keys_;  // empty: as at the start
};

static_assert(Group<all_peers> && Group<random_groups> && Group<grid> && Group<key_groups>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/groups.ipp>
#endif

#endif  // CAUSEWAY_AXIS_GROUPS_HPP
