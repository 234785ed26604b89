// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_REDUCE_HPP
#define CAUSEWAY_KERNELS_REDUCE_HPP

// Sums over flat arrays, in f64. An array is cut into 64 blocks whatever the number of threads, and the blocks' sums are
// added in order: the result is the same bits on every machine and for every number of threads, so peers with different
// processors clip by the same gradient norm.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Sum of x[i]. Reads 4 bytes an element.
CAUSEWAY_DECL double sum(thread_pool& pool, const float* x, std::int64_t count, simd_level level = detect_simd_level());

/// Sum of x[i]·y[i]. Reads 8 bytes an element.
CAUSEWAY_DECL double dot(thread_pool& pool, const float* x, const float* y, std::int64_t count,
                         simd_level level = detect_simd_level());

/// Sum of x[i]². Reads 4 bytes an element. NaN or infinite where x is.
CAUSEWAY_DECL double sum_of_squares(thread_pool& pool, const float* x, std::int64_t count,
                                    simd_level level = detect_simd_level());

/// The square root of `sum_of_squares`.
CAUSEWAY_DECL double euclidean_norm(thread_pool& pool, std::span<const float> x);

/// Whether no element is NaN or infinite. Reads 4 bytes an element.
CAUSEWAY_DECL bool all_finite(thread_pool& pool, const float* x, std::int64_t count,
                              simd_level level = detect_simd_level());

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#ifndef CAUSEWAY_COMPILED
#include <causeway/kernels/impl/reduce.ipp>
#endif

#endif  // CAUSEWAY_KERNELS_REDUCE_HPP
