// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ATTENTION_BACKWARD_HPP
#define CAUSEWAY_KERNELS_ATTENTION_BACKWARD_HPP

// Backward attention for one set of steps (`Tiles`, see attention_tiles.hpp). With P the probabilities made again from
// logsumexp and D = sum(d_o * o) per row (Dao et al., FlashAttention, 2022, section 3.1):
//   dP = d_o vT,  dS = scale P (dP - D),  dv = PT d_o,  dk = dST q,  dq = dS k
// in blocks of 64 queries x 128 keys; blocks above the diagonal are skipped, and within the blocks on it whole panels.
// One thread sums dk and dv of a key head. Where heads are fewer than threads, each thread sums its own queries' share into
// a copy, and the copies are added in the order of the threads.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/attention_forward.hpp>
#include <causeway/kernels/attention_tiles.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

inline constexpr std::int64_t query_block = 64;
inline constexpr std::int64_t key_block = 128;
/// Values between rows of a block; not a power of two, so that a column of the block spreads over the cache sets.
inline constexpr std::int64_t block_stride = key_block + 16;

/// What one backward call reads and writes.
template <class Act>
struct backward_operands {
  const Act* q;
  const Act* k;
  const Act* v;
  const Act* o;
  const Act* d_o;
  const float* logsumexp;
  Act* dq;
  Act* dk;
  Act* dv;
};

/// One thread's memory and its share of the backward pass.
template <class Tiles, class Act>
class backward_pass {
 public:
  using unit = typename Tiles::unit;

  backward_pass(const attention_shape& shape, const backward_operands<Act>& operands, scratch::frame& frame)
      : shape_{shape},
        x_{operands},
        sizes_{shape},
        keys_by_head_{take(frame, sizes_.by_head())},
        values_by_head_{take(frame, sizes_.by_head())},
        keys_by_token_{take(frame, sizes_.by_token())},
        queries_{take(frame, query_block * sizes_.depth_units)},
        gradients_{take(frame, query_block * sizes_.depth_units)},
        queries_by_token_{take(frame, query_block / Tiles::pair * sizes_.columns)},
        gradients_by_token_{take(frame, query_block / Tiles::pair * sizes_.columns)},
        p_{take(frame, query_block / Tiles::pair * block_stride)},
        ds_{take(frame, query_block / Tiles::pair * block_stride)},
        ds_by_rows_{Tiles::pair == 1 ? ds_ : take(frame, query_block * block_stride)},
        scores_{floats(frame, 2 * panel_rows * block_stride)},
        dq_{floats(frame, query_block * sizes_.columns)} {}

