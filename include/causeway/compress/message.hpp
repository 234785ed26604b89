// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_MESSAGE_HPP
#define CAUSEWAY_COMPRESS_MESSAGE_HPP

// What one peer sends about a row of f32 values in one exchange. Against a Codec (codec.hpp), a message codec may leave
// values out, may know which parts of the row are matrices, and may draw random numbers that all peers share; so its length
// may depend on the values. It is a value without state as well: what it gives depends on its options, the context and the
// input alone, to the bit, whatever the thread count or the instruction set.

#include <causeway/compress/codec.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// A matrix within a row: `rows` times `columns` values one after another from `offset` on. A vector has one row.
struct matrix_range {
  std::size_t offset = 0;
  std::size_t rows = 1;
  std::size_t columns = 0;
  parameter_kind kind = parameter_kind::matrix;

  friend constexpr bool operator==(const matrix_range&, const matrix_range&) = default;
};

/// What a message codec may know besides the values. Equal on all peers of an exchange, except `own_seed` (and `pool`).
struct message_context {
  thread_pool& pool;
  std::span<const matrix_range> matrices{};  ///< ascending, apart; what no matrix covers is a vector
  std::uint64_t seed = 0;                    ///< of this exchange: for masks that all peers share
  std::uint64_t own_seed = 0;                ///< of this exchange and peer
  std::uint64_t round = 0;                   ///< 0, 1, ...: for thresholds that shrink and masks that take turns
  std::span<const float> reference{};        ///< what the row is relative to (shared parameters): as long as it, or empty

  /// Of another row of the same exchange, in which there are no matrices.
  [[nodiscard]] message_context plain() const { return {.pool = pool, .seed = seed, .own_seed = own_seed, .round = round}; }
};

/// Requirements, for a row of n values:
///
/// - `most_bytes(ctx, n)`: no message is longer. Equal on all peers of an exchange.
/// - `encode(ctx, values, room)` writes a message to the front of `room`, which has at least `most_bytes` bytes, and gives
///   its length. It rejects nothing: NaN and infinity are left out, or encoded so that decoding refuses them.
/// - `decode_add(ctx, bytes, sum, weight, counts)` reads bytes that anybody may have sent, and adds weight · value to
///   sum[i] for each coordinate i of the message, and weight to counts[i] (counts has n values, or none). Errors:
///   errc::protocol for a length no message has, errc::non_finite for values that are not finite, errc::corrupt for other
///   bytes that no encoder makes; sum and counts are then as they were. `weight` is finite; it may be 0 or negative.
/// - `traits.sparse`: coordinates may be missing from a message; without it all are there.
/// - `traits.shared_support`: those present are the same for all peers of an exchange.
/// - `traits.transform`: what decode_add adds, and what counts count, are coefficients of a linear transform of the row, as
///   many as values. Then there is `inverse(ctx, row)`, which turns a row of coefficients into values in place.
///
/// An exchange thus is: sum = 0; decode_add all messages; divide each sum[i] by the total weight, or by counts[i] where
/// that is not 0 (the mean over contributors); then `inverse` once. A peer that keeps what it did not send has
/// `residual_of(codec, ctx, values, own message, residual)`.
template <class C>
concept MessageCodec = Copyable<C> &&
    requires(const C& c, const message_context& ctx, std::size_t n, std::span<const float> values,
             std::span<std::byte> room, std::span<const std::byte> bytes, std::span<float> sum, float weight) {
  { C::name } -> ConvertibleTo<std::string_view>;
  { C::traits } -> ConvertibleTo<codec_traits>;
  { c.most_bytes(ctx, n) } -> std::same_as<std::size_t>;
  { c.encode(ctx, values, room) } -> std::same_as<std::size_t>;
  { c.decode_add(ctx, bytes, sum, weight, sum) } -> std::same_as<result<void>>;
  requires !codec_traits{C::traits}.transform || requires { c.inverse(ctx, sum); };
};

/// residual = values − what `bytes`, this peer's own message, decodes to. `residual` and `values` must not overlap. Fails
/// as decode_add does, when the values are not finite; residual is then unspecified.
template <MessageCodec C>
result<void> residual_of(const C& codec, const message_context& ctx, std::span<const float> values,
                         std::span<const std::byte> bytes, std::span<float> residual) {
  CAUSEWAY_EXPECT(residual.size() == values.size());
  if constexpr (!codec_traits{C::traits}.transform) {
    std::copy(values.begin(), values.end(), residual.begin());
    return codec.decode_add(ctx, bytes, residual, -1.0F, {});
  } else {
    std::fill(residual.begin(), residual.end(), 0.0F);
    CAUSEWAY_TRY(codec.decode_add(ctx, bytes, residual, -1.0F, {}));
    codec.inverse(ctx, residual);
    kernels::add(ctx.pool, residual.data(), residual.data(), values.data(), static_cast<std::int64_t>(values.size()));
    return {};
  }
}

