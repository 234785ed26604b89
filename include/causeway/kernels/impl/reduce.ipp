// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_IMPL_REDUCE_IPP
#define CAUSEWAY_KERNELS_IMPL_REDUCE_IPP

#include <causeway/kernels/reduce.hpp>

#include <causeway/kernels/finite.hpp>
#include <causeway/kernels/simd_math.hpp>

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

using f64x2 [[gnu::vector_size(16)]] = double;

/// The product of two f32 is exact in f64, so nothing here depends on contraction.
CAUSEWAY_ALWAYS_INLINE void load(f64x2& v, const float* p) {
#if defined(__x86_64__)
  v = _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  v = f64x2{static_cast<double>(p[0]), static_cast<double>(p[1])};
#endif
}

/// Sum of `term(accumulator, i)` over pairs, then `last(i)` for what is left. Pairs, because GCC makes wider conversions
/// out of them and shuffles; eight accumulators, because one would wait for itself.
template <class Term, class Last>
CAUSEWAY_ALWAYS_INLINE double sum_in_double(std::int64_t count, Term&& term, Last&& last) {
  f64x2 a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{};
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    term(a, i);
    term(b, i + 2);
    term(c, i + 4);
    term(d, i + 6);
    term(e, i + 8);
    term(f, i + 10);
    term(g, i + 12);
    term(h, i + 14);
  }
  for (; i + 2 <= count; i += 2) term(a, i);
  a = ((a + b) + (c + d)) + ((e + f) + (g + h));
  double sum = a[0] + a[1];
  for (; i < count; ++i) sum += last(i);
  return sum;
}

struct sum_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static double run(const float* x, std::int64_t count) {
    return sum_in_double(
        count,
        [&](f64x2& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
          f64x2 v;
          load(v, x + i);
          sum += v;
        },
        [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return static_cast<double>(x[i]); });
  }
};

/// Not `dot` of x with itself: conversions are the bottleneck.
struct square_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static double run(const float* x, std::int64_t count) {
    return sum_in_double(
        count,
        [&](f64x2& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
          f64x2 v;
          load(v, x + i);
          sum += v * v;
        },
        [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
  }
};

struct dot_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static double run(const float* x, const float* y, std::int64_t count) {
    return sum_in_double(
        count,
        [&](f64x2& sum, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
          f64x2 a, b;
          load(a, x + i);
          load(b, y + i);
          sum += a * b;
        },
        [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA { return static_cast<double>(x[i]) * static_cast<double>(y[i]); });
  }
};

inline constexpr std::int64_t reduction_blocks = 64;

/// The sum of `block_sum(range)` over the fixed blocks of [0, count), in order.
template <class BlockSum>
double sum_of_blocks(thread_pool& pool, std::int64_t count, BlockSum&& block_sum) {
  const std::int64_t block = ((count + reduction_blocks - 1) / reduction_blocks + 63) / 64 * 64;
  std::array<double, static_cast<std::size_t>(reduction_blocks)> sums{};
  const auto sum_part = [&](index_range blocks) {
    for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
      const std::int64_t begin = b * block < count ? b * block : count;
      const std::int64_t end = begin + block < count ? begin + block : count;
      sums[static_cast<std::size_t>(b)] = block_sum(index_range{begin, end});
    }
  };
  if (count <= smallest_share) {
    sum_part({0, reduction_blocks});
  } else {
    pool.for_range(reduction_blocks, 1, sum_part);
  }
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace detail

CAUSEWAY_DECL double sum(thread_pool& pool, const float* x, std::int64_t count, simd_level level) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
    return detail::dispatch<detail::sum_kernel>(level, x + part.begin, part.size());
  });
}

CAUSEWAY_DECL double dot(thread_pool& pool, const float* x, const float* y, std::int64_t count, simd_level level) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
    return detail::dispatch<detail::dot_kernel>(level, x + part.begin, y + part.begin, part.size());
  });
}

CAUSEWAY_DECL double sum_of_squares(thread_pool& pool, const float* x, std::int64_t count, simd_level level) {
  return detail::sum_of_blocks(pool, count, [&](index_range part) {
    return detail::dispatch<detail::square_kernel>(level, x + part.begin, part.size());
  });
}

CAUSEWAY_DECL double euclidean_norm(thread_pool& pool, std::span<const float> x) {
  return __builtin_sqrt(sum_of_squares(pool, x.data(), static_cast<std::int64_t>(x.size())));
}

CAUSEWAY_DECL bool all_finite(thread_pool& pool, const float* x, std::int64_t count, simd_level level) {
  return detail::look_for_finite(pool, level, count, x);
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_REDUCE_IPP
