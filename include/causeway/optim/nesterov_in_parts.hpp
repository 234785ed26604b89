// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_NESTEROV_IN_PARTS_HPP
#define CAUSEWAY_OPTIM_NESTEROV_IN_PARTS_HPP

// Nesterov's momentum for rounds of which the parts arrive one after another, each with the share of the round that it is.
// A part moves the parameters by its share at once; the momentum is refreshed once a round, when the shares make 1. It is
// delayed Nesterov (Liu et al. 2024, algorithm 3, c = 0) with shares in place of a fixed number of pushes, derived from
// that. Decoupled DiLoCo (2026), as published, takes a whole step for each merge, however few learners are in it.

#include <causeway/kernels/outer_update.hpp>
#include <causeway/optim/optimizer.hpp>

#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

/// How far a part of a round moves the parameters.
enum class part_steps : std::uint8_t {
  by_share,  ///< by its share of the round
  whole,     ///< as a round of all does: n parts move them about n times as far
};

struct nesterov_in_parts_options {
  float momentum = 0.9F;  ///< β
  part_steps parts = part_steps::by_share;
};

/// gradient_scale is the share s in (0, 1] of a round that Δ stands for. B += sΔ; p -= lr·sΔ. When the shares since the
/// last refresh have made 1: m = βm + B; p -= lr·βm; B = 0, and what the shares make beyond 1 counts for the next round. So
/// a round in parts moves p as one Nesterov step on its mean does, and a share of 1 is that step. With `whole` every share
/// counts as 1.
/// Moves 24 to 28 bytes a parameter, keeps 8. No weight decay.
class nesterov_in_parts {
 public:
  static constexpr std::string_view name = "nesterov_in_parts";

  explicit nesterov_in_parts(nesterov_in_parts_options options = {}) : options_{options} {}

  [[nodiscard]] const nesterov_in_parts_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) {
    momentum_ = state_buffer{length};
    buffer_ = state_buffer{length};
    shares_ = 0;
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(momentum_.size() == static_cast<std::int64_t>(view.values.size()));
    CAUSEWAY_EXPECT(step.gradient_scale > 0 && step.gradient_scale <= 1);
    if (options_.parts == part_steps::whole) step.gradient_scale = 1;
    shares_ += double{step.gradient_scale};
    const bool refresh = shares_ > 1 - 1e-4;  // shares that should make 1 miss it by their rounding
    if (refresh) shares_ -= 1;
    const kernels::delayed_nesterov_coefficients c{.learning_rate = step.learning_rate,
                                                   .share = 1.0F,
                                                   .beta = options_.momentum,
                                                   .momentum_now = refresh ? options_.momentum : 0.0F,
                                                   .gradient_scale = step.gradient_scale};
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool) {
      kernels::delayed_nesterov_update(view.values.data() + begin, view.gradients.data() + begin, momentum_.data() + begin,
                                       buffer_.data() + begin, count, refresh, c);
    });
  }

  void serialize(auto& ar) { ar(momentum_, buffer_, shares_); }

 private:
  nesterov_in_parts_options options_;
  state_buffer momentum_;
  state_buffer buffer_;  ///< of the parts since the last refresh
  double shares_ = 0;    ///< that they make; below 0 by as much as the last refresh came early
};

static_assert(Optimizer<nesterov_in_parts>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_NESTEROV_IN_PARTS_HPP
