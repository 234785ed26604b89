// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_PRODUCTS_HPP
#define CAUSEWAY_CUDA_OPS_PRODUCTS_HPP

// The matrix products of a model, with what surrounds them, as a library on the device wants them: biases in the type of
// the result, GELU in the epilogue where its rows allow it, the residual as what the product is added to.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/activation_bodies.hpp>
#include <causeway/cuda/device/matmul_plan.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/cuda/ops/queue.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// A queue that multiplies: `multiply(matmul_args)` for f32, bf16, and bf16 to f32.
template <class Q>
concept ProductQueue = Queue<Q> && requires(Q& q, const matmul_args<float, float>& f32,
                                            const matmul_args<bf16, float>& mixed, const matmul_args<bf16, bf16>& half) {
  { q.multiply(f32) } -> std::same_as<result<void>>;
  { q.multiply(mixed) } -> std::same_as<result<void>>;
  { q.multiply(half) } -> std::same_as<result<void>>;
};

namespace detail {

template <class In, class Out>
matmul_args<In, Out> matmul_of(const product& p) {
  matmul_args<In, Out> args;
  args.transpose_a = p.transpose_a, args.transpose_b = p.transpose_b;
  args.m = p.m, args.n = p.n, args.k = p.k;
  args.a = static_cast<const In*>(p.a.at), args.lda = p.lda;
  args.b = static_cast<const In*>(p.b.at), args.ldb = p.ldb;
  args.c = static_cast<Out*>(p.c.at), args.ldc = p.ldc;
  args.accumulate = p.accumulate;
  if constexpr (std::is_same_v<Out, float>) {
    if (p.residual != nullptr) {
      CAUSEWAY_EXPECT(!p.accumulate && p.act == kernels::activation::none && p.ld_residual == p.ldc);
      args.accumulate = true;
      args.addend = p.residual;
    }
  } else {
    CAUSEWAY_EXPECT(p.residual == nullptr);
  }
  return args;
}

/// A library need not know every epilogue for every pair of types.
inline bool must_do_without(const result<void>& done) { return !done && done.error().code == errc::unsupported; }

/// C = gelu(product + bias) and what GELU was applied to: in the epilogue, or in two more passes where cuBLASLt cannot.
template <class In, class Out, ProductQueue Q>
result<void> multiply_gelu(Q& q, const product& p, matmul_args<In, Out> args) {
  auto* const before = static_cast<Out*>(p.pre_activation.at);
  CAUSEWAY_EXPECT(args.ldc == args.n);
  if (before != nullptr && args.vector != nullptr && args.ldc % 8 == 0) {
    auto fused = args;
    fused.epilogue = matmul_epilogue::bias_gelu;
    fused.matrix = before, fused.ld_matrix = args.ldc;
    result<void> done = q.multiply(fused);
    if (!must_do_without(done)) return done;
  }
  Out* const after = args.c;
  if (before != nullptr) args.c = before;
  CAUSEWAY_TRY(q.multiply(args));
  return q.elements(args.m * args.n, gelu_forward_body<Out>{args.c, after});
}

template <class In, class Out, ProductQueue Q>
result<void> multiply_with(Q& q, const product& p, Out* bias) {
  auto args = matmul_of<In, Out>(p);
  if (bias != nullptr) args.epilogue = matmul_epilogue::bias, args.vector = bias;
  return p.act == kernels::activation::gelu ? multiply_gelu(q, p, args) : q.multiply(args);
}

template <class In, class Out, ProductQueue Q>
result<void> multiply_typed(Q& q, const product& p) {
  if constexpr (std::is_same_v<Out, float>) {
    return multiply_with<In, Out>(q, p, const_cast<float*>(p.bias));  // an epilogue only reads it
  } else {
    if (p.bias == nullptr) return multiply_with<In, Out>(q, p, static_cast<Out*>(nullptr));
    CAUSEWAY_ASSIGN(const auto rounded, q.template take<Out>(static_cast<std::size_t>(p.n)));
    CAUSEWAY_TRY(q.elements(p.n, convert_body<float, Out>{p.bias, rounded.data()}));
    return multiply_with<In, Out>(q, p, rounded.data());
  }
}

/// The product, then gelu'(x) on what it made: in the epilogue, or in another pass where cuBLASLt cannot.
template <class T, ProductQueue Q>
result<void> multiply_gelu_gradient(Q& q, const product& p, const_values x) {
  auto args = matmul_of<T, T>(p);
  CAUSEWAY_EXPECT(args.ldc == args.n && !args.accumulate && p.bias == nullptr);
  const auto* const at = static_cast<const T*>(x.at);
  if (args.ldc % 8 == 0) {
    auto fused = args;
    fused.epilogue = matmul_epilogue::gelu_gradient;
    fused.matrix = const_cast<T*>(at), fused.ld_matrix = args.ldc;  // this epilogue only reads it
    result<void> done = q.multiply(fused);
    if (!must_do_without(done)) return done;
  }
  CAUSEWAY_TRY(q.multiply(args));
  return q.elements(args.m * args.n, gelu_backward_body<T>{at, args.c, args.c});
}

}  // namespace detail

/// What kernels::Gemm's multiply does, in the queue. A bias of a bf16 result is rounded to bf16. With GELU or a residual
/// the rows of C must be contiguous.
template <ProductQueue Q>
[[nodiscard]] result<void> multiply(Q& q, const product& p) {
  if (p.m == 0 || p.n == 0) return {};
  if (p.a.type == dtype::f32) return detail::multiply_typed<float, float>(q, p);
  if (p.c.type == dtype::f32) return detail::multiply_typed<bf16, float>(q, p);
  return detail::multiply_typed<bf16, bf16>(q, p);
}

/// C = op(A) op(B) times the slope of GELU at x [m, n], all of one type.
template <ProductQueue Q>
[[nodiscard]] result<void> multiply_gelu_gradient(Q& q, const product& p, const_values x) {
  if (p.m == 0 || p.n == 0) return {};
  if (p.a.type == dtype::f32) return detail::multiply_gelu_gradient<float>(q, p, x);
  return detail::multiply_gelu_gradient<bf16>(q, p, x);
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_PRODUCTS_HPP
