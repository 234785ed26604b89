// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_FED_ADAM_HPP
#define CAUSEWAY_OPTIM_FED_ADAM_HPP

// Adam as an outer optimizer (FedAdam; Reddi et al. 2021, algorithm 2): no correction of the first steps' bias, and an τ
// that is meant to matter, since it bounds how much a value that hardly moves is sped up.

#include <causeway/kernels/optimizer.hpp>
#include <causeway/optim/optimizer.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct fed_adam_options {
  float beta1 = 0.9F;
  float beta2 = 0.99F;
  float tau = 1e-3F;  ///< adaptivity: smaller is more adaptive
};

/// m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²; p -= lr·m / (sqrt(v) + τ), where v starts at τ² as the paper asks. Moves 28
/// bytes a parameter, keeps 8.
class fed_adam {
 public:
  static constexpr std::string_view name = "fed_adam";

  explicit fed_adam(fed_adam_options options = {}) noexcept : options_{options} {}

  [[nodiscard]] const fed_adam_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) {
    first_ = state_buffer{length};
    second_ = state_buffer{length};
    std::fill_n(second_.data(), length, options_.tau * options_.tau);
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()));
    const kernels::adamw_coefficients c{.learning_rate = step.learning_rate,
                                        .beta1 = options_.beta1,
                                        .beta2 = options_.beta2,
                                        .epsilon = options_.tau,
                                        .gradient_scale = step.gradient_scale};
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool) {
      kernels::adamw_update(view.values.data() + begin, view.gradients.data() + begin, first_.data() + begin,
                            second_.data() + begin, count, c);
    });
  }

  void serialize(auto& ar) { ar(first_, second_); }

 private:
  fed_adam_options options_;
  state_buffer first_;
  state_buffer second_;
};

static_assert(Optimizer<fed_adam>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_FED_ADAM_HPP
