// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_BATCH_RATE_HPP
#define CAUSEWAY_PLAN_BATCH_RATE_HPP

// How large each device's batch should be, and which share of a gradient's values fits the bandwidth of now: the central
// controller of StellaTrain (Lim et al. 2024, SIGCOMM; github.com/kaist-ina/stellatrain 6dccb2d,
// batch_rate_alloc_optim.py). Batches follow from what devices take for them, and from how much a batch and a bandwidth
// cost in quality, which was measured before the run. Where that program mixes units, those that make sense are taken
// (docs/reference/planners.md).

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// A device takes as long for fewer samples than `knee` as for so many; from there on it makes `full` in a second.
struct device_pace {
  double knee = 16;   ///< samples
  double full = 100;  ///< samples per second of backward passes

  [[nodiscard]] double per_second(double batch) const { return batch < knee ? full / knee * batch : full; }
  [[nodiscard]] double seconds(double batch) const { return batch / per_second(batch); }
};

/// The least squares of `per_second` at these batches, exactly (there by Nelder and Mead's search), with at least the knee
/// and pace of `least`. At least one measurement.
CAUSEWAY_DECL [[nodiscard]] device_pace fit_pace(std::span<const double> batches, std::span<const double> per_second,
                                                 const device_pace& least = {});

/// How much worse training gets with a global batch and a bandwidth, in any unit that is small: steps count 1 + 50 of it.
/// Measured before the run, at `batches` times `mbit_s`, both rising; there by Bayesian optimisation. None: 0 everywhere.
struct batch_quality {
  std::vector<double> batches{};
  std::vector<double> mbit_s{};
  std::vector<double> worse{};  ///< [batches, mbit_s]

  /// Linear between what was measured, and beyond it as at its edge.
  CAUSEWAY_DECL [[nodiscard]] double at(double batch, double mbit) const;
};

struct batch_rate_task {
  std::vector<std::uint64_t> tensors{};  ///< values of each
  std::uint32_t peers = 2;               ///< that exchange
  std::uint32_t value_bytes = 4;
  std::uint32_t place_bytes = 4;
  double quality_batch = 256;    ///< a global batch, a share and a bandwidth that it needed
  double quality_share = 0.1;    ///< where the quality was measured: what makes bandwidths
  double quality_mbit_s = 1000;  ///< of other machines alike
  batch_quality quality{};
};

/// Bytes that a step sends of this share of each tensor's values: with a head of 47 bytes for each tensor and 66 for each
/// of TCP's segments of 1,472 bytes.
CAUSEWAY_DECL [[nodiscard]] double sent_bytes(const batch_rate_task& task, double share);

/// Seconds of forward and backward passes with these batches, 3/2 of backward ones, in the mean over devices.
CAUSEWAY_DECL [[nodiscard]] double pass_seconds(std::span<const device_pace> paces, std::span<const std::uint32_t> batches);

/// Of the bandwidth of now, what it would be where the quality was measured: devices that are half as quick need half.
CAUSEWAY_DECL [[nodiscard]] double like_measured(const batch_rate_task& task, std::span<const device_pace> paces,
                                                 std::span<const std::uint32_t> batches, double mbit_s);

/// What batches are chosen by, less is better: (1 + 50 · worse) · slowest device's seconds / Σ batches, and 5 times how far
/// devices' seconds differ (their standard deviation over their mean). `mbit_s`: as measured, see above.
CAUSEWAY_DECL [[nodiscard]] double batch_objective(const batch_quality& quality, std::span<const device_pace> paces,
                                                   std::span<const std::uint32_t> batches, double mbit_s);

/// Batches of 1 to `most` with a small objective: from devices that take equally long, by steps that lower it. There:
/// Nelder and Mead's search from 32 random places.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> choose_batches(const batch_quality& quality,
                                                                      std::span<const device_pace> paces,
                                                                      std::span<const std::uint32_t> most, double mbit_s);

/// The largest share, at least 0.001, that is sent in the time of the passes, over peers - 1.
CAUSEWAY_DECL [[nodiscard]] double choose_share(const batch_rate_task& task, std::span<const device_pace> paces,
                                                std::span<const std::uint32_t> batches, double mbit_s);

/// The bandwidth to plan with: a tenth more than before while nobody waits for the network, else less by the part of a step
/// that the least waiting device waits, at most a quarter. Under 5 % is no waiting.
CAUSEWAY_DECL [[nodiscard]] double next_bandwidth(double before, double measured, double waited, double computed);

struct batch_rate {
  std::vector<std::uint32_t> batches{};
  double share = 1;
};

/// A step, by device; seconds.
struct batch_rate_report {
  std::vector<std::uint32_t> batches{};
  std::vector<double> backward{};
  std::vector<double> waited{};  ///< for the network
  double mbit_s = 0;             ///< that the slowest received
};

/// Learns how quick devices are while batches grow by half up to the most, and then follows the bandwidth: the share each
/// time, batches every 100th. Copyable; a function of the reports alone.
class batch_rate_controller {
 public:
  /// `start`: what the run begins with.
  CAUSEWAY_DECL batch_rate_controller(batch_rate_task task, std::vector<std::uint32_t> most, batch_rate start);

  /// What to do from a few steps later on, if anything changes.
  CAUSEWAY_DECL std::optional<batch_rate> seen(const batch_rate_report& report);

  [[nodiscard]] std::span<const device_pace> paces() const noexcept { return paces_; }
  [[nodiscard]] double mbit_s() const noexcept { return mbit_s_; }

 private:
  CAUSEWAY_DECL void learn(const batch_rate_report& report);
  CAUSEWAY_DECL batch_rate follow(const batch_rate_report& report);

  batch_rate_task task_;
  std::vector<std::uint32_t> most_;
  batch_rate now_;
  std::vector<device_pace> paces_;
  std::vector<std::map<std::uint32_t, double>> seen_;  // samples per second by batch, of each device
  std::uint32_t reports_ = 0, since_ = 0, followed_ = 0;
  bool running_ = false;
  double mbit_s_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/batch_rate.ipp>
#endif

#endif  // CAUSEWAY_PLAN_BATCH_RATE_HPP
