// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_SIMD_MATH_HPP
#define CAUSEWAY_KERNELS_SIMD_MATH_HPP

// Sixteen lanes at a time, written once with the compilers' generic vectors; the kernel copies of targets.hpp decide what
// they become (one AVX-512 register, two AVX2, four SSE2). Arithmetic is the built-in operators; what they lack is here.
// Everything takes and returns vectors by reference: a vector by value in a function that is not compiled for its register
// size has no settled calling convention, and compilers say so, even where all is inlined.

#include <causeway/config/config.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <xmmintrin.h>  // not immintrin.h, which has 39,000 lines: every program reads this one
#endif

// A lambda inside a kernel, inlined whatever the compiler thinks of its size.
#define CAUSEWAY_INLINE_LAMBDA __attribute__((always_inline))

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

using f32x16 [[gnu::vector_size(64)]] = float;
using i32x16 [[gnu::vector_size(64)]] = std::int32_t;
using u32x16 [[gnu::vector_size(64)]] = std::uint32_t;
using u16x16 [[gnu::vector_size(32)]] = std::uint16_t;
using f32x8 [[gnu::vector_size(32)]] = float;
using f32x4 [[gnu::vector_size(16)]] = float;

inline constexpr std::int64_t vector_lanes = 16;

/// Marks a whole vector of lanes, against `tail`: the first `count` of them.
struct whole {};
struct tail {
  std::int64_t count;
};

/// Calls `body(i, whole)` for i = 0, 16, ... and `body(i, tail)` for what is left of [0, count).
template <class Body>
CAUSEWAY_ALWAYS_INLINE void for_lanes(std::int64_t count, Body&& body) {
  std::int64_t i = 0;
  for (; i + vector_lanes <= count; i += vector_lanes) body(i, whole{});
  if (i < count) body(i, tail{count - i});
}

// ---- loads and stores: f32 in registers, f32, bf16 or f16 in memory ------------------------------------------------

CAUSEWAY_ALWAYS_INLINE void load(f32x16& v, const float* p, whole) { std::memcpy(&v, p, sizeof v); }
CAUSEWAY_ALWAYS_INLINE void store(float* p, const f32x16& v, whole) { std::memcpy(p, &v, sizeof v); }

CAUSEWAY_ALWAYS_INLINE void widen(f32x16& v, const u16x16& raw, const bf16*) {
  const u32x16 bits = __builtin_convertvector(raw, u32x16) << 16U;
  v = reinterpret_cast<f32x16>(bits);
}

/// Rounds to nearest even; a NaN stays one.
CAUSEWAY_ALWAYS_INLINE void narrow(u16x16& raw, const f32x16& v, const bf16*) {
  const u32x16 bits = reinterpret_cast<u32x16>(v);
  const u32x16 rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  const u32x16 result = v != v ? (bits | 0x400000U) : rounded;
  raw = __builtin_convertvector(result >> 16U, u16x16);
}

/// The exponent is moved by a multiplication, which also makes subnormals right.
CAUSEWAY_ALWAYS_INLINE void widen(f32x16& v, const u16x16& raw, const f16*) {
  const u32x16 half = __builtin_convertvector(raw, u32x16);
  const u32x16 shifted = (half & 0x7FFFU) << 13U;
  const f32x16 scaled = reinterpret_cast<f32x16>(shifted) * 0x1.0p112F;
  const u32x16 infinite = shifted | 0x7F800000U;
  const u32x16 finite = reinterpret_cast<u32x16>(scaled);
  const u32x16 magnitude = reinterpret_cast<i32x16>(shifted) >= 0x0F800000 ? infinite : finite;
  const u32x16 bits = magnitude | ((half & 0x8000U) << 16U);
  v = reinterpret_cast<f32x16>(bits);
}

/// Rounds to nearest even. Subnormals are rounded by the addition of a number whose last bit is theirs.
CAUSEWAY_ALWAYS_INLINE void narrow(u16x16& raw, const f32x16& v, const f16*) {
  const u32x16 bits = reinterpret_cast<u32x16>(v);
  const u32x16 magnitude = bits & 0x7FFFFFFFU;
  const i32x16 order = reinterpret_cast<i32x16>(magnitude);
  const u32x16 normal = (magnitude + 0xFFFU + ((magnitude >> 13U) & 1U) - (112U << 23U)) >> 13U;
  const f32x16 shifted = reinterpret_cast<f32x16>(magnitude) + 0.5F;
  const u32x16 subnormal = reinterpret_cast<u32x16>(shifted) - 0x3F000000U;
  const u32x16 infinite = (magnitude & 0U) + 0x7C00U;
  const u32x16 not_a_number = infinite + 0x200U;
  u32x16 half = order < 0x38800000 ? subnormal : normal;
  half = order >= 0x477FF000 ? infinite : half;
  half = order > 0x7F800000 ? not_a_number : half;
  raw = __builtin_convertvector(half | ((bits >> 16U) & 0x8000U), u16x16);
}

