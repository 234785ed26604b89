// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_SPARSE_STEPS_HPP
#define CAUSEWAY_OPTIM_SPARSE_STEPS_HPP

// SGD and Adam for gradients of which only some values came: those move, with their momenta, and all others stay as they
// are (StellaTrain's sparse optimizers, Lim et al. 2024, section 3.1; github.com/kaist-ina/stellatrain 6dccb2d,
// backend/src/optim). A dense optimizer would go on moving the others by momenta of gradients that are long past.
//
// A value came where its gradient is not zero. One that came and is exactly zero stays, too: theirs would have let its
// momenta decay.

#include <causeway/core/thread_pool.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/tensor/parameters.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct sparse_sgd_options {
  float momentum = 0.9F;      ///< 0: none, and no state
  float weight_decay = 0.0F;  ///< added to the gradient; not for vectors
};

/// Where g is not 0: u = momentum·u + g + wd·p; p -= lr·u. Keeps 4 bytes a parameter, with momentum.
class sparse_sgd {
 public:
  static constexpr std::string_view name = "sparse_sgd";

  explicit sparse_sgd(sparse_sgd_options options = {}) noexcept : options_{options} {}

  [[nodiscard]] const sparse_sgd_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) { velocity_ = state_buffer{options_.momentum != 0.0F ? length : 0}; }
  /// As those of optim::sgd.
  [[nodiscard]] std::vector<std::span<float>> moments() noexcept { return moments_in(velocity_); }
  void resume(std::int64_t length, std::uint64_t) { reset(length); }
  CAUSEWAY_DECL void step(thread_pool& pool, parameter_view view, step_options step);

  void serialize(auto& ar) { ar(velocity_); }

 private:
  sparse_sgd_options options_;
  state_buffer velocity_;
};

struct sparse_adam_options {
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;      ///< outside the square root
  float weight_decay = 0.0F;  ///< added to the gradient; not for vectors
};

/// Where g is not 0, with g' = g + wd·p: m = b1·m + (1-b1)·g'; v = b2·v + (1-b2)·g'²; p -= lr·mhat / (sqrt(vhat) +
/// epsilon). The bias corrections are of all steps in which something came. Keeps 8 bytes a parameter.
class sparse_adam {
 public:
  static constexpr std::string_view name = "sparse_adam";

  explicit sparse_adam(sparse_adam_options options = {}) noexcept
      : options_{options.beta1, options.beta2, options.epsilon, options.weight_decay} {}

  [[nodiscard]] std::uint64_t steps() const noexcept { return state_.clock.steps(); }
  /// First and second moments, in the layout of the parameters.
  [[nodiscard]] std::array<std::span<float>, 2> moments() noexcept { return state_.moments(); }

  void reset(std::int64_t length) { state_.reset(length); }
  void resume(std::int64_t length, std::uint64_t steps) {
    reset(length);
    state_.clock.resume(options_, steps);
  }
  CAUSEWAY_DECL void step(thread_pool& pool, parameter_view view, step_options step);

  void serialize(auto& ar) { ar(state_); }

 private:
  adamw_options options_;  ///< its decay is the one of the gradient here
  detail::adam_state<adam_clock> state_;
};

static_assert(Optimizer<sparse_sgd> && Optimizer<sparse_adam>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#ifndef CAUSEWAY_COMPILED
#include <causeway/optim/impl/sparse_steps.ipp>
#endif

#endif  // CAUSEWAY_OPTIM_SPARSE_STEPS_HPP