  /// Adds this part's queries of key head `head` to dk and dv ([tokens][columns] each, overwritten) and writes their dq.
  void run(std::int64_t b, std::int64_t head, std::int64_t part, std::int64_t parts, float* dk, float* dv) {
    const auto keys = head_of(shape_, x_.k, shape_.k_stride, b, head);
    Tiles::pack_transposed(keys, keys_by_head_, sizes_.depth_units, sizes_.tokens);
    Tiles::pack_tokens(keys, keys_by_token_, sizes_.columns, sizes_.tokens);
    Tiles::pack_transposed(head_of(shape_, x_.v, shape_.v_stride, b, head), values_by_head_, sizes_.depth_units,
                           sizes_.tokens);
    std::fill_n(dk, sizes_.tokens * sizes_.columns, 0.0F);
    std::fill_n(dv, sizes_.tokens * sizes_.columns, 0.0F);
    const std::int64_t group = shape_.heads / shape_.kv_heads;
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      for (std::int64_t i = 0; i * query_block < shape_.T; ++i) {
        // Later blocks cost more, so they are dealt out back and forth.
        const std::int64_t turn = i / parts % 2 == 0 ? i % parts : parts - 1 - i % parts;
        if (turn == part) queries(b, h, i * query_block, dk, dv);
      }
    }
  }

 private:
  static unit* take(scratch::frame& frame, std::int64_t units) {
    return frame.template take<unit>(static_cast<std::size_t>(units));
  }
  static float* floats(scratch::frame& frame, std::int64_t count) {
    return frame.template take<float>(static_cast<std::size_t>(count));
  }

  /// One block of queries against all keys they see.
  void queries(std::int64_t b, std::int64_t h, std::int64_t first, float* dk, float* dv) {
    const auto q = head_of(shape_, x_.q, shape_.q_stride, b, h).from(first, query_block);
    const auto d_o = head_of(shape_, x_.d_o, shape_.o_stride, b, h).from(first, query_block);
    rows_ = rounded_up(q.rows, panel_rows);
    Tiles::pack_rows(q, queries_, sizes_.depth_units, rows_);
    Tiles::pack_rows(d_o, gradients_, sizes_.depth_units, rows_);
    Tiles::pack_tokens(q, queries_by_token_, sizes_.columns, query_block);
    Tiles::pack_tokens(d_o, gradients_by_token_, sizes_.columns, query_block);
    row_constants(b, h, first, head_of(shape_, x_.o, shape_.o_stride, b, h).from(first, query_block), d_o);
    for (std::int64_t key = 0; key < first + rows_; key += key_block) {
      probabilities(first, key);
      key_gradients(first, key, dk, dv);
      query_gradients(first, key);
    }
    Tiles::store_rows(dq_, sizes_.columns, head_of(shape_, x_.dq, shape_.q_stride, b, h).from(first, query_block), nullptr);
  }

  void row_constants(std::int64_t b, std::int64_t h, std::int64_t first, const head_view<const Act>& o,
                     const head_view<const Act>& d_o) {
    float dots[query_block] = {};
    Tiles::row_dots(o, d_o, dots);
    const float* sums = x_.logsumexp + (b * shape_.heads + h) * shape_.T + first;
    for (std::int64_t i = 0; i < rows_; ++i) {
      gradient_rows& panel = constants_[i / panel_rows];
      panel.logsumexp2[i % panel_rows] = i < o.rows ? sums[i] * log2_of_e : std::numeric_limits<float>::infinity();
      panel.correction[i % panel_rows] = dots[i];
    }
  }

  /// p_ and ds_ for keys [key, key + 128), as far as the queries see them.
  void probabilities(std::int64_t first, std::int64_t key) {
    float* dp = scores_ + panel_rows * block_stride;
    const std::int64_t block = tile_columns * sizes_.depth_units;
    for (std::int64_t i = 0; i < rows_; i += panel_rows) {
      const std::int64_t offset = first + i - key;
      const std::int64_t columns = std::min(key_block, rounded_up(offset + panel_rows, 16));
      multiply_by_rows<Tiles>(sizes_.depth, queries_ + i * sizes_.depth_units, sizes_.depth_units,
                              keys_by_head_ + key * sizes_.depth_units, block, scores_, block_stride, columns, false);
      multiply_by_rows<Tiles>(sizes_.depth, gradients_ + i * sizes_.depth_units, sizes_.depth_units,
                              values_by_head_ + key * sizes_.depth_units, block, dp, block_stride, columns, false);
      Tiles::gradients(scores_, dp, block_stride, offset, columns, shape_.scale, constants_[i / panel_rows],
                       p_ + i / Tiles::pair * block_stride, ds_ + i / Tiles::pair * block_stride, block_stride,
                       ds_by_rows_ + i * block_stride, block_stride);
    }
  }

  /// dv += PT d_o and dk += dST q for the block's keys; a panel of keys starts at the first query that sees it.
  void key_gradients(std::int64_t first, std::int64_t key, float* dk, float* dv) {
    const std::int64_t last = std::min(key + key_block, first + rows_);
    for (std::int64_t j = key; j < last; j += panel_rows) {
      const std::int64_t start = std::max<std::int64_t>(0, j - first) / Tiles::pair;
      const std::int64_t depth = rows_ / Tiles::pair - start;
      const std::int64_t column = start * block_stride + j - key;
      const std::int64_t block = query_block / Tiles::pair * tile_columns;
      multiply_by_columns<Tiles>(depth, p_ + column, block_stride, gradients_by_token_ + start * tile_columns, block,
                                 dv + j * sizes_.columns, sizes_.columns, sizes_.width, true);
      multiply_by_columns<Tiles>(depth, ds_ + column, block_stride, queries_by_token_ + start * tile_columns, block,
                                 dk + j * sizes_.columns, sizes_.columns, sizes_.width, true);
    }
  }

  /// dq_ (+)= dS k over the block's keys.
  void query_gradients(std::int64_t first, std::int64_t key) {
    for (std::int64_t i = 0; i < rows_; i += panel_rows) {
      const std::int64_t depth = std::min(key_block, first + i + panel_rows - key) / Tiles::pair;
      multiply_by_rows<Tiles>(depth, ds_by_rows_ + i * block_stride, block_stride,
                              keys_by_token_ + key / Tiles::pair * tile_columns, tile_columns * sizes_.token_units,
                              dq_ + i * sizes_.columns, sizes_.columns, sizes_.width, key != 0);
    }
  }

  const attention_shape& shape_;
  const backward_operands<Act>& x_;
  attention_sizes<Tiles> sizes_;
  unit* keys_by_head_;
  unit* values_by_head_;
  unit* keys_by_token_;
  unit* queries_;
  unit* gradients_;
  unit* queries_by_token_;
  unit* gradients_by_token_;
  unit* p_;
  unit* ds_;
  unit* ds_by_rows_;
  float* scores_;
  float* dq_;
  std::int64_t rows_ = 0;  ///< queries of the current block, in whole panels
  gradient_rows constants_[query_block / panel_rows] = {};
};

