// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AUTOGRAD_LINEAR_HPP
#define CAUSEWAY_AUTOGRAD_LINEAR_HPP

// Linear maps, alone or with what surrounds them in a transformer block fused into the product: GELU after the first
// matrix of the feed-forward part, the residual addition after the last. Operands are f32, or bf16 with f32 sums.

#include <causeway/autograd/tape.hpp>
#include <causeway/autograd/variable.hpp>
#include <causeway/config/config.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/tensor/tensor.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::autograd {

namespace detail {

/// What a linear map keeps for its backward.
struct linear_record {
  tensor x;               ///< [rows, inputs]
  tensor pre_activation;  ///< [rows, outputs] when GELU follows
  gradient_slot x_slot = no_gradient;
  gradient_slot residual_slot = no_gradient;
  parameter weight;  ///< [outputs, inputs]
  parameter bias;    ///< [1, outputs] or nothing
};

template <class In, class Out, class Backend>
void linear_forward(tape<Backend>& t, const linear_record& r, kernels::activation act, const tensor& residual, tensor& y) {
  kernels::gemm_args<In, Out> args;
  args.transpose_b = true;
  args.m = r.x.rows(), args.n = r.weight.rows, args.k = r.weight.columns;
  args.a = r.x.template data<In>(), args.lda = args.k;
  args.b = r.weight.template data<In>(), args.ldb = args.k;
  args.c = y.template data<Out>(), args.ldc = args.n;
  args.bias = r.bias.value;
  args.act = act;
  if (residual) args.residual = residual.data<float>(), args.ld_residual = args.n;
  if (r.pre_activation) args.pre_activation = r.pre_activation.template data<Out>();
  t.ops().multiply(args);
}

/// dW += dyᵀ·x.
template <class Act, class Backend>
void linear_weight_gradient(tape<Backend>& t, const tensor& x, const parameter& weight, const tensor& dy) {
  kernels::gemm_args<Act, float> args;
  args.transpose_a = true;
  args.accumulate = true;
  args.m = weight.rows, args.n = weight.columns, args.k = x.rows();
  args.a = dy.template data<Act>(), args.lda = args.m;
  args.b = x.template data<Act>(), args.ldb = args.n;
  args.c = weight.gradient, args.ldc = args.n;
  t.ops().multiply(args);
}

/// dx = dy·W.
template <class Act, class Backend>
void linear_input_gradient(tape<Backend>& t, const linear_record& r, const tensor& dy) {
  if (r.x_slot == no_gradient) return;
  auto dx = t.target_of(r.x_slot, dtype_of<Act>, {dy.rows(), r.weight.columns});
  kernels::gemm_args<Act, Act> args;
  args.accumulate = dx.accumulate;
  args.m = dy.rows(), args.n = r.weight.columns, args.k = r.weight.rows;
  args.a = dy.template data<Act>(), args.lda = args.k;
  args.b = r.weight.template data<Act>(), args.ldb = args.n;
  args.c = dx.memory.template data<Act>(), args.ldc = args.n;
  t.ops().multiply(args);
}

/// The gradient as the products read it: itself, or rounded to bf16 when it arrived from the f32 residual stream.
template <class Backend>
[[nodiscard]] tensor as_operand(tape<Backend>& t, const tensor& dy, dtype type) {
  if (dy.type() == type) return dy;
  tensor rounded = t.make(type, dy.shape());
  t.ops().convert(dy.data<float>(), rounded.data<bf16>(), dy.count());
  return rounded;
}

/// y = act(x·Wᵀ + b) + residual: through the activation, then db += Σ dy, dW += dyᵀ·x, dx = dy·W, d residual = dy.
template <class Act, class Backend>
void linear_backward(tape<Backend>& t, linear_record& r, tensor dy) {
  if (r.pre_activation) {
    dy = t.exclusive(std::move(dy));
    const Act* pre = r.pre_activation.template data<Act>();
    t.ops().gelu_backward(pre, dy.template data<Act>(), dy.template data<Act>(), dy.count());
    r.pre_activation.reset();
  }
  if (r.bias.gradient != nullptr) {
    with_activation_type(dy.type(),
                         [&]<class T>() { t.ops().bias_gradient(dy.data<T>(), r.bias.gradient, dy.rows(), dy.columns()); });
  }
  const tensor operand = as_operand(t, dy, dtype_of<Act>);
  if (r.weight.gradient == nullptr) {
    r.x.reset();
  } else {
    t.weight_gradient(operand, [x = std::move(r.x), weight = r.weight](tape<Backend>& on, const tensor& d) {
      linear_weight_gradient<Act>(on, x, weight, d);
    });  // x is gone before dx asks for memory of the same size
  }
  if (r.residual_slot != no_gradient) t.contribute(r.residual_slot, std::move(dy));
  linear_input_gradient<Act>(t, r, operand);
}

template <class Backend>
[[nodiscard]] variable record_linear(tape<Backend>& t, linear_record&& r, tensor&& y) {
  return t.result(std::move(y), [r = std::move(r)](tape<Backend>& on, tensor dy) mutable {
    with_activation_type(r.x.type(), [&]<class Act>() { linear_backward<Act>(on, r, std::move(dy)); });
  });
}

}  // namespace detail

