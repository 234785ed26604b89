// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_OUTER_HPP
#define CAUSEWAY_AXIS_OUTER_HPP

// What the mean pseudo-gradient does to the shared parameters of a fragment.

#include <causeway/axis/parts.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <concepts>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::axis {

/// One value for each fragment. `reset(size)`: start over for rows of that size. `step(pool, shared, mean, mean_shared)`:
/// move `shared` against `mean`; `mean_shared` is the group's mean of the shared parameters where `wants_mean_shared`, else
/// empty.
template <class O>
concept Outer = O::decides == part::outer&& std::copyable<O>&& requires(O& o, thread_pool& pool, std::span<float> shared,
                                                                        std::span<float> mean,
                                                                        std::span<const float> mean_shared) {
  { o.reset(std::int64_t{}) } -> std::same_as<void>;
  { o.step(pool, shared, mean, mean_shared) } -> std::same_as<void>;
  {bool{O::wants_mean_shared}};
};

/// Any optimizer with a constant rate: outer<optim::sgd>{1} replaces the parameters by their mean (FedAvg, local SGD),
/// outer<optim::nesterov>{0.7F} is DiLoCo's. Weight decay counts for all values alike.
template <optim::Optimizer O = optim::nesterov>
class outer {
 public:
  static constexpr part decides = part::outer;
  static constexpr bool wants_mean_shared = false;
  using optimizer_type = O;

  explicit outer(float learning_rate = 0.7F, O optimizer = O{})
      : prototype_{std::move(optimizer)}, learning_rate_{learning_rate} {}
  // Copies have the options, not the state: buffers are not copied by accident.
  outer(const outer& other) : outer{other.learning_rate_, O{other.prototype_.options()}} {}
  outer(outer&&) noexcept = default;
  outer& operator=(const outer& other) { return *this = outer{other}; }
  outer& operator=(outer&&) noexcept = default;
  ~outer() = default;

  [[nodiscard]] float learning_rate() const noexcept { return learning_rate_; }
  [[nodiscard]] const O& optimizer() const noexcept { return prototype_; }

  void reset(std::int64_t size) { prototype_.reset(size); }

  /// `share`: how much of a round the mean stands for, where not all peers are in it. An optimizer that `divides_pushes`
  /// (delayed Nesterov) sees to that by itself.
  void step(thread_pool& pool, std::span<float> shared, std::span<float> mean, std::span<const float>, float share = 1) {
    constexpr bool divides = requires { O::divides_pushes; };
    prototype_.step(pool, parameter_view{shared, mean, {}},
                    {.learning_rate = learning_rate_, .gradient_scale = divides ? 1.0F : share});
  }

  void serialize(auto& ar) { ar(prototype_); }

 private:
  O prototype_;
  float learning_rate_;
};

struct gossip_nesterov_options {
  float alpha = 0.5F;  ///< momentum
  float beta = 0.7F;   ///< rate of the group's mean progress
  float gamma = 0.7F;  ///< pull toward the group's mean parameters
};

/// NoLoCo's outer step (Kolehmainen et al. 2025, equation 2) in a group G:
///   v ← α·v + β·mean_G(θ_m − θ) + γ·(mean_G θ − θ);   θ ← θ + v.
/// The spread of the peers' θ shrinks for sqrt(n/(2(n−1)))·α < γ < sqrt(n/(2(n−1))·(2+α²)) with groups of n. State: v.
class gossip_nesterov {
 public:
  static constexpr part decides = part::outer;
  static constexpr bool wants_mean_shared = true;

  explicit gossip_nesterov(gossip_nesterov_options options = {}) : options_{options} {}

  void reset(std::int64_t size) { velocity_.assign(static_cast<std::size_t>(size), 0.0F); }

  void step(thread_pool& pool, std::span<float> shared, std::span<float> mean, std::span<const float> mean_shared) {
    pool.for_range(static_cast<std::int64_t>(shared.size()), 1 << 14, [&](index_range part) {
      for (auto i = static_cast<std::size_t>(part.begin); i < static_cast<std::size_t>(part.end); ++i) {
        velocity_[i] =
            options_.alpha * velocity_[i] - options_.beta * mean[i] + options_.gamma * (mean_shared[i] - shared[i]);
        shared[i] += velocity_[i];
      }
    });
  }

  void serialize(auto& ar) { ar(velocity_); }

 private:
  gossip_nesterov_options options_;
  std::vector<float> velocity_;
};

static_assert(Outer<outer<>> && Outer<gossip_nesterov>);

}  // namespace causeway::inline CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_OUTER_HPP
