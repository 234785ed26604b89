// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_SIMD_MATH_HPP
#define CAUSEWAY_KERNELS_SIMD_MATH_HPP

// Sixteen lanes at a time, written once with the compilers' generic vectors; the kernel copies of targets.hpp decide what
// they become (one AVX-512 register, two AVX2, four SSE2). Arithmetic is the built-in operators; what they lack is here.
// Some of it also takes eight lanes: GCC keeps vectors wider than the machine's in memory where they live across a loop or
// come out of one of two ways.
// Everything takes and returns vectors by reference: a vector by value in a function that is not compiled for its register
// size has no settled calling convention, and compilers say so, even where all is inlined.

#include <causeway/config/config.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

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
using i32x8 [[gnu::vector_size(32)]] = std::int32_t;
using u32x8 [[gnu::vector_size(32)]] = std::uint32_t;
using u16x8 [[gnu::vector_size(16)]] = std::uint16_t;
using f32x4 [[gnu::vector_size(16)]] = float;

inline constexpr std::int64_t vector_lanes = 16;

/// The integers, and the half-wide ones, with as many lanes as a vector of floats.
template <class Floats>
struct lanes_of;
template <>
struct lanes_of<f32x16> {
  using bits = u32x16;
  using integers = i32x16;
  using halves = u16x16;
};
template <>
struct lanes_of<f32x8> {
  using bits = u32x8;
  using integers = i32x8;
  using halves = u16x8;
};
template <class Floats>
using bits_of = typename lanes_of<Floats>::bits;
template <class Floats>
using halves_of = typename lanes_of<Floats>::halves;

/// Marks a whole vector of lanes, against `tail`: the first `count` of them.
struct whole {};
struct tail {
  std::int64_t count;
};

/// Calls `body(i, whole)` for i = 0, 16, ... (8, ... with vectors of eight lanes) and `body(i, tail)` for what is left of
/// [0, count).
template <class Floats = f32x16, class Body>
CAUSEWAY_ALWAYS_INLINE void for_lanes(std::int64_t count, Body&& body) {
  constexpr auto lanes = static_cast<std::int64_t>(sizeof(Floats) / sizeof(float));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, whole{});
  if (i < count) body(i, tail{count - i});
}

// ---- loads and stores: f32 in registers, f32, bf16 or f16 in memory ------------------------------------------------

template <class Floats>
CAUSEWAY_ALWAYS_INLINE void load(Floats& v, const float* p, whole) {
  std::memcpy(&v, p, sizeof v);
}
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void store(float* p, const Floats& v, whole) {
  std::memcpy(p, &v, sizeof v);
}

template <class Floats>
CAUSEWAY_ALWAYS_INLINE void widen(Floats& v, const halves_of<Floats>& raw, const bf16*) {
  const bits_of<Floats> bits = __builtin_convertvector(raw, bits_of<Floats>) << 16U;
  v = reinterpret_cast<Floats>(bits);
}

// Below, lanes are told apart by arithmetic, since GCC takes comparisons of vectors wider than the machine's apart into
// single elements: a mask of all ones where `least` > value, for values whose sign bit is not set.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void mask_below(bits_of<Floats>& mask, const bits_of<Floats>& value, std::int32_t least) {
  using integers = typename lanes_of<Floats>::integers;
  mask = reinterpret_cast<bits_of<Floats>>((reinterpret_cast<integers>(value) - least) >> 31);
}
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void mask_above(bits_of<Floats>& mask, const bits_of<Floats>& value, std::int32_t most) {
  using integers = typename lanes_of<Floats>::integers;
  mask = reinterpret_cast<bits_of<Floats>>((most - reinterpret_cast<integers>(value)) >> 31);
}
inline constexpr std::int32_t f32_infinity = 0x7F800000;

/// Rounds to nearest even; a NaN stays one.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void narrow(halves_of<Floats>& raw, const Floats& v, const bf16*) {
  const bits_of<Floats> bits = reinterpret_cast<bits_of<Floats>>(v);
  const bits_of<Floats> rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  bits_of<Floats> not_a_number;
  mask_above<Floats>(not_a_number, bits & 0x7FFFFFFFU, f32_infinity);
  const bits_of<Floats> result = (rounded & ~not_a_number) | ((bits | 0x400000U) & not_a_number);
  raw = __builtin_convertvector(result >> 16U, halves_of<Floats>);
}

/// Subnormals become fractions behind a leading 1, which a subtraction takes away: nothing here is a subnormal f32, which
/// Intel's processors hand to microcode, at 150 cycles an instruction.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void widen(Floats& v, const halves_of<Floats>& raw, const f16*) {
  const bits_of<Floats> half = __builtin_convertvector(raw, bits_of<Floats>);
  const bits_of<Floats> shifted = (half & 0x7FFFU) << 13U;
  const bits_of<Floats> normal = shifted + (112U << 23U);
  const Floats subnormal = reinterpret_cast<Floats>(shifted + (113U << 23U)) - 0x1.0p-14F;
  bits_of<Floats> is_subnormal, infinite;
  mask_below<Floats>(is_subnormal, shifted, 0x00800000);
  mask_above<Floats>(infinite, shifted, 0x0F7FFFFF);
  const bits_of<Floats> magnitude =
      (reinterpret_cast<bits_of<Floats>>(subnormal) & is_subnormal) | (normal & ~is_subnormal) | (infinite & 0x7F800000U);
  const bits_of<Floats> bits = magnitude | ((half & 0x8000U) << 16U);
  v = reinterpret_cast<Floats>(bits);
}

