// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ELEMENTWISE_HPP
#define CAUSEWAY_KERNELS_ELEMENTWISE_HPP

// Vector arithmetic on flat arrays. One rounding an operation at every level, so replicas that apply the same update to the
// same numbers stay equal bit for bit whatever processors they run on.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

struct add_kernel {
  static constexpr bool exact = true;
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(T* y, const T* a, const T* b, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 va, vb;
      load(va, a + i, part);
      load(vb, b + i, part);
      store(y + i, va + vb, part);
    });
  }
};

struct subtract_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, const float* a, const float* b, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 va, vb;
      load(va, a + i, part);
      load(vb, b + i, part);
      store(y + i, va - vb, part);
    });
  }
};

struct axpy_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, float alpha, const float* x, std::int64_t count) {
    CAUSEWAY_EXACT_BODY
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 vy, vx;
      load(vy, y + i, part);
      load(vx, x + i, part);
      store(y + i, vy + alpha * vx, part);
    });
  }
};

struct scale_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, float alpha, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v;
      load(v, y + i, part);
      store(y + i, alpha * v, part);
    });
  }
};

struct lerp_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, const float* x, float weight, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 vy, vx;
      load(vy, y + i, part);
      load(vx, x + i, part);
      store(y + i, vy + weight * (vx - vy), part);
    });
  }
};

struct fill_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, float value, std::int64_t count) {
    f32x16 v;
    broadcast(v, value);
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA { store(y + i, v, part); });
  }
};

}  // namespace detail

/// y = a + b; y may be a or b. Moves 12 bytes an element (f32), 6 (bf16).
template <Activation T>
void add(thread_pool& pool, T* y, const T* a, const T* b, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::add_kernel>(level, y + part.begin, a + part.begin, b + part.begin, part.size());
  });
}

/// y = a - b; y may be a or b. Moves 12 bytes an element.
inline void subtract(thread_pool& pool, float* y, const float* a, const float* b, std::int64_t count,
                     simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::subtract_kernel>(level, y + part.begin, a + part.begin, b + part.begin, part.size());
  });
}

/// y += alpha * x. Moves 12 bytes an element.
inline void axpy(thread_pool& pool, float* y, float alpha, const float* x, std::int64_t count,
                 simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::axpy_kernel>(level, y + part.begin, alpha, x + part.begin, part.size());
  });
}

/// y *= alpha. Moves 8 bytes an element.
inline void scale(thread_pool& pool, float* y, float alpha, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::scale_kernel>(level, y + part.begin, alpha, part.size());
  });
}

/// y += weight * (x - y): y for weight 0, x (but for rounding) for weight 1. Moves 12 bytes an element.
inline void lerp(thread_pool& pool, float* y, const float* x, float weight, std::int64_t count,
                 simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::lerp_kernel>(level, y + part.begin, x + part.begin, weight, part.size());
  });
}

/// y = value. Moves 4 bytes an element.
inline void fill(thread_pool& pool, float* y, float value, std::int64_t count, simd_level level = detect_simd_level()) {
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::fill_kernel>(level, y + part.begin, value, part.size());
  });
}

/// All bytes zero, whatever the type.
template <class T>
  requires std::is_trivially_copyable_v<T>
void zero(thread_pool& pool, T* y, std::int64_t count) {
  detail::for_elements(pool, count, [&](index_range part) {
    std::memset(static_cast<void*>(y + part.begin), 0, static_cast<std::size_t>(part.size()) * sizeof(T));
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_EXACT_KERNEL((float*, const float*, const float*, std::int64_t), add_kernel)
CAUSEWAY_EXACT_KERNEL((bf16*, const bf16*, const bf16*, std::int64_t), add_kernel)
CAUSEWAY_EXACT_KERNEL((float*, const float*, const float*, std::int64_t), subtract_kernel)
CAUSEWAY_EXACT_KERNEL((float*, float, const float*, std::int64_t), axpy_kernel)
CAUSEWAY_EXACT_KERNEL((float*, float, std::int64_t), scale_kernel)

#endif  // CAUSEWAY_KERNELS_ELEMENTWISE_HPP
