// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_PERIODIC_HPP
#define CAUSEWAY_COMM_PERIODIC_HPP

// Local steps between exchanges: every peer takes H inner steps alone, then the average of what all peers changed is handed
// to an outer optimizer. Local SGD and FedAvg (outer SGD with rate 1; Stich 2019, McMahan et al. 2017) and DiLoCo (outer
// Nesterov; Douillard et al. 2023) are instances.

#include <causeway/collective/encoding.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/tensor/buffer.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm {

/// How the pseudo-gradient is found.
enum class pseudo_gradient : std::uint8_t {
  difference,     ///< anchor − local parameters: no memory of its own, rounds once at the size of a parameter
  sum_of_updates  ///< what the inner optimizer subtracted, summed: one more buffer, rounds at the size of an update
};

struct periodic_options {
  std::uint32_t local_steps = 500;  ///< H, inner steps between exchanges
  float outer_learning_rate = 0.7F;
  pseudo_gradient content = pseudo_gradient::difference;
};

/// Every H inner steps:  Δ_m = θ − θ_m;  Δ = (1/n) Σ Δ_m;  θ ← outer(θ, Δ);  θ_m ← θ.   (DiLoCo, algorithm 1; the sign is
/// old − new, so that a descending outer optimizer moves toward the replicas.) Inner optimizer state stays local.
///
/// State: the anchor θ (P values) and the outer optimizer's. An outer optimizer on a device (cuda/nesterov.hpp) has the
/// anchor in its memory, and with a codec of the device (cuda/codec.hpp) only encoded bytes cross to the host. Cost per
/// round: one exchange of P values through `Codec`, 2(n−1)/n · P · bytes-per-value sent and received by each peer. A failed
/// exchange changes nothing: Δ_m is computed anew from θ and θ_m when the hook is called again. With H = 1, inner SGD,
/// outer SGD(1) this is `every_step`: bit for bit with sum_of_updates when the learning rate is a power of two (then
/// scaling commutes with rounding).
template <class Outer = optim::nesterov, class Codec = compress::none>
class periodic {
  static_assert(optim::Optimizer<Outer>,
                "causeway-P9: comm::periodic is given an outer optimizer that is none: it lacks a member of "
                "optim::Optimizer. Optimizers are in optim/. docs/reference/rules.md#p9");
  static_assert(collective::Encoding<Codec>,
                "causeway-P8: comm::periodic is given a codec that is none: it lacks a member of compress::Codec. "
                "Codecs are in compress/. docs/reference/rules.md#p8");
  static constexpr bool own_memory = requires(const Outer& o) { o.memory(); };
  using anchor_type = std::conditional_t<own_memory, std::vector<float, source_allocator<float>>, std::vector<float>>;

 public:
  static constexpr std::string_view name = "periodic";
  static constexpr comm_traits traits{.tolerates = peers::elastic, .allows_late_steps = true, .replays = true};
  static constexpr std::uint32_t state_version = 2;

  explicit periodic(periodic_options options = {}, Outer outer = Outer{}, Codec codec = Codec{})
      : options_{options}, outer_{std::move(outer)}, codec_{std::move(codec)} {
    if constexpr (own_memory) anchor_ = anchor_type{source_allocator<float>{outer_.memory()}};
  }

  result<void> start(auto& ctx) {
    if (options_.local_steps == 0) {
      return fail(errc::invalid_argument, "periodic", "local_steps is 0; set it to 1 or more");
    }
    const auto parameters = ctx.parameters();
    if (anchor_.size() != parameters.size()) {  // not restored from a checkpoint
      anchor_.assign(parameters.begin(), parameters.end());
      outer_.reset(static_cast<std::int64_t>(parameters.size()));
      since_ = 0;
    }
    if (options_.content == pseudo_gradient::sum_of_updates) {
      updates_.resize(parameters.size());
      CAUSEWAY_TRY(ctx.track_updates(updates_));
    }
    return {};
  }

  result<void> before_inner_step(auto&) { return {}; }

  result<void> after_inner_step(auto& ctx) {
    if (since_ + 1 < options_.local_steps) {
      ++since_;
      return {};
    }
    return outer_step(ctx);
  }

  /// Brings the replicas together when training ends in the middle of a round.
  result<void> finish(auto& ctx) { return since_ == 0 ? result<void>{} : outer_step(ctx); }

  void serialize(auto& ar) { ar(since_, anchor_, updates_, outer_, outer_steps_); }

  void shared(auto& ar) { ar(anchor_, outer_, outer_steps_); }

  /// Local progress since the last exchange moves along with the anchor: θ_m ← θ_m + (θ_new − θ_old), so that Δ_m stays.
  void adopt(auto& ctx, std::span<const float> previous) {
    const auto local = ctx.parameters();
    if (previous.empty()) {
      std::copy(anchor_.begin(), anchor_.end(), local.begin());
      std::fill(updates_.begin(), updates_.end(), 0.0F);
      since_ = 0;
      ctx.resume_at(outer_steps_ * options_.local_steps);
    } else {
      for (std::size_t i = 0; i < local.size(); ++i) local[i] += anchor_[i] - previous[i];
    }
    ctx.parameters_changed();
  }

  /// The gradients are the mean of a round: the outer step that the others took with it. `adopt` moves the live parameters.
  [[nodiscard]] static constexpr bool replays() noexcept { return true; }
  result<void> replay(auto& ctx) {
    step_anchor(ctx);
    return {};
  }

  result<void> catch_up(auto& ctx) {
    CAUSEWAY_TRY(outer_step(ctx));
    ctx.resume_at(outer_steps_ * options_.local_steps);
    return {};
  }

  [[nodiscard]] const periodic_options& options() const noexcept { return options_; }
  /// θ: what all peers have held alike since the last exchange. Where the outer optimizer has a memory of its own, there.
  [[nodiscard]] std::span<const float> anchor() const noexcept { return anchor_; }

 private:
  // θ ← outer(θ, Δ), with Δ in the gradients.
  void step_anchor(auto& ctx) {
    parameter_view view = ctx.view();
    view.values = anchor_;
    view.gradients = ctx.gradients();
    outer_.step(ctx.pool(), view, {.learning_rate = options_.outer_learning_rate});
    ++outer_steps_;
  }

  result<void> outer_step(auto& ctx) {
    const auto local = ctx.parameters();
    const auto delta = ctx.gradients();  // free between inner steps, so it carries the pseudo-gradient
    if (options_.content == pseudo_gradient::sum_of_updates) {
      std::copy(updates_.begin(), updates_.end(), delta.begin());
    } else {
      CAUSEWAY_TRY(ctx.rows().subtract(delta, anchor_, local));
    }
    CAUSEWAY_TRY(ctx.mean(codec_, delta));

    step_anchor(ctx);
    CAUSEWAY_TRY(ctx.rows().copy(local, anchor_));
    std::fill(updates_.begin(), updates_.end(), 0.0F);
    since_ = 0;
    ctx.parameters_changed();
    ctx.commit_round();
    return {};
  }

  periodic_options options_;
  Outer outer_;
  Codec codec_;
  anchor_type anchor_;
  std::vector<float> updates_;
  std::uint32_t since_ = 0;  ///< inner steps since the last exchange
  std::uint64_t outer_steps_ = 0;
};
static_assert(CommunicationPolicy<periodic<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::comm

#endif  // CAUSEWAY_COMM_PERIODIC_HPP