/// Rounds to nearest even. Subnormals are rounded by the addition of a number whose last bit is theirs.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void narrow(halves_of<Floats>& raw, const Floats& v, const f16*) {
  const bits_of<Floats> bits = reinterpret_cast<bits_of<Floats>>(v);
  const bits_of<Floats> magnitude = bits & 0x7FFFFFFFU;
  const bits_of<Floats> normal = (magnitude + 0xFFFU + ((magnitude >> 13U) & 1U) - (112U << 23U)) >> 13U;
  const Floats shifted = reinterpret_cast<Floats>(magnitude) + 0.5F;
  const bits_of<Floats> subnormal = reinterpret_cast<bits_of<Floats>>(shifted) - 0x3F000000U;
  bits_of<Floats> is_subnormal, is_infinite, is_not_a_number;
  mask_below<Floats>(is_subnormal, magnitude, 0x38800000);
  mask_above<Floats>(is_infinite, magnitude, 0x477FEFFF);
  mask_above<Floats>(is_not_a_number, magnitude, f32_infinity);
  bits_of<Floats> half = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  half = (half & ~is_infinite) | (0x7C00U & is_infinite) | (0x200U & is_not_a_number);
  raw = __builtin_convertvector(half | ((bits >> 16U) & 0x8000U), halves_of<Floats>);
}

template <class Floats, class Half>
  requires(sizeof(Half) == 2)
CAUSEWAY_ALWAYS_INLINE void load(Floats& v, const Half* p, whole) {
  halves_of<Floats> raw;
  std::memcpy(&raw, p, sizeof raw);
  widen(v, raw, p);
}

template <class Floats, class Half>
  requires(sizeof(Half) == 2)
CAUSEWAY_ALWAYS_INLINE void store(Half* p, const Floats& v, whole) {
  halves_of<Floats> raw;
  narrow(raw, v, p);
  std::memcpy(static_cast<void*>(p), &raw, sizeof raw);
}

/// Lanes beyond the tail read as zero.
template <class Floats, class T>
CAUSEWAY_ALWAYS_INLINE void load(Floats& v, const T* p, tail part) {
  T padded[sizeof(Floats) / sizeof(float)] = {};
  std::memcpy(static_cast<void*>(padded), p, static_cast<std::size_t>(part.count) * sizeof(T));
  load(v, padded, whole{});
}

template <class Floats, class T>
CAUSEWAY_ALWAYS_INLINE void store(T* p, const Floats& v, tail part) {
  T padded[sizeof(Floats) / sizeof(float)];
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

/// What is beyond ±87 becomes ±87; NaN stays. By masks: comparisons would cost six times as much as all of e^x with AVX2.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void clamp_to_87(Floats& x) {
  constexpr std::uint32_t limit = 0x42AE0000;  // 87
  const bits_of<Floats> bits = reinterpret_cast<bits_of<Floats>>(x);
  const bits_of<Floats> magnitude = bits & 0x7FFFFFFFU;
  bits_of<Floats> beyond, not_a_number;
  mask_above<Floats>(beyond, magnitude, limit);
  mask_above<Floats>(not_a_number, magnitude, f32_infinity);
  beyond &= ~not_a_number;
  x = reinterpret_cast<Floats>((bits & ~beyond) | (((bits & 0x80000000U) | limit) & beyond));
}

/// e^x in place, relative error below 1e-7 (Cephes' polynomial). Arguments beyond ±87 are taken as ±87, so that neither
/// the result nor its reciprocal is subnormal or infinite; NaN stays NaN.
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void exponential(Floats& x) {
  constexpr float round = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  clamp_to_87(x);
  const Floats shifted = x * 1.44269504088896341F + round;
  const Floats n = shifted - round;
  const Floats r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  Floats p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r;
  const bits_of<Floats> power = (reinterpret_cast<bits_of<Floats>>(shifted) + (127U - 0x4B400000U)) << 23U;
  const Floats scale = reinterpret_cast<Floats>(power);
  x = p * scale + scale;
}

/// The logistic function of -x in place: 1 / (1 + e^x).
template <class Floats>
CAUSEWAY_ALWAYS_INLINE void sigmoid_of_minus(Floats& x) {
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

/// Sum of `term(v, i)`, which puts what is to be added for i to i + 7 into v, over the whole sixteens of [0, count), and of
/// `last(i)` for what is left. In vectors of 32 bytes: GCC keeps sums of 64 bytes in memory where the machine has no
/// registers for them. Four sums of sixteen lanes, because one would wait for itself.
template <class Term, class Last>
CAUSEWAY_ALWAYS_INLINE float sum_lanes(std::int64_t count, Term&& term, Last&& last) {
  CAUSEWAY_EXACT_BODY
  f32x8 sums[8] = {};
  const auto add = [&](f32x8& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
    CAUSEWAY_EXACT_BODY
    f32x8 v;
    term(v, i);
    sum += v;
  };
  std::int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    CAUSEWAY_UNROLL
    for (std::int64_t k = 0; k < 8; ++k) add(sums[k], i + 8 * k);
  }
  for (; i + 16 <= count; i += 16) {
    add(sums[0], i);
    add(sums[1], i + 8);
  }
  const f32x8 low = (sums[0] + sums[2]) + (sums[4] + sums[6]);
  const f32x8 high = (sums[1] + sums[3]) + (sums[5] + sums[7]);
  float sum = horizontal_sum(__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  for (; i < count; ++i) sum += last(i);
  return sum;
}

/// A sum of sixteen lanes that lives across a loop: in halves, as those of sum_lanes.
class lane_sum {
 public:
  CAUSEWAY_ALWAYS_INLINE void add(const f32x16& v) {
    low_ += __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
    high_ += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  }
  [[nodiscard]] CAUSEWAY_ALWAYS_INLINE float total() const {
    return horizontal_sum(__builtin_shufflevector(low_, high_, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  }

 private:
  f32x8 low_{}, high_{};
};

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_SIMD_MATH_HPP