/// y = x·Wᵀ + b in the type of x. x is [rows, inputs], W [outputs, inputs], b [outputs] or an empty parameter.
template <class Backend>
[[nodiscard]] variable linear(tape<Backend>& t, const variable& x, const parameter& weight, const parameter& bias = {}) {
  CAUSEWAY_EXPECT(x.value.columns() == weight.columns && (!bias || bias.columns == weight.rows));
  detail::linear_record r{x.value, {}, x.slot, no_gradient, weight, bias};
  tensor y = t.make(x.value.type(), {x.value.rows(), weight.rows});
  detail::with_activation_type(
      x.value.type(), [&]<class Act>() { detail::linear_forward<Act, Act>(t, r, kernels::activation::none, {}, y); });
  return detail::record_linear(t, std::move(r), std::move(y));
}

/// y = gelu(x·Wᵀ + b), the tanh form, in the type of x. Keeps the argument of gelu for backward.
template <class Backend>
[[nodiscard]] variable linear_gelu(tape<Backend>& t, const variable& x, const parameter& weight, const parameter& bias) {
  CAUSEWAY_EXPECT(x.value.columns() == weight.columns && (!bias || bias.columns == weight.rows));
  detail::linear_record r{x.value, {}, x.slot, no_gradient, weight, bias};
  const tensor_shape shape{x.value.rows(), weight.rows};
  if (t.recording()) r.pre_activation = t.make(x.value.type(), shape);
  tensor y = t.make(x.value.type(), shape);
  detail::with_activation_type(
      x.value.type(), [&]<class Act>() { detail::linear_forward<Act, Act>(t, r, kernels::activation::gelu, {}, y); });
  return detail::record_linear(t, std::move(r), std::move(y));
}

/// y = x·Wᵀ + b in f32, whatever the type of x: what goes into the residual stream.
template <class Backend>
[[nodiscard]] variable linear_to_residual(tape<Backend>& t, const variable& x, const parameter& weight,
                                          const parameter& bias = {}, const variable& residual = {}) {
  CAUSEWAY_EXPECT(x.value.columns() == weight.columns && (!bias || bias.columns == weight.rows));
  CAUSEWAY_EXPECT(!residual.value || residual.value.columns() == weight.rows);
  detail::linear_record r{x.value, {}, x.slot, residual.slot, weight, bias};
  tensor y = t.make(dtype::f32, {x.value.rows(), weight.rows});
  detail::with_activation_type(x.value.type(), [&]<class Act>() {
    detail::linear_forward<Act, float>(t, r, kernels::activation::none, residual.value, y);
  });
  return detail::record_linear(t, std::move(r), std::move(y));
}

}  // namespace causeway::inline CAUSEWAY_ABI::autograd

#endif  // CAUSEWAY_AUTOGRAD_LINEAR_HPP
