// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_EXCHANGE_HPP
#define CAUSEWAY_COLLECTIVE_EXCHANGE_HPP

// What every way of averaging a row over a group of peers looks like to a communication policy. An exchange is cut in
// three, so that it can run beside inner steps: `begin` gets the own contribution under way, `turn` reduces what has
// arrived and sends it on, `finish` leaves the result in the row. Exchanges are values that live in a policy and are used
// again and again, for one conversation at a time; several of them may be in conversation at once, on channels of their
// own.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>

#include <concepts>
#include <span>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// One conversation among a group. The transport must be the same object in all three calls, and outlive the conversation.
struct exchange_port {
  net::any_transport& transport;      ///< of the group: self() and size() are within the group
  net::message_id id;                 ///< channel_stride channels from id.channel on are ours
  const collective_options& options;  ///< deadline of this call, workspace; the pool is the context's

  /// For a second conversation at the same time, on the upper half of our channels; the first uses the lower one.
  [[nodiscard]] exchange_port beside(net::any_transport& over) const {
    net::message_id upper = id;
    upper.channel += channel_stride / 2;
    return {over, upper, options};
  }
};

/// What is averaged. Spans must stay where they are until `finish` has returned.
struct exchange_row {
  std::span<float> values;      ///< in: mine, unweighted, unchanged from `begin` to `finish`; after finish: the result
  std::span<float> residual{};  ///< not empty: begin writes values − decode(own message) here. May not alias values
  float weight = 1;             ///< how much mine counts, >= 0; with 0 nothing of mine is sent: I only listen
  std::span<float> counts{};    ///< not empty: after finish, the weights of those who sent coordinate i, summed
  errc refused{};               ///< non_finite, corrupt or protocol: nobody may use my values, all fail with this code
};

/// What an exchange says about itself, for rules that decide which combinations are allowed.
struct exchange_traits {
  bool bit_parity = true;    ///< all peers of the group end with the same bits
  bool own_support = false;  ///< loses nothing where every peer sends coordinates of its own choice (sparse codecs)
  bool residual = false;     ///< fills exchange_row::residual
  bool counts = false;       ///< fills exchange_row::counts
  bool stateful = false;     ///< keeps something from round to round: one object for each row, and checkpoints need it
  bool changes_one = false;  ///< what it makes of one row is another one: a peer that is its whole group calls it, too
};

/// Requirements. For a blocking exchange, call the three in a row.
///
/// - All peers of the group call the three in the same order with the same id, as many values, equal options and contexts
///   that differ only where the codec allows it. The result is Σ w_i x_i / Σ w_i (or what the aggregator makes of it).
/// - An error ends the conversation: what is under way is cancelled, values and residual are unspecified, and the object is
///   as good as new. So do `cancel()` and destroying the object, which must happen before the transport goes. Transport
///   errors name the peer. Values that cannot be used (errc::non_finite, errc::corrupt, errc::protocol) and weights that
///   are all 0 (errc::invalid_argument) fail on all peers alike.
/// - Optional: `alone(row, ctx)`, in place of the three for a peer that is its whole group. Without it, and without
///   exchange_traits::changes_one, such a row stays as it is, as a mean of one is.
/// - `begin` while a conversation is under way cancels that one first.
/// - Threading: one thread at a time. Deterministic: the bits depend on the inputs and the order of the peers alone.
template <class E, class Context>
concept Exchange = Movable<E> && requires(E& e, const exchange_port& port, const exchange_row& row, const Context& ctx) {
  { E::name } -> ConvertibleTo<std::string_view>;
  { E::traits } -> ConvertibleTo<exchange_traits>;
  { e.begin(port, row, ctx) } -> std::same_as<result<void>>;
  { e.turn(port, row, ctx) } -> std::same_as<result<void>>;
  { e.finish(port, row, ctx) } -> std::same_as<result<void>>;
  { e.cancel() } -> std::same_as<void>;
};

/// All three phases in a row.
template <class Context, Exchange<Context> E>
result<void> run_exchange(E& exchange, const exchange_port& port, const exchange_row& row, const Context& ctx) {
  CAUSEWAY_TRY(exchange.begin(port, row, ctx));
  CAUSEWAY_TRY(exchange.turn(port, row, ctx));
  return exchange.finish(port, row, ctx);
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_EXCHANGE_HPP
