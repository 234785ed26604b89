// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_ATTENTION_BACKWARD_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_ATTENTION_BACKWARD_BODIES_HPP

// The gradient of causal attention on tensor cores. With P the probabilities made again from logsumexp and D = sum(d_o · o)
// of a row (Dao, FlashAttention-2, 2023, algorithm 2):
//   dP = d_o vᵀ,  dS = P (dP - D),  dv = Pᵀ d_o,  dk = scale dSᵀ q,  dq = scale dS k
// The paper's one pass over the keys adds to dq from many blocks at once, in no fixed order. Here dk and dv have a pass
// over the queries, dq one over the keys: seven products instead of five, one owner for each output, and no atomics. The
// first pass works on transposed scores, keys down and queries across, so that P and dS are left operands where they lie.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/attention_forward_body.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/matrix_tiles.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/cuda/bodies/warp.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// What the passes read; o's and d_o's rows are shape.o_stride apart.
template <class Act>
struct attention_gradient_operands {
  const Act* q = nullptr;
  const Act* k = nullptr;
  const Act* v = nullptr;
  const Act* o = nullptr;
  const Act* d_o = nullptr;
  const float* logsumexp = nullptr;  ///< [batch, heads, T]
  float* correction = nullptr;       ///< [batch, heads, T]: sum(d_o · o) of each row, by attention_correction_body
};

/// correction = the sum of d_o · o over each row: an item is a row of a head.
template <class Act>
struct attention_correction_body {
  kernels::attention_shape shape;
  attention_gradient_operands<Act> x;

  [[nodiscard]] std::int64_t items() const { return shape.batch * shape.heads * shape.T; }
  [[nodiscard]] bool aligned() const {
    return shape.head_size % pack_width == 0 && shape.o_stride % pack_width == 0 && detail::on_packs(x.o, x.d_o);
  }
  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t item) const {
    const std::int64_t h = item % shape.heads, token = item / shape.heads;  // heads of a token lie side by side
    const std::int64_t at = token * shape.o_stride + h * shape.head_size;
    float sum = 0.0F;
    detail::for_packs<N>(g, shape.head_size, [&](std::int64_t i, auto width) {
      float a[width.value], b[width.value];
      detail::load(a, x.o + at + i);
      detail::load(b, x.d_o + at + i);
      for (int k = 0; k < width.value; ++k) sum += a[k] * b[k];
    });
    sum = g.sum(sum);
    if (g.rank() == 0) x.correction[(token / shape.T * shape.heads + h) * shape.T + token % shape.T] = sum;
  }
};

/// dq. An item is a tile of queries of one head, as in the forward pass; the next keys and values are copied while these
/// are used. Strides of dq are q's.
template <int HeadSize, int RowTiles, int Warps, int Keys>
struct attention_query_gradient_body {
  kernels::attention_shape shape;
  attention_gradient_operands<bf16> x;
  bf16* dq = nullptr;

  static constexpr int warps = Warps;
  static constexpr int own = 16 * RowTiles;
  static constexpr int queries = own * Warps;
  static constexpr std::size_t working_bytes = sizeof(bf16) * HeadSize * (2 * queries + 4 * Keys);
  [[nodiscard]] std::int64_t items() const { return shape.batch * shape.heads * detail::tiles_of(shape.T, queries); }

