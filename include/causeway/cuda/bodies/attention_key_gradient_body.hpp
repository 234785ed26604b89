// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_ATTENTION_KEY_GRADIENT_BODY_HPP
#define CAUSEWAY_CUDA_BODIES_ATTENTION_KEY_GRADIENT_BODY_HPP

// The pass over the queries of attention's gradient (attention_backward_bodies.hpp): scores have keys down and queries
// across, so that the probabilities and dS of a warp's keys are left operands, in its registers, of the products for dv and
// dk. What belongs to a query, its logsumexp and correction, is copied beside the query.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/attention_backward_bodies.hpp>
#include <causeway/cuda/bodies/attention_forward_body.hpp>
#include <causeway/cuda/bodies/matrix_tiles.hpp>
#include <causeway/cuda/bodies/warp.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// dk and dv. An item is a tile of keys of one key head; the block walks over the queries that see them, of all heads that
/// share the key head, one head after another. Strides of dk and dv are k's and v's.
template <int HeadSize, int RowTiles, int Warps, int Queries>
struct attention_key_gradient_body {
  kernels::attention_shape shape;
  attention_gradient_operands<bf16> x;
  bf16* dk = nullptr;
  bf16* dv = nullptr;

  static constexpr int warps = Warps;
  static constexpr int own = 16 * RowTiles;
  static constexpr int keys = own * Warps;
  static constexpr int stage_values = 2 * Queries * HeadSize + 4 * Queries;  ///< q, d_o and two rows of f32
  static constexpr std::size_t working_bytes = sizeof(bf16) * (2 * keys * HeadSize + 2 * stage_values);
  static_assert(2 * Queries <= 32 * Warps);
  [[nodiscard]] std::int64_t items() const { return shape.batch * shape.kv_heads * detail::tiles_of(shape.T, keys); }

  template <Warp W>
  CAUSEWAY_HD void run(W& w, std::int64_t item, bf16* memory) const {
    const std::int64_t tiles = detail::tiles_of(shape.T, keys);
    const std::int64_t b = item / tiles / shape.kv_heads, kv_head = item / tiles % shape.kv_heads;
    const std::int64_t first = item % tiles * keys;  // the longest come first
    const tile k_tile{memory}, v_tile{memory + keys * HeadSize};
    bf16* const stages = v_tile.data + keys * HeadSize;
    detail::copy_rows<keys, Warps>(w, k_tile, detail::head_of(shape, x.k, shape.k_stride, b, kv_head), shape.k_stride,
                                   first, shape.T);
    detail::copy_rows<keys, Warps>(w, v_tile, detail::head_of(shape, x.v, shape.v_stride, b, kv_head), shape.v_stride,
                                   first, shape.T);
    const std::int64_t group = shape.heads / shape.kv_heads, start = first / Queries * Queries;
    position at{kv_head * group, start};
    copy_queries(w, stages, b, at);

    const int row = w.warp() * own;
    tile_sum<W, RowTiles, HeadSize / 8> dk_sums, dv_sums;
    detail::clear(w, dk_sums);
    detail::clear(w, dv_sums);
    for (int stage = 0; at.head < (kv_head + 1) * group; stage ^= 1) {
      w.template wait<0>();
      w.sync();  // this stage is here, and nobody needs the other one

      const int offset = static_cast<int>(first - at.query) + row;  // column c sees rows r, c >= r + offset
      at = at.query + Queries < shape.T ? position{at.head, at.query + Queries} : position{at.head + 1, start};
      if (at.head < (kv_head + 1) * group) copy_queries(w, stages + (stage ^ 1) * stage_values, b, at);
      if (offset >= Queries) continue;  // none of these sees this warp's keys
      const stage_of here{stages + stage * stage_values};
      tile_sum<W, RowTiles, Queries / 8> p, ds;
      detail::clear(w, p);
      detail::multiply_by_rows(w, p, k_tile, row, here.q);
      if (offset + own > 1) detail::mask<detail::masked::left_of_diagonal>(w, p, offset);
      turn_into_p(w, p, here.sums);
      detail::multiply_held(w, dv_sums, p, here.d_o);
      detail::clear(w, ds);
      detail::multiply_by_rows(w, ds, v_tile, row, here.d_o);
      turn_into_ds(w, ds, p, here.corrections);
      detail::multiply_held(w, dk_sums, ds, here.q);
    }
    detail::scale(w, dk_sums, shape.scale);
    detail::store_rows(w, dk_sums, k_tile, row, detail::head_of(shape, dk, shape.k_stride, b, kv_head), shape.k_stride,
                       first + row, shape.T);
    detail::store_rows(w, dv_sums, v_tile, row, detail::head_of(shape, dv, shape.v_stride, b, kv_head), shape.v_stride,
                       first + row, shape.T);
  }

