// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_DELAYED_NESTEROV_HPP
#define CAUSEWAY_OPTIM_DELAYED_NESTEROV_HPP

// Nesterov's momentum for pushes that arrive one by one (Liu et al. 2024, "Asynchronous Local-SGD Training for Language
// Modeling", algorithm 3). Plain Nesterov takes its momentum up with each push, and so amplifies those that are stale; here
// each push counts 1/N at once, and the momentum is refreshed by the mean of every N of them. One step is one push.

#include <causeway/kernels/outer_update.hpp>
#include <causeway/optim/optimizer.hpp>

#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct delayed_nesterov_options {
  float momentum = 0.9F;      ///< β
  std::uint32_t period = 10;  ///< N, pushes between refreshes: about as many as there are peers
  float early = 0.0F;         ///< c in [0, 1/N]: how much of the momentum each push but the last of a block brings along
};

/// B += Δ. A push that does not end a block of N: p -= lr·(Δ/N + cβm). One that does: m = βm + B/N;
/// p -= lr·(Δ/N + (1 - cN + c)βm); B = 0. With c = 0 a block moves p as one Nesterov step on the mean of its pushes does.
/// Moves 24 to 28 bytes a parameter, keeps 8. No weight decay.
class delayed_nesterov {
 public:
  static constexpr std::string_view name = "delayed_nesterov";
  static constexpr bool divides_pushes = true;  ///< by N: nobody else has to

  explicit delayed_nesterov(delayed_nesterov_options options = {}) : options_{options} {
    CAUSEWAY_EXPECT(options_.period >= 1);
    CAUSEWAY_EXPECT(options_.early >= 0 && options_.early * static_cast<float>(options_.period) <= 1);
  }

  [[nodiscard]] const delayed_nesterov_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) {
    momentum_ = state_buffer{length};
    buffer_ = state_buffer{length};
    pushes_ = 0;
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(momentum_.size() == static_cast<std::int64_t>(view.values.size()));
    const bool refresh = ++pushes_ == options_.period;
    const kernels::delayed_nesterov_coefficients c = coefficients(step, refresh);
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool) {
      kernels::delayed_nesterov_update(view.values.data() + begin, view.gradients.data() + begin, momentum_.data() + begin,
                                       buffer_.data() + begin, count, refresh, c);
    });
    if (refresh) pushes_ = 0;
  }

  void serialize(auto& ar) { ar(momentum_, buffer_, pushes_); }

 private:
  [[nodiscard]] kernels::delayed_nesterov_coefficients coefficients(const step_options& step, bool refresh) const {
    const auto n = static_cast<float>(options_.period);
    const float part = refresh ? 1.0F - options_.early * n + options_.early : options_.early;
    return {.learning_rate = step.learning_rate,
            .share = 1.0F / n,
            .beta = options_.momentum,
            .momentum_now = part * options_.momentum,
            .gradient_scale = step.gradient_scale};
  }

  delayed_nesterov_options options_;
  state_buffer momentum_;
  state_buffer buffer_;       ///< the pushes of the block so far, summed
  std::uint32_t pushes_ = 0;  ///< in the block so far
};

static_assert(Optimizer<delayed_nesterov>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_DELAYED_NESTEROV_HPP
