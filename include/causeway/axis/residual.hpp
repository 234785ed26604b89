// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_RESIDUAL_HPP
#define CAUSEWAY_AXIS_RESIDUAL_HPP

// What becomes of the part of a row that a lossy codec did not send.

#include <causeway/axis/parts.hpp>
#include <causeway/core/concepts.hpp>

#include <concepts>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

enum class keeping : std::uint8_t {
  nothing,        ///< it is lost
  in_a_buffer,    ///< it is added to the next row
  in_parameters,  ///< the live parameters keep it, so that the next pseudo-gradient has it again
};

/// `keeps` says which; `gain(rate)` and `decay()` are what a row and a kept residual are multiplied by.
template <class R>
concept Residual = R::decides == part::residual&& requires(const R& r, float rate) {
  { R::keeps } -> ConvertibleTo<keeping>;
  { r.decay() } -> std::same_as<float>;
  { r.gain(rate) } -> std::same_as<float>;
};

/// Dropped. Fine for 4 bits and more; with fewer, or with sparse messages, quality suffers.
struct no_residual {
  static constexpr part decides = part::residual;
  static constexpr keeping keeps = keeping::nothing;
  static float decay() noexcept { return 0; }
  static float gain(float) noexcept { return 1; }
};

/// Error feedback: x ← β·e + η·x; e ← x − sent (Karimireddy et al. 2019 with β = η = 1; SparseLoCo with β = 0.95). State:
/// one value a parameter. Σ sent + e = Σ x to round-off, for β = η = 1.
struct error_feedback {
  static constexpr part decides = part::residual;
  static constexpr keeping keeps = keeping::in_a_buffer;

  float beta = 1;
  float eta = 1;

  [[nodiscard]] float decay() const noexcept { return beta; }
  [[nodiscard]] float gain(float) const noexcept { return eta; }
};

/// DeMo's decoupled momentum: m ← β·m + lr·g, what is sent leaves m. The arithmetic of error feedback, on gradients, with
/// the learning rate of the step inside.
struct momentum_residual {
  static constexpr part decides = part::residual;
  static constexpr keeping keeps = keeping::in_a_buffer;

  float beta = 0.999F;

  [[nodiscard]] float decay() const noexcept { return beta; }
  [[nodiscard]] static float gain(float learning_rate) noexcept { return learning_rate; }
};

/// Left where it is: of Δ_m only what was sent is taken out of the live parameters, when its mean comes; the rest is part
/// of the next Δ_m (CocktailSGD, section 3; Gaia's insignificant updates, which go on accumulating). No state.
struct implicit_residual {
  static constexpr part decides = part::residual;
  static constexpr keeping keeps = keeping::in_parameters;
  static float decay() noexcept { return 0; }
  static float gain(float) noexcept { return 1; }
};

static_assert(Residual<no_residual> && Residual<error_feedback> && Residual<momentum_residual> &&
              Residual<implicit_residual>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_RESIDUAL_HPP
