// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_MESSAGE_CODEC_HPP
#define CAUSEWAY_COLLECTIVE_MESSAGE_CODEC_HPP

// What an exchange needs of a codec and of its context. Every compress::MessageCodec is one, with
// compress::message_context; the codecs themselves live elsewhere. Also: what a context becomes for a part of the row, so
// that a row can be cut among peers that each reduce a part of it.

#include <causeway/collective/exchange_message.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// What a codec is told besides the values: where matrices lie in the row (ascending, apart), seeds, a reference row.
template <class X>
concept MessageContext = std::copy_constructible<X> && requires(X& x) {
  { x.pool } -> ConvertibleTo<thread_pool&>;
  { x.matrices.front().offset } -> ConvertibleTo<std::size_t>;
  { x.matrices.front().rows } -> ConvertibleTo<std::size_t>;
  { x.matrices.front().columns } -> ConvertibleTo<std::size_t>;
  { x.seed } -> ConvertibleTo<std::uint64_t>;
  { x.own_seed } -> ConvertibleTo<std::uint64_t>;
  { x.reference } -> ConvertibleTo<std::span<const float>>;
};

/// See compress::MessageCodec, which says what the members do.
template <class C, class X>
concept MessageCodec = Copyable<C> && MessageContext<X> &&
    requires(const C& c, const X& ctx, std::size_t n, std::span<const float> values, std::span<std::byte> room,
             std::span<const std::byte> bytes, std::span<float> sum, float weight) {
  {bool{C::traits.sparse}};
  {bool{C::traits.transform}};
  { c.most_bytes(ctx, n) } -> std::same_as<std::size_t>;
  { c.encode(ctx, values, room) } -> std::same_as<std::size_t>;
  { c.decode_add(ctx, bytes, sum, weight, sum) } -> std::same_as<result<void>>;
  requires !C::traits.transform || requires { c.inverse(ctx, sum); };
};

/// A codec that does what a mean does with rows before and after it adds messages, where rows lie in memory that the host
/// had better not touch (cuda/codec.hpp): those that it `keeps`, because they lie in its `memory()`. `divide` makes each
/// value, divided by its count where there are counts and its is above 0, factor times as large; errc::non_finite when one
/// is then not finite.
template <class C>
concept RowCodec = requires(const C& c, std::span<float> row, std::span<const float> counts, float factor) {
  { c.keeps(counts) } -> std::same_as<bool>;
  { c.memory() } -> std::same_as<memory_source>;
  c.clear(row);
  c.copy(row, counts);
  { c.divide(row, counts, factor) } -> std::same_as<result<void>>;
  c.to_signs(row);
};

