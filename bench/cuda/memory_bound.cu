// SPDX-License-Identifier: Apache-2.0
// Kernels of the forward and backward pass that only move memory, with the shapes of GPT-2 124M at 64 k tokens. Bytes are
// what has to be read and written once.
#include <causeway/cuda/bodies/activation_bodies.hpp>
#include <causeway/cuda/bodies/cross_entropy_body.hpp>
#include <causeway/cuda/bodies/norm_bodies.hpp>
#include <causeway/cuda/device/row_kernels.cuh>
#include <causeway/cuda/device/sort.cuh>
#include <causeway/cuda/ops/embedding.hpp>
#include <causeway/cuda/ops/reductions.hpp>

#include "cuda/meter.cuh"

namespace bench {
namespace {

using causeway::bf16;
constexpr std::int64_t width = 768, hidden = 3072, vocabulary = 50304, T = 1024;

std::string shape(std::int64_t rows, std::int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

result<void> activations(meter& m, std::int64_t rows) {
  cuda::device_queue q{m.stream(), m.memory()};
  const std::int64_t n = rows * hidden;
  CAUSEWAY_ASSIGN(auto a, m.random<bf16>(2 * n));
  CAUSEWAY_ASSIGN(auto b, m.random<bf16>(2 * n));
  CAUSEWAY_ASSIGN(auto c, m.random<bf16>(n));
  CAUSEWAY_ASSIGN(auto f, m.random<float>(n));
  const std::string size = shape(rows, hidden) + " bf16";
  const auto element = [&](const char* name, double bytes, auto body) {
    return m.measure(name, size, bound::copy, bytes * static_cast<double>(n),
                     [&m, n, body] { return cuda::elementwise(m.stream(), n, body); });
  };
  CAUSEWAY_TRY(element("GELU", 4, cuda::gelu_forward_body<bf16>{a.data(), b.data()}));
  CAUSEWAY_TRY(element("GELU, gradient", 6, cuda::gelu_backward_body<bf16>{a.data(), b.data(), c.data()}));
  CAUSEWAY_TRY(element("SwiGLU", 6, cuda::swiglu_forward_body<bf16>{a.data(), c.data(), hidden}));
  CAUSEWAY_TRY(element("SwiGLU, gradient", 10, cuda::swiglu_backward_body<bf16>{a.data(), c.data(), b.data(), hidden}));
  CAUSEWAY_TRY(element("sum", 6, cuda::add_body<bf16>{a.data(), b.data(), c.data()}));
  CAUSEWAY_TRY(element("f32 to bf16", 6, cuda::convert_body<float, bf16>{f.data(), a.data()}));
  return m.measure("bias gradient", size, bound::copy, 2.0 * static_cast<double>(n),
                   [&] { return cuda::bias_gradient(q, a.data(), f.data(), rows, hidden); });
}

/// Query and key heads of packed rows, in place.
result<void> rotary(meter& m, std::int64_t rows) {
  CAUSEWAY_ASSIGN(auto x, m.random<bf16>(rows * 3 * width));
  CAUSEWAY_ASSIGN(auto angles, m.random<float>(2 * T * 32));
  cuda::rotary_body<bf16> body{.cosine = angles.data(), .sine = angles.data() + T * 32, .x = x.data(), .positions = T};
  body.stride = 3 * width, body.heads = 24, body.half = 32;
  return m.measure("rotary", shape(rows, 2 * width) + " bf16", bound::copy, 8.0 * static_cast<double>(rows * width),
                   [&] { return cuda::elementwise(m.stream(), rows * width, body); });
}

template <bool Centered>
result<void> norm(meter& m, std::int64_t rows) {
  cuda::device_queue q{m.stream(), m.memory()};
  const std::int64_t n = rows * width;
  CAUSEWAY_ASSIGN(auto x, m.random<float>(n));
  CAUSEWAY_ASSIGN(auto dx, m.random<float>(n));
  CAUSEWAY_ASSIGN(auto branch, m.random<bf16>(n, 0.0F));
  CAUSEWAY_ASSIGN(auto y, m.random<bf16>(n));
  CAUSEWAY_ASSIGN(auto small, m.random<float>(4 * width + 2 * rows));
  float* const gain = small.data();
  cuda::norm_forward_body<Centered, bf16> forward{.x = x.data(), .branch = branch.data(), .sum = x.data(), .gain = gain};
  forward.y = y.data(), forward.rstd = gain + 4 * width, forward.columns = width;
  if constexpr (Centered) forward.bias = gain + width, forward.mean = forward.rstd + rows;
  const std::string name = Centered ? "layer norm" : "RMS norm", size = shape(rows, width) + " f32, bf16";
  CAUSEWAY_TRY(m.measure(name + " with residual sum", size, bound::copy, 12.0 * static_cast<double>(n),
                         [&] { return cuda::for_each_row(m.stream(), rows, width, forward); }));
  cuda::norm_backward_body<Centered, bf16> backward{
      .x = x.data(), .gain = gain, .mean = forward.mean, .rstd = forward.rstd};
  backward.dy = y.data(), backward.dx = dx.data(), backward.accumulate = true, backward.rows = rows;
  backward.columns = width;
  float* const dbias = Centered ? gain + 3 * width : nullptr;
  return m.measure(name + ", gradient", size, bound::copy, 14.0 * static_cast<double>(n),
                   [&] { return cuda::norm_backward(q, backward, gain + 2 * width, dbias); });
}

result<void> tokens(meter& m, std::int64_t rows) {
  cuda::sorting_queue q{m.stream(), m.memory()};
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = static_cast<std::int32_t>(i * 7919 % vocabulary);
  CAUSEWAY_ASSIGN(auto ids, cuda::device_buffer<std::int32_t>::create(chosen.size()));
  CAUSEWAY_TRY(ids.write(m.stream(), chosen));
  CAUSEWAY_TRY(m.stream().synchronize());
  CAUSEWAY_ASSIGN(auto table, m.random<float>(vocabulary * width));
  CAUSEWAY_ASSIGN(auto positions, m.random<float>(T * width));
  CAUSEWAY_ASSIGN(auto x, m.random<float>(rows * width));
  const cuda::embedding_forward_body body{ids.data(), table.data(), positions.data(), x.data(), T, width};
  const auto values = static_cast<double>(rows * width);
  CAUSEWAY_TRY(m.measure("embedding", shape(rows, width) + " f32", bound::copy, 8 * values,
                         [&] { return cuda::elementwise(m.stream(), rows * width, body); }));
  const auto touched = static_cast<double>(std::min(rows, vocabulary) * width);
  CAUSEWAY_TRY(m.measure("embedding, gradient", shape(rows, width) + " f32", bound::copy, 4 * values + 8 * touched, [&] {
    return cuda::embedding_backward(q, ids.data(), x.data(), table.data(), nullptr, rows / T, T, width, vocabulary);
  }));

  const std::int64_t few = std::max<std::int64_t>(rows / 4, 64);
  CAUSEWAY_ASSIGN(auto logits, m.random<bf16>(few * vocabulary));
  CAUSEWAY_ASSIGN(auto losses, m.random<float>(few));
  const cuda::cross_entropy_body<bf16, bf16> loss{logits.data(), logits.data(), ids.data(), losses.data(),
                                                  vocabulary,    vocabulary,    1e-4F};
  return m.measure("cross-entropy and gradient", shape(few, vocabulary) + " bf16", bound::copy,
                   4.0 * static_cast<double>(few * vocabulary),
                   [&] { return cuda::for_each_row(m.stream(), few, vocabulary, loss); });
}

}  // namespace

result<void> measure_memory_bound(meter& m) {
  const std::int64_t rows = std::max<std::int64_t>(m.sized(65536) / T * T, T);
  CAUSEWAY_TRY(activations(m, rows));
  CAUSEWAY_TRY(rotary(m, rows));
  CAUSEWAY_TRY(norm<true>(m, rows));
  CAUSEWAY_TRY(norm<false>(m, rows));
  return tokens(m, rows);
}

}  // namespace bench
