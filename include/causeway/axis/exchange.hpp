// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_EXCHANGE_HPP
#define CAUSEWAY_AXIS_EXCHANGE_HPP

// How the mean over a group is found: a topology with a codec. Values here are recipes: copyable, with options only; `make`
// gives the exchange (collective/) that does the work for one fragment. Any codec of compress/ fits, as far as the
// topology's rules allow: see the static_asserts of comm::rounds.

#include <causeway/axis/parts.hpp>
#include <causeway/collective/aggregator.hpp>
#include <causeway/collective/exchange.hpp>
#include <causeway/collective/gather_mean.hpp>
#include <causeway/collective/link_times.hpp>
#include <causeway/collective/link_trees.hpp>
#include <causeway/collective/quantised_ring.hpp>
#include <causeway/collective/split_mean.hpp>
#include <causeway/collective/tree_mean.hpp>
#include <causeway/collective/tree_relays.hpp>
#include <causeway/collective/two_level_mean.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/net/transport.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// `make(fragment)`: a new collective exchange. `traits`: its traits. `codec_type`: what makes a peer's message, where it
/// is a codec's.
template <class E>
concept ExchangeRecipe = E::decides == part::exchange&& Copyable<E>&& requires {
  { E::traits } -> std::same_as<const collective::exchange_traits&>;
};

/// Whether a recipe has no exchange of its own: the context's mean over all peers is used, in one piece, through `codec`.
template <ExchangeRecipe E>
inline constexpr bool by_context = !(requires(const E& e) { e.make(std::size_t{}); });

/// What a recipe's codec says of its messages; where it has none, they have all coordinates.
template <ExchangeRecipe E>
constexpr compress::codec_traits message_traits() {
  if constexpr (requires { typename E::codec_type; }) {
    return E::codec_type::traits;
  } else {
    return {};
  }
}

/// Whether a recipe's codecs are codecs.
template <class E>
constexpr bool has_codecs() {
  bool good = true;
  if constexpr (requires { typename E::codec_type; }) good = compress::is_of_codec<typename E::codec_type>;
  if constexpr (requires { typename E::down_type; }) good = good && compress::is_of_codec<typename E::down_type>;
  return good;
}

/// The context's mean over all peers: butterfly or ring, whatever suits the size, in chunks that overlap each other.
/// Blocks. Works where peers come and go. Bytes: 2(n−1)/n times the encoded row.
template <compress::Codec Codec = compress::none>
struct all_reduce {
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = true, .counts = false, .stateful = false};

  Codec codec{};
};

/// Everybody's message to everybody; each decodes all of them (collective/gather_mean.hpp). For codecs with which every
/// peer sends coordinates of its own choice, and for small groups. Bytes: (n−1) messages.
template <class Codec = compress::none, class Aggregator = collective::mean>
struct gather_mean {
  using codec_type = compress::as_message<Codec>;
  using type = collective::gather_mean<codec_type, Aggregator>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  Codec codec{};
  Aggregator aggregator{};

  [[nodiscard]] type make(std::size_t = 0) const { return type{codec_type{codec}, aggregator}; }
};

/// Every peer reduces a share of the row, and sends its mean to the others (collective/split_mean.hpp): a butterfly with
/// shares, or a sharded parameter server when only some peers have one. With a lossy `Down`, the owners' residual is kept
/// when split_options::server_residual says so. Bytes: (1 − s) rows up and (n−1)·s rows down, for a share s.
template <class Up = compress::none, class Down = Up>
struct split_mean {
  using codec_type = compress::as_message<Up>;
  using down_type = compress::as_message<Down>;
  using type = collective::split_mean<codec_type, down_type>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  collective::split_options options{};
  Up up{};
  Down down{};

  [[nodiscard]] type make(std::size_t = 0) const { return type{options, codec_type{up}, down_type{down}}; }
};

/// Around a ring, encoded anew on every hop, finished so that all peers hold the same bits (collective/quantised_ring.hpp).
/// Bytes: 2(n−1)/n encoded rows, to one neighbour only. No residual: partial sums are encoded, not this peer's row.
template <class Codec = compress::none>
struct quantised_ring {
  using codec_type = compress::as_message<Codec>;
  using type = collective::quantised_ring<codec_type>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  Codec codec{};

  [[nodiscard]] type make(std::size_t = 0) const { return type{codec_type{codec}}; }
};

/// Up a tree to its root and down again (collective/tree_mean.hpp): fragment f has the root roots[f mod size], so that
/// several roots share the work. For small rows and many peers. Bytes: a row to the parent, one to each child. With
/// `links.every` peers of a fixed set measure their links, after so many exchanges again, and each fragment's tree follows
/// them (collective/link_trees.hpp). With `relays.limit` the end of a row goes by third peers while too many messages of
/// the fragments wait for the direct line (collective/tree_relays.hpp).
template <class Up = compress::none, class Down = Up>
struct tree_mean {
  using codec_type = compress::as_message<Up>;
  using down_type = compress::as_message<Down>;
  using type = collective::tree_mean<codec_type, down_type>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  std::uint32_t arity = 2;
  std::vector<net::peer_index> roots{0};
  Up up{};
  Down down{};
  collective::link_probe links{};
  collective::relay_options relays{};

  [[nodiscard]] type make(std::size_t fragment = 0) const {
    return type{
        {.arity = arity, .root = roots[fragment % roots.size()], .relays = relays}, codec_type{up}, down_type{down}};
  }
  /// How that exchange goes on where links cost so much.
  [[nodiscard]] std::vector<net::peer_index> plan(const collective::link_costs& costs, std::size_t fragment) const {
    return collective::link_tree(costs, roots, fragment, arity);
  }
};

/// The mean of each region at its hub, the hubs' mean among each other through `Across`, and back (collective/
/// two_level_mean.hpp): what crosses regions is one row for each of them. Regions list all peers, hubs first. Where there
/// are none, and so where peers come and go, each peer says in every exchange in which one it is, and the first of those
/// who are there is the hub.
template <class Across = split_mean<>, class Up = compress::none, class Down = Up>
struct two_level_mean {
  using codec_type = compress::as_message<Up>;
  using down_type = compress::as_message<Down>;
  using type = collective::two_level_mean<codec_type, typename Across::type, down_type>;
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits = type::traits;

  collective::region_list regions{};
  Across across{};
  Up up{};
  Down down{};
  collective::region_label label{};

  [[nodiscard]] type make(std::size_t fragment = 0) const {
    type made{regions, across.make(fragment), codec_type{up}, down_type{down}};
    if (regions.size() == 0) made.set_label(label);
    return made;
  }
};

static_assert(ExchangeRecipe<all_reduce<>> && ExchangeRecipe<gather_mean<>> && ExchangeRecipe<split_mean<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_EXCHANGE_HPP
