// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/adamw_kernel.hpp>

#include <causeway/kernels/optimizer.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/kernel_cases.hpp"

using namespace causeway;
using namespace causeway::kernels;

TEST_CASE("adamw kernel: copies are the new values, rounded, at every level, and these the same bits as without",
          "[kernels][fast]") {
  const auto factors = kernels::detail::factors_of({0.01F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.271F, 0.142625F, 0.5F});
  for (const std::size_t size : {1U, 31U, 1000U}) {
    for (const auto level : test::levels()) {
      const auto g = test::uniform(size, 2);
      auto p = test::uniform(size, 1), m = test::uniform(size, 3), v = test::uniform(size, 4, 0.0F, 1.0F);
      auto q = p, n = m, w = v;
      std::vector<bf16> copies(size), rounded;
      std::vector<float> whole(size);
      const auto count = static_cast<std::int64_t>(size);
      kernels::detail::dispatch<kernels::detail::adamw_kernel>(level, p.data(), g.data(), m.data(), v.data(), count,
                                                               factors);
      kernels::detail::dispatch<kernels::detail::adamw_kernel>(level, q.data(), g.data(), n.data(), w.data(), count,
                                                               factors, copies.data(), whole.data());
      for (const float value : p) rounded.emplace_back(value);
      INFO(to_string(level) << ", " << size << " elements");
      CHECK(copies == rounded);
      CHECK(whole == p);
      CHECK(q == p);
      CHECK(n == m);
      CHECK(w == v);
    }
  }
}

TEST_CASE("adamw kernel: a gradient moves both moments, in whole lanes and in a tail", "[kernels][fast]") {
  const struct { float gradient_scale = 0.5F, beta1 = 0.75F, rest1 = 0.25F, beta2 = 0.5F, rest2 = 0.5F; } c;
  std::vector<float> g(18, 4.0F), m(18, 1.0F), v(18, 14.0F), roots(18);
  kernels::detail::for_lanes(18, [&](std::int64_t i, auto part) {
    kernels::detail::f32x16 gradient, first, root;
    kernels::detail::move_moments(gradient, first, root, g.data(), m.data(), v.data(), i, part, c);
    kernels::detail::store(roots.data() + i, root, part);
  });
  CHECK(m == std::vector<float>(18, 0.75F * 1.0F + 0.25F * 2.0F));
  CHECK(v == std::vector<float>(18, 0.5F * 14.0F + 0.5F * 4.0F));
  CHECK(roots == std::vector<float>(18, 3.0F));
}
