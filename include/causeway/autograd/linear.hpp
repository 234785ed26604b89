// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AUTOGRAD_LINEAR_HPP
#define CAUSEWAY_AUTOGRAD_LINEAR_HPP

// Linear maps, alone or with what surrounds them in a transformer block fused into the product: the residual addition, and
// in the feed-forward part GELU and its gradient. Operands are f32, or bf16 with f32 sums.

#include <causeway/autograd/tape.hpp>
#include <causeway/autograd/variable.hpp>
#include <causeway/config/config.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/tensor/tensor.hpp>

#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace autograd {

namespace detail {

/// What a linear map keeps for its backward.
struct linear_record {
  tensor x;  ///< [rows, inputs]
  gradient_slot x_slot = no_gradient;
  gradient_slot residual_slot = no_gradient;
  parameter weight;  ///< [outputs, inputs]
  parameter bias;    ///< [1, outputs] or nothing
};

/// y = x·Wᵀ + b.
template <class In, class Out>
[[nodiscard]] kernels::gemm_args<In, Out> linear_product(const linear_record& r, tensor& y) {
  kernels::gemm_args<In, Out> args;
  args.transpose_b = true;
  args.m = r.x.rows(), args.n = r.weight.rows, args.k = r.weight.columns;
  args.a = r.x.template data<In>(), args.lda = args.k;
  args.b = r.weight.template data<In>(), args.ldb = args.k;
  args.c = y.template data<Out>(), args.ldc = args.n;
  args.bias = r.bias.value;
  return args;
}

template <class Act, class Backend>
void linear_residual_forward(tape<Backend>& t, const linear_record& r, const tensor& residual, tensor& y) {
  auto args = linear_product<Act, float>(r, y);
  if (residual) args.residual = residual.data<float>(), args.ld_residual = args.n;
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
template <class Act>
[[nodiscard]] kernels::gemm_args<Act, Act> input_gradient_product(const parameter& weight, const tensor& dy, tensor& dx) {
  kernels::gemm_args<Act, Act> args;
  args.m = dy.rows(), args.n = weight.columns, args.k = weight.rows;
  args.a = dy.template data<Act>(), args.lda = args.k;
  args.b = weight.template data<Act>(), args.ldb = args.n;
  args.c = dx.template data<Act>(), args.ldc = args.n;
  return args;
}

template <class Act, class Backend>
void linear_input_gradient(tape<Backend>& t, const linear_record& r, const tensor& dy) {
  if (r.x_slot == no_gradient) return;
  auto dx = t.target_of(r.x_slot, dtype_of<Act>, {dy.rows(), r.weight.columns});
  auto args = input_gradient_product<Act>(r.weight, dy, dx.memory);
  args.accumulate = dx.accumulate;
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

/// Of y = x·Wᵀ + b + residual: db += Σ dy, dW += dyᵀ·x, d residual = dy. Gives dy as the products read it.
template <class Act, class Backend>
[[nodiscard]] tensor linear_parameter_gradients(tape<Backend>& t, linear_record& r, tensor dy) {
  if (r.bias.gradient != nullptr) {
    with_activation_type(dy.type(),
                         [&]<class T>() { t.ops().bias_gradient(dy.data<T>(), r.bias.gradient, dy.rows(), dy.columns()); });
  }
  tensor operand = as_operand(t, dy, dtype_of<Act>);
  if (r.weight.gradient == nullptr) {
    r.x.reset();
  } else {
    t.weight_gradient(operand, [x = std::move(r.x), weight = r.weight](tape<Backend>& on, const tensor& d) {
      linear_weight_gradient<Act>(on, x, weight, d);
    });  // x is gone before dx asks for memory of the same size
  }
  if (r.residual_slot != no_gradient) t.contribute(r.residual_slot, std::move(dy));
  return operand;
}

template <class Act, class Backend>
void linear_backward(tape<Backend>& t, linear_record& r, tensor dy) {
  const tensor operand = linear_parameter_gradients<Act>(t, r, std::move(dy));
  linear_input_gradient<Act>(t, r, operand);
}

/// Through the second map and GELU in one product, then through the first.
template <class Act, class Backend>
void feed_forward_backward(tape<Backend>& t, linear_record& up, linear_record& down, tensor& before_gelu, tensor dy) {
  tensor operand = linear_parameter_gradients<Act>(t, down, std::move(dy));
  tensor d = t.make(dtype_of<Act>, before_gelu.shape());
  t.ops().multiply_gelu_gradient(input_gradient_product<Act>(down.weight, operand, d), before_gelu.data<Act>());
  operand.reset(), before_gelu.reset();
  linear_backward<Act>(t, up, std::move(d));
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
  detail::linear_record r{x.value, x.slot, no_gradient, weight, bias};
  tensor y = t.make(x.value.type(), {x.value.rows(), weight.rows});
  detail::with_activation_type(x.value.type(),
                               [&]<class Act>() { t.ops().multiply(detail::linear_product<Act, Act>(r, y)); });
  return detail::record_linear(t, std::move(r), std::move(y));
}

/// y = x·Wᵀ + b in f32, whatever the type of x: what goes into the residual stream.
template <class Backend>
[[nodiscard]] variable linear_to_residual(tape<Backend>& t, const variable& x, const parameter& weight,
                                          const parameter& bias = {}, const variable& residual = {}) {
  CAUSEWAY_EXPECT(x.value.columns() == weight.columns && (!bias || bias.columns == weight.rows));
  CAUSEWAY_EXPECT(!residual.value || residual.value.columns() == weight.rows);
  detail::linear_record r{x.value, x.slot, residual.slot, weight, bias};
  tensor y = t.make(dtype::f32, {x.value.rows(), weight.rows});
  detail::with_activation_type(x.value.type(),
                               [&]<class Act>() { detail::linear_residual_forward<Act>(t, r, residual.value, y); });
  return detail::record_linear(t, std::move(r), std::move(y));
}

/// y = gelu(x·Uᵀ + b)·Dᵀ + c + residual in f32, GELU in its tanh form: the feed-forward part of a block. Keeps the argument
/// of GELU and its value for backward, where GELU's gradient is part of the product that makes it, if the backend can.
template <class Backend>
[[nodiscard]] variable feed_forward(tape<Backend>& t, const variable& x, const parameter& up, const parameter& up_bias,
                                    const parameter& down, const parameter& down_bias, const variable& residual = {}) {
  CAUSEWAY_EXPECT(x.value.columns() == up.columns && up.rows == down.columns);
  CAUSEWAY_EXPECT(!residual.value || residual.value.columns() == down.rows);
  const tensor_shape shape{x.value.rows(), up.rows};
  detail::linear_record first{x.value, x.slot, no_gradient, up, up_bias};
  tensor before_gelu = t.recording() ? t.make(x.value.type(), shape) : tensor{};
  detail::linear_record second{t.make(x.value.type(), shape), no_gradient, residual.slot, down, down_bias};
  tensor y = t.make(dtype::f32, {x.value.rows(), down.rows});
  detail::with_activation_type(x.value.type(), [&]<class Act>() {
    auto args = detail::linear_product<Act, Act>(first, second.x);
    args.act = kernels::activation::gelu;
    if (before_gelu) args.pre_activation = before_gelu.data<Act>();
    t.ops().multiply(args);
    detail::linear_residual_forward<Act>(t, second, residual.value, y);
  });
  return t.result(std::move(y), [up = std::move(first), down = std::move(second), before = std::move(before_gelu)](
                                    tape<Backend>& on, tensor dy) mutable {
    detail::with_activation_type(
        up.x.type(), [&]<class Act>() { detail::feed_forward_backward<Act>(on, up, down, before, std::move(dy)); });
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::autograd

#endif  // CAUSEWAY_AUTOGRAD_LINEAR_HPP
