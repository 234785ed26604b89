// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_SUPPORT_FMA_PEAK_HPP
#define CAUSEWAY_BENCH_SUPPORT_FMA_PEAK_HPP

// A clock, a median, and the f32 rate that a loop of nothing but fused multiply-adds reaches: what benchmarks compare with.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>

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
/// Ten independent sums of 8 lanes hide the latency of an FMA everywhere; 256 bits reach the peak of Zen 4, which has the
/// same f32 rate at 512.
CAUSEWAY_NOINLINE CAUSEWAY_TARGET_AVX2 inline void fma_loop(long rounds, float* out) {
  __m256 a = _mm256_set1_ps(out[0]), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a;
  const __m256 x = _mm256_set1_ps(out[1]);
  const __m256 y = _mm256_set1_ps(out[2]);
  for (long r = 0; r < rounds; ++r) {
    a = _mm256_fmadd_ps(a, x, y), b = _mm256_fmadd_ps(b, x, y), c = _mm256_fmadd_ps(c, x, y);
    d = _mm256_fmadd_ps(d, x, y), e = _mm256_fmadd_ps(e, x, y), f = _mm256_fmadd_ps(f, x, y);
    g = _mm256_fmadd_ps(g, x, y), h = _mm256_fmadd_ps(h, x, y), i = _mm256_fmadd_ps(i, x, y);
    j = _mm256_fmadd_ps(j, x, y);
    // Equal sums must not be merged into one.
    asm volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f), "+x"(g), "+x"(h), "+x"(i), "+x"(j));
  }
  a = _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)), _mm256_add_ps(_mm256_add_ps(e, f), g));
  _mm256_storeu_ps(out, _mm256_add_ps(_mm256_add_ps(a, h), _mm256_add_ps(i, j)));
}
#else
inline void fma_loop(long rounds, float* out) {
  for (long r = 0; r < rounds * 80; ++r) out[r % 8] = out[r % 8] * out[8] + out[9];
}
#endif

/// GFLOP/s of `pool`'s threads together.
inline double fma_peak(causeway::thread_pool& pool) {
  constexpr long rounds = 1'000'000;
  std::vector<float> out(64 * pool.size(), 0.5F);
  const double t = median_seconds(0.2, [&] { pool.run([&](unsigned i) { fma_loop(rounds, out.data() + 64 * i); }); });
  return static_cast<double>(rounds) * 10 * 8 * 2 * pool.size() / t / 1e9;
}

}  // namespace bench

#endif  // CAUSEWAY_BENCH_SUPPORT_FMA_PEAK_HPP
