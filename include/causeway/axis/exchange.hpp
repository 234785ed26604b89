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
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::axis {

/// `make()`: a new collective exchange. `traits`: its traits. `by_context`: there is none, the context's own mean over all
/// peers is used, in one piece, through `codec`.
template <class E>
concept ExchangeRecipe = E::decides == part::exchange&& std::copyable<E>&& requires {
  { E::traits } -> std::same_as<const collective::exchange_traits&>;
  {bool{E::by_context}};
  {bool{E::sparse}};
  {bool{E::shared_support}};
};

/// The context's mean over all peers: butterfly or ring, whatever suits the size, in chunks that overlap each other.
/// Blocks. Works where peers come and go. Bytes: 2(n−1)/n times the encoded row.
template <compress::Codec Codec = compress::none>
struct all_reduce {
  static constexpr part decides = part::exchange;
  static constexpr collective::exchange_traits traits{
      .bit_parity = true, .own_support = false, .residual = true, .counts = false, .stateful = false};
  static constexpr bool by_context = true;
  static constexpr bool sparse = false;
  static constexpr bool shared_support = false;

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
  static constexpr bool by_context = false;
  static constexpr bool sparse = compress::codec_traits{codec_type::traits}.sparse;
  static constexpr bool shared_support = compress::codec_traits{codec_type::traits}.shared_support;

  Codec codec{};
  Aggregator aggregator{};

  [[nodiscard]] type make() const { return type{codec_type{codec}, aggregator}; }
};

static_assert(ExchangeRecipe<all_reduce<>> && ExchangeRecipe<gather_mean<>>);

}  // namespace causeway::inline CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_EXCHANGE_HPP
