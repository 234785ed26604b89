// SPDX-License-Identifier: Apache-2.0

// The memory-bound kernels as JSON lines: GB/s as the program sees the bytes (each kernel's docstring says how many an
// element), and the share of the plain loop with the same kind of traffic, measured in the same run: `read`, `copy` (other
// memory is written than read) or `update` (c += a, memory is written that was read). Large arrays stream from memory;
// small ones stay in the second-level cache.
//   elementwise [threads] [large|small|both] [portable|avx2|avx512]

#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/activation.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/dropout.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/embedding.hpp>
#include <causeway/kernels/norm.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/reduce.hpp>
#include <causeway/kernels/rotary.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

using namespace causeway;
using kernels::simd_level;

/// The median over repeats that together take about 0.15 s.
template <class F>
double median_seconds(F&& f) {
  using clock = std::chrono::steady_clock;
  f();
  std::vector<double> times;
  const auto start = clock::now();
  do {
    const auto before = clock::now();
    f();
    times.push_back(std::chrono::duration<double>(clock::now() - before).count());
  } while (times.size() < 5 || clock::now() - start < std::chrono::milliseconds{150});
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

enum class traffic { read, copy, update };
constexpr const char* traffic_names[] = {"read", "copy", "update"};

struct setup {
  thread_pool& pool;
  simd_level level;
  std::int64_t count;  // elements of an f32 array
  double reference[3] = {};

  template <class F>
  void measure(const char* name, traffic kind, double bytes, F&& f) {
    const double rate = bytes / median_seconds(f) * 1e-9;
    double& known = reference[static_cast<std::size_t>(kind)];
    if (known == 0.0) known = rate;  // the first of its kind is the plain loop
    std::printf(R"({"kernel":"%s","threads":%u,"level":"%.*s","elements":%lld,"gb_s":%.1f,"like":"%s","share":%.2f})"
                "\n",
                name, pool.size(), static_cast<int>(to_string(level).size()), to_string(level).data(),
                static_cast<long long>(count), rate, traffic_names[static_cast<std::size_t>(kind)], rate / known);
  }
};

struct arrays {
  aligned_buffer<float> a, b, c, d;
  aligned_buffer<bf16> x, y, z;

  explicit arrays(std::size_t n) : a{n}, b{n}, c{n}, d{n}, x{n}, y{n}, z{n} {
    for (std::size_t i = 0; i < n; ++i) {
      const float value = static_cast<float>(static_cast<std::uint32_t>(i * 2654435761U) >> 8U) * 0x1p-23F - 1.0F;
      a[i] = value;
      b[i] = 0.5F - value;
      c[i] = value * value;
      d[i] = value * value;
      x[i] = bf16{value};
      y[i] = bf16{-value};
    }
  }
};

// What the memory gives to a plain loop: the widest loads and stores, no arithmetic worth mentioning.
void plain_loops(setup& s, arrays& m) {
  const auto n = static_cast<double>(s.count);
  volatile double sink = 0.0;
  s.measure("plain read", traffic::read, 4 * n, [&] { sink = kernels::all_finite(s.pool, m.a.data(), s.count) ? 1 : 0; });
  s.measure("plain copy", traffic::copy, 8 * n, [&] { kernels::convert(s.pool, m.a.data(), m.b.data(), s.count); });
  s.measure("plain update", traffic::update, 12 * n,
            [&] { kernels::axpy(s.pool, m.b.data(), 1e-9F, m.a.data(), s.count); });
}

void flat_kernels(setup& s, arrays& m) {
  const auto n = static_cast<double>(s.count);
  const auto count = s.count;
  auto& pool = s.pool;
  const auto level = s.level;
  float *a = m.a.data(), *b = m.b.data(), *c = m.c.data(), *d = m.d.data();
  bf16 *x = m.x.data(), *y = m.y.data(), *z = m.z.data();
  volatile double sink = 0.0;
  s.measure("sum_of_squares", traffic::read, 4 * n, [&] { sink = kernels::sum_of_squares(pool, a, count, level); });
  s.measure("dot", traffic::read, 8 * n, [&] { sink = kernels::dot(pool, a, b, count, level); });
  s.measure("all_finite", traffic::read, 4 * n, [&] { sink = kernels::all_finite(pool, a, count, level) ? 1 : 0; });
  s.measure("convert f32 to bf16", traffic::copy, 6 * n, [&] { kernels::convert(pool, a, x, count, level); });
  s.measure("convert bf16 to f32", traffic::copy, 6 * n, [&] { kernels::convert(pool, x, b, count, level); });
  s.measure("convert f32 to f16", traffic::copy, 6 * n,
            [&] { kernels::convert(pool, a, reinterpret_cast<f16*>(z), count, level); });
  s.measure("convert f16 to f32", traffic::copy, 6 * n,
            [&] { kernels::convert(pool, reinterpret_cast<const f16*>(z), b, count, level); });
  s.measure("add", traffic::copy, 12 * n, [&] { kernels::add(pool, b, a, c, count, level); });
  s.measure("axpy", traffic::update, 12 * n, [&] { kernels::axpy(pool, b, 1e-9F, a, count, level); });
  s.measure("lerp", traffic::update, 12 * n, [&] { kernels::lerp(pool, b, a, 0.5F, count, level); });
  s.measure("scale", traffic::update, 8 * n, [&] { kernels::scale(pool, b, 0.999F, count, level); });
  s.measure("gelu_forward f32", traffic::copy, 8 * n, [&] { kernels::gelu_forward(pool, a, b, count, level); });
  s.measure("gelu_forward bf16", traffic::copy, 4 * n, [&] { kernels::gelu_forward(pool, x, y, count, level); });
  s.measure("gelu_backward f32 in place", traffic::update, 12 * n,
            [&] { kernels::gelu_backward(pool, a, c, c, count, level); });
  s.measure("gelu_backward bf16", traffic::copy, 6 * n, [&] { kernels::gelu_backward(pool, x, y, z, count, level); });
  s.measure("dropout_apply f32", traffic::update, 8 * n,
            [&] { kernels::dropout_apply(pool, b, count, 0.001F, 1, 2, level); });
  m.d = aligned_buffer<float>(m.d.size());
  d = m.d.data();
  s.measure("adamw_update", traffic::update, 28 * n, [&] {
    kernels::adamw_update(pool, b, a, c, d, count, {.weight_decay = 0.1F, .gradient_scale = 1e-3F}, level);
  });
  s.measure("sgd_update", traffic::update, 12 * n,
            [&] { kernels::sgd_update(pool, b, a, count, {.learning_rate = 1e-9F}, level); });
  s.measure("nesterov_update", traffic::update, 20 * n,
            [&] { kernels::nesterov_update(pool, b, a, c, count, {.learning_rate = 1e-9F, .momentum = 0.9F}, level); });
}

void row_kernels(setup& s, arrays& m, std::int64_t columns) {
  const std::int64_t rows = s.count / columns;
  const auto n = static_cast<double>(rows * columns);
  auto& pool = s.pool;
  const auto level = s.level;
  float *a = m.a.data(), *b = m.b.data(), *c = m.c.data();
  bf16 *x = m.x.data(), *y = m.y.data();
  scratch memory;
  const auto side = static_cast<std::size_t>(std::max(rows, columns));
  std::vector<float> gain(side, 1.0F), bias(side), mean(side), rstd(side, 1.0F), dgain(side), dbias(side);
  s.measure("layer_norm_forward f32", traffic::copy, 8 * n, [&] {
    kernels::layer_norm_forward(pool, a, gain.data(), bias.data(), b, mean.data(), rstd.data(), rows, columns, 1e-5F,
                                level);
  });
  s.measure("layer_norm_forward bf16", traffic::copy, 6 * n, [&] {
    kernels::layer_norm_forward(pool, a, gain.data(), bias.data(), x, mean.data(), rstd.data(), rows, columns, 1e-5F,
                                level);
  });
  s.measure("layer_norm_backward f32 accumulate", traffic::update, 16 * n, [&] {
    kernels::layer_norm_backward(pool, memory, a, gain.data(), mean.data(), rstd.data(), b, c, true, dgain.data(),
                                 dbias.data(), rows, columns, level);
  });
  s.measure("layer_norm_backward bf16", traffic::copy, 10 * n, [&] {
    kernels::layer_norm_backward(pool, memory, a, gain.data(), mean.data(), rstd.data(), x, c, false, dgain.data(),
                                 dbias.data(), rows, columns, level);
  });
  s.measure("rms_norm_forward bf16", traffic::copy, 6 * n,
            [&] { kernels::rms_norm_forward(pool, a, gain.data(), x, rstd.data(), rows, columns, 1e-5F, level); });
  s.measure("bias_gradient f32", traffic::read, 4 * n,
            [&] { kernels::bias_gradient(pool, memory, a, dbias.data(), rows, columns, level); });
  s.measure("bias_gradient bf16", traffic::read, 2 * n,
            [&] { kernels::bias_gradient(pool, memory, x, dbias.data(), rows, columns, level); });
  s.measure("swiglu_forward f32", traffic::copy, 6 * n,
            [&] { kernels::swiglu_forward(pool, a, b, rows, columns / 2, level); });
  s.measure("swiglu_backward bf16", traffic::copy, 5 * n,
            [&] { kernels::swiglu_backward(pool, x, y, m.z.data(), rows, columns / 2, level); });
  const std::int64_t T = std::min<std::int64_t>(rows, 1024);
  const kernels::rotary_table table{T, 64};
  s.measure("rotary_apply f32", traffic::update, 8 * static_cast<double>(rows / T * T * columns),
            [&] { kernels::rotary_apply(pool, table, b, rows / T, T, columns, columns / 64, 64, false, level); });
}

void embedding_kernels(setup& s, arrays& m, std::int64_t columns) {
  const std::int64_t rows = s.count / columns;
  const std::int64_t T = std::min<std::int64_t>(rows, 1024);
  const std::int64_t batch = rows / T;
  const auto n = static_cast<double>(batch * T * columns);
  scratch memory;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i * 2654435761U % static_cast<std::size_t>(rows));
  }
  s.measure("embedding_forward", traffic::copy, 8 * n, [&] {
    kernels::embedding_forward(s.pool, tokens.data(), m.a.data(), nullptr, m.b.data(), batch, T, columns, s.level);
  });
  s.measure("embedding_backward", traffic::update, 12 * n, [&] {
    kernels::embedding_backward(s.pool, memory, tokens.data(), m.a.data(), m.b.data(), nullptr, batch, T, columns, rows,
                                s.level);
  });
}

void run(thread_pool& pool, simd_level level, std::int64_t count, std::int64_t columns) {
  setup s{pool, level, count};
  arrays m{static_cast<std::size_t>(count)};
  plain_loops(s, m);
  flat_kernels(s, m);
  row_kernels(s, m, columns);
  embedding_kernels(s, m, columns);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned threads = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
  const std::string_view which = argc > 2 ? argv[2] : "both";
  simd_level level = kernels::detect_simd_level();
  for (const auto candidate : {simd_level::portable, simd_level::avx2, simd_level::avx512}) {
    if (argc > 3 && to_string(candidate) == argv[3]) level = std::min(level, candidate);
  }
  thread_pool pool{threads};
  if (which != "small") run(pool, level, std::int64_t{24} << 20, 768);
  if (which != "large") run(pool, level, std::int64_t{48} << 10 << (threads > 1 ? 1 : 0), 768);
  return 0;
}
