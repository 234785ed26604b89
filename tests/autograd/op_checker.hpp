// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_AUTOGRAD_OP_CHECKER_HPP
#define CAUSEWAY_TESTS_AUTOGRAD_OP_CHECKER_HPP

// Runs a piece of a model on a tape with random inputs and parameters, and compares what the tape says about gradients
// with finite differences, or bf16 with f32.

#include <causeway/autograd/tape.hpp>
#include <causeway/autograd/variable.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/tensor.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/grad_check.hpp"

namespace causeway::testing {

using cpu_tape = autograd::tape<kernels::cpu_backend>;

/// Owns inputs and parameters; `run` and `check` use the computation given to `compute`.
class op_checker {
 public:
  /// From the variables of the inputs to the result. Parameters are captured by reference (`parameter`).
  using computation = std::function<autograd::variable(cpu_tape&, std::vector<autograd::variable>&)>;
  /// Or to a loss that brings its own gradient, like cross-entropy.
  using loss_computation = std::function<double(cpu_tape&, std::vector<autograd::variable>&)>;

  explicit op_checker(unsigned threads = 2) : backend_{threads}, tape_{backend_, memory_} { memory_.poison(true); }

  /// An activation, standard normal times `scale`.
  void input(tensor_shape shape, float scale = 1.0F) { inputs_.push_back(random(shape, scale, 0.0F)); }

  /// A rows × columns parameter; the handle stays valid.
  autograd::parameter& parameter(std::int64_t rows, std::int64_t columns, float scale = 1.0F, float mean = 0.0F) {
    numbers& n = parameters_.emplace_back(random({rows, columns}, scale, mean));
    for (const float v : n.values) n.low.push_back(bf16{v});
    handles_.push_back({n.values.data(), n.low.data(), n.gradient.data(), rows, columns});
    return handles_.back();
  }

  void compute(computation f) {
    loss_ = [this, f = std::move(f)](cpu_tape& t, std::vector<autograd::variable>& v) {
      const autograd::variable y = f(t, v);
      result_.assign(static_cast<std::size_t>(y.value.count()), 0.0F);
      tensor weights = t.make(y.value.type(), y.value.shape());
      const double loss = autograd::detail::with_activation_type(y.value.type(), [&]<class T>() {
        return weighted_sum(y.value.template data<T>(), weights.data<T>(), y.value.count());
      });
      if (t.recording()) t.contribute(y.slot, std::move(weights));
      return loss;
    };
  }
  void compute_loss(loss_computation f) { loss_ = std::move(f); }

  /// The type that inputs are handed over in; bf16 rounds them.
  void type(dtype t) { type_ = t; }

  double loss() {
    tape_.clear();
    const autograd::recording_scope off{tape_, false};
    auto v = variables();
    return loss_(tape_, v);
  }

  /// Forward and backward; fills all gradients.
  double run() {
    tape_.clear();
    for (auto& p : parameters_) std::fill(p.gradient.begin(), p.gradient.end(), 0.0F);
    auto v = variables();
    const double loss = loss_(tape_, v);
    tape_.backward();
    for (std::size_t i = 0; i < inputs_.size(); ++i) store_gradient(inputs_[i], tape_.take(v[i].slot));
    v.clear();
    tape_.clear();
    return loss;
  }

  /// Every gradient against finite differences.
  void check(double tolerance = 1e-3) {
    run();
    std::size_t index = 0;
    for (auto* group : {&inputs_, &parameters_}) {
      for (auto& n : *group) {
        INFO((group == &inputs_ ? "input " : "parameter ") << index++);
        const std::vector<float> gradient = n.gradient;
        CHECK(support::grad_check(n.values, gradient, [this] { return loss(); }) < tolerance);
      }
      index = 0;
    }
    CHECK(memory_.in_use() == 0);  // nothing is kept when all is done
  }

