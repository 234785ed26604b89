// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_SPARSE_HPP
#define CAUSEWAY_CUDA_OPS_SPARSE_HPP

// Sparse messages (compress::sparse) between a queue and the host, byte by byte those of the CPU: the row and the
// coordinates stay in the queue's memory; what a reader needs to find the coordinates, and the encoded values, cross.

#include <causeway/compress/mask.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/stacked.hpp>
#include <causeway/compress/top_k.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/activation_bodies.hpp>
#include <causeway/cuda/bodies/mask_bodies.hpp>
#include <causeway/cuda/bodies/update_bodies.hpp>
#include <causeway/cuda/ops/codecs.hpp>
#include <causeway/cuda/ops/dct.hpp>
#include <causeway/cuda/ops/mask.hpp>
#include <causeway/cuda/ops/queue.hpp>
#include <causeway/cuda/ops/top_k.hpp>
#include <causeway/cuda/ops/transfers.hpp>
#include <causeway/cuda/wire_codec.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <variant>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

// ---- coordinates ---------------------------------------------------------------------------------------------------
//
// choose: kept [choice.most_kept(ctx, n)], in the queue's memory, = the coordinates that a choice makes in a row of n
// values, and host [choice.most_bytes(ctx, n)] = the bytes by which a reader finds them.
// find: the way back. Bytes that no writer makes set bad_indices in *found.

template <TransferQueue Q>
[[nodiscard]] result<void> choose(Q& q, const compress::top_k& choice, const compress::message_context& ctx,
                                  const float* row, std::size_t n, std::uint32_t* kept, std::byte* host) {
  const std::size_t bytes = choice.most_bytes(ctx, n);
  CAUSEWAY_ASSIGN(const auto words, q.template take<std::uint32_t>(index_words(bytes) + 1));
  CAUSEWAY_TRY(select(q, choice, ctx, row, n, kept, words.data()));
  return bytes_to_host(q, words.data(), bytes, host);
}
template <TransferQueue Q>
[[nodiscard]] result<void> find(Q& q, const compress::top_k& choice, const compress::message_context& ctx,
                                const std::byte* host, std::size_t n, std::uint32_t* kept, std::uint32_t* found) {
  const std::size_t bytes = choice.most_bytes(ctx, n);
  CAUSEWAY_ASSIGN(const auto words, q.template take<std::uint32_t>(index_words(bytes) + 1));
  if (bytes != 0) CAUSEWAY_TRY(q.copy_in(words.data(), host, bytes));
  return read_indices(q, choice, ctx, words.data(), n, kept, found);
}

template <TransferQueue Q>
[[nodiscard]] result<void> choose(Q& q, const compress::shared_mask& choice, const compress::message_context& ctx,
                                  const float*, std::size_t n, std::uint32_t* kept, std::byte*) {
  return list_permuted(q, n, choice.part_of(ctx, n), kept);
}
template <TransferQueue Q>
[[nodiscard]] result<void> find(Q& q, const compress::shared_mask& choice, const compress::message_context& ctx,
                                const std::byte*, std::size_t n, std::uint32_t* kept, std::uint32_t*) {
  return list_permuted(q, n, choice.part_of(ctx, n), kept);
}

template <TransferQueue Q>
[[nodiscard]] result<void> choose(Q& q, const compress::random_k& choice, const compress::message_context& ctx,
                                  const float*, std::size_t n, std::uint32_t* kept, std::byte* host) {
  std::memcpy(host, &ctx.own_seed, sizeof ctx.own_seed);
  return list_permuted(q, n, choice.part_of(ctx, ctx.own_seed, n), kept);
}
template <TransferQueue Q>
[[nodiscard]] result<void> find(Q& q, const compress::random_k& choice, const compress::message_context& ctx,
                                const std::byte* host, std::size_t n, std::uint32_t* kept, std::uint32_t*) {
  std::uint64_t seed = 0;
  std::memcpy(&seed, host, sizeof seed);
  return list_permuted(q, n, choice.part_of(ctx, seed, n), kept);
}

