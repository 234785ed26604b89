// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/bf16_kernels.hpp>

#include <causeway/kernels/activation.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/packed_gemm.hpp>

#include "support/catch.hpp"

#include <vector>

using namespace causeway;
using namespace causeway::kernels;

namespace {

std::vector<bf16> ramp(int count) {
  std::vector<bf16> v;
  for (int i = 0; i < count; ++i) v.emplace_back(0.25F * static_cast<float>(i % 23) - 2.0F);
  return v;
}

}  // namespace

TEST_CASE("bf16 kernels: asked for twice they are the same, and all are there", "[kernels][fast]") {
  use_bf16();
  const bf16_kernels* const first = &bf16_in_use();
  use_bf16();
  CHECK(&bf16_in_use() == first);
  const auto* entries = reinterpret_cast<void (*const*)()>(first);
  for (std::size_t i = 0; i < sizeof(bf16_kernels) / sizeof(entries[0]); ++i) CHECK(entries[i] != nullptr);
}

TEST_CASE("bf16 kernels: a backend gives the bits of the functions themselves", "[kernels][fast]") {
  use_bf16();
  basic_cpu_backend<packed_gemm> backend;
  const auto x = ramp(1000);
  std::vector<bf16> expected(x.size()), y(x.size());
  kernels::gelu_forward(backend.pool(), x.data(), expected.data(), std::ssize(x));
  backend.gelu_forward(x.data(), y.data(), std::ssize(x));
  CHECK(y == expected);

  const auto a = ramp(6 * 40), b = ramp(40 * 7);
  const auto product = [&]<class Out>(Out* c) {
    return gemm_args<bf16, Out>{
        .m = 6, .n = 7, .k = 40, .a = a.data(), .lda = 40, .b = b.data(), .ldb = 7, .c = c, .ldc = 7};
  };
  std::vector<float> sums(42), expected_sums(42);
  backend.gemm().multiply(backend.pool(), backend.memory(), product(expected_sums.data()));
  backend.multiply(product(sums.data()));
  CHECK(sums == expected_sums);
  backend.multiply(product(y.data()));
  for (std::size_t i = 0; i < sums.size(); ++i) CHECK(y[i] == bf16(sums[i]));
}