  [[nodiscard]] std::span<const float> input_gradient(std::size_t i) const { return inputs_[i].gradient; }
  [[nodiscard]] std::span<const float> parameter_gradient(std::size_t i) const { return parameters_[i].gradient; }
  [[nodiscard]] std::span<const float> result() const { return result_; }
  [[nodiscard]] buffer_pool& memory() { return memory_; }

  /// Runs in f32 and in bf16 from the same rounded numbers: results and gradients must agree to bf16's precision.
  void compare_types(double tolerance = 0.02) {
    for (auto* group : {&inputs_, &parameters_}) {
      for (auto& n : *group) round_to_bf16(n);
    }
    type_ = dtype::f32;
    run();
    const auto expected = collect();
    kernels::use_bf16();
    type_ = dtype::bf16;
    run();
    const auto actual = collect();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("result, inputs, parameters: number " << i);
      CHECK(distance(actual[i], expected[i]) < tolerance);
    }
  }

 private:
  struct numbers {
    tensor_shape shape;
    std::vector<float> values;
    std::vector<bf16> low;
    std::vector<float> gradient;
  };

  numbers random(tensor_shape shape, float scale, float mean) {
    numbers n;
    n.shape = shape;
    rng r{17, streams_++};
    for (std::int64_t i = 0; i < shape.count(); ++i) n.values.push_back(mean + scale * r.normal());
    n.gradient.resize(n.values.size());
    return n;
  }

  // Σ y·r with a fixed r; writes r, the gradient of that sum, and remembers y.
  template <class T>
  double weighted_sum(const T* y, T* weights, std::int64_t count) {
    double sum = 0.0;
    rng r{99};
    for (std::int64_t i = 0; i < count; ++i) {
      weights[i] = T(r.normal());
      sum += static_cast<double>(static_cast<float>(y[i])) * static_cast<double>(static_cast<float>(weights[i]));
      result_[static_cast<std::size_t>(i)] = static_cast<float>(y[i]);
    }
    return sum;
  }

  std::vector<autograd::variable> variables() {
    std::vector<autograd::variable> v;
    for (auto& n : inputs_) {
      n.low.assign(n.values.size(), bf16{});
      for (std::size_t i = 0; i < n.values.size(); ++i) n.low[i] = bf16{n.values[i]};
      v.push_back(tape_.leaf(type_ == dtype::bf16 ? tensor::borrow(n.low.data(), n.shape)
                                                  : tensor::borrow(n.values.data(), n.shape)));
    }
    return v;
  }

  static void store_gradient(numbers& n, const tensor& g) {
    if (!g) {
      std::fill(n.gradient.begin(), n.gradient.end(), 0.0F);
      return;
    }
    REQUIRE(g.shape() == n.shape);
    autograd::detail::with_activation_type(g.type(), [&]<class T>() {
      for (std::size_t i = 0; i < n.gradient.size(); ++i) n.gradient[i] = static_cast<float>(g.data<T>()[i]);
    });
  }

  static void round_to_bf16(numbers& n) {
    for (float& v : n.values) v = static_cast<float>(bf16{v});
    for (std::size_t i = 0; i < n.low.size(); ++i) n.low[i] = bf16{n.values[i]};
  }

  std::vector<std::vector<float>> collect() const {
    std::vector<std::vector<float>> all{result_};
    for (const auto& n : inputs_) all.push_back(n.gradient);
    for (const auto& n : parameters_) all.push_back(n.gradient);
    return all;
  }

  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0.0;
    double length = 0.0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      length += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(difference / std::max(length, 1e-30));
  }

  kernels::cpu_backend backend_;
  buffer_pool memory_;
  cpu_tape tape_;
  std::deque<numbers> inputs_;
  std::deque<numbers> parameters_;
  std::deque<autograd::parameter> handles_;
  std::vector<float> result_;
  loss_computation loss_;
  dtype type_ = dtype::f32;
  std::uint64_t streams_ = 0;
};

}  // namespace causeway::testing

#endif  // CAUSEWAY_TESTS_AUTOGRAD_OP_CHECKER_HPP
