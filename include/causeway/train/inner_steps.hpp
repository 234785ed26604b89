// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_INNER_STEPS_HPP
#define CAUSEWAY_TRAIN_INNER_STEPS_HPP

// The inner optimizer of a trainer and what goes with each of its steps: the learning rate, clipping, and what is done with
// a gradient that is not finite.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/train/environment.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

template <optim::Optimizer Inner>
class inner_steps {
 public:
  explicit inner_steps(Inner inner) : inner_{std::move(inner)} {}

  [[nodiscard]] Inner& optimizer() noexcept { return inner_; }
  [[nodiscard]] float gradient_norm() const noexcept { return gradient_norm_; }  ///< of the last step
  [[nodiscard]] float learning_rate() const noexcept { return rate_; }           ///< of the last step
  [[nodiscard]] float next_learning_rate(const trainer_options& options, std::uint64_t step) const {
    return rate_factor_ * stage_factor_ * options.learning_rate.at(scheduled_at_.value_or(step));
  }
  void multiply_learning_rate(float factor, bool of_stage) noexcept { (of_stage ? stage_factor_ : rate_factor_) = factor; }
  void schedule_at(std::uint64_t step) noexcept { scheduled_at_ = step; }

  /// See training_context.
  result<void> track_updates(std::span<float> sum) {
    if constexpr (optim::ReportsUpdates<Inner>) {
      updates_ = sum;
      return {};
    } else {
      return fail(errc::unsupported, std::string{Inner::name},
                  "this inner optimizer does not report its updates; use pseudo_gradient::difference, or optim::sgd");
    }
  }

  void skip() noexcept { skip_ = true; }
  /// Whether the step that comes next is to be left out, once.
  [[nodiscard]] bool is_skipped() noexcept { return std::exchange(skip_, false); }

  /// Of step `number`: errc::non_finite where there is none with this gradient.
  result<void> check(float norm, std::uint64_t number) {
    gradient_norm_ = norm;
    return optim::check_norm(norm, "step " + std::to_string(number));
  }
  /// Moves the parameters by the gradient that was checked.
  void step(thread_pool& pool, const parameter_view& view, const trainer_options& options, std::uint64_t before) {
    without_gradient_ = 0;
    rate_ = next_learning_rate(options, before);
    inner_.step(pool, view,
                {.learning_rate = rate_,
                 .gradient_scale = optim::clip_scale(gradient_norm_, options.clip_norm),
                 .update_sum = updates_});
  }

  /// A gradient was not finite. Whether it may be passed over: not if there were too many in a row.
  [[nodiscard]] bool may_go_without() noexcept { return ++without_gradient_ <= most_without; }
  void begin_anew() noexcept { without_gradient_ = 0; }

 private:
  static constexpr std::uint32_t most_without = 3;  // in a row, before the shared state is taken over again

  Inner inner_;
  std::span<float> updates_;
  float gradient_norm_ = 0, rate_ = 0, rate_factor_ = 1, stage_factor_ = 1;
  std::optional<std::uint64_t> scheduled_at_;
  std::uint32_t without_gradient_ = 0;  // steps in a row
  bool skip_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_INNER_STEPS_HPP
