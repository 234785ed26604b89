// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_NESTEROV_HPP
#define CAUSEWAY_OPTIM_NESTEROV_HPP

// Nesterov's momentum in PyTorch's form, the usual outer optimizer of periodic averaging (DiLoCo, Douillard et al. 2023:
// rate 0.7, momentum 0.9).

#include <causeway/kernels/optimizer.hpp>
#include <causeway/optim/optimizer.hpp>

#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct nesterov_options {
  float momentum = 0.9F;
  float weight_decay = 0.0F;  ///< added to the gradient; not for vectors
};

/// g += wd·p; u = momentum·u + g; p -= lr·(g + momentum·u). Moves 20 bytes a parameter, keeps 4.
class nesterov {
 public:
  static constexpr std::string_view name = "nesterov";
  static constexpr bool linear = true;

  explicit nesterov(nesterov_options options = {}) noexcept : options_{options} {}

  [[nodiscard]] const nesterov_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) { velocity_ = state_buffer{length}; }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(velocity_.size() == static_cast<std::int64_t>(view.values.size()));
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
      const kernels::sgd_coefficients c{step.learning_rate, options_.momentum, decay ? options_.weight_decay : 0.0F,
                                        step.gradient_scale};
      kernels::nesterov_update(view.values.data() + begin, view.gradients.data() + begin, velocity_.data() + begin, count,
                               c);
    });
  }

  void serialize(auto& ar) { ar(velocity_); }

 private:
  nesterov_options options_;
  state_buffer velocity_;
};

static_assert(Optimizer<nesterov>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_NESTEROV_HPP
