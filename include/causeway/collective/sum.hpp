// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_SUM_HPP
#define CAUSEWAY_COLLECTIVE_SUM_HPP

// Sums of several peers' values in a fixed order, in f32, with a check for NaN and infinity on the way. One pass over
// memory: the running sum of a block stays in the first-level cache.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace causeway::inline CAUSEWAY_ABI::collective {

namespace detail {

// Vectors of the compiler's own: the same source becomes SSE2, AVX2 or AVX-512, at every optimisation level.
using lanes_f32 = float __attribute__((vector_size(64)));
using lanes_i32 = std::int32_t __attribute__((vector_size(64)));
inline constexpr std::int64_t lanes = 16;
inline constexpr std::int64_t sum_block = 1024;

CAUSEWAY_ALWAYS_INLINE void accumulate_not_finite(const float* p, lanes_i32& bad) {
  lanes_i32 bits;
  std::memcpy(&bits, p, sizeof bits);
  bad |= (bits & 0x7F800000) == 0x7F800000;
}

CAUSEWAY_ALWAYS_INLINE bool any(const lanes_i32& mask) {
  std::int32_t all = 0;
  for (std::int64_t i = 0; i < lanes; ++i) all |= mask[i];
  return all != 0;
}

CAUSEWAY_ALWAYS_INLINE bool finite_range(const float* p, std::int64_t count) {
  lanes_i32 bad{};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) accumulate_not_finite(p + i, bad);
  if (i < count) {
    std::array<float, lanes> rest{};
    std::copy(p + i, p + count, rest.begin());
    accumulate_not_finite(rest.data(), bad);
  }
  return !any(bad);
}

CAUSEWAY_ALWAYS_INLINE void add_range(float* sum, const float* p, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    lanes_f32 a, b;
    std::memcpy(&a, sum + i, sizeof a);
    std::memcpy(&b, p + i, sizeof b);
    a += b;
    std::memcpy(sum + i, &a, sizeof a);
  }
  for (; i < count; ++i) sum[i] += p[i];
}

CAUSEWAY_ALWAYS_INLINE void scale_range(float* sum, float factor, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    lanes_f32 a;
    std::memcpy(&a, sum + i, sizeof a);
    a *= factor;
    std::memcpy(sum + i, &a, sizeof a);
  }
  for (; i < count; ++i) sum[i] *= factor;
}

CAUSEWAY_ALWAYS_INLINE bool sum_range(std::span<const float* const> parts, float factor, float* out, index_range range) {
  std::array<float, sum_block> sum;
  bool finite = true;
  for (std::int64_t at = range.begin; at < range.end; at += sum_block) {
    const std::int64_t count = std::min(sum_block, range.end - at);
    std::memcpy(sum.data(), parts[0] + at, static_cast<std::size_t>(count) * sizeof(float));
    for (std::size_t p = 1; p < parts.size(); ++p) add_range(sum.data(), parts[p] + at, count);
    if (factor != 1.0F) scale_range(sum.data(), factor, count);
    finite = finite_range(sum.data(), count) && finite;
    std::memcpy(out + at, sum.data(), static_cast<std::size_t>(count) * sizeof(float));
  }
  return finite;
}

inline bool sum_portable(std::span<const float* const> parts, float factor, float* out, index_range r) {
  return sum_range(parts, factor, out, r);
}
inline bool finite_portable(const float* p, std::int64_t count) { return finite_range(p, count); }

#if defined(__x86_64__)
__attribute__((target("avx2"))) inline bool sum_avx2(std::span<const float* const> parts, float factor, float* out,
                                                     index_range r) {
  return sum_range(parts, factor, out, r);
}
__attribute__((target("avx2"))) inline bool finite_avx2(const float* p, std::int64_t count) {
  return finite_range(p, count);
}
inline bool has_avx2() noexcept { return __builtin_cpu_supports("avx2") != 0; }
#else
inline bool sum_avx2(std::span<const float* const> parts, float factor, float* out, index_range r) {
  return sum_range(parts, factor, out, r);
}
inline bool finite_avx2(const float* p, std::int64_t count) { return finite_range(p, count); }
inline bool has_avx2() noexcept { return false; }
#endif

}  // namespace detail

/// out[i] = factor · (parts[0][i] + parts[1][i] + ...), added from left to right in f32. `out` may be one of the parts.
/// False when a result is NaN or infinite. Bit-identical for every thread count and instruction set.
inline bool sum_parts(thread_pool& pool, std::span<const float* const> parts, float factor, float* out,
                      std::int64_t count) {
  std::atomic<bool> finite{true};
  pool.for_range(count, 16 * detail::sum_block, [&](index_range r) {
    const bool good =
        detail::has_avx2() ? detail::sum_avx2(parts, factor, out, r) : detail::sum_portable(parts, factor, out, r);
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

/// Whether no value is NaN or infinite.
inline bool finite_values(std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return detail::has_avx2() ? detail::finite_avx2(values.data(), count) : detail::finite_portable(values.data(), count);
}

}  // namespace causeway::inline CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_SUM_HPP
