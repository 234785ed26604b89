// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_NADAM_HPP
#define CAUSEWAY_OPTIM_NADAM_HPP

// NAdam (Dozat 2016) with a large, fixed beta1: the inner optimizer of asynchronous pipelines, whose look-ahead makes up
// for the delay of gradients (NAG-PP: Ajanthan et al., "Nesterov Method for Asynchronous Pipeline Parallel Optimization",
// ICML 2025, arXiv 2505.01099).
//
// Why NAdam is that method, derived here from the method's equations, as the paper's own steps are not at hand. With
// weights w and step e, the look-ahead is d_t = G·(w_t - w_{t-1}), and the gradient, however old, is discounted by 1 - G:
//   w_{t+1} = w_t + d_t - e·(1-G)·g_t,   g_t taken at a look-ahead point w + d.
// Put m_t = G·m_{t-1} + (1-G)·g_t. Then w_{t+1} = w_t - e·m_t, so d_t = -e·G·m_{t-1}, and the look-ahead point p = w + d
// moves by p_{t+1} = p_t - e·(G·m_t + (1-G)·g_t): Nesterov's step in Adam's moments. What is stored, computed with and
// trained is p. NAdam divides e by Adam's root of the second moment and corrects both terms' bias.

#include <causeway/kernels/adamw_kernel.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/optimizer.hpp>

#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

/// 0.96 to the power of 0.004: PyTorch's default momentum_decay.
inline constexpr double pytorch_nadam_warm_up = 0.99983672535;

/// The rates are those of the authors' program.
struct nadam_options {
  float beta1 = 0.99F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;       ///< outside the square root
  float weight_decay = 0.01F;  ///< decoupled; not for vectors
  /// c in mu_t = beta1·(1 - c^t / 2), the look-ahead's coefficient, which warms up from beta1 / 2. This is PyTorch's
  /// schedule, 0.96^momentum_decay, with which the authors' program runs. 0: mu = beta1 from the first step, which is the
  /// derivation above to the letter; in our short runs it learned worse.
  double warm_up = pytorch_nadam_warm_up;
};

namespace detail {

struct nadam_coefficients {
  float gradient_scale, beta1, rest1, beta2, rest2;
  float decay;          // 1 - lr·wd
  float moment_step;    // of m: lr·mu_{t+1} / (1 - mu_1·...·mu_{t+1})
  float gradient_step;  // of g: lr·(1 - mu_t) / (1 - mu_1·...·mu_t)
  float root_scale;     // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

struct nadam_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* m, float* v, std::int64_t count,
                                         nadam_coefficients c) {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      kernels::detail::f32x16 value, gradient, first, root;
      kernels::detail::load(value, p + i, part);
      kernels::detail::move_moments(gradient, first, root, g, m, v, i, part, c);
      const auto direction = c.moment_step * first + c.gradient_step * gradient;
      kernels::detail::store(p + i, value * c.decay - direction / (root * c.root_scale + c.epsilon), part);
    });
  }
};

/// Counts steps. Powers and products are multiplied up in f64, so that they are the same bits on every machine.
class nadam_clock {
 public:
  nadam_coefficients advance(const nadam_options& o, const step_options& step) noexcept {
    const double rate = static_cast<double>(step.learning_rate);
    const double mu = next_mu(o);
    product_ *= mu;
    const double next = static_cast<double>(o.beta1) * (1.0 - 0.5 * warm_up_ * o.warm_up);
    beta2_power_ *= static_cast<double>(o.beta2);
    return {step.gradient_scale,
            o.beta1,
            static_cast<float>(1.0 - static_cast<double>(o.beta1)),
            o.beta2,
            static_cast<float>(1.0 - static_cast<double>(o.beta2)),
            static_cast<float>(1.0 - rate * static_cast<double>(o.weight_decay)),
            static_cast<float>(rate * next / (1.0 - product_ * next)),
            static_cast<float>(rate * (1.0 - mu) / (1.0 - product_)),
            static_cast<float>(1.0 / __builtin_sqrt(1.0 - beta2_power_)),
            o.epsilon};
  }

  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  void serialize(auto& ar) { ar(steps_, warm_up_, product_, beta2_power_); }

 private:
  double next_mu(const nadam_options& o) noexcept {
    ++steps_;
    warm_up_ *= o.warm_up;
    return static_cast<double>(o.beta1) * (1.0 - 0.5 * warm_up_);
  }

  std::uint64_t steps_ = 0;
  double warm_up_ = 1.0;  // c^t
  double product_ = 1.0;  // mu_1 · ... · mu_t
  double beta2_power_ = 1.0;
};

}  // namespace detail

/// m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²;
/// p = p·(1 - lr·wd) - lr·(mu_{t+1}·m / (1 - prod_{i<=t+1} mu_i) + (1-mu_t)·g / (1 - prod_{i<=t} mu_i)) / (sqrt(vhat) +
/// eps). Moves 28 bytes a parameter, keeps 8. The same bits on every processor and for every number of threads.
class nadam {
 public:
  static constexpr std::string_view name = "nadam";

  explicit nadam(nadam_options options = {}) : options_{options} {
    CAUSEWAY_EXPECT(options_.warm_up >= 0.0 && options_.warm_up <= 1.0);
    CAUSEWAY_EXPECT(options_.beta1 >= 0.0F && options_.beta1 < 1.0F && options_.beta2 >= 0.0F && options_.beta2 < 1.0F);
  }

  [[nodiscard]] const nadam_options& options() const noexcept { return options_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return state_.clock.steps(); }

  void reset(std::int64_t length) { state_.reset(length); }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(state_.first.size() == static_cast<std::int64_t>(view.values.size()));
    const detail::nadam_coefficients decayed = state_.clock.advance(options_, step);
    detail::nadam_coefficients plain = decayed;
    plain.decay = 1.0F;
    const auto level = kernels::detect_simd_level();
    detail::for_all_pieces(pool, view, [&](std::int64_t begin, std::int64_t count, bool decay) {
      kernels::detail::dispatch<detail::nadam_kernel>(
          level, view.values.data() + begin, static_cast<const float*>(view.gradients.data()) + begin,
          state_.first.data() + begin, state_.second.data() + begin, count, decay ? decayed : plain);
    });
  }

  void serialize(auto& ar) { ar(state_); }

 private:
  nadam_options options_;
  detail::adam_state<detail::nadam_clock> state_;
};

static_assert(Optimizer<nadam>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

CAUSEWAY_EXACT_KERNEL((float*, const float*, float*, float*, std::int64_t, optim::detail::nadam_coefficients),
                      optim::detail::nadam_kernel)

#endif  // CAUSEWAY_OPTIM_NADAM_HPP