  template <Warp W>
  CAUSEWAY_HD void run(W& w, std::int64_t item, bf16* memory) const {
    const std::int64_t tiles = detail::tiles_of(shape.T, queries);
    const std::int64_t b = item / tiles / shape.heads, h = item / tiles % shape.heads;
    const std::int64_t first = (tiles - 1 - item % tiles) * queries;  // the longest come first
    const std::int64_t end = first + queries < shape.T ? first + queries : shape.T;
    const std::int64_t kv_head = h / (shape.heads / shape.kv_heads);
    const bf16* const keys = detail::head_of(shape, x.k, shape.k_stride, b, kv_head);
    const bf16* const values = detail::head_of(shape, x.v, shape.v_stride, b, kv_head);
    const tile q_tile{memory}, d_o_tile{memory + queries * HeadSize};
    bf16* const stages = d_o_tile.data + queries * HeadSize;
    const auto copy_keys = [&](std::int64_t key, int stage) {
      const tile k_tile{stages + stage * 2 * Keys * HeadSize};
      detail::copy_rows<Keys, Warps>(w, k_tile, keys, shape.k_stride, key, shape.T);
      detail::copy_rows<Keys, Warps>(w, tile{k_tile.data + Keys * HeadSize}, values, shape.v_stride, key, shape.T);
      w.commit();
    };
    detail::copy_rows<queries, Warps>(w, q_tile, detail::head_of(shape, x.q, shape.q_stride, b, h), shape.q_stride, first,
                                      shape.T);
    detail::copy_rows<queries, Warps>(w, d_o_tile, detail::head_of(shape, x.d_o, shape.o_stride, b, h), shape.o_stride,
                                      first, shape.T);
    copy_keys(0, 0);

    const int row = w.warp() * own;
    const row_constants<W> rows{w, *this, (b * shape.heads + h) * shape.T, first + row};
    tile_sum<W, RowTiles, HeadSize / 8> sums;
    detail::clear(w, sums);
    int stage = 0;
    for (std::int64_t key = 0; key < end; key += Keys, stage ^= 1) {
      w.template wait<0>();
      w.sync();  // this stage is here, and nobody needs the other one
      if (key + Keys < end) copy_keys(key + Keys, stage ^ 1);
      const int offset = static_cast<int>(first - key) + row;
      if (offset + own <= 0) continue;  // this warp's queries see none of these
      const tile k_tile{stages + stage * 2 * Keys * HeadSize}, v_tile{k_tile.data + Keys * HeadSize};
      tile_sum<W, RowTiles, Keys / 8> scores, dp;
      detail::clear(w, scores);
      detail::multiply_by_rows(w, scores, q_tile, row, k_tile);
      if (offset < Keys - 1) detail::mask<detail::masked::right_of_diagonal>(w, scores, offset);
      detail::clear(w, dp);
      detail::multiply_by_rows(w, dp, d_o_tile, row, v_tile);
      rows.turn_into_ds(w, scores, dp, shape.scale * detail::log2_of_e);
      detail::multiply_held(w, sums, scores, k_tile);
    }
    detail::scale(w, sums, shape.scale);
    detail::store_rows(w, sums, q_tile, row, detail::head_of(shape, dq, shape.q_stride, b, h), shape.q_stride, first + row,
                       shape.T);
  }

 private:
  using tile = shared_tile<HeadSize>;

  /// logsumexp over log 2 and the correction of the warp's rows; zeros beyond T, where d_o is zero too, and so dS.
  template <class W>
  struct row_constants {
    detail::row_values<W, RowTiles> sum2, correction;

    CAUSEWAY_HD row_constants(W& w, const attention_query_gradient_body& body, std::int64_t line, std::int64_t first) {
      w.each([&](int lane) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int m = 0; m < RowTiles; ++m) {
          CAUSEWAY_UNROLL_ON_DEVICE
          for (int r = 0; r < 2; ++r) {
            const std::int64_t t = first + 16 * m + detail::row_of(lane, 2 * r);
            const bool real = t < body.shape.T;
            sum2.at[m][lane][r] = real ? body.x.logsumexp[line + t] * detail::log2_of_e : 0.0F;
            correction.at[m][lane][r] = real ? body.x.correction[line + t] : 0.0F;
          }
        }
      });
    }

    CAUSEWAY_HD void turn_into_ds(W& w, tile_sum<W, RowTiles, Keys / 8>& scores, const tile_sum<W, RowTiles, Keys / 8>& dp,
                                  float scale2) const {
      w.each([&](int lane) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int m = 0; m < RowTiles; ++m) {
          CAUSEWAY_UNROLL_ON_DEVICE
          for (int n = 0; n < Keys / 8; ++n) {
            CAUSEWAY_UNROLL_ON_DEVICE
            for (int i = 0; i < 4; ++i) {
              float& v = scores.at[m][n][lane][i];
              const float p = detail::power_of_two(v * scale2 - sum2.at[m][lane][i / 2]);
              v = p * (dp.at[m][n][lane][i] - correction.at[m][lane][i / 2]);
            }
          }
        }
      });
    }
  };
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_ATTENTION_BACKWARD_BODIES_HPP
