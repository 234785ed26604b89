// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_LAMB_HPP
#define CAUSEWAY_OPTIM_LAMB_HPP

// LAMB (You et al. 2019, arXiv 1904.00962), an inner optimizer for large batches: Adam's update, of each tensor as long as
// the learning rate times the tensor itself. A tensor is a segment: of several matrices that are stored as one, it is all.

#include <causeway/kernels/adamw_kernel.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/reduce.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

/// The defaults are those of DeDLOC's runs (github.com/yandex-research/DeDLOC 10a9df8, albert/run_trainer.py, with the Lamb
/// of torch_optimizer).
struct lamb_options {
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-6F;         ///< outside the square root
  float weight_decay = 0.01F;    ///< a part of the update, before its norm is taken; not for vectors
  float longest = 10000.0F;      ///< a tensor's norm counts as no more than that; 0: as it is
  bool correct_moments = false;  ///< Adam's bias correction is the moments', as in the paper, and not the whole step's
};

namespace detail {

struct lamb_factors {
  float gradient_scale, beta1, rest1, beta2, rest2;
  float moment_scale;  // of m: 1, or 1 / (1 - beta1^t)
  float root_scale;    // of sqrt(v): 1, or 1 / sqrt(1 - beta2^t)
  float epsilon, decay;
};

/// Both moments, and u = moment_scale·m / (root_scale·sqrt(v) + epsilon) + decay·p.
struct lamb_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* u, const float* p, const float* g, float* m, float* v, std::int64_t count,
                                         lamb_factors c) {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      kernels::detail::f32x16 value, gradient, first, root;
      kernels::detail::load(value, p + i, part);
      kernels::detail::move_moments(gradient, first, root, g, m, v, i, part, c);
      const auto update = c.moment_scale * first / (root * c.root_scale + c.epsilon) + c.decay * value;
      kernels::detail::store(u + i, update, part);
    });
  }
};

}  // namespace detail

/// m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²; of each tensor u = m / (sqrt(v) + epsilon) + wd·p and
/// p -= lr·sqrt(1-b2^t)/(1-b1^t) · min(|p|, longest)/|u| · u, where the quotient of norms is 1 if one of them is 0. With
/// `correct_moments` u is of m / (1-b1^t) and v / (1-b2^t), and the step lr·|p|/|u|·u: You et al., algorithm 2. Norms are
/// sums in f64 in a fixed order: the same bits on every processor and for every number of threads. Moves 48 bytes a
/// parameter, keeps 8; the working memory is the largest tensor's.
class lamb {
 public:
  static constexpr std::string_view name = "lamb";

  explicit lamb(lamb_options options = {}) : options_{options} {}

  [[nodiscard]] const lamb_options& options() const noexcept { return options_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return state_.clock.steps(); }
  /// First and second moments, in the layout of the parameters: for policies that average them over peers.
  [[nodiscard]] std::array<std::span<float>, 2> moments() noexcept { return state_.moments(); }

  void reset(std::int64_t length) { state_.reset(length); }
  /// As after `steps` steps whose moments are all zero.
  void resume(std::int64_t length, std::uint64_t steps) {
    reset(length);
    state_.clock.resume(adam(), steps);
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(state_.first.size() == static_cast<std::int64_t>(view.values.size()));
    const kernels::adamw_coefficients c = state_.clock.advance(adam(), step);
    if (view.segments.empty()) return step_tensor(pool, view, {0, state_.first.size()}, c);
    for (const parameter_segment& s : view.segments) {
      kernels::adamw_coefficients own = c;
      if (!detail::decays(s.kind)) own.weight_decay = 0.0F;
      step_tensor(pool, view, {s.offset, s.offset + s.size()}, own);
    }
  }

  void serialize(auto& ar) { ar(state_); }

 private:
  [[nodiscard]] adamw_options adam() const noexcept {
    return {options_.beta1, options_.beta2, options_.epsilon, options_.weight_decay};
  }

  void step_tensor(thread_pool& pool, const parameter_view& view, index_range at, const kernels::adamw_coefficients& c) {
    auto frame = memory_.open();
    float* const update = frame.take<float>(static_cast<std::size_t>(at.size()));
    float* const values = view.values.data() + at.begin;
    compute_update(pool, update, view, at, c);
    const double corrected = std::sqrt(static_cast<double>(c.bias_correction2)) / static_cast<double>(c.bias_correction1);
    const double rate = static_cast<double>(c.learning_rate) * (options_.correct_moments ? 1.0 : corrected);
    const double length = trust_ratio(pool, values, update, at.size());
    kernels::axpy(pool, values, static_cast<float>(-rate * length), update, at.size());
  }

  [[nodiscard]] detail::lamb_factors factors_of(const kernels::adamw_coefficients& c) const noexcept {
    const kernels::detail::adamw_factors of_adam = kernels::detail::factors_of(c);
    const bool corrects = options_.correct_moments;
    return {of_adam.gradient_scale,
            of_adam.beta1,
            of_adam.rest1,
            of_adam.beta2,
            of_adam.rest2,
            corrects ? 1.0F / c.bias_correction1 : 1.0F,
            corrects ? of_adam.root_scale : 1.0F,
            c.epsilon,
            c.weight_decay};
  }

  void compute_update(thread_pool& pool, float* update, const parameter_view& view, index_range at,
                      const kernels::adamw_coefficients& c) {
    const detail::lamb_factors factors = factors_of(c);
    const auto level = kernels::detect_simd_level();
    kernels::detail::for_elements(pool, at.size(), [&](index_range part) {
      const std::int64_t begin = at.begin + part.begin;
      kernels::detail::dispatch<detail::lamb_kernel>(
          level, update + part.begin, static_cast<const float*>(view.values.data()) + begin,
          static_cast<const float*>(view.gradients.data()) + begin, state_.first.data() + begin,
          state_.second.data() + begin, part.size(), factors);
    });
  }

  /// φ(|p|) / |u|.
  [[nodiscard]] double trust_ratio(thread_pool& pool, const float* values, const float* update, std::int64_t count) const {
    double weight = std::sqrt(kernels::sum_of_squares(pool, values, count));
    if (options_.longest > 0.0F) weight = std::min(weight, static_cast<double>(options_.longest));
    const double moved = std::sqrt(kernels::sum_of_squares(pool, update, count));
    return weight == 0.0 || moved == 0.0 ? 1.0 : weight / moved;
  }

  lamb_options options_;
  scratch memory_;
  detail::adam_state<adam_clock> state_;
};

static_assert(Optimizer<lamb>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

CAUSEWAY_EXACT_KERNEL((float*, const float*, const float*, float*, float*, std::int64_t, optim::detail::lamb_factors),
                      optim::detail::lamb_kernel)

#endif  // CAUSEWAY_OPTIM_LAMB_HPP