template <class Half>
  requires(sizeof(Half) == 2)
CAUSEWAY_ALWAYS_INLINE void load(f32x16& v, const Half* p, whole) {
  u16x16 raw;
  std::memcpy(&raw, p, sizeof raw);
  widen(v, raw, p);
}

template <class Half>
  requires(sizeof(Half) == 2)
CAUSEWAY_ALWAYS_INLINE void store(Half* p, const f32x16& v, whole) {
  u16x16 raw;
  narrow(raw, v, p);
  std::memcpy(static_cast<void*>(p), &raw, sizeof raw);
}

/// Lanes beyond the tail read as zero.
template <class T>
CAUSEWAY_ALWAYS_INLINE void load(f32x16& v, const T* p, tail part) {
  T padded[vector_lanes] = {};
  std::memcpy(static_cast<void*>(padded), p, static_cast<std::size_t>(part.count) * sizeof(T));
  load(v, padded, whole{});
}

template <class T>
CAUSEWAY_ALWAYS_INLINE void store(T* p, const f32x16& v, tail part) {
  T padded[vector_lanes];
  store(padded, v, whole{});
  std::memcpy(static_cast<void*>(p), padded, static_cast<std::size_t>(part.count) * sizeof(T));
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

CAUSEWAY_ALWAYS_INLINE void broadcast(f32x16& v, float value) { v = value - f32x16{}; }

/// Square roots in place, correctly rounded. Quarter by quarter: four narrow instructions take as long as one wide one.
CAUSEWAY_ALWAYS_INLINE void square_root(f32x16& v) {
#if defined(__x86_64__)
  f32x4 a = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  f32x4 b = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  f32x4 c = __builtin_shufflevector(v, v, 8, 9, 10, 11);
  f32x4 d = __builtin_shufflevector(v, v, 12, 13, 14, 15);
  a = _mm_sqrt_ps(a);
  b = _mm_sqrt_ps(b);
  c = _mm_sqrt_ps(c);
  d = _mm_sqrt_ps(d);
  const f32x8 low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
  const f32x8 high = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
  v = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  for (int lane = 0; lane < 16; ++lane) v[lane] = std::sqrt(v[lane]);
#endif
}

/// e^x in place, relative error below 1e-7 (Cephes' polynomial). Arguments beyond ±87 are taken as ±87, so that neither
/// the result nor its reciprocal is subnormal or infinite; NaN stays NaN.
CAUSEWAY_ALWAYS_INLINE void exponential(f32x16& x) {
  constexpr float round = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  f32x16 high, low;
  broadcast(high, 87.0F);
  broadcast(low, -87.0F);
  x = high < x ? high : x;  // in this order it is one instruction, and NaN stays
  x = low > x ? low : x;
  const f32x16 shifted = x * 1.44269504088896341F + round;
  const f32x16 n = shifted - round;
  const f32x16 r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  f32x16 p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r;
  const u32x16 power = (reinterpret_cast<u32x16>(shifted) + (127U - 0x4B400000U)) << 23U;
  const f32x16 scale = reinterpret_cast<f32x16>(power);
  x = p * scale + scale;
}

/// The logistic function of -x in place: 1 / (1 + e^x).
CAUSEWAY_ALWAYS_INLINE void sigmoid_of_minus(f32x16& x) {
  exponential(x);
  x = 1.0F / (1.0F + x);
}

/// The sum of all lanes, in an order of its own that is the same everywhere.
CAUSEWAY_ALWAYS_INLINE float horizontal_sum(const f32x16& v) {
  const f32x4 a = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 8, 9, 10, 11);
  const f32x4 b = __builtin_shufflevector(v, v, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 12, 13, 14, 15);
  const f32x4 c = a + b;
  return (c[0] + c[2]) + (c[1] + c[3]);
}

/// Adds `term(accumulator, i)` over the whole vectors of [0, count), then `last(i)` for what is left, and returns the sum.
/// Four accumulators, because one would wait for itself.
template <class Term, class Last>
CAUSEWAY_ALWAYS_INLINE float sum_lanes(std::int64_t count, Term&& term, Last&& last) {
  CAUSEWAY_EXACT_BODY
  f32x16 a{}, b{}, c{}, d{};
  std::int64_t i = 0;
  for (; i + 4 * vector_lanes <= count; i += 4 * vector_lanes) {
    term(a, i);
    term(b, i + vector_lanes);
    term(c, i + 2 * vector_lanes);
    term(d, i + 3 * vector_lanes);
  }
  for (; i + vector_lanes <= count; i += vector_lanes) term(a, i);
  a = (a + b) + (c + d);
  float sum = horizontal_sum(a);
  for (; i < count; ++i) sum += last(i);
  return sum;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_SIMD_MATH_HPP
