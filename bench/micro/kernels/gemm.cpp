// SPDX-License-Identifier: Apache-2.0
// Matrix products of training, one JSON line per case: GF/s, and the share of the multiply-add peak measured in this run.
// Usage: gemm [words...]: runs the cases whose JSON contains every word, such as  gemm packed bf16 '"threads":2'.

#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cblas_gemm.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/onednn_gemm.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/scratch.hpp>

#include "support/fma_peak.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

using namespace causeway;
using namespace causeway::kernels;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// ---- the cases ---------------------------------------------------------------------------------------------------------

/// A layer with `tokens` rows: NT is y = x Wt, NN is dx = dy W, TN is dW = dyt x.
struct layer {
  std::int64_t tokens, in, out;
};

constexpr layer layers[] = {{512, 512, 512},   {1024, 1024, 1024}, {2048, 2048, 2048}, {256, 768, 2304},  {256, 256, 768},
                            {1024, 256, 768},  {256, 256, 1024},   {1024, 256, 1024},  {256, 1024, 256},  {1024, 1024, 256},
                            {256, 384, 1536},  {1024, 384, 1536},  {256, 1536, 384},   {1024, 1536, 384}, {256, 768, 3072},
                            {1024, 768, 3072}, {256, 3072, 768},   {1024, 3072, 768},  {256, 256, 4096},  {1024, 256, 4096},
                            {256, 768, 50304}, {1024, 768, 50304}};

struct product {
  const char* kind;
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
};

std::vector<product> products(const layer& l) {
  return {{"NT", false, true, l.tokens, l.out, l.in},
          {"NN", false, false, l.tokens, l.in, l.out},
          {"TN", true, false, l.out, l.in, l.tokens}};
}

bool wanted(const std::string& line, const std::vector<std::string>& words) {
  return std::all_of(words.begin(), words.end(), [&](const auto& w) { return line.find(w) != std::string::npos; });
}

template <class In, class Out, class G>
void measure(G& gemm, thread_pool& pool, double top, const layer& l, const std::vector<std::string>& words) {
  for (const product& p : products(l)) {
    char line[256];
    const char* types = std::is_same_v<In, float> ? "f32" : std::is_same_v<Out, float> ? "bf16-f32" : "bf16";
    std::snprintf(line, sizeof line, R"({"gemm":"%s","type":"%s","threads":%u,"kind":"%s","tokens":%ld,"in":%ld,"out":%ld)",
                  std::string{G::name}.c_str(), types, pool.size(), p.kind, static_cast<long>(l.tokens),
                  static_cast<long>(l.in), static_cast<long>(l.out));
    if (!wanted(line, words)) continue;
    aligned_buffer<In> a(static_cast<std::size_t>(p.m * p.k));
    aligned_buffer<In> b(static_cast<std::size_t>(p.n * p.k));
    aligned_buffer<Out> c(static_cast<std::size_t>(p.m * p.n));
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = In(static_cast<float>(i % 17) - 8.0F);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = In(static_cast<float>(i % 13) - 6.0F);
    scratch memory;
    const gemm_args<In, Out> args{.transpose_a = p.transpose_a,
                                  .transpose_b = p.transpose_b,
                                  .m = p.m,
                                  .n = p.n,
                                  .k = p.k,
                                  .a = a.data(),
                                  .lda = p.transpose_a ? p.m : p.k,
                                  .b = b.data(),
                                  .ldb = p.transpose_b ? p.k : p.n,
                                  .c = c.data(),
                                  .ldc = p.n};
    gemm.multiply(pool, memory, args);
    const double work = 2e-9 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    std::vector<double> rates;
    for (const double end = now() + 0.1; rates.size() < 3 || now() < end;) {
      const double start = now();
      gemm.multiply(pool, memory, args);
      rates.push_back(work / (now() - start));
    }
    const double rate = median(rates);
    const double best = *std::max_element(rates.begin(), rates.end());
    std::printf("%s,\"gflops\":%.1f,\"best\":%.1f,\"share\":%.3f}\n", line, rate, best, top > 0 ? rate / top : 0.0);
    std::fflush(stdout);
  }
}

/// The packed product held to AVX2, as on a machine without AVX-512.
struct packed_avx2 : packed_gemm {
  static constexpr std::string_view name = "packed-avx2";
  packed_avx2() : packed_gemm{simd_level::avx2} {}
};

/// The packed product without AMX, as on a machine that hides it: pairs of bf16, or values widened to f32.
template <simd_level Level>
struct packed_vectors : packed_gemm {
  static constexpr std::string_view name = Level == simd_level::avx512 ? "packed-avx512" : "packed-avx512-bf16";
  packed_vectors() : packed_gemm{Level} {}
};

template <class G>
void measure_all(unsigned threads, double f32_top, double bf16_top, const std::vector<std::string>& words) {
  thread_pool pool{threads};
  G gemm;
  for (const layer& l : layers) {
    measure<float, float>(gemm, pool, f32_top, l, words);
    measure<bf16, float>(gemm, pool, bf16_top, l, words);
    measure<bf16, bf16>(gemm, pool, bf16_top, l, words);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (const unsigned threads : {1U, 2U}) {
    double f32_top = 0;
    double bf16_top = 0;
    {
      thread_pool pool{threads};
      f32_top = bench::fma_peak(pool);
      bf16_top = bench::bf16_peak(pool);
    }
    std::printf(R"({"peak":true,"threads":%u,"f32_gflops":%.1f,"bf16_gflops":%.1f})"
                "\n",
                threads, f32_top, bf16_top);
    measure_all<packed_gemm>(threads, f32_top, bf16_top, words);
    measure_all<packed_vectors<simd_level::avx512>>(threads, f32_top, bf16_top, words);
    measure_all<packed_vectors<simd_level::avx512_bf16>>(threads, f32_top, bf16_top, words);
    measure_all<packed_avx2>(threads, f32_top, bf16_top, words);
#if defined(CAUSEWAY_HAS_ONEDNN)
    measure_all<onednn_gemm>(threads, f32_top, bf16_top, words);
#endif
#if defined(CAUSEWAY_HAS_CBLAS)
    measure_all<cblas_gemm>(threads, f32_top, bf16_top, words);
#endif
  }
}
