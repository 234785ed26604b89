// SPDX-License-Identifier: Apache-2.0
// cuBLASLt with the products of a block and of the output layer, forward and backward, with their epilogues.
#include <causeway/cuda/device/matmul.cuh>
#include <causeway/cuda/device/product_queue.cuh>
#include <causeway/cuda/ops/orthogonalise.hpp>

#include "cuda/meter.cuh"

namespace bench {
namespace {

using causeway::bf16;
using cuda::matmul_epilogue;

struct layer {
  const char* name;
  std::int64_t rows, in, out;
  matmul_epilogue epilogue;
};

struct operands {
  cuda::device_buffer<bf16> x, w, y, extra;
  cuda::device_buffer<float> gradient;
};

/// y = x wᵀ with the epilogue; dx = dy w; dw += dyᵀ x in f32.
result<void> one(meter& m, cuda::matmul& products, operands& o, const layer& l) {
  const double operations = 2.0 * static_cast<double>(l.rows) * static_cast<double>(l.in) * static_cast<double>(l.out);
  const std::string size = std::to_string(l.rows) + " x " + std::to_string(l.in) + " x " + std::to_string(l.out) + " bf16";
  cuda::matmul_args<bf16, bf16> forward{.epilogue = l.epilogue, .transpose_b = true, .m = l.rows, .n = l.out, .k = l.in};
  forward.a = o.x.data(), forward.lda = l.in, forward.b = o.w.data(), forward.ldb = l.in;
  forward.c = o.y.data(), forward.ldc = l.out, forward.vector = o.extra.data();
  forward.matrix = o.extra.data() + l.out, forward.ld_matrix = l.out;
  CAUSEWAY_TRY(m.measure(l.name, size, bound::product, operations, [&] { return products.multiply(m.stream(), forward); }));

  cuda::matmul_args<bf16, bf16> to_input{.m = l.rows, .n = l.in, .k = l.out};
  to_input.a = o.y.data(), to_input.lda = l.out, to_input.b = o.w.data(), to_input.ldb = l.in;
  to_input.c = o.x.data(), to_input.ldc = l.in;
  CAUSEWAY_TRY(m.measure(std::string{l.name} + ", gradient of the input", size, bound::product, operations,
                         [&] { return products.multiply(m.stream(), to_input); }));

  cuda::matmul_args<bf16, float> to_weight{.transpose_a = true, .m = l.out, .n = l.in, .k = l.rows};
  to_weight.a = o.y.data(), to_weight.lda = l.out, to_weight.b = o.x.data(), to_weight.ldb = l.in;
  to_weight.c = o.gradient.data(), to_weight.ldc = l.in, to_weight.accumulate = true;
  return m.measure(std::string{l.name} + ", gradient of the weights", size, bound::product, operations,
                   [&] { return products.multiply(m.stream(), to_weight); });
}

/// Five iterations: two products with the matrix and one of its smaller side each.
result<void> orthogonalisation(meter& m, cuda::matmul& products, std::int64_t rows, std::int64_t columns) {
  cuda::product_queue<> q{m.stream(), m.memory(), products};
  const auto side = static_cast<double>(std::min(rows, columns)), other = static_cast<double>(std::max(rows, columns));
  CAUSEWAY_ASSIGN(auto x, m.random<float>(rows * columns));
  const std::string size = std::to_string(rows) + " x " + std::to_string(columns) + " in bf16";
  CAUSEWAY_TRY(m.measure("Muon, orthogonalisation", size, bound::product,
                         5 * (4 * side * side * other + 2 * side * side * side),
                         [&] { return cuda::orthogonalise<bf16>(q, x.data(), rows, columns); }));
  return m.stream().synchronize();
}

}  // namespace

result<void> measure_products(meter& m) {
  using e = matmul_epilogue;
  CAUSEWAY_ASSIGN(auto products, cuda::matmul::create());
  const std::int64_t many = m.sized(65536), fewer = m.sized(16384);
  for (const layer& l :
       {layer{"GPT-2 124M, qkv", many, 768, 2304, e::bias}, layer{"GPT-2 124M, up", many, 768, 3072, e::bias_gelu},
        layer{"GPT-2 124M, down", many, 3072, 768, e::bias}, layer{"GPT-2 124M, logits", fewer, 768, 50304, e::none},
        layer{"GPT-2 1.5B, qkv", fewer, 1600, 4800, e::bias}, layer{"GPT-2 1.5B, up", fewer, 1600, 6400, e::bias_gelu},
        layer{"GPT-2 1.5B, down", fewer, 6400, 1600, e::bias}}) {
    CAUSEWAY_ASSIGN(auto x, m.random<bf16>(l.rows * l.in));
    CAUSEWAY_ASSIGN(auto w, m.random<bf16>(l.out * l.in, 0.02F));
    CAUSEWAY_ASSIGN(auto y, m.random<bf16>(l.rows * l.out));
    CAUSEWAY_ASSIGN(auto extra, m.random<bf16>(l.epilogue == e::bias_gelu ? (l.rows + 1) * l.out : l.out));
    CAUSEWAY_ASSIGN(auto gradient, m.random<float>(l.out * l.in));
    operands o{std::move(x), std::move(w), std::move(y), std::move(extra), std::move(gradient)};
    CAUSEWAY_TRY(one(m, products, o, l));
    CAUSEWAY_TRY(m.stream().synchronize());
  }
  CAUSEWAY_TRY(orthogonalisation(m, products, 3072, 768));
  return orthogonalisation(m, products, 6400, 1600);
}

}  // namespace bench
