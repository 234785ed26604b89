// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_ATTENTION_FORWARD_BODY_HPP
#define CAUSEWAY_CUDA_BODIES_ATTENTION_FORWARD_BODY_HPP

// Causal attention on tensor cores (Dao, FlashAttention-2, 2023, algorithm 1), with grouped queries: a block owns a tile of
// queries of one head and walks over the keys they see. A warp owns 16 RowTiles of the queries from the first product to
// the last, so rows need no other warp: scores, their running maximum and sum, and the output stay in registers. Copies of
// the next tile run during the products: values while the scores are made, keys while they are used.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/matrix_tiles.hpp>
#include <causeway/cuda/bodies/warp.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

inline constexpr float log2_of_e = 1.44269504088896341F;

constexpr std::int64_t tiles_of(std::int64_t T, int rows) noexcept { return (T + rows - 1) / rows; }

/// Token 0 of a head in sequence b; `shape` says how tokens follow.
template <class Act>
CAUSEWAY_HD Act* head_of(const kernels::attention_shape& shape, Act* data, std::int64_t stride, std::int64_t b,
                         std::int64_t head) {
  return data + b * shape.T * stride + head * shape.head_size;
}

/// Two values for each 16 rows: those of rows lane / 4 and lane / 4 + 8.
template <class W, int M>
struct row_values {
  lane_values<float, 2, W::lanes> at[M];
};

/// The running softmax of rows: the largest score so far, and the sum of exp(scale (score - top)) over the columns that the
/// lane has seen.
template <class W, int M>
struct softmax_state {
  row_values<W, M> top, sum;

  CAUSEWAY_HD explicit softmax_state(W& w) {
    w.each([&](int lane) {
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int m = 0; m < M; ++m) {
        for (int r = 0; r < 2; ++r) {
          top.at[m][lane][r] = -std::numeric_limits<float>::infinity();
          sum.at[m][lane][r] = 0.0F;
        }
      }
    });
  }

  /// Scores become probabilities, apart from the factor 1 / sum; `out` is brought to the new maximum. Each row must have
  /// met a finite score by the end of the first call. `scale2` is the scale over log 2.
  template <int K, int N>
  CAUSEWAY_HD void take(W& w, tile_sum<W, M, K>& scores, tile_sum<W, M, N>& out, float scale2) {
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int m = 0; m < M; ++m) {
      lane_values<float, 2, W::lanes> most;
      w.each([&](int lane) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int r = 0; r < 2; ++r) {
          most[lane][r] = top.at[m][lane][r];
          CAUSEWAY_UNROLL_ON_DEVICE
          for (int n = 0; n < K; ++n) {
            most[lane][r] = std::fmax(most[lane][r], scores.at[m][n][lane][2 * r]);
            most[lane][r] = std::fmax(most[lane][r], scores.at[m][n][lane][2 * r + 1]);
          }
        }
      });
      w.largest_of_quad(most);
      w.each([&](int lane) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int r = 0; r < 2; ++r) rescale(lane, m, r, most[lane][r], scores, out, scale2);
      });
    }
  }

 private:
  template <int K, int N>
  CAUSEWAY_HD void rescale(int lane, int m, int r, float most, tile_sum<W, M, K>& scores, tile_sum<W, M, N>& out,
                           float scale2) {
    const float keep = power_of_two((top.at[m][lane][r] - most) * scale2);  // 0 the first time
    const float shift = most * scale2;
    top.at[m][lane][r] = most;
    float total = sum.at[m][lane][r] * keep;
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int n = 0; n < K; ++n) {
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int i = 2 * r; i < 2 * r + 2; ++i) {
        float& v = scores.at[m][n][lane][i];
        v = power_of_two(v * scale2 - shift);
        total += v;
      }
    }
    sum.at[m][lane][r] = total;
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int n = 0; n < N; ++n) {
      out.at[m][n][lane][2 * r] *= keep;
      out.at[m][n][lane][2 * r + 1] *= keep;
    }
  }
};

}  // namespace detail

/// o = softmax(scale q kᵀ, causal) v and logsumexp [batch, heads, T], as kernels::attention_forward. An item is a tile of
/// queries of one head. Rows of q, k, v and o begin at multiples of 16 bytes; shape.head_size is HeadSize.
template <int HeadSize, int RowTiles, int Warps, int Keys>
struct attention_forward_body {
  kernels::attention_shape shape;
  const bf16* q = nullptr;
  const bf16* k = nullptr;
  const bf16* v = nullptr;
  bf16* o = nullptr;
  float* logsumexp = nullptr;

