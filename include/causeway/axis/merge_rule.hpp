// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_MERGE_RULE_HPP
#define CAUSEWAY_AXIS_MERGE_RULE_HPP

// When the result of an exchange is waited for, and what the live parameters become then. θ: shared parameters before, θ̃:
// after the outer step; θ_m: live parameters, at_send: what they were when the exchange began.

#include <causeway/axis/parts.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/rows.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

enum class waiting : std::uint8_t {
  at_once,     ///< before the next inner step
  some_steps,  ///< `steps` inner steps later; the exchange goes on meanwhile
  a_round,     ///< when the fragment is due again
};

/// `waits`, and for some_steps `steps`: τ >= 1. `keeps_departure`: at_send is wanted. `own_is_fresh`: the outer step takes
/// this peer's own row from now and the others' from a round ago. `keeps_steps`: what was trained meanwhile stays as it
/// was, so that what the live parameters hold besides stays, too. `apply(rows, tensors, local, shared, at_send)` makes
/// `local` the new live parameters, by kernels::RowArithmetic: that knows where the rows lie. `tensors`: those in the row.
/// Errors are a device's.
template <class L>
concept MergeRule = L::decides == part::merge_rule&& requires(const L& l, const kernels::host_rows& rows,
                                                              std::span<const compress::matrix_range> tensors,
                                                              std::span<float> local, std::span<const float> shared,
                                                              std::span<const float> at_send) {
  { L::waits } -> ConvertibleTo<waiting>;
  { l.steps } -> ConvertibleTo<std::uint32_t>;
  {bool{L::keeps_departure}};
  {bool{L::own_is_fresh}};
  {bool{L::keeps_steps}};
  { l.apply(rows, tensors, local, shared, at_send) } -> std::same_as<result<void>>;
};

/// θ_m ← θ̃, before the next inner step.
struct blocking {
  static constexpr part decides = part::merge_rule;
  static constexpr waiting waits = waiting::at_once;
  static constexpr std::uint32_t steps = 0;
  static constexpr bool keeps_departure = false;
  static constexpr bool own_is_fresh = false;
  static constexpr bool keeps_steps = true;

  static result<void> apply(const kernels::RowArithmetic auto& rows, std::span<const compress::matrix_range>,
                            std::span<float> local, std::span<const float> shared, std::span<const float>) {
    return rows.copy(local, shared);
  }
};

/// θ_m ← α·θ_m + (1−α)·θ̃, τ inner steps after the exchange began (Streaming DiLoCo, section 2.2: τ = 1, α = 0.5; α = 0
/// forgets the τ steps, α = 1 the others).
struct delayed {
  static constexpr part decides = part::merge_rule;
  static constexpr waiting waits = waiting::some_steps;
  static constexpr bool keeps_departure = false;
  static constexpr bool own_is_fresh = false;
  static constexpr bool keeps_steps = false;

  std::uint32_t steps = 1;   ///< τ
  float local_share = 0.5F;  ///< α

  result<void> apply(const kernels::RowArithmetic auto& rows, std::span<const compress::matrix_range>,
                     std::span<float> local, std::span<const float> shared, std::span<const float>) const {
    return rows.blend(local, local_share, shared, 1.0F - local_share);
  }
};

/// θ_m ← θ_m + (θ̃ − at_send): the τ steps are made again from where they should have begun, as they were. With
/// `implicit_residual` what was not sent stays as well: θ_m ← θ_m + (θ̃ − θ) + sent, where `sent` is what went out of
/// θ − at_send, and there is no row at_send.
struct replayed {
  static constexpr part decides = part::merge_rule;
  static constexpr waiting waits = waiting::some_steps;
  static constexpr bool keeps_departure = true;
  static constexpr bool own_is_fresh = false;
  static constexpr bool keeps_steps = true;

  std::uint32_t steps = 1;  ///< τ

  result<void> apply(const kernels::RowArithmetic auto& rows, std::span<const compress::matrix_range>,
                     std::span<float> local, std::span<const float> shared, std::span<const float> at_send) const {
    CAUSEWAY_TRY(rows.add(local, 1.0F, shared));
    return rows.add(local, -1.0F, at_send);
  }
};

/// θ_m ← θ̃ − (g + λ·g⊙g⊙D) with g = at_send − θ_m, what the τ steps subtracted, and D = θ̃ − at_send, how far they were
/// taken from where they should have begun: the first-order expansion of the gradient with g⊙g for the Hessian (Zheng et
/// al. 2017). λ = λ0·|g| / |g⊙g⊙D| for each tensor, so that the correction is λ0 times as long as what it corrects,
/// whatever the scale of the values (DC-S3GD, Rigazzi 2019, equation 17); CoCoDC's authors do that with λ0 = 1. λ0 = 0 is
/// `replayed`. Cost: one pass more than `delayed`, on the processor.
struct compensated {
  static constexpr part decides = part::merge_rule;
  static constexpr waiting waits = waiting::some_steps;
  static constexpr bool keeps_departure = true;
  static constexpr bool own_is_fresh = false;
  static constexpr bool keeps_steps = false;

  std::uint32_t steps = 1;  ///< τ
  float lambda = 1.0F;      ///< λ0

  result<void> apply(const kernels::RowArithmetic auto& rows, std::span<const compress::matrix_range> tensors,
                     std::span<float> local, std::span<const float> shared, std::span<const float> at_send) const {
    for (const compress::matrix_range& t : tensors) {
      const std::size_t size = t.rows * t.columns;
      const auto y = local.subspan(t.offset, size);
      const auto to = shared.subspan(t.offset, size), from = at_send.subspan(t.offset, size);
      CAUSEWAY_TRY(rows.compensate(y, to, from, {.steps = 1.0F, .lambda = scale(y, to, from)}));
    }
    return {};
  }

 private:
  /// λ of a tensor; 0 where nothing is to be corrected.
  CAUSEWAY_DECL [[nodiscard]] float scale(std::span<const float> local, std::span<const float> shared,
                                          std::span<const float> at_send) const;
};

/// The outer step of a round uses the mean of the round before, which had a whole round to travel; nothing for the first
/// (delayed DiLoCo in its plain form: costs quality).
struct one_round_late : blocking {
  static constexpr waiting waits = waiting::a_round;
};

/// The same with this peer's own part fresh: (1/M)·Δ_m(now) + (1/M)·Σ_{others} Δ(a round ago) (Kale et al. 2025). The
/// shared parameters then differ from peer to peer by the rows under way; one more buffer.
struct eager : one_round_late {
  static constexpr bool own_is_fresh = true;
};

static_assert(MergeRule<blocking> && MergeRule<delayed> && MergeRule<replayed> && MergeRule<compensated> &&
              MergeRule<one_round_late> && MergeRule<eager>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#ifndef CAUSEWAY_COMPILED
#include <causeway/axis/impl/merge_rule.ipp>
#endif

#endif  // CAUSEWAY_AXIS_MERGE_RULE_HPP
