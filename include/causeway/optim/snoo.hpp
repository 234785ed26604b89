// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_SNOO_HPP
#define CAUSEWAY_OPTIM_SNOO_HPP

// SNOO, the step-K Nesterov outer optimizer (Kallusky et al. 2025, arXiv 2510.15830): what DiLoCo does among many workers,
// done by one. Another optimizer trains for K steps; how far it came is the gradient of a Nesterov step from where it
// began.

#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/optimizer.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct snoo_options {
  std::uint32_t local_steps = 50;  ///< K, at least 1
  float outer_learning_rate = 0.7F;
  float outer_momentum = 0.9F;  ///< 0: Lookahead (Zhang et al. 2019)
};

/// Steps of `Inner` move the parameters w̃; after every K of them s = w - w̃; b = mu·b + s; w -= lr·(s + mu·b); w̃ = w, with w
/// where the last outer step led. Value by value: peers that step alike need tell each other nothing, and it goes with
/// every policy that leaves parameters alone between steps (comm::every_step, pipelines). Keeps 8 bytes a parameter besides
/// Inner's; an outer step moves 40.
template <Optimizer Inner = adamw>
class snoo {
 public:
  static constexpr std::string_view name = "snoo";

  explicit snoo(snoo_options options = {}, Inner inner = Inner{}) : options_{options}, inner_{std::move(inner)} {
    CAUSEWAY_EXPECT(options_.local_steps >= 1);
  }

  [[nodiscard]] const snoo_options& options() const noexcept { return options_; }
  [[nodiscard]] snoo anew() const { return snoo{options_, optim::anew(inner_)}; }
  [[nodiscard]] const Inner& inner() const noexcept { return inner_; }

  void reset(std::int64_t length) {
    inner_.reset(length);
    slow_ = state_buffer{length};
    velocity_ = state_buffer{length};
    steps_ = 0;
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(slow_.size() == static_cast<std::int64_t>(view.values.size()));
    if (steps_ == 0) std::copy(view.values.begin(), view.values.end(), slow_.data());
    view.copies = nullptr;  // an outer step may follow
    inner_.step(pool, view, step);
    if (++steps_ % options_.local_steps == 0) step_outer(pool, view.values);
  }

  void serialize(auto& ar) { ar(inner_, slow_, velocity_, steps_); }

 private:
  void step_outer(thread_pool& pool, std::span<float> values) {
    const std::int64_t count = slow_.size();
    kernels::subtract(pool, values.data(), slow_.data(), values.data(), count);
    kernels::nesterov_update(pool, slow_.data(), values.data(), velocity_.data(), count,
                             {options_.outer_learning_rate, options_.outer_momentum, 0.0F, 1.0F});
    std::copy_n(slow_.data(), count, values.data());
  }

  snoo_options options_;
  Inner inner_;
  state_buffer slow_;
  state_buffer velocity_;
  std::uint64_t steps_ = 0;
};

static_assert(Optimizer<snoo<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_SNOO_HPP