  static constexpr int warps = Warps;
  static constexpr int own = 16 * RowTiles;  ///< queries of a warp
  static constexpr int queries = own * Warps;
  static constexpr std::size_t working_bytes = sizeof(bf16) * HeadSize * (queries + 2 * Keys);
  [[nodiscard]] std::int64_t items() const { return shape.batch * shape.heads * detail::tiles_of(shape.T, queries); }

  template <Warp W>
  CAUSEWAY_HD void run(W& w, std::int64_t item, bf16* memory) const {
    const std::int64_t tiles = detail::tiles_of(shape.T, queries);
    const std::int64_t b = item / tiles / shape.heads, h = item / tiles % shape.heads;
    const std::int64_t first = (tiles - 1 - item % tiles) * queries;  // the longest come first
    const std::int64_t end = first + queries < shape.T ? first + queries : shape.T;
    const std::int64_t kv_head = h / (shape.heads / shape.kv_heads);
    const bf16* const keys = detail::head_of(shape, k, shape.k_stride, b, kv_head);
    const bf16* const values = detail::head_of(shape, v, shape.v_stride, b, kv_head);
    const tile q_tile{memory}, k_tile{memory + queries * HeadSize}, v_tile{k_tile.data + Keys * HeadSize};
    detail::copy_rows<queries, Warps>(w, q_tile, detail::head_of(shape, q, shape.q_stride, b, h), shape.q_stride, first,
                                      shape.T);
    detail::copy_rows<Keys, Warps>(w, k_tile, keys, shape.k_stride, 0, shape.T);
    w.commit();

    const int row = w.warp() * own;
    tile_sum<W, RowTiles, HeadSize / 8> out;
    detail::clear(w, out);
    detail::softmax_state<W, RowTiles> state{w};
    for (std::int64_t key = 0; key < end; key += Keys) {
      const int offset = static_cast<int>(first - key) + row;  // column c of the scores is seen by rows r, c <= r + offset
      const bool seen = offset + own > 0;
      tile_sum<W, RowTiles, Keys / 8> scores;
      w.template wait<0>();
      w.sync();  // the keys are here, and nobody needs the values before
      detail::copy_rows<Keys, Warps>(w, v_tile, values, shape.v_stride, key, shape.T);
      w.commit();
      if (seen) {
        detail::clear(w, scores);
        detail::multiply_by_rows(w, scores, q_tile, row, k_tile);
        if (offset < Keys - 1) detail::mask<detail::masked::right_of_diagonal>(w, scores, offset);
      }
      w.template wait<0>();
      w.sync();  // the values are here, and nobody needs the keys
      if (key + Keys < end) detail::copy_rows<Keys, Warps>(w, k_tile, keys, shape.k_stride, key + Keys, shape.T);
      w.commit();
      if (seen) {
        state.take(w, scores, out, shape.scale * detail::log2_of_e);
        detail::multiply_held(w, out, scores, v_tile);
      }
    }
    finish(w, state, out);
    store_sums(w, state, b, h, first + row);
    detail::store_rows(w, out, q_tile, row, detail::head_of(shape, o, shape.o_stride, b, h), shape.o_stride, first + row,
                       shape.T);
  }

 private:
  using tile = shared_tile<HeadSize>;

  /// The sums over whole rows, and the output divided by them.
  template <class W, class State>
  CAUSEWAY_HD void finish(W& w, State& state, tile_sum<W, RowTiles, HeadSize / 8>& out) const {
    CAUSEWAY_UNROLL_ON_DEVICE
    for (int m = 0; m < RowTiles; ++m) {
      w.sum_of_quad(state.sum.at[m]);
      w.each([&](int lane) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int r = 0; r < 2; ++r) {
          const float inverse = 1.0F / state.sum.at[m][lane][r];
          CAUSEWAY_UNROLL_ON_DEVICE
          for (int n = 0; n < HeadSize / 8; ++n) {
            out.at[m][n][lane][2 * r] *= inverse;
            out.at[m][n][lane][2 * r + 1] *= inverse;
          }
        }
      });
    }
  }

  template <class W, class State>
  CAUSEWAY_HD void store_sums(W& w, const State& state, std::int64_t b, std::int64_t h, std::int64_t first) const {
    float* const to = logsumexp + (b * shape.heads + h) * shape.T;
    w.each([&](int lane) {
      if (lane % 4 != 0) return;
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int m = 0; m < RowTiles; ++m) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int r = 0; r < 2; ++r) {
          const std::int64_t t = first + 16 * m + detail::row_of(lane, 2 * r);
          if (t < shape.T) to[t] = state.top.at[m][lane][r] * shape.scale + std::log(state.sum.at[m][lane][r]);
        }
      }
    });
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_ATTENTION_FORWARD_BODY_HPP
