// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_DROPOUT_HPP
#define CAUSEWAY_KERNELS_DROPOUT_HPP

// Dropout without a stored mask: whether element i lives is a pure function of (seed, stream, i), so the backward pass
// applies the same function to the gradient, on any machine and with any number of threads.

#include <causeway/config/config.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <bit>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

namespace detail {

// One Philox counter serves four elements that lie `dropout_counters` apart, so that a vector of counters makes vectors of
// neighbouring elements.
inline constexpr std::int64_t dropout_counters = 16;
inline constexpr std::int64_t dropout_block = 4 * dropout_counters;

/// An element is dropped when its 32 random bits are below this.
constexpr std::uint32_t dropout_threshold(float rate) noexcept {
  const double scaled = static_cast<double>(rate) * 0x1p32;
  return scaled >= 0x1p32 ? 0xFFFFFFFFU : static_cast<std::uint32_t>(scaled);
}

}  // namespace detail

/// Whether `dropout_apply` keeps element `index`.
constexpr bool dropout_keeps(float rate, std::uint64_t seed, std::uint64_t stream, std::int64_t index) noexcept {
  const auto block = static_cast<std::uint64_t>(index / detail::dropout_block);
  const auto within = static_cast<std::uint64_t>(index % detail::dropout_block);
  const std::uint64_t counter = block * detail::dropout_counters + within % detail::dropout_counters;
  const auto words = philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U),
                             static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32U)},
                            seed);
  return words[within / detail::dropout_counters] >= detail::dropout_threshold(rate);
}

namespace detail {

using u64x8 [[gnu::vector_size(64)]] = std::uint64_t;

/// The high and low halves of 32-bit words times a 32-bit constant; words lie in 64-bit lanes.
CAUSEWAY_ALWAYS_INLINE void multiply_halves(u64x8& high, u64x8& low, const u64x8& words, std::uint64_t factor) {
  const u64x8 product = words * factor;
  high = product >> 32U;
  low = product & 0xFFFFFFFFU;
}

/// Philox4x32-10 of eight consecutive counters; words[w] holds word w of each.
CAUSEWAY_ALWAYS_INLINE void philox_eight(u64x8* words, std::uint64_t counter, std::uint64_t stream, std::uint64_t seed) {
  const u64x8 step = {0, 1, 2, 3, 4, 5, 6, 7};
  const u64x8 counters = step + counter;
  words[0] = counters & 0xFFFFFFFFU;
  words[1] = counters >> 32U;
  words[2] = (counters & 0U) + (stream & 0xFFFFFFFFU);
  words[3] = (counters & 0U) + (stream >> 32U);
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32U);
  for (int round = 0; round < 10; ++round) {
    u64x8 high0, low0, high1, low1;
    multiply_halves(high0, low0, words[0], 0xD2511F53U);
    multiply_halves(high1, low1, words[2], 0xCD9E8D57U);
    words[0] = high1 ^ words[1] ^ std::uint64_t{k0};
    words[1] = low1;
    words[2] = high0 ^ words[3] ^ std::uint64_t{k1};
    words[3] = low0;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

struct dropout_kernel {
  static constexpr bool exact = true;

  /// [begin, end) of x; `begin` is a multiple of dropout_block.
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(T* x, std::int64_t begin, std::int64_t end, std::uint32_t threshold, float scale,
                                         std::uint64_t seed, std::uint64_t stream) {
    for (std::int64_t block = begin; block < end; block += dropout_block) {
      u64x8 words[8];
      const auto counter = static_cast<std::uint64_t>(block / dropout_block * dropout_counters);
      philox_eight(words, counter, stream, seed);
      philox_eight(words + 4, counter + 8, stream, seed);
      const std::int64_t count = end - block < dropout_block ? end - block : dropout_block;
      for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
        f32x16 v, factor;
        keep_factors(factor, words[i / vector_lanes], words[4 + i / vector_lanes], threshold, scale);
        load(v, x + block + i, part);
        store(x + block + i, v * factor, part);
      });
    }
  }

  CAUSEWAY_ALWAYS_INLINE static void keep_factors(f32x16& factor, const u64x8& first, const u64x8& second,
                                                  std::uint32_t threshold, float scale) {
    // Words are below 2^32: what is below the threshold borrows. By masks, not comparisons, as in simd_math.hpp.
    const u32x8 a = __builtin_convertvector((first - std::uint64_t{threshold}) >> 63U, u32x8);
    const u32x8 b = __builtin_convertvector((second - std::uint64_t{threshold}) >> 63U, u32x8);
    const u32x16 below = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    factor = reinterpret_cast<f32x16>((below - 1U) & std::bit_cast<std::uint32_t>(scale));
  }
};

}  // namespace detail

/// x[i] *= keeps(i) / (1 - rate). Apply it again, with the same numbers, to the gradient. `rate` in [0, 1); 0 does nothing.
/// Moves 8 bytes an element (f32), 4 (bf16), and computes 10 rounds of Philox for four elements.
template <Activation T>
void dropout_apply(thread_pool& pool, T* x, std::int64_t count, float rate, std::uint64_t seed, std::uint64_t stream,
                   simd_level level = detect_simd_level()) {
  CAUSEWAY_EXPECT(rate >= 0.0F && rate < 1.0F);
  if (rate == 0.0F) return;
  detail::for_elements(pool, count, [&](index_range part) {
    detail::dispatch<detail::dropout_kernel>(level, x, part.begin, part.end, detail::dropout_threshold(rate),
                                             1.0F / (1.0F - rate), seed, stream);
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_EXACT_KERNEL((float*, std::int64_t, std::int64_t, std::uint32_t, float, std::uint64_t, std::uint64_t),
                      dropout_kernel)
CAUSEWAY_EXACT_KERNEL((bf16*, std::int64_t, std::int64_t, std::uint32_t, float, std::uint64_t, std::uint64_t),
                      dropout_kernel)

#endif  // CAUSEWAY_KERNELS_DROPOUT_HPP
