// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_WARP_HPP
#define CAUSEWAY_CUDA_BODIES_WARP_HPP

// Warps that multiply matrices together: what tensor-core kernels are written over. A thread of the device runs one lane of
// a warp; a thread of the host runs all 32, one after another, with the matrix step done as the device defines it. So a
// body has the same tiles, masks, swizzles and fragments in both places. What lanes hold in registers is a `lane_values`;
// what they do apart from one another goes through `each`.

#include <causeway/config/config.hpp>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>

// Loops over registers must be unrolled, or the registers become memory.
#if defined(__CUDA_ARCH__)
#define CAUSEWAY_UNROLL_ON_DEVICE _Pragma("unroll")
#else
#define CAUSEWAY_UNROLL_ON_DEVICE
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// N values in the registers of each lane that the calling thread runs: `Lanes` is 1 on the device, 32 on the host.
template <class T, int N, int Lanes>
struct lane_values {
  static_assert(Lanes == 1 || Lanes == 32);
  T at[Lanes][N];

  [[nodiscard]] CAUSEWAY_HD auto operator[](int lane) -> T (&)[N] { return at[Lanes == 1 ? 0 : lane]; }
  [[nodiscard]] CAUSEWAY_HD auto operator[](int lane) const -> const T (&)[N] { return at[Lanes == 1 ? 0 : lane]; }
};

/// Two bf16 in each of four registers: a 16 x 16 left operand, or 16 x 16 of a right one, which is two of 16 x 8.
template <class W>
using fragment = lane_values<std::uint32_t, 4, W::lanes>;
/// A 16 x 8 sum in f32: lane l has rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next, in the order of rows.
template <class W>
using fragment_sum = lane_values<float, 4, W::lanes>;

/// One warp of a block of `warps`. Every lane must come to each call, `each` apart. What a call reads of shared memory must
/// have been written before a `sync` (or, by the same warp, a `sync_lanes`).
///   each(f)                  f(lane) for the lanes of this thread
///   sync, sync_lanes         waits for the block, for the warp
///   multiply<Half>(c, a, b)  c += a b, with columns 8 Half .. 8 Half + 7 of b: PTX mma.m16n8k16, the sums in f32
///   load(r, f)               four 8 x 8 matrices of bf16 from shared memory: f(lane) is where row lane % 8 of matrix
///                            lane / 8 begins, 16-byte aligned. Register i of lane l becomes elements 2 (l % 4) and the
///                            next of row l / 4 of matrix i (PTX ldmatrix.x4); load_transposed: of column l / 4
///   copy<Bytes>(to, from, real)  within `each`: starts copying 4 or 16 bytes to shared memory, or zeros if not `real`
///   commit, wait<Pending>    closes a batch of copies; waits for all but the last `Pending` batches of this thread
///   largest_of_quad, sum_of_quad  over the lanes with the same lane / 4, which all get the result
template <class W>
concept Warp = requires(W& w, fragment<W>& a, fragment_sum<W>& c, const std::uint16_t* (*place)(int), void (*f)(int),
                        void* to, const void* from, lane_values<float, 2, W::lanes>& rows) {
  { w.warp() } -> std::same_as<int>;
  w.each(f);
  w.sync();
  w.sync_lanes();
  w.template multiply<0>(c, a, a);
  w.load(a, place);
  w.load_transposed(a, place);
  w.template copy<16>(to, from, true);
  w.commit();
  w.template wait<0>();
  w.largest_of_quad(rows);
  w.sum_of_quad(rows);
};

namespace detail {

/// Two values as bf16, rounded to nearest even, the first in the low half.
CAUSEWAY_HD inline std::uint32_t packed_bf16(float low, float high) {
#if defined(__CUDA_ARCH__)
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  const auto rounded = [](float v) {
    const auto u = std::bit_cast<std::uint32_t>(v);
    if ((u & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFFU;  // as the instruction does with a NaN
    return (u + 0x7FFFU + ((u >> 16U) & 1U)) >> 16U;
  };
  return rounded(low) | rounded(high) << 16U;
#endif
}

/// 2^x, relative error below 2^-22; results below 2^-126 are zero.
CAUSEWAY_HD inline float power_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return x < -126.0F ? 0.0F : std::exp2(x);
#endif
}

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_WARP_HPP