namespace detail {

inline void add_to_counts(thread_pool& pool, std::span<float> counts, float weight) {
  kernels::detail::for_elements(pool, static_cast<std::int64_t>(counts.size()), [&](index_range r) {
    for (std::int64_t i = r.begin; i < r.end; ++i) counts[static_cast<std::size_t>(i)] += weight;
  });
}

}  // namespace detail

/// A dense codec as a message: all values, in pieces that are encoded one after another. A piece is the largest multiple of
/// the codec's block up to 65536 values (so cutting changes no value), or the whole row where the codec can add without a
/// buffer. Costs: otherwise two decodes of the message and one buffer of a piece.
template <Codec C>
class dense_message {
 public:
  static constexpr std::string_view name = C::name;
  static constexpr codec_traits traits = C::traits;

  dense_message() requires DefaultInitializable<C>
  = default;
  explicit dense_message(C codec) : codec_{std::move(codec)} {}

  [[nodiscard]] const C& codec() const noexcept { return codec_; }

  [[nodiscard]] std::size_t most_bytes(const message_context&, std::size_t n) const {
    const std::size_t piece = piece_of(n);
    if (n <= piece) return codec_.encoded_size(n);
    return n / piece * codec_.encoded_size(piece) + (n % piece == 0 ? 0 : codec_.encoded_size(n % piece));
  }

  std::size_t encode(const message_context& ctx, std::span<const float> values, std::span<std::byte> room) const {
    CAUSEWAY_EXPECT(room.size() >= most_bytes(ctx, values.size()));
    std::size_t used = 0;
    for_pieces(values.size(), [&](std::size_t first, std::size_t count) {
      used += codec_.encode(ctx.pool, values.subspan(first, count), room.subspan(used));
    });
    return used;
  }

  result<void> decode_add(const message_context& ctx, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                          std::span<float> counts) const {
    CAUSEWAY_EXPECT(counts.empty() || counts.size() == sum.size());
    if (bytes.size() != most_bytes(ctx, sum.size())) {
      return detail::wrong_length(name, bytes.size(), most_bytes(ctx, sum.size()));
    }
    if constexpr (AddingCodec<C>) {
      CAUSEWAY_TRY(codec_.decode_add(ctx.pool, bytes, sum, weight));
    } else {
      CAUSEWAY_TRY(decode_pieces(ctx, bytes, sum.size(), [](std::size_t, std::span<const float>) {}));
      CAUSEWAY_TRY(decode_pieces(ctx, bytes, sum.size(), [&](std::size_t first, std::span<const float> values) {
        kernels::axpy(ctx.pool, sum.data() + first, weight, values.data(), static_cast<std::int64_t>(values.size()));
      }));
    }
    detail::add_to_counts(ctx.pool, counts, weight);
    return {};
  }

 private:
  [[nodiscard]] std::size_t piece_of(std::size_t n) const noexcept {
    constexpr std::size_t largest = 65536;
    if (AddingCodec<C> || n <= largest) return std::max(n, std::size_t{1});
    return codec_.block() >= largest ? codec_.block() : largest / codec_.block() * codec_.block();
  }

  void for_pieces(std::size_t n, auto&& f) const {
    const std::size_t piece = piece_of(n);
    for (std::size_t first = 0; first < n; first += std::min(piece, n - first)) f(first, std::min(piece, n - first));
  }

  result<void> decode_pieces(const message_context& ctx, std::span<const std::byte> bytes, std::size_t n, auto&& f) const {
    std::vector<float> values(std::min(piece_of(n), n));
    result<void> outcome;
    for_pieces(n, [&](std::size_t first, std::size_t count) {
      if (!outcome) return;
      const std::size_t size = codec_.encoded_size(count);
      outcome = codec_.decode(ctx.pool, bytes.first(size), std::span{values}.first(count));
      bytes = bytes.subspan(size);
      if (outcome) f(first, std::span<const float>{values}.first(count));
    });
    return outcome;
  }

  C codec_;
};

namespace detail {

/// Stands for what is no codec, so that its refusal (P8) is the only error.
struct refused_codec {
  static constexpr std::string_view name = "none";
  static constexpr codec_traits traits{};
  static constexpr bool raw = true;

  template <class T>
  explicit refused_codec(const T&);
  [[nodiscard]] std::size_t block() const;
  [[nodiscard]] std::size_t encoded_size(std::size_t) const;
  std::size_t encode(thread_pool&, std::span<const float>, std::span<std::byte>) const;
  result<void> decode(thread_pool&, std::span<const std::byte>, std::span<float>) const;
};

template <class C>
struct message_for {
  using type = dense_message<refused_codec>;
};
template <MessageCodec C>
struct message_for<C> {
  using type = C;
};
template <Codec C>
  requires(!MessageCodec<C>)
struct message_for<C> {
  using type = dense_message<C>;
};

}  // namespace detail

/// The message codec that `C` is, or makes: C, or dense_message<C>. `as_message<C>{codec}` works for both.
template <class C>
using as_message = typename detail::message_for<C>::type;

/// Whether `as_message` made `M` of a codec.
template <class M>
inline constexpr bool is_of_codec = !std::is_same_v<M, dense_message<detail::refused_codec>>;

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_MESSAGE_HPP