/// Adds the parts' sums into the first one's, over rows [part's share) of the tokens, and stores them.
template <class Tiles, class Act>
void store_sums(float* sums, std::int64_t part_size, std::int64_t parts, std::int64_t columns, const head_view<Act>& out,
                index_range tokens) {
  for (std::int64_t part = 1; part < parts; ++part) {
    const float* other = sums + part * part_size;
    for (std::int64_t i = tokens.begin * columns; i < tokens.end * columns; ++i) sums[i] += other[i];
  }
  if (tokens.size() > 0) {
    Tiles::store_rows(sums + tokens.begin * columns, columns, out.from(tokens.begin, tokens.size()), nullptr);
  }
}

template <class Tiles, class Act>
void attention_backward_with(thread_pool& pool, scratch& memory, const attention_shape& shape,
                             const backward_operands<Act>& operands) {
  const std::int64_t threads = pool.size();
  const std::int64_t parts = parts_per_head(shape, threads);
  const attention_sizes<Tiles> sizes{shape};
  const std::int64_t size = sizes.tokens * sizes.columns;
  auto frame = memory.open();
  using pass = backward_pass<Tiles, Act>;
  static_assert(std::is_trivially_destructible_v<pass>);  // they live in scratch memory: a step allocates nothing
  pass* passes = frame.take<pass>(pool.size());
  for (std::int64_t i = 0; i < threads; ++i) std::construct_at(passes + i, shape, operands, frame);
  float* dk = frame.take<float>(static_cast<std::size_t>(threads * size));
  float* dv = frame.take<float>(static_cast<std::size_t>(threads * size));
  const auto store = [&](std::int64_t head, std::int64_t first_copy, index_range tokens) {
    const std::int64_t b = head / shape.kv_heads;
    const std::int64_t h = head % shape.kv_heads;
    store_sums<Tiles>(dk + first_copy * size, size, parts, sizes.columns, head_of(shape, operands.dk, shape.k_stride, b, h),
                      tokens);
    store_sums<Tiles>(dv + first_copy * size, size, parts, sizes.columns, head_of(shape, operands.dv, shape.v_stride, b, h),
                      tokens);
  };
  const std::int64_t heads = shape.batch * shape.kv_heads;
  if (parts == 1) {
    pool.for_each(static_cast<unsigned>(heads), [&](unsigned head, unsigned thread) {
      passes[thread].run(head / shape.kv_heads, head % shape.kv_heads, 0, 1, dk + thread * size, dv + thread * size);
      store(head, thread, {0, shape.T});
    });
    return;
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    pool.run([&](unsigned thread) {
      passes[thread].run(head / shape.kv_heads, head % shape.kv_heads, thread, parts, dk + thread * size,
                         dv + thread * size);
    });
    pool.run([&](unsigned thread) { store(head, 0, share_of(shape.T, thread, pool.size())); });
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_ATTENTION_BACKWARD_HPP
