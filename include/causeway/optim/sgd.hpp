// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_SGD_HPP
#define CAUSEWAY_OPTIM_SGD_HPP

// Stochastic gradient descent, with momentum if asked for. As an outer optimizer with rate 1 and no momentum it applies an
// averaged pseudo-gradient exactly: p - g, in one rounding.

#include <causeway/kernels/optimizer.hpp>
#include <causeway/optim/optimizer.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct sgd_options {
  float momentum = 0.0F;      ///< 0: none, and no state
  float weight_decay = 0.0F;  ///< added to the gradient; not for vectors
};

/// What a buffer that may be empty has of the parameters (optim::Divisible).
[[nodiscard]] inline std::vector<std::span<float>> moments_in(state_buffer& state) {
  if (state.size() == 0) return {};
  return {{state.data(), static_cast<std::size_t>(state.size())}};
}

/// u = momentum·u + g + wd·p; p -= lr·u (PyTorch's SGD without dampening). Moves 12 bytes a parameter, 20 with momentum,
/// which also keeps 4 bytes a parameter.
class sgd {
 public:
  static constexpr std::string_view name = "sgd";
  static constexpr bool reports_updates = true;
  static constexpr bool linear = true;

  explicit sgd(sgd_options options = {}) noexcept : options_{options} {}

  [[nodiscard]] const sgd_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) { velocity_ = state_buffer{options_.momentum != 0.0F ? length : 0}; }
  /// Of the parameters, in their layout, if it has momentum. It counts no steps.
  [[nodiscard]] std::vector<std::span<float>> moments() noexcept { return moments_in(velocity_); }
  void resume(std::int64_t length, std::uint64_t) { reset(length); }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    const bool momentum = options_.momentum != 0.0F;
    CAUSEWAY_EXPECT(!momentum || velocity_.size() == static_cast<std::int64_t>(view.values.size()));
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
      const kernels::sgd_coefficients c{step.learning_rate, options_.momentum, decay ? options_.weight_decay : 0.0F,
                                        step.gradient_scale};
      float* p = view.values.data() + begin;
      const float* g = view.gradients.data() + begin;
      if (!step.update_sum.empty()) {
        reported_update(p, g, momentum ? velocity_.data() + begin : nullptr, step.update_sum.data() + begin, count, c);
      } else if (momentum) {
        kernels::momentum_update(p, g, velocity_.data() + begin, count, c);
      } else {
        kernels::sgd_update(p, g, count, c);
      }
    });
  }

  void serialize(auto& ar) { ar(velocity_); }

 private:
  static void reported_update(float* p, const float* g, float* velocity, float* sum, std::int64_t count,
                              const kernels::sgd_coefficients& c) {
    for (std::int64_t i = 0; i < count; ++i) {
      float u = c.gradient_scale * g[i] + c.weight_decay * p[i];
      if (velocity != nullptr) u = velocity[i] = c.momentum * velocity[i] + u;
      u *= c.learning_rate;
      sum[i] += u;
      p[i] -= u;
    }
  }

  sgd_options options_;
  state_buffer velocity_;
};

static_assert(Optimizer<sgd> && ReportsUpdates<sgd>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_SGD_HPP