namespace detail {

/// The codec that may keep rows: `codec`, or what it makes messages of.
const auto& row_codec(const auto& codec) {
  if constexpr (requires { codec.codec(); }) {
    return codec.codec();
  } else {
    return codec;
  }
}
template <class C>
inline constexpr bool may_keep_rows = RowCodec<std::remove_cvref_t<decltype(row_codec(std::declval<const C&>()))>>;

/// Whether the codec's own arithmetic is for these rows; empty ones are no matter.
template <class C>
bool is_kept(const C& codec, std::span<const float> row, std::span<const float> also = {}) {
  if constexpr (may_keep_rows<C>) {
    return row_codec(codec).keeps(row) && (also.empty() || row_codec(codec).keeps(also));
  } else {
    return false;
  }
}

/// row = 0.
template <class C>
void clear(const C& codec, thread_pool& pool, std::span<float> row) {
  if constexpr (may_keep_rows<C>) {
    if (is_kept(codec, row)) return row_codec(codec).clear(row);
  }
  kernels::zero(pool, row.data(), static_cast<std::int64_t>(row.size()));
}

/// to = from.
template <class C>
void copy_row(const C& codec, std::span<const float> from, std::span<float> to) {
  if constexpr (may_keep_rows<C>) {
    if (is_kept(codec, from, to)) return row_codec(codec).copy(to, from);
  }
  std::copy(from.begin(), from.end(), to.begin());
}

/// Turns coefficients into values, where the codec sends coefficients.
template <class C, class X>
void invert(const C& codec, const X& ctx, std::span<float> row) {
  if constexpr (C::traits.transform) codec.inverse(ctx, row);
}

/// residual = values − what `bytes` decodes to. Values that do not decode are refused later, by everybody alike.
template <class C, class X>
void subtract_message(const C& codec, const X& ctx, std::span<const float> values, std::span<const std::byte> bytes,
                      std::span<float> residual) {
  if constexpr (C::traits.transform) {
    std::fill(residual.begin(), residual.end(), 0.0F);
    if (!codec.decode_add(ctx, bytes, residual, -1.0F, {})) return;
    codec.inverse(ctx, residual);
    kernels::axpy(ctx.pool, residual.data(), 1.0F, values.data(), static_cast<std::int64_t>(values.size()));
  } else {
    copy_row(codec, values, residual);
    (void)codec.decode_add(ctx, bytes, residual, -1.0F, {});
  }
}

/// Encodes; unless empty, residual = values − what the message decodes to. A codec may do both at once.
template <class C, class X>
std::size_t encode_keeping(const C& codec, const X& ctx, std::span<const float> values, std::span<std::byte> room,
                           std::span<float> residual) {
  if constexpr (requires { codec.encode(ctx, values, room, residual); }) {
    if (!residual.empty()) return codec.encode(ctx, values, room, residual);
  }
  const std::size_t used = codec.encode(ctx, values, room);
  if (!residual.empty()) subtract_message(codec, ctx, values, room.first(used), residual);
  return used;
}

/// A peer's own message about its row, and what that leaves out; its length. Who has nothing to say keeps all of it.
std::size_t write_contribution(const auto& codec, const auto& ctx, const exchange_row& row, std::span<std::byte> room,
                               net::peer_index self) {
  if (write_own_header(room, row, row.values.size(), self)) {
    const auto body = room.subspan(message_header_bytes);
    return message_header_bytes + encode_keeping(codec, ctx, row.values, body, row.residual);
  }
  if (!row.residual.empty()) copy_row(codec, row.values, row.residual);
  return message_header_bytes;
}

/// row = what the message says that all peers take, as values; or why there is none.
std::optional<refusal> adopt_message(const auto& codec, const auto& ctx, const peer_message& m, std::span<float> row) {
  if (m.bad) return m.bad;
  clear(codec, ctx.pool, row);
  const auto added = codec.decode_add(ctx, m.bytes, row, 1.0F, {});
  if (!added) return refusal{m.peer, added.error().code};
  invert(codec, ctx, row);
  return std::nullopt;
}

/// Whether a sum that was encoded decodes to finite values. Who adds up says so before it sends, so that a receiver knows
/// whose fault it is. `room` is overwritten.
template <class C, class X>
bool is_finite(const C& codec, const X& ctx, std::span<const std::byte> bytes, std::span<float> room) {
  kernels::zero(ctx.pool, room.data(), static_cast<std::int64_t>(room.size()));
  return codec.decode_add(ctx, bytes, room, 1.0F, {}).has_value();
}

/// Values may be cut at multiples of this without cutting what the codec keeps together.
std::size_t block_of(const auto& codec) {
  if constexpr (requires { codec.block(); }) {
    return codec.block();
  } else if constexpr (requires { codec.codec().block(); }) {
    return codec.codec().block();
  } else {
    return 1;
  }
}

/// The matrices of [begin, end) of a row, relative to `begin`. A matrix that is cut becomes up to three: what is left of
/// the first row, whole rows, what is there of the last one.
template <class Matrix>
void matrices_of_part(std::span<const Matrix> all, std::size_t begin, std::size_t end, std::vector<Matrix>& part) {
  part.clear();
  for (const Matrix& m : all) {
    if (m.rows == 0 || m.columns == 0) continue;
    std::size_t at = std::max(m.offset, begin);
    const std::size_t last = std::min(m.offset + m.rows * m.columns, end);
    while (at < last) {
      const std::size_t column = (at - m.offset) % m.columns;
      const std::size_t whole = column == 0 ? (last - at) / m.columns : 0;
      Matrix piece = m;
      piece.offset = at - begin;
      piece.rows = std::max(whole, std::size_t{1});
      piece.columns = whole > 0 ? m.columns : std::min(m.columns - column, last - at);
      part.push_back(piece);
      at += piece.rows * piece.columns;
    }
  }
}

/// The context of part `index` of a row: [begin, end) of it. `matrices` is where its list of matrices lies. Parts have
/// seeds of their own, so that they do not all leave out the same places.
template <MessageContext X>
X context_of_part(const X& ctx, std::uint64_t index, std::size_t begin, std::size_t end, auto& matrices) {
  X part{ctx};
  matrices_of_part(ctx.matrices, begin, end, matrices);
  part.matrices = matrices;
  part.seed = rng{ctx.seed, index}.next();
  part.own_seed = rng{ctx.own_seed, index}.next();
  const std::span<const float> reference = ctx.reference;
  if (!reference.empty()) part.reference = reference.subspan(begin, end - begin);
  return part;
}

/// What holds the matrices of a part's context.
template <MessageContext X>
using matrix_list = std::vector<std::remove_cv_t<std::remove_reference_t<decltype(std::declval<X&>().matrices.front())>>>;

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_MESSAGE_CODEC_HPP