 private:
  using tile = shared_tile<HeadSize>;

  struct stage_of {
    tile q, d_o;
    float* sums;
    float* corrections;
    CAUSEWAY_HD explicit stage_of(bf16* at)
        : q{at},
          d_o{at + Queries * HeadSize},
          sums{reinterpret_cast<float*>(at + 2 * Queries * HeadSize)},
          corrections{sums + Queries} {}
  };

  /// Where the walk over the queries is.
  struct position {
    std::int64_t head, query;
  };

  /// Queries, their gradients, logsumexp and corrections; all zero beyond T, which makes P one there, d_o zero, and dS
  /// zero.
  template <class W>
  CAUSEWAY_HD void copy_queries(W& w, bf16* stage, std::int64_t b, const position& at) const {
    const stage_of to{stage};
    const std::int64_t h = at.head, query = at.query, line = (b * shape.heads + h) * shape.T;
    detail::copy_rows<Queries, Warps>(w, to.q, detail::head_of(shape, x.q, shape.q_stride, b, h), shape.q_stride, query,
                                      shape.T);
    detail::copy_rows<Queries, Warps>(w, to.d_o, detail::head_of(shape, x.d_o, shape.o_stride, b, h), shape.o_stride, query,
                                      shape.T);
    w.each([&](int lane) {
      const int thread = w.warp() * 32 + lane, i = thread % Queries;
      const bool real = query + i < shape.T;
      const float* const from = thread < Queries ? x.logsumexp : x.correction;
      if (thread < 2 * Queries) w.template copy<4>(to.sums + thread, from + line + (real ? query + i : 0), real);
    });
    w.commit();
  }

  template <class W>
  CAUSEWAY_HD void turn_into_p(W& w, tile_sum<W, RowTiles, Queries / 8>& scores, const float* sums) const {
    const float scale2 = shape.scale * detail::log2_of_e;
    w.each([&](int lane) {
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int n = 0; n < Queries / 8; ++n) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int i = 0; i < 2; ++i) {
          const float sum2 = sums[8 * n + detail::column_of(lane, i)] * detail::log2_of_e;
          CAUSEWAY_UNROLL_ON_DEVICE
          for (int m = 0; m < RowTiles; ++m) {
            float(&v)[4] = scores.at[m][n][lane];
            v[i] = detail::power_of_two(v[i] * scale2 - sum2);
            v[i + 2] = detail::power_of_two(v[i + 2] * scale2 - sum2);
          }
        }
      }
    });
  }

  template <class W>
  CAUSEWAY_HD static void turn_into_ds(W& w, tile_sum<W, RowTiles, Queries / 8>& dp,
                                       const tile_sum<W, RowTiles, Queries / 8>& p, const float* corrections) {
    w.each([&](int lane) {
      CAUSEWAY_UNROLL_ON_DEVICE
      for (int n = 0; n < Queries / 8; ++n) {
        CAUSEWAY_UNROLL_ON_DEVICE
        for (int i = 0; i < 4; ++i) {
          const float correction = corrections[8 * n + detail::column_of(lane, i)];
          CAUSEWAY_UNROLL_ON_DEVICE
          for (int m = 0; m < RowTiles; ++m) {
            float& v = dp.at[m][n][lane][i];
            v = p.at[m][n][lane][i] * (v - correction);
          }
        }
      }
    });
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_ATTENTION_KEY_GRADIENT_BODY_HPP
