// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_ADAMW_HPP
#define CAUSEWAY_OPTIM_ADAMW_HPP

// AdamW (Loshchilov and Hutter 2019), the usual inner optimizer: one fused pass over values, gradients and both moments.

#include <causeway/kernels/bf16_kernels.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/optim/optimizer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct adamw_options {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;      ///< outside the square root
  float weight_decay = 0.1F;  ///< decoupled; not for vectors
};

/// Counts steps and knows the bias corrections 1 - beta^t. The powers are products, not std::pow, so that they are the
/// same bits on every machine.
class adam_clock {
 public:
  /// The coefficients of the next step; counts it.
  kernels::adamw_coefficients advance(const adamw_options& o, const step_options& step) noexcept {
    ++steps_;
    power1_ *= static_cast<double>(o.beta1);
    power2_ *= static_cast<double>(o.beta2);
    return {step.learning_rate,
            o.beta1,
            o.beta2,
            o.epsilon,
            o.weight_decay,
            static_cast<float>(1.0 - power1_),
            static_cast<float>(1.0 - power2_),
            step.gradient_scale};
  }

  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  /// As after `steps` steps.
  void resume(const adamw_options& o, std::uint64_t steps) noexcept {
    *this = {};
    while (steps_ < steps) advance(o, {});
  }

  void serialize(auto& ar) { ar(steps_, power1_, power2_); }

 private:
  std::uint64_t steps_ = 0;
  double power1_ = 1.0;
  double power2_ = 1.0;
};

namespace detail {

/// Both moments, in the layout of the parameters, and the steps that were made. 8 bytes a parameter.
template <class Clock>
struct adam_state {
  state_buffer first;
  state_buffer second;
  Clock clock;

  void reset(std::int64_t length) {
    first = state_buffer{length};
    second = state_buffer{length};
    clock = {};
  }

  [[nodiscard]] std::array<std::span<float>, 2> moments() noexcept {
    const auto length = static_cast<std::size_t>(first.size());
    return {std::span{first.data(), length}, std::span{second.data(), length}};
  }

  void serialize(auto& ar) { ar(first, second, clock); }
};

}  // namespace detail

/// m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²; p -= lr·(mhat / (sqrt(vhat) + epsilon) + wd·p). Moves 28 bytes a parameter,
/// keeps 8.
class adamw {
 public:
  static constexpr std::string_view name = "adamw";

  explicit adamw(adamw_options options = {}) noexcept : options_{options} {}

  [[nodiscard]] const adamw_options& options() const noexcept { return options_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return state_.clock.steps(); }
  /// First and second moments, in the layout of the parameters: for policies that average them over peers.
  [[nodiscard]] std::array<std::span<float>, 2> moments() noexcept { return state_.moments(); }

  void reset(std::int64_t length) { state_.reset(length); }
  /// As after `steps` steps whose moments are all zero.
  void resume(std::int64_t length, std::uint64_t steps) {
    reset(length);
    state_.clock.resume(options_, steps);
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(state_.first.size() == static_cast<std::int64_t>(view.values.size()));
    const kernels::adamw_coefficients decayed = state_.clock.advance(options_, step);
    kernels::adamw_coefficients plain = decayed;
    plain.weight_decay = 0.0F;
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
      float* const values = view.values.data() + begin;
      const float* const gradients = view.gradients.data() + begin;
      float *const first = state_.first.data() + begin, *const second = state_.second.data() + begin;
      if (view.copies != nullptr) {
        kernels::bf16_in_use().adamw_update(values, view.copies->values + begin, gradients, first, second, count,
                                            decay ? decayed : plain);
      } else {
        kernels::adamw_update(values, gradients, first, second, count, decay ? decayed : plain);
      }
    });
    if (view.copies != nullptr) view.copies->made = true;
  }

  void serialize(auto& ar) { ar(state_); }

 private:
  adamw_options options_;
  detail::adam_state<adam_clock> state_;
};

static_assert(Optimizer<adamw>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_ADAMW_HPP