template <TransferQueue Q, class Outer, class Inner>
[[nodiscard]] result<void> choose(Q& q, const compress::stacked<Outer, Inner>& choice, const compress::message_context& ctx,
                                  const float* row, std::size_t n, std::uint32_t* kept, std::byte* host) {
  const std::size_t outer = choice.outer().most_kept(ctx, n);
  CAUSEWAY_ASSIGN(const auto first, q.template take<std::uint32_t>(outer));
  CAUSEWAY_ASSIGN(const auto chosen, q.template take<float>(outer));
  CAUSEWAY_TRY(choose(q, choice.outer(), ctx, row, n, first.data(), host));
  CAUSEWAY_TRY(q.elements(static_cast<std::int64_t>(outer), gather_body{row, first.data(), chosen.data()}));
  std::byte* const behind = host + choice.outer().most_bytes(ctx, n);
  CAUSEWAY_TRY(choose(q, choice.inner(), choice.within(ctx), chosen.data(), outer, kept, behind));
  return q.elements(static_cast<std::int64_t>(choice.most_kept(ctx, n)), place_body{first.data(), kept});
}
template <TransferQueue Q, class Outer, class Inner>
[[nodiscard]] result<void> find(Q& q, const compress::stacked<Outer, Inner>& choice, const compress::message_context& ctx,
                                const std::byte* host, std::size_t n, std::uint32_t* kept, std::uint32_t* found) {
  const std::size_t outer = choice.outer().most_kept(ctx, n);
  CAUSEWAY_ASSIGN(const auto first, q.template take<std::uint32_t>(outer));
  CAUSEWAY_TRY(find(q, choice.outer(), ctx, host, n, first.data(), found));
  const std::byte* const behind = host + choice.outer().most_bytes(ctx, n);
  CAUSEWAY_TRY(find(q, choice.inner(), choice.within(ctx), behind, outer, kept, found));
  return q.elements(static_cast<std::int64_t>(choice.most_kept(ctx, n)), place_body{first.data(), kept, found});
}

// ---- messages ------------------------------------------------------------------------------------------------------

/// Makes and reads them; keeps the bases of transforms. Working memory: eight bytes a chosen value, and four bytes a value
/// of the row for a transform. Rows have 1 to 2^31 - 1 values. One thread at a time.
template <TransferQueue Q>
class sparse_messages {
 public:
  /// host [the codec's most_bytes(ctx, n)] = the message of a row x [n] in the queue's memory; unless null, residual [n] =
  /// x - what it decodes to, unspecified for values that are not finite. Returns when the message is there.
  [[nodiscard]] result<void> encode(Q& q, const wire_message& how, const compress::message_context& ctx, const float* x,
                                    std::size_t n, std::byte* host, float* residual) {
    if (!how.basis) return encode_row(q, how, ctx, x, x, n, host, residual);
    CAUSEWAY_ASSIGN(const auto coefficients, q.template take<float>(n));
    CAUSEWAY_TRY(dct_.forward(q, *how.basis, ctx.matrices, x, coefficients.data(), n));
    return encode_row(q, how, ctx, x, coefficients.data(), n, host, residual);
  }

  /// sum [n] += weight · what a message on the host decodes to, and counts [n], unless null, += weight where it has a
  /// value. Bytes that anybody may have sent, as many as the codec's most_bytes(ctx, n): they are checked first, and
  /// nothing changes unless 0 comes back; else bad_indices, or what `verdict` makes an error of. One wait.
  [[nodiscard]] result<std::uint32_t> decode_add(Q& q, const wire_message& how, const compress::message_context& ctx,
                                                 std::span<const std::byte> bytes, float* sum, std::size_t n, float weight,
                                                 float* counts) {
    return std::visit(
        [&](const auto& choice) -> result<std::uint32_t> {
          std::uint32_t found = 0;
          const std::size_t count = choice.most_kept(ctx, n);
          CAUSEWAY_ASSIGN(const auto word, q.template take<std::uint32_t>(1));
          CAUSEWAY_ASSIGN(const auto kept, q.template take<std::uint32_t>(count));
          CAUSEWAY_ASSIGN(const auto chosen, q.template take<float>(count));
          CAUSEWAY_TRY(q.copy_in(word.data(), &found, sizeof found));
          CAUSEWAY_TRY(find(q, choice, ctx, bytes.data(), n, kept.data(), word.data()));
          const auto values = bytes.subspan(choice.most_bytes(ctx, n));
          CAUSEWAY_TRY(read_values(q, how.quantiser, values, chosen.data(), count, word.data()));
          const auto places = static_cast<std::int64_t>(count);
          CAUSEWAY_TRY(q.elements(places, scatter_add_body{chosen.data(), kept.data(), sum, weight, word.data()}));
          if (counts != nullptr) {
            CAUSEWAY_TRY(q.elements(places, scatter_add_body{nullptr, kept.data(), counts, weight, word.data()}));
          }
          CAUSEWAY_TRY(q.copy_out(&found, word.data(), sizeof found));
          return found;
        },
        how.choice);
  }

