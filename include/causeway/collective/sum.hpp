// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_SUM_HPP
#define CAUSEWAY_COLLECTIVE_SUM_HPP

// Sums of several peers' values in a fixed order, in f32, with a check for NaN and infinity on the way: one pass over
// memory. The same bits on every machine.

#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/finite.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

namespace detail {

/// Block by block; a block whose sum is not finite is not stored, so that the culprit can be looked for afterwards.
struct sum_parts_kernel {
  static constexpr bool exact = true;
  static constexpr std::int64_t block = 1024;

  CAUSEWAY_ALWAYS_INLINE static bool run(std::span<const float* const> parts, float factor, float* out, std::int64_t begin,
                                         std::int64_t end) {
    bool finite = true;
    for (std::int64_t at = begin; at < end; at += block) {
      finite = add_block(parts, factor, out, at, std::min(block, end - at)) && finite;
    }
    return finite;
  }

  CAUSEWAY_ALWAYS_INLINE static bool add_block(std::span<const float* const> parts, float factor, float* out,
                                               std::int64_t at, std::int64_t count) {
    CAUSEWAY_EXACT_BODY
    alignas(64) float sums[block];
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 sum, next;
      kernels::detail::load(sum, parts[0] + at + i, part);
      for (std::size_t p = 1; p < parts.size(); ++p) {
        kernels::detail::load(next, parts[p] + at + i, part);
        sum += next;
      }
      sum *= factor;
      kernels::detail::store(sums + i, sum, part);
    });
    if (!kernels::detail::finite_kernel::run(sums, count)) return false;
    std::memcpy(out + at, sums, static_cast<std::size_t>(count) * sizeof(float));
    return true;
  }
};

}  // namespace detail

/// out[i] = factor · (parts[0][i] + parts[1][i] + ...), added from left to right in f32. `out` may be one of the parts.
/// False when a result is NaN or infinite; then a part whose own values are not finite still holds them. Bit-identical for
/// every thread count and instruction set. Reads 4 bytes an element and part, writes 4 an element.
CAUSEWAY_DECL bool sum_parts(thread_pool& pool, std::span<const float* const> parts, float factor, float* out,
                             std::int64_t count, kernels::simd_level level = kernels::detect_simd_level());

/// Whether no value is NaN or infinite.
CAUSEWAY_DECL bool finite_values(std::span<const float> values, kernels::simd_level level = kernels::detect_simd_level());

/// to = from, bit by bit, in one pass with the look for NaN and infinity; false where there are any.
CAUSEWAY_DECL bool copy_finite(thread_pool& pool, std::span<const float> from, std::span<float> to,
                               kernels::simd_level level = kernels::detect_simd_level());

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/sum.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_SUM_HPP
