// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ATTENTION_FORWARD_HPP
#define CAUSEWAY_KERNELS_ATTENTION_FORWARD_HPP

// Forward attention for one set of steps (`Tiles`, see attention_tiles.hpp). Keys and values of a head are packed once;
// then 8 queries at a time make all their scores, their exact softmax (two passes over a strip of 8 x T) and their output,
// which stays in registers over the whole sum. Every panel is computed alone, so the result does not depend on the threads.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/kernels/attention_tiles.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// Rows of head `head` of sequence `b`.
template <class Act>
head_view<Act> head_of(const attention_shape& shape, Act* data, std::int64_t stride, std::int64_t b, std::int64_t head) {
  return {data + b * shape.T * stride + head * shape.head_size, stride, shape.T, shape.head_size};
}

/// How many threads share one (sequence, key head): one where the heads fill the threads evenly, all of them otherwise.
constexpr std::int64_t parts_per_head(const attention_shape& shape, std::int64_t threads) noexcept {
  const std::int64_t heads = shape.batch * shape.kv_heads;
  return heads % threads == 0 || heads >= 4 * threads ? 1 : threads;
}

/// Padded sizes, in values unless they say units.
template <class Tiles>
struct attention_sizes {
  std::int64_t depth;        ///< units of a head's row that hold something
  std::int64_t depth_units;  ///< the same, padded: units between rows
  std::int64_t width;        ///< a head's columns, padded to whole vectors
  std::int64_t columns;      ///< the same, padded to whole tiles: values between rows
  std::int64_t tokens;
  std::int64_t token_units;

  explicit attention_sizes(const attention_shape& shape)
      : depth{(shape.head_size + Tiles::pair - 1) / Tiles::pair},
        depth_units{rounded_up(depth, 16)},
        width{rounded_up(shape.head_size, 16)},
        columns{rounded_up(shape.head_size, tile_columns)},
        tokens{rounded_up(shape.T, tile_columns)},
        token_units{tokens / Tiles::pair} {}

  [[nodiscard]] std::int64_t by_head() const noexcept { return tokens * depth_units; }    ///< units of pack_transposed
  [[nodiscard]] std::int64_t by_token() const noexcept { return columns * token_units; }  ///< units of pack_tokens
};

/// C[8][columns] (+)= A B, tile by tile; `block` is the units between B's blocks of 32 columns.
template <class Tiles>
void multiply_by_rows(std::int64_t depth, const typename Tiles::unit* a, std::int64_t lda, const typename Tiles::unit* b,
                      std::int64_t block, float* c, std::int64_t ldc, std::int64_t columns, bool accumulate) {
  for (std::int64_t j = 0; j < columns; j += tile_columns) {
    Tiles::product_by_rows(depth, a, lda, b + j / tile_columns * block, c + j, ldc, columns - j, accumulate);
  }
}

/// The same with A by columns.
template <class Tiles>
void multiply_by_columns(std::int64_t depth, const typename Tiles::unit* a, std::int64_t lda, const typename Tiles::unit* b,
                         std::int64_t block, float* c, std::int64_t ldc, std::int64_t columns, bool accumulate) {
  for (std::int64_t j = 0; j < columns; j += tile_columns) {
    Tiles::product_by_columns(depth, a, lda, b + j / tile_columns * block, c + j, ldc, columns - j, accumulate);
  }
}

/// One thread's memory and its share of the forward pass.
template <class Tiles, class Act>
class forward_pass {
 public:
  using unit = typename Tiles::unit;

  forward_pass(const attention_shape& shape, scratch::frame& frame)
      : shape_{shape},
        sizes_{shape},
        keys_{take(frame, sizes_.by_head())},
        values_{take(frame, sizes_.by_token())},
        queries_{take(frame, panel_rows * sizes_.depth_units)},
        probabilities_{take(frame, panel_rows * strip())},
        scores_{frame.template take<float>(static_cast<std::size_t>(panel_rows * strip()))},
        output_{frame.template take<float>(static_cast<std::size_t>(panel_rows * sizes_.columns))} {}

  /// All query heads of key head `head`, panels part, part + parts, ...
  void run(const Act* q, const Act* k, const Act* v, Act* o, float* logsumexp, std::int64_t b, std::int64_t head,
           std::int64_t part, std::int64_t parts) {
    Tiles::pack_transposed(head_of(shape_, k, shape_.k_stride, b, head), keys_, sizes_.depth_units, sizes_.tokens);
    Tiles::pack_tokens(head_of(shape_, v, shape_.v_stride, b, head), values_, sizes_.columns, sizes_.tokens);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      const auto queries = head_of(shape_, q, shape_.q_stride, b, h);
      const auto outputs = head_of(shape_, o, shape_.o_stride, b, h);
      float* sums = logsumexp + (b * shape_.heads + h) * shape_.T;
      for (std::int64_t t = part * panel_rows; t < shape_.T; t += parts * panel_rows) panel(queries, outputs, sums, t);
    }
  }

 private:
  static unit* take(scratch::frame& frame, std::int64_t units) {
    return frame.template take<unit>(static_cast<std::size_t>(units));
  }
  /// Values between the rows of a strip of scores; not a power of two, so that 8 rows do not share cache sets.
  [[nodiscard]] std::int64_t strip() const noexcept { return sizes_.tokens + 16; }

  void panel(const head_view<const Act>& queries, const head_view<Act>& outputs, float* logsumexp, std::int64_t t) {
    Tiles::pack_rows(queries.from(t, panel_rows), queries_, sizes_.depth_units, panel_rows);
    multiply_by_rows<Tiles>(sizes_.depth, queries_, sizes_.depth_units, keys_, tile_columns * sizes_.depth_units, scores_,
                            strip(), rounded_up(t + panel_rows, 16), false);
    softmax_rows rows;
    Tiles::softmax(scores_, strip(), t, shape_.scale, probabilities_, strip(), rows);
    multiply_by_rows<Tiles>((t + panel_rows) / Tiles::pair, probabilities_, strip(), values_,
                            tile_columns * sizes_.token_units, output_, sizes_.columns, sizes_.width, false);
    const auto out = outputs.from(t, panel_rows);
    Tiles::store_rows(output_, sizes_.columns, out, rows.inverse_sum);
    std::copy_n(rows.logsumexp, out.rows, logsumexp + t);
  }

  const attention_shape& shape_;
  attention_sizes<Tiles> sizes_;
  unit* keys_;
  unit* values_;
  unit* queries_;
  unit* probabilities_;
  float* scores_;
  float* output_;
};

template <class Tiles, class Act>
void attention_forward_with(thread_pool& pool, scratch& memory, const attention_shape& shape, const Act* q, const Act* k,
                            const Act* v, Act* o, float* logsumexp) {
  const std::int64_t threads = pool.size();
  const std::int64_t parts = parts_per_head(shape, threads);
  auto frame = memory.open();
  using pass = forward_pass<Tiles, Act>;
  static_assert(std::is_trivially_destructible_v<pass>);  // they live in scratch memory: a step allocates nothing
  pass* passes = frame.take<pass>(pool.size());
  for (std::int64_t i = 0; i < threads; ++i) std::construct_at(passes + i, shape, frame);
  pool.for_each(static_cast<unsigned>(shape.batch * shape.kv_heads * parts), [&](unsigned u, unsigned thread) {
    const std::int64_t unit = u / parts;
    passes[thread].run(q, k, v, o, logsumexp, unit / shape.kv_heads, unit % shape.kv_heads, u % parts, parts);
  });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_ATTENTION_FORWARD_HPP