  /// Coefficients to values, in place; nothing without a transform.
  [[nodiscard]] result<void> inverse(Q& q, const wire_message& how, const compress::message_context& ctx, float* row,
                                     std::size_t n) {
    return how.basis ? dct_.inverse(q, *how.basis, ctx.matrices, row, n) : result<void>{};
  }

 private:
  /// `row` is what values are chosen of: x, or its coefficients.
  result<void> encode_row(Q& q, const wire_message& how, const compress::message_context& ctx, const float* x,
                          const float* row, std::size_t n, std::byte* host, float* residual) {
    return std::visit(
        [&](const auto& choice) -> result<void> {
          const std::size_t count = choice.most_kept(ctx, n);
          CAUSEWAY_ASSIGN(const auto kept, q.template take<std::uint32_t>(count));
          CAUSEWAY_ASSIGN(const auto chosen, q.template take<float>(count));
          CAUSEWAY_TRY(choose(q, choice, ctx, row, n, kept.data(), host));
          CAUSEWAY_TRY(q.elements(static_cast<std::int64_t>(count), gather_body{row, kept.data(), chosen.data()}));
          std::byte* const values = host + choice.most_bytes(ctx, n);
          CAUSEWAY_TRY(write_values(q, how.quantiser, chosen.data(), count, values, residual != nullptr));
          if (residual == nullptr) return {};
          return keep_rest(q, how, ctx, {chosen.data(), count}, kept.data(), {x, n}, residual);
        },
        how.choice);
  }

  /// With `in_place`, the values become what a reader will see.
  static result<void> write_values(Q& q, const wire_codec& how, float* values, std::size_t count, std::byte* host,
                                   bool in_place) {
    return std::visit(
        [&](const auto& codec) {
          return encode_to_host(q, codec, {values}, count, host, transfer_piece, in_place ? values : nullptr);
        },
        how);
  }
  static result<void> read_values(Q& q, const wire_codec& how, std::span<const std::byte> host, float* values,
                                  std::size_t count, std::uint32_t* found) {
    return std::visit(
        [&](const auto& codec) { return values_from_host(q, codec, host, values, count, false, 1.0F, found); }, how);
  }

  /// residual = x - what the sent values stand for, in the order of compress::residual_of.
  result<void> keep_rest(Q& q, const wire_message& how, const compress::message_context& ctx, std::span<const float> sent,
                         const std::uint32_t* kept, std::span<const float> x, float* residual) {
    const auto count = static_cast<std::int64_t>(x.size());
    const scatter_add_body take_away{sent.data(), kept, residual, -1.0F};
    if (!how.basis) {
      CAUSEWAY_TRY(q.elements(count, convert_body<float, float>{x.data(), residual}));
      return q.elements(static_cast<std::int64_t>(sent.size()), take_away);
    }
    CAUSEWAY_TRY(q.elements(count, fill_body{residual, 0.0F}));
    CAUSEWAY_TRY(q.elements(static_cast<std::int64_t>(sent.size()), take_away));
    CAUSEWAY_TRY(dct_.inverse(q, *how.basis, ctx.matrices, residual, x.size()));
    return q.elements(count, add_body<float>{residual, x.data(), residual});
  }

  dct<Q> dct_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_SPARSE_HPP
