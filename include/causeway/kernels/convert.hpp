// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_CONVERT_HPP
#define CAUSEWAY_KERNELS_CONVERT_HPP

// Between f32 and the two 16-bit formats, rounding to nearest even. Bit for bit what the constructors of bf16 and f16 do.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/dtype.hpp>

#include <concepts>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// What activations are stored as.
template <class T>
concept Activation = std::same_as<T, float> || std::same_as<T, bf16>;

namespace detail {

struct convert_kernel {
  static constexpr bool exact = true;
  template <class From, class To>
  CAUSEWAY_ALWAYS_INLINE static void run(const From* from, To* to, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v;
      load(v, from + i, part);
      store(to + i, v, part);
    });
  }
};

template <class From, class To>
void convert_elements(thread_pool& pool, const From* from, To* to, std::int64_t count, simd_level level) {
  for_elements(pool, count,
               [&](index_range part) { dispatch<convert_kernel>(level, from + part.begin, to + part.begin, part.size()); });
}

}  // namespace detail

/// to[i] = from[i] for `count` elements. Moves 6 bytes an element.
inline void convert(thread_pool& pool, const float* from, bf16* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

inline void convert(thread_pool& pool, const bf16* from, float* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

/// Values beyond 65504 become infinite.
inline void convert(thread_pool& pool, const float* from, f16* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

inline void convert(thread_pool& pool, const f16* from, float* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

/// A copy, so that code for either activation type needs no special case.
inline void convert(thread_pool& pool, const float* from, float* to, std::int64_t count,
                    simd_level level = detect_simd_level()) {
  detail::convert_elements(pool, from, to, count, level);
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_EXACT_KERNEL((const float*, bf16*, std::int64_t), convert_kernel)

#endif  // CAUSEWAY_KERNELS_CONVERT_HPP
