// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_SIGN_SGD_HPP
#define CAUSEWAY_OPTIM_SIGN_SGD_HPP

// Descent by signs (signSGD, and with momentum Signum; Bernstein et al. 2018). As an outer optimizer it makes a majority
// vote out of 1-bit messages, and with DeMo it takes the place of the inner one.

#include <causeway/kernels/outer_update.hpp>
#include <causeway/optim/optimizer.hpp>

#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct sign_sgd_options {
  float momentum = 0.0F;      ///< 0: none, and no state
  float weight_decay = 0.0F;  ///< decoupled; not for vectors
};

/// u = mu·u + (1-mu)·g; p = p·(1 - lr·wd) - lr·sign(u), where sign(0) = 0. Moves 12 bytes a parameter, 20 with momentum,
/// which also keeps 4 bytes a parameter.
class sign_sgd {
 public:
  static constexpr std::string_view name = "sign_sgd";

  explicit sign_sgd(sign_sgd_options options = {}) noexcept : options_{options} {}

  [[nodiscard]] const sign_sgd_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) { velocity_ = state_buffer{options_.momentum != 0.0F ? length : 0}; }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    const bool momentum = options_.momentum != 0.0F;
    CAUSEWAY_EXPECT(!momentum || velocity_.size() == static_cast<std::int64_t>(view.values.size()));
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
      const kernels::sign_coefficients c{step.learning_rate, options_.momentum, decay ? options_.weight_decay : 0.0F,
                                         step.gradient_scale};
      float* const p = view.values.data() + begin;
      const float* const g = view.gradients.data() + begin;
      if (momentum) {
        kernels::sign_momentum_update(p, g, velocity_.data() + begin, count, c);
      } else {
        kernels::sign_update(p, g, count, c);
      }
    });
  }

  void serialize(auto& ar) { ar(velocity_); }

 private:
  sign_sgd_options options_;
  state_buffer velocity_;
};

static_assert(Optimizer<sign_sgd>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_SIGN_SGD_HPP
