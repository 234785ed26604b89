// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_CONTENT_HPP
#define CAUSEWAY_AXIS_CONTENT_HPP

// What is exchanged. A content is described by constants; comm::rounds does what they say.
//
// - anchored: there are shared parameters θ besides the live ones θ_m; what travels is how far this peer has come from
//   them, the pseudo-gradient Δ_m = θ − θ_m (old − new: a descending outer optimizer moves toward the peers). The mean goes
//   to the outer optimizer, which moves θ.
// - not anchored: tensors are replaced by their mean over the peers, and there is no outer optimizer.
// - before_inner_step: what travels is this step's gradient, and its mean is what the inner optimizer is given.

#include <causeway/axis/parts.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

/// `tensors(ctx)`: the flat buffers that are exchanged, each as long as the parameters and cut like them; for anchored
/// contents just the parameters. `rows`: how many vectors a message has for each fragment.
template <class C>
concept Content = C::decides == part::content&& requires {
  {bool{C::anchored}};
  {bool{C::before_inner_step}};
  {std::size_t{C::tensor_count}};
  {bool{C::with_anchor}};
  {bool{C::sums_updates}};
};

namespace detail {

/// One tensor that is replaced by its mean, unless a content says more.
struct plain_content {
  static constexpr part decides = part::content;
  static constexpr bool anchored = false;
  static constexpr bool before_inner_step = false;
  static constexpr std::size_t tensor_count = 1;
  static constexpr bool with_anchor = false;
  static constexpr bool sums_updates = false;
};

}  // namespace detail

/// The gradient of the step, before the inner optimizer sees it.
struct gradient : detail::plain_content {
  static constexpr bool before_inner_step = true;
};

/// The gradient at θ − η·sign(x), where x is the row that this peer sent in the step before, with its residual, and η that
/// step's learning rate: about where the parameters will be once it has been applied. They are put back before anything
/// else is done (DisTrO in Psyche, `error_correction`). For merge rules of a round; in the first step x is 0. One more
/// buffer.
struct gradient_ahead : gradient {
  static constexpr bool looks_ahead = true;
};

/// Δ_m = θ − θ_m, by subtraction (DiLoCo, equation 1).
struct pseudo_gradient : detail::plain_content {
  static constexpr bool anchored = true;
};

/// The same, as the sum of what the inner optimizer subtracted: one more buffer, rounds at the size of an update instead of
/// a parameter. Needs an inner optimizer that reports its updates.
struct summed_updates : pseudo_gradient {
  static constexpr bool sums_updates = true;
};

/// Δ_m and θ, for gossip: the peers of a group do not hold the same θ (NoLoCo). Twice the bytes.
struct pseudo_gradient_and_anchor : pseudo_gradient {
  static constexpr bool with_anchor = true;
};

/// The live parameters. With a codec that sends only some coordinates, only these are replaced (SPARTA).
struct parameters : detail::plain_content {
  [[nodiscard]] static std::vector<std::span<float>> tensors(auto& ctx) { return {ctx.parameters()}; }
};

/// The live parameters and the inner optimizer's first and second moments, as fragments of their own: with a fragmenter of
/// P fragments, fragments 0 to P-1 are of the parameters, then P of each moment (DES-LOC, local Adam).
struct parameters_and_moments : parameters {
  static constexpr std::size_t tensor_count = 3;

  [[nodiscard]] static std::vector<std::span<float>> tensors(auto& ctx) {
    std::vector<std::span<float>> all{ctx.parameters()};
    for (const std::span<float> moment : ctx.inner().moments()) all.push_back(moment);
    return all;
  }
};

static_assert(Content<gradient> && Content<gradient_ahead> && Content<pseudo_gradient> && Content<summed_updates> &&
              Content<pseudo_gradient_and_anchor> && Content<parameters> && Content<parameters_and_moments>);

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_CONTENT_HPP
