// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_OUTER_HPP
#define CAUSEWAY_AXIS_OUTER_HPP

// What the mean pseudo-gradient does to the shared parameters of a fragment.

#include <causeway/axis/parts.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/rows.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// One value for each fragment. `reset(size)`: start over for rows of that size. `step(pool, shared, mean, mean_shared)`:
/// move `shared` against `mean`; `mean_shared` is the group's mean of the shared parameters where `wants_mean_shared`, else
/// empty. `memory()`, `keep_in(memory)` and `step_rows(rows, ...)`, where there are any, are for rows that lie elsewhere
/// than on the host: where they must lie, where the optimizer's own are to lie, and the step by kernels::RowArithmetic.
template <class O>
concept Outer = O::decides == part::outer&& Copyable<O>&& requires(O& o, thread_pool& pool, std::span<float> shared,
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
  static constexpr bool linear = optim::is_linear<O>;

  explicit outer(float learning_rate = 0.7F, O optimizer = O{})
      : prototype_{std::move(optimizer)}, learning_rate_{learning_rate} {}
  // Copies have the options, not the state: buffers are not copied by accident.
  outer(const outer& other) : outer{other.learning_rate_, optim::anew(other.prototype_)} {}
  outer(outer&&) noexcept = default;
  outer& operator=(const outer& other) { return *this = outer{other}; }
  outer& operator=(outer&&) noexcept = default;
  ~outer() = default;

  [[nodiscard]] float learning_rate() const noexcept { return learning_rate_; }
  [[nodiscard]] const O& optimizer() const noexcept { return prototype_; }

  /// Where rows must lie, if the optimizer says so.
  [[nodiscard]] memory_source memory() const requires requires(const O& o) { o.memory(); }
  { return prototype_.memory(); }

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

/// The same, but a mean of nothing but zeros is no step: nothing of the optimizer's state moves either. For exchanges in
/// which it can happen that no row counts (axis::penalised_mean: EDiT then rolls everybody back to the shared parameters).
template <optim::Optimizer O = optim::nesterov>
class outer_unless_zero : public outer<O> {
 public:
  static constexpr bool linear = false;
  using outer<O>::outer;

  void step(thread_pool& pool, std::span<float> shared, std::span<float> mean, std::span<const float> mean_shared,
            float share = 1) {
    if (std::all_of(mean.begin(), mean.end(), [](float x) { return x == 0; })) return;
    outer<O>::step(pool, shared, mean, mean_shared, share);
  }
};

using gossip_nesterov_options = kernels::gossip_coefficients;

/// NoLoCo's outer step (Kolehmainen et al. 2025, equation 2) in a group G:
///   v ← α·v + β·mean_G(θ_m − θ) + γ·(mean_G θ − θ);   θ ← θ + v.
/// The spread of the peers' θ shrinks for sqrt(n/(2(n−1)))·α < γ < sqrt(n/(2(n−1))·(2+α²)) with groups of n. State: v.
class gossip_nesterov {
 public:
  static constexpr part decides = part::outer;
  static constexpr bool wants_mean_shared = true;

  CAUSEWAY_DECL explicit gossip_nesterov(gossip_nesterov_options options = {});

  /// Where the velocity is to lie from now on.
  void keep_in(const memory_source& memory) { move_to(memory, velocity_); }
  CAUSEWAY_DECL void reset(std::int64_t size);

  CAUSEWAY_DECL void step(thread_pool& pool, std::span<float> shared, std::span<float> mean,
                          std::span<const float> mean_shared);
  /// The same wherever the rows lie.
  result<void> step_rows(const kernels::RowArithmetic auto& rows, std::span<float> shared, std::span<float> mean,
                         std::span<const float> mean_shared) {
    return rows.gossip(shared, velocity_, mean, mean_shared, options_);
  }

  void serialize(auto& ar) { ar(velocity_); }

 private:
  gossip_nesterov_options options_;
  source_vector<float> velocity_;
};

static_assert(Outer<outer<>> && Outer<outer_unless_zero<>> && Outer<gossip_nesterov>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/outer.ipp>
#endif

#endif  // CAUSEWAY_AXIS_OUTER_HPP
