// SPDX-License-Identifier: Apache-2.0

// Attention, forward and backward, as JSON lines: GFLOP/s counting only the pairs that causality leaves (4 and 10 products
// of head_size per pair), and the share of what an FMA loop reaches in the same run on the same threads.
//   attention [threads] [seconds per case]

#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/attention.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#include "support/fma_peak.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

using namespace causeway;
using kernels::simd_level;

struct size {
  std::int64_t batch, T, heads, kv_heads, head_size;
};

template <class Act>
void measure(thread_pool& pool, const size& c, simd_level level, double peak, double budget) {
  const std::int64_t q_columns = c.heads * c.head_size;
  const std::int64_t kv_columns = c.kv_heads * c.head_size;
  const std::int64_t packed = q_columns + 2 * kv_columns;
  const auto count = [&](std::int64_t columns) { return static_cast<std::size_t>(c.batch * c.T * columns); };
  std::vector<Act> qkv(count(packed));
  std::vector<Act> gradient(count(packed));
  std::vector<Act> o(count(q_columns));
  std::vector<Act> d_o(count(q_columns));
  std::vector<float> logsumexp(static_cast<std::size_t>(c.batch * c.heads * c.T));
  std::mt19937 random{1};
  std::normal_distribution<float> normal;
  for (auto& x : qkv) x = Act(normal(random));
  for (auto& x : d_o) x = Act(normal(random));
  const kernels::attention_shape shape{
      c.batch, c.T,    c.heads, c.kv_heads, c.head_size,
      packed,  packed, packed,  q_columns,  1.0F / std::sqrt(static_cast<float>(c.head_size))};
  scratch memory;
  const Act* q = qkv.data();
  Act* dq = gradient.data();
  const Act* out = o.data();
  const Act* d_out = d_o.data();
  const double forward = bench::median_seconds(budget, [&] {
    kernels::attention_forward(pool, memory, shape, q, q + q_columns, q + q_columns + kv_columns, o.data(),
                               logsumexp.data(), level);
  });
  const double backward = bench::median_seconds(budget, [&] {
    kernels::attention_backward(pool, memory, shape, q, q + q_columns, q + q_columns + kv_columns, out, d_out,
                                logsumexp.data(), dq, dq + q_columns, dq + q_columns + kv_columns, level);
  });
  const double pairs = static_cast<double>(c.batch * c.heads) * static_cast<double>(c.T) * static_cast<double>(c.T + 1) / 2;
  const double work = pairs * static_cast<double>(c.head_size) * 2e-9;
  for (const bool first : {true, false}) {
    const double rate = first ? 2 * work / forward : 5 * work / backward;
    std::printf(
        "{\"kernel\":\"attention_%s\",\"dtype\":\"%s\",\"level\":\"%s\",\"threads\":%u,\"batch\":%lld,\"T\":%lld,"
        "\"heads\":%lld,\"kv_heads\":%lld,\"head_size\":%lld,\"ms\":%.3f,\"gflops\":%.1f,\"f32_peak_share\":%.3f}\n",
        first ? "forward" : "backward", to_string(dtype_of<Act>).data(), to_string(level).data(), pool.size(),
        static_cast<long long>(c.batch), static_cast<long long>(c.T), static_cast<long long>(c.heads),
        static_cast<long long>(c.kv_heads), static_cast<long long>(c.head_size), 1e3 * (first ? forward : backward), rate,
        rate / peak);
  }
}

}  // namespace

int main(int argc, char** argv) {
  thread_pool pool{argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1U};
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.2;
  const double peak = bench::fma_peak(pool);
  std::printf("{\"kernel\":\"fma_peak\",\"dtype\":\"f32\",\"threads\":%u,\"gflops\":%.1f}\n", pool.size(), peak);
  const simd_level best = kernels::detect_simd_level();
  for (const size& c : {size{4, 256, 4, 4, 64}, size{1, 256, 12, 12, 64}, size{1, 512, 12, 12, 64},
                        size{1, 1024, 12, 12, 64}, size{1, 1024, 8, 2, 128}, size{8, 64, 4, 4, 16}}) {
    measure<float>(pool, c, best, peak, budget);
    measure<bf16>(pool, c, best, peak, budget);
  }
  if (best > simd_level::avx2) measure<float>(pool, {4, 256, 4, 4, 64}, simd_level::avx2, peak, budget);
  if (best > simd_level::avx512) measure<bf16>(pool, {4, 256, 4, 4, 64}, simd_level::avx512, peak, budget);
}
