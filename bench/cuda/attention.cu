// SPDX-License-Identifier: Apache-2.0
// Flash attention. Operations are those that causality leaves: 2 T² d a product and head, halved; two products forward,
// five backward, although this backward pass makes seven.
#include <causeway/cuda/device/queue.cuh>
#include <causeway/cuda/ops/attention.hpp>

#include "cuda/meter.cuh"

#include <cmath>

namespace bench {
namespace {

using causeway::bf16;

struct attention_size {
  const char* name;
  std::int64_t batch, T, heads, kv_heads, head_size;
};

result<void> one(meter& m, const attention_size& a) {
  cuda::device_queue q{m.stream(), m.memory()};
  const std::int64_t width = a.heads * a.head_size, kv_width = a.kv_heads * a.head_size, packed = width + 2 * kv_width;
  const causeway::kernels::attention_shape shape{
      a.batch, a.T,    a.heads, a.kv_heads, a.head_size,
      packed,  packed, packed,  width,      1.0F / std::sqrt(static_cast<float>(a.head_size))};
  CAUSEWAY_ASSIGN(auto qkv, m.random<bf16>(a.batch * a.T * packed));
  CAUSEWAY_ASSIGN(auto d_qkv, m.random<bf16>(a.batch * a.T * packed));
  CAUSEWAY_ASSIGN(auto o, m.random<bf16>(a.batch * a.T * width));
  CAUSEWAY_ASSIGN(auto d_o, m.random<bf16>(a.batch * a.T * width));
  CAUSEWAY_ASSIGN(auto sums, m.random<float>(a.batch * a.heads * a.T));
  const bf16* const p = qkv.data();
  bf16* const g = d_qkv.data();
  const double product = static_cast<double>(a.T) * static_cast<double>(a.T) * static_cast<double>(width * a.batch);
  const std::string size = std::string{a.name} + ": B " + std::to_string(a.batch) + ", T " + std::to_string(a.T) +
                           ", heads " + std::to_string(a.heads) + " of " + std::to_string(a.head_size) + ", key heads " +
                           std::to_string(a.kv_heads);
  CAUSEWAY_TRY(m.measure("attention", size, bound::product, 2 * product, [&] {
    return cuda::attention_forward(q, shape, p, p + width, p + width + kv_width, o.data(), sums.data());
  }));
  return m.measure("attention, gradient", size, bound::product, 5 * product, [&] {
    return cuda::attention_backward(q, shape, p, p + width, p + width + kv_width, o.data(), d_o.data(), sums.data(), g,
                                    g + width, g + width + kv_width);
  });
}

}  // namespace

result<void> measure_attention(meter& m) {
  const auto batch = [&](std::int64_t b) { return m.quick() ? 1 : b; };
  CAUSEWAY_TRY(one(m, {"GPT-2 124M", batch(64), 1024, 12, 12, 64}));
  CAUSEWAY_TRY(one(m, {"GPT-2 1.5B", batch(32), 1024, 25, 25, 64}));
  CAUSEWAY_TRY(one(m, {"grouped, long", batch(4), 8192, 32, 8, 128}));
  return one(m, {"wide heads", batch(32), 1024, 16, 16, 128});
}

}  // namespace bench
