// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_UTILISATION_HPP
#define CAUSEWAY_PLAN_UTILISATION_HPP

// What part of its time a replica computes, given its step, its exchanges and its link: the simulator of Streaming DiLoCo
// (arXiv 2501.18512). A step is a graph of 4 L - 1 tasks for L layers: forward, gradient of the activations (not of the
// first layer's), gradient of the weights, and exchange of each layer. Two machines run it, each one task at a time and in
// order: the device the first three kinds, the link the exchanges. An exchange starts when the layer's gradient is there,
// and the layer's forward waits for it. All replicas are alike, so that one of them says all; latency is not in the model.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// What computing a step costs a replica.
struct training_step {
  std::size_t layers = 1;  ///< at least 1; they are alike
  double parameters = 0;   ///< of all layers
  double seconds = 0;      ///< without any exchange; above 0
};

/// When which layers are exchanged. All fragments must find room in a period: (fragments - 1) * spacing < period.
struct exchange_pattern {
  std::size_t period = 1;     ///< steps from one exchange of a layer to the next, H; at least 1
  std::size_t fragments = 1;  ///< exchanged at different steps; layer l is of fragment l mod `fragments` (strided)
  std::size_t spacing = 0;    ///< steps from one fragment to the next; 0: period / fragments
  std::size_t overlap = 0;    ///< steps that go on before the result is waited for, tau; less than `period`
  double bits = 16;           ///< on the link, for each parameter
};

namespace detail {

/// Runs steps one after another and knows at each moment when the device and the link are free.
class step_timeline {
 public:
  step_timeline(const training_step& step, const exchange_pattern& pattern, double bits_per_second)
      : pattern_{pattern},
        task_seconds_{step.seconds / static_cast<double>(3 * step.layers - 1)},
        exchange_seconds_{pattern.bits * step.parameters / static_cast<double>(step.layers) / bits_per_second},
        exchanges_(step.layers) {
    if (pattern_.spacing == 0) pattern_.spacing = pattern_.period / pattern_.fragments;
  }

  /// Seconds at the end of the last step's backward pass.
  [[nodiscard]] double now() const noexcept { return device_; }

  void run(std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i, ++step_) {
      forward();
      backward();
    }
  }

 private:
  struct exchange {
    std::size_t due = std::numeric_limits<std::size_t>::max();  // the first step that must have the result
    double arrives = 0;
  };

  void forward() {
    for (const exchange& e : exchanges_) {
      if (e.due <= step_) device_ = std::max(device_, e.arrives);
      device_ += task_seconds_;
    }
  }

  void backward() {
    for (std::size_t layer = exchanges_.size(); layer-- > 0;) {
      device_ += task_seconds_;  // of the weights: first, as the link can start with them
      if (is_sent(layer)) send(layer);
      if (layer > 0) device_ += task_seconds_;  // of the activations
    }
  }

  [[nodiscard]] bool is_sent(std::size_t layer) const noexcept {
    const std::size_t offset = layer % pattern_.fragments * pattern_.spacing;
    return (step_ + 1 + pattern_.period - offset) % pattern_.period == 0;
  }

  void send(std::size_t layer) {
    link_ = std::max(link_, device_) + exchange_seconds_;
    exchanges_[layer] = {step_ + 1 + pattern_.overlap, link_};
  }

  exchange_pattern pattern_;
  double task_seconds_;
  double exchange_seconds_;
  std::vector<exchange> exchanges_;
  std::size_t step_ = 0;
  double device_ = 0;
  double link_ = 0;
};

}  // namespace detail

/// The part of its time that a replica computes, in (0, 1], once the run is in its stride. Exact but where the link is all
/// but full and results are waited for late: a backlog then takes long to grow, and up to 0.2 % can be missing. Takes some
/// 8 * layers * max(2 * period, 512 * (overlap + 1)) additions.
[[nodiscard]] inline double utilisation(const training_step& step, const exchange_pattern& pattern,
                                        double bits_per_second) {
  CAUSEWAY_EXPECT(step.layers > 0 && step.seconds > 0 && step.parameters >= 0 && bits_per_second > 0);
  CAUSEWAY_EXPECT(pattern.period > 0 && pattern.fragments > 0 && pattern.overlap < pattern.period);
  CAUSEWAY_EXPECT((pattern.fragments - 1) * pattern.spacing < pattern.period);
  const std::size_t periods = std::max<std::size_t>(2, 512 * (pattern.overlap + 1) / pattern.period + 1);
  detail::step_timeline timeline{step, pattern, bits_per_second};
  timeline.run(periods * pattern.period);
  const double begin = timeline.now();
  timeline.run(periods * pattern.period);
  const double computing = static_cast<double>(periods * pattern.period) * step.seconds;
  return computing / (timeline.now() - begin);
}

/// The least of the bandwidths `grid` (bits per second, rising) at which utilisation reaches `target`; infinity if none
/// does.
[[nodiscard]] inline double least_bandwidth(const training_step& step, const exchange_pattern& pattern, double target,
                                            std::span<const double> grid) {
  const auto found = std::partition_point(grid.begin(), grid.end(), [&](double b) {
    return utilisation(step, pattern, b) < target;  // rises with bandwidth
  });
  return found == grid.end() ? std::numeric_limits<double>::infinity() : *found;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_UTILISATION_HPP
