// SPDX-License-Identifier: Apache-2.0
// Updates of 124 million parameters, and the norm of their gradients.
#include <causeway/cuda/bodies/update_bodies.hpp>
#include <causeway/cuda/device/queue.cuh>
#include <causeway/cuda/ops/reductions.hpp>

#include "cuda/meter.cuh"

namespace bench {

using causeway::bf16;

result<void> measure_updates(meter& m) {
  cuda::device_queue q{m.stream(), m.memory()};
  const std::int64_t n = m.sized(124439808);
  CAUSEWAY_ASSIGN(auto p, m.random<float>(n));
  CAUSEWAY_ASSIGN(auto g, m.random<float>(n));
  CAUSEWAY_ASSIGN(auto u, m.random<float>(n));
  CAUSEWAY_ASSIGN(auto v, m.random<float>(n, 0.0F));
  CAUSEWAY_ASSIGN(auto copy, m.random<bf16>(n));
  const std::string size = std::to_string(n) + " f32";
  const auto element = [&](const char* name, double bytes, auto body) {
    return m.measure(name, size, bound::copy, bytes * static_cast<double>(n),
                     [&m, n, body] { return cuda::elementwise(m.stream(), n, body); });
  };
  const causeway::kernels::adamw_coefficients how{};
  CAUSEWAY_TRY(element("AdamW, bf16 copy", 30, cuda::adamw_body{p.data(), g.data(), u.data(), v.data(), how, copy.data()}));
  CAUSEWAY_TRY(element("Muon, momentum", 20, cuda::muon_momentum_body{v.data(), g.data(), u.data()}));
  CAUSEWAY_TRY(element("y = a y + b x", 12, cuda::blend_body{p.data(), 1.0F, g.data(), 0.0F}));
  CAUSEWAY_TRY(element("scale", 8, cuda::scale_body{p.data(), 1.0F}));
  CAUSEWAY_TRY(element("fill", 4, cuda::fill_body{v.data(), 0.0F}));
  CAUSEWAY_ASSIGN(auto norm, m.random<float>(2));
  return m.measure("norm of gradients", size, bound::copy, 4.0 * static_cast<double>(n),
                   [&] { return cuda::clip_by_norm(q, g.data(), n, 1.0F, norm.data()); });
}

}  // namespace bench
