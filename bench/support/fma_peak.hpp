// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_SUPPORT_FMA_PEAK_HPP
#define CAUSEWAY_BENCH_SUPPORT_FMA_PEAK_HPP

// A clock, a median, and the rate that a loop of nothing but multiply-adds reaches, for f32 and bf16: what benchmarks
// compare with.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/packed_gemm_amx.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#if CAUSEWAY_X86_SIMD
#include <immintrin.h>
#endif

namespace bench {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Median seconds of calls repeated for at least `budget` seconds.
template <class F>
double median_seconds(double budget, F&& f) {
  f();
  std::vector<double> times;
  const double end = seconds_now() + budget;
  while (seconds_now() < end || times.size() < 5) {
    const double start = seconds_now();
    f();
    times.push_back(seconds_now() - start);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

#if CAUSEWAY_X86_SIMD
// Twelve independent sums hide the latency of a multiply-add everywhere.
#define BENCH_TWELVE(each) each(a) each(b) each(c) each(d) each(e) each(f) each(g) each(h) each(i) each(j) each(k) each(l)
// Equal sums must not be merged into one.
#define BENCH_KEEP                                                                                                  \
  asm volatile(""                                                                                                   \
               : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f), "+x"(g), "+x"(h), "+x"(i), "+x"(j), "+x"(k), \
                 "+x"(l))

CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX2 inline void fma_loop_256(long rounds, float* out) {
  const __m256 x = _mm256_set1_ps(out[1]);
  const __m256 y = _mm256_set1_ps(out[2]);
  __m256 a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  for (long r = 0; r < rounds; ++r) {
#define BENCH_STEP(v) v = _mm256_fmadd_ps(v, x, y);
    BENCH_TWELVE(BENCH_STEP)
#undef BENCH_STEP
    BENCH_KEEP;
  }
#define BENCH_STORE(v) _mm256_storeu_ps(out, v);
  BENCH_TWELVE(BENCH_STORE)
#undef BENCH_STORE
}

CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX512 inline void fma_loop_512(long rounds, float* out) {
  const __m512 x = _mm512_set1_ps(out[1]);
  const __m512 y = _mm512_set1_ps(out[2]);
  __m512 a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  for (long r = 0; r < rounds; ++r) {
#define BENCH_STEP(v) v = _mm512_fmadd_ps(v, x, y);
    BENCH_TWELVE(BENCH_STEP)
#undef BENCH_STEP
    BENCH_KEEP;
  }
#define BENCH_STORE(v) _mm512_storeu_ps(out, v);
  BENCH_TWELVE(BENCH_STORE)
}

CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX512_BF16 inline void pair_loop_512(long rounds, float* out) {
  const __m512 y = _mm512_set1_ps(out[2]);
  const auto x = (__m512bh)_mm512_set1_epi32(0x3F003F00);
  __m512 a = y, b = y, c = y, d = y, e = y, f = y, g = y, h = y, i = y, j = y, k = y, l = y;
  for (long r = 0; r < rounds; ++r) {
#define BENCH_STEP(v) v = _mm512_dpbf16_ps(v, x, x);
    BENCH_TWELVE(BENCH_STEP)
#undef BENCH_STEP
    BENCH_KEEP;
  }
  BENCH_TWELVE(BENCH_STORE)
#undef BENCH_STORE
}
#undef BENCH_KEEP
#undef BENCH_TWELVE

/// Four independent products of tiles, 16 x 16 sums of 32 products each, hide their latency.
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AMX inline void tile_loop(long rounds, float* /*out*/) {
  causeway::kernels::detail::amx_tile::open();  // sets all registers to zero
  for (long r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  causeway::kernels::detail::amx_tile::close();
}
#else
inline void plain_loop(long rounds, float* out) {
  for (long r = 0; r < rounds * 80; ++r) out[r % 8] = out[r % 8] * out[8] + out[9];
}
#endif

/// GFLOP/s of `loop` on all of `pool`'s threads, each round of it `flops`.
inline double peak_of(causeway::thread_pool& pool, void (*loop)(long, float*), double flops) {
  constexpr long rounds = 1'000'000;
  std::vector<float> out(64 * pool.size(), 0.5F);
  const double t = median_seconds(0.2, [&] { pool.run([&](unsigned i) { loop(rounds, out.data() + 64 * i); }); });
  return static_cast<double>(rounds) * flops * pool.size() / t / 1e9;
}

/// The f32 peak: of FMAs of 256 or 512 bits, whichever is quicker. (Zen 4 and client cores have the same rate at both,
/// servers of Intel and Zen 5 twice the rate at 512.)
inline double fma_peak(causeway::thread_pool& pool) {
#if CAUSEWAY_X86_SIMD
  const auto level = causeway::kernels::detect_simd_level();
  double best = level >= causeway::kernels::simd_level::avx2 ? peak_of(pool, fma_loop_256, 12 * 8 * 2) : 0.0;
  if (level >= causeway::kernels::simd_level::avx512) best = std::max(best, peak_of(pool, fma_loop_512, 12 * 16 * 2));
  return best;
#else
  return peak_of(pool, plain_loop, 80 * 2);
#endif
}

/// The peak of multiply-adds of bf16 with sums in f32: of tiles, of dot products of pairs, or of FMAs of widened values.
inline double bf16_peak(causeway::thread_pool& pool) {
  double best = fma_peak(pool);
#if CAUSEWAY_X86_SIMD
  if (causeway::kernels::detect_simd_level() >= causeway::kernels::simd_level::avx512_bf16) {
    best = std::max(best, peak_of(pool, pair_loop_512, 12 * 16 * 4));
  }
  if (causeway::kernels::detect_simd_level() >= causeway::kernels::simd_level::amx_bf16) {
    best = std::max(best, peak_of(pool, tile_loop, 4 * 16 * 16 * 32 * 2));
  }
#endif
  return best;
}

}  // namespace bench

#endif  // CAUSEWAY_BENCH_SUPPORT_FMA_PEAK_HPP
