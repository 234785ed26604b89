// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_SCHEDULE_HPP
#define CAUSEWAY_OPTIM_SCHEDULE_HPP

// Learning rates as pure functions of the step, so that a run continued from a checkpoint needs no schedule state.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <numbers>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

/// `at(step)` is the rate of step 0, 1, 2, ...
template <class S>
concept Schedule = requires(const S& s, std::uint64_t step) {
  { s.at(step) } -> std::same_as<float>;
};

/// The same rate always.
struct constant {
  float rate = 1e-3F;

  [[nodiscard]] constexpr float at(std::uint64_t) const noexcept { return rate; }

  void serialize(auto& ar) { ar(rate); }
};

/// Linear from peak/warmup_steps at step 0 to `peak` at step warmup_steps - 1, then half a cosine down to
/// `final_fraction`·peak at step total_steps, and constant after that.
struct warmup_cosine {
  float peak = 1e-3F;
  std::uint64_t warmup_steps = 100;
  std::uint64_t total_steps = 1000;
  float final_fraction = 0.1F;

  [[nodiscard]] float at(std::uint64_t step) const noexcept {
    if (step < warmup_steps) {
      return static_cast<float>(static_cast<double>(peak) * static_cast<double>(step + 1) /
                                static_cast<double>(warmup_steps));
    }
    const std::uint64_t span = total_steps > warmup_steps ? total_steps - warmup_steps : 0;
    const std::uint64_t done = std::min(step - warmup_steps, span);
    const double progress = span == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(span);
    const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    const double floor = static_cast<double>(final_fraction);
    return static_cast<float>(static_cast<double>(peak) * (floor + (1.0 - floor) * cosine));
  }

  void serialize(auto& ar) { ar(peak, warmup_steps, total_steps, final_fraction); }
};

static_assert(Schedule<constant> && Schedule<warmup_cosine>);

/// Any schedule, held by value.
class schedule {
 public:
  template <class S>
    requires(!std::same_as<S, schedule>)
  &&Schedule<S> schedule(S s) : at_{[s](std::uint64_t step) { return s.at(step); }} {}  // NOLINT: converting on purpose

  [[nodiscard]] float at(std::uint64_t step) const { return at_(step); }

 private:
  std::function<float(std::uint64_t)> at_;
};
static_assert(Schedule<schedule>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_SCHEDULE_HPP
