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

}  // namespace detail

/// to[i] = from[i] for `count` elements, from f32, bf16 or f16 to f32, or from f32 to one of them: values beyond 65504
/// become infinite in f16. From f32 to f32 a copy, so that code for either activation type needs no special case. Moves 6
/// bytes an element, a copy 8.
template <class From, class To>
  requires(std::same_as<From, float> || std::same_as<To, float>)
void convert(thread_pool& pool, const From* from, To* to, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::convert_kernel>(level, from + part.begin, to + part.begin, part.size());
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_EXACT_KERNEL((const float*, bf16*, std::int64_t), convert_kernel)

#endif  // CAUSEWAY_KERNELS_CONVERT_HPP
