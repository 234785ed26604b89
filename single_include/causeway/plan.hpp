// SPDX-License-Identifier: Apache-2.0
// Causeway 0.1.0, what causeway/plan.hpp includes in one. Written by tools/amalgamate.py: change the headers, not this file.

// ---- causeway/config/version.hpp ----
#ifndef CAUSEWAY_CONFIG_VERSION_HPP
#define CAUSEWAY_CONFIG_VERSION_HPP

// The library version; CMake reads the three numbers from here. Wire protocol and file formats have versions of their own.

#define CAUSEWAY_VERSION_MAJOR 0
#define CAUSEWAY_VERSION_MINOR 1
#define CAUSEWAY_VERSION_PATCH 0
#define CAUSEWAY_VERSION (CAUSEWAY_VERSION_MAJOR * 10000 + CAUSEWAY_VERSION_MINOR * 100 + CAUSEWAY_VERSION_PATCH)
#define CAUSEWAY_VERSION_STRING "0.1.0"

#endif  // CAUSEWAY_CONFIG_VERSION_HPP

// ---- causeway/config/config.hpp ----
#ifndef CAUSEWAY_CONFIG_CONFIG_HPP
#define CAUSEWAY_CONFIG_CONFIG_HPP

// Switches a user may set, the inline ABI namespace, and a handful of attribute macros. A project can put its own
// switches in <causeway_user_config.hpp>, which is read first when it exists.

#if __has_include(<causeway_user_config.hpp>)
#include <causeway_user_config.hpp>
#endif

// The inline namespace keeps two copies of the library with different layouts apart in one program.
#define CAUSEWAY_ABI v0_1

// CAUSEWAY_EXPECT checks what our own callers promised. On in debug builds, or where CAUSEWAY_CHECKED is defined; off
// otherwise. What the world can do to us (network, disk, input) is never checked this way: that returns a result.
#if defined(CAUSEWAY_CHECKED) || !defined(NDEBUG)
#include <cstdio>
#include <cstdlib>
#define CAUSEWAY_EXPECT(condition)                                                                                     \
  ((condition) ? static_cast<void>(0)                                                                                  \
               : (std::fprintf(stderr, "causeway: precondition failed: %s (%s:%d)\n", #condition, __FILE__, __LINE__), \
                  std::abort()))
#else
#define CAUSEWAY_EXPECT(condition) static_cast<void>(0)
#endif

// Functions that are no templates have their bodies in impl/*.ipp: part of the headers, or, with CAUSEWAY_COMPILED, of one
// object that all share (causeway::compiled, or a source file of one's own that includes <causeway/impl/src.hpp>). As part
// of the headers they are templates without parameters, so that a compiler instantiates what a body needs only where it is
// called. CAUSEWAY_INLINE is for those that cannot be templates: virtual functions, destructors, copies, and what is passed
// as a pointer. A class whose virtual functions reach far is a template itself, basic_NAME<Whole> with NAME for
// basic_NAME<void>: its bodies say CAUSEWAY_LAZY, and only who makes an object instantiates them.
#define CAUSEWAY_LAZY template <class Whole>
#ifdef CAUSEWAY_COMPILED
#define CAUSEWAY_DECL
#define CAUSEWAY_INLINE
#else
#define CAUSEWAY_DECL template <class...>
#define CAUSEWAY_INLINE inline
#endif

#define CAUSEWAY_ALWAYS_INLINE inline __attribute__((always_inline))
#define CAUSEWAY_NOINLINE __attribute__((noinline))

#if defined(__CUDACC__)
#define CAUSEWAY_HD __host__ __device__
#else
#define CAUSEWAY_HD
#endif

#endif  // CAUSEWAY_CONFIG_CONFIG_HPP

// ---- causeway/plan/availability.hpp ----
#ifndef CAUSEWAY_PLAN_AVAILABILITY_HPP
#define CAUSEWAY_PLAN_AVAILABILITY_HPP

// How many instances there will be, from how many there were: what Parcae (Duan et al., NSDI 2024, arXiv 2403.14097) plans
// on. The paper fits ARIMA; here it is its simplest member, one autoregressive step around a mean, fitted by least squares:
//   x(t+1) - mean = phi (x(t) - mean) + noise.
// It knows no hours of the day and no trend: a forecast only leads from the last number back to the mean.

#include <cstddef>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct availability_model {
  double mean = 0;
  double phi = 0;    ///< in [0, 1]
  double sigma = 0;  ///< of the noise
};

/// From instances per interval, in order. With fewer than three intervals, or without change: the last number stays.
CAUSEWAY_DECL availability_model fit_availability(std::span<const std::size_t> history);

/// The expected number of instances in each of the next `intervals`, rounded, after an interval with `now`.
CAUSEWAY_DECL std::vector<std::size_t> forecast(const availability_model& m, std::size_t now, std::size_t intervals);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_AVAILABILITY_HPP

// ---- causeway/plan/impl/availability.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_AVAILABILITY_IPP
#define CAUSEWAY_PLAN_IMPL_AVAILABILITY_IPP

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL availability_model fit_availability(std::span<const std::size_t> history) {
  availability_model m{history.empty() ? 0 : static_cast<double>(history.back()), 1, 0};
  if (history.size() < 3) return m;
  double mean = 0;
  for (const std::size_t x : history) mean += static_cast<double>(x) / static_cast<double>(history.size());
  double both = 0, before = 0;
  for (std::size_t t = 0; t + 1 < history.size(); ++t) {
    const double x = static_cast<double>(history[t]) - mean;
    both += x * (static_cast<double>(history[t + 1]) - mean);
    before += x * x;
  }
  if (before <= 0) return m;
  m = {mean, std::clamp(both / before, 0.0, 1.0), 0};
  double errors = 0;
  for (std::size_t t = 0; t + 1 < history.size(); ++t) {
    const double e = static_cast<double>(history[t + 1]) - mean - m.phi * (static_cast<double>(history[t]) - mean);
    errors += e * e;
  }
  m.sigma = std::sqrt(errors / static_cast<double>(history.size() - 1));
  return m;
}

CAUSEWAY_DECL std::vector<std::size_t> forecast(const availability_model& m, std::size_t now, std::size_t intervals) {
  std::vector<std::size_t> next(intervals);
  double away = static_cast<double>(now) - m.mean;
  for (std::size_t& n : next) {
    away *= m.phi;
    n = static_cast<std::size_t>(std::llround(std::max(0.0, m.mean + away)));
  }
  return next;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_AVAILABILITY_IPP
#endif

// ---- causeway/core/error.hpp ----
#ifndef CAUSEWAY_CORE_ERROR_HPP
#define CAUSEWAY_CORE_ERROR_HPP

// What can go wrong for reasons outside the program, as a value. Numbers are stable and match docs/reference/errors.md.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI {

enum class errc : std::uint16_t {
  invalid_argument = 1,  ///< an option or shape that cannot work
  not_found = 2,         ///< a file, section or peer that is not there
  io_failed = 3,         ///< the operating system refused a read or write
  disk_full = 4,         ///< no space left
  corrupt = 5,           ///< bytes that fail their checksum or their format
  version_mismatch = 6,  ///< written or spoken by another format or protocol version
  timeout = 7,           ///< a deadline passed
  peer_lost = 8,         ///< the connection to a peer ended
  protocol = 9,          ///< a peer said something that the protocol does not allow
  wrong_run = 10,        ///< the other side belongs to another run
  wrong_model = 11,      ///< the other side trains another model or with other options
  wrong_parent = 12,     ///< an update based on another committed state
  diverged = 13,         ///< replicas that must be identical are not
  address_in_use = 14,   ///< a port that somebody else listens on
  unreachable = 15,      ///< nobody answers at an address
  too_large = 16,        ///< a length beyond the limit
  non_finite = 17,       ///< NaN or infinity where a number is needed
  cancelled = 18,        ///< stopped on request
  bad_text = 19,         ///< text that is empty, too short or not UTF-8
  unsupported = 20,      ///< this build or machine cannot do it
  out_of_memory = 21,    ///< an allocation failed
  device_lost = 22,      ///< an accelerator stopped answering
};

/// The name of a code, as in docs/reference/errors.md.
constexpr std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument: return "invalid_argument";
    case errc::not_found: return "not_found";
    case errc::io_failed: return "io_failed";
    case errc::disk_full: return "disk_full";
    case errc::corrupt: return "corrupt";
    case errc::version_mismatch: return "version_mismatch";
    case errc::timeout: return "timeout";
    case errc::peer_lost: return "peer_lost";
    case errc::protocol: return "protocol";
    case errc::wrong_run: return "wrong_run";
    case errc::wrong_model: return "wrong_model";
    case errc::wrong_parent: return "wrong_parent";
    case errc::diverged: return "diverged";
    case errc::address_in_use: return "address_in_use";
    case errc::unreachable: return "unreachable";
    case errc::too_large: return "too_large";
    case errc::non_finite: return "non_finite";
    case errc::cancelled: return "cancelled";
    case errc::bad_text: return "bad_text";
    case errc::unsupported: return "unsupported";
    case errc::out_of_memory: return "out_of_memory";
    case errc::device_lost: return "device_lost";
  }
  return "unknown";
}

/// One failure: a code, whom or what it concerns ("peer 3", "run/step-000120.ckpt"), and a sentence that says what
/// happened and what to do about it.
struct error {
  /// No peer's rank.
  static constexpr std::uint32_t nobody = UINT32_MAX;

  errc code = errc::invalid_argument;
  std::string where;
  std::string message;
  /// Of an exchange: the rank of the peer that sent what cannot be used, where this peer has seen that itself.
  std::uint32_t culprit = nobody;

  /// One line for a person: "where: message [code]".
  [[nodiscard]] std::string text() const {
    std::string line = where.empty() ? message : where + ": " + message;
    line += " [";
    line += to_string(code);
    line += ']';
    return line;
  }
};

/// Shorthand for `return fail(errc::corrupt, file, "...")`.
[[nodiscard]] inline error fail(errc code, std::string where, std::string message) {
  return {code, std::move(where), std::move(message)};
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_ERROR_HPP

// ---- causeway/plan/batch_rate.hpp ----
#ifndef CAUSEWAY_PLAN_BATCH_RATE_HPP
#define CAUSEWAY_PLAN_BATCH_RATE_HPP

// How large each device's batch should be, and which share of a gradient's values fits the bandwidth of now: the central
// controller of StellaTrain (Lim et al. 2024, SIGCOMM; github.com/kaist-ina/stellatrain 6dccb2d,
// batch_rate_alloc_optim.py). Batches follow from what devices take for them, and from how much a batch and a bandwidth
// cost in quality, which was measured before the run. Where that program mixes units, those that make sense are taken
// (docs/reference/planners.md).

#include <map>
#include <optional>

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

#endif  // CAUSEWAY_PLAN_BATCH_RATE_HPP

// ---- causeway/plan/impl/batch_rate.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_BATCH_RATE_IPP
#define CAUSEWAY_PLAN_IMPL_BATCH_RATE_IPP

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// For which knees which measurements are on the slope is a matter of their order: the least squares of each case, with the
/// knee where both lines meet, or at the edge of the case.
class pace_fit {
 public:
  pace_fit(std::span<const double> batches, std::span<const double> per_second, const device_pace& least)
      : batches_{batches}, per_second_{per_second}, least_{least} {}

  device_pace best() {
    std::vector<double> edges{least_.knee};
    for (const double b : batches_) {
      if (b > least_.knee) edges.push_back(b);
    }
    std::sort(edges.begin(), edges.end());
    for (const double edge : edges) at_knee(edge);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      between(edges[i], i + 1 < edges.size() ? edges[i + 1] : std::numeric_limits<double>::infinity());
    }
    return best_;
  }

 private:
  void see(const device_pace& p) {
    double error = 0;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const double miss = p.per_second(batches_[i]) - per_second_[i];
      error += miss * miss;
    }
    if (error < error_) error_ = error, best_ = p;
  }

  /// The best pace with this knee: linear least squares of one number.
  void at_knee(double knee) {
    double up = 0, down = 0;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const double form = std::min(batches_[i] / knee, 1.0);
      up += form * per_second_[i];
      down += form * form;
    }
    see({knee, std::max(up / down, least_.full)});
  }

  /// The best slope and the best plateau, each of its own measurements, if the knee is then in [low, high].
  void between(double low, double high) {
    double up = 0, down = 0, sum = 0, many = 0;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      if (batches_[i] <= low) {
        up += batches_[i] * per_second_[i];
        down += batches_[i] * batches_[i];
      } else {
        sum += per_second_[i];
        ++many;
      }
    }
    if (down == 0 || up == 0 || many == 0) return;
    const double full = std::max(sum / many, least_.full), knee = full / (up / down);
    if (knee >= low && knee <= high) see({knee, full});
  }

  std::span<const double> batches_, per_second_;
  device_pace least_, best_;
  double error_ = std::numeric_limits<double>::infinity();
};

/// Of rising `at` the place before `x` and how far x is from it to the next, both within.
inline std::pair<std::size_t, double> place_in(const std::vector<double>& at, double x) {
  if (at.size() < 2 || x <= at.front()) return {0, 0.0};
  if (x >= at.back()) return {at.size() - 2, 1.0};
  const auto next = static_cast<std::size_t>(std::upper_bound(at.begin(), at.end(), x) - at.begin());
  return {next - 1, (x - at[next - 1]) / (at[next] - at[next - 1])};
}

/// Batches of devices that take equally long, and steps from there.
class batch_search {
 public:
  batch_search(const batch_quality& quality, std::span<const device_pace> paces, std::span<const std::uint32_t> most,
               double mbit_s)
      : quality_{quality}, paces_{paces}, most_{most}, mbit_s_{mbit_s} {}

  std::vector<std::uint32_t> run() {
    std::vector<std::pair<double, std::vector<std::uint32_t>>> starts;
    for (std::size_t d = 0; d < paces_.size(); ++d) {
      for (std::uint32_t b = 1; b <= most_[d]; ++b) {
        auto even = within(paces_[d].seconds(b));
        starts.emplace_back(rated(even), std::move(even));
      }
    }
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    std::pair<double, std::vector<std::uint32_t>> best{std::numeric_limits<double>::infinity(), {}};
    for (std::size_t i = 0; i < std::min(starts.size(), most_starts); ++i) best = std::min(best, improved(starts[i]));
    return best.second;
  }

 private:
  static constexpr std::size_t most_starts = 8;

  [[nodiscard]] double rated(const std::vector<std::uint32_t>& batches) const {
    return batch_objective(quality_, paces_, batches, mbit_s_);
  }

  [[nodiscard]] std::vector<std::uint32_t> within(double seconds) const {
    std::vector<std::uint32_t> batches;
    for (std::size_t d = 0; d < paces_.size(); ++d) {
      const double many = std::clamp(std::nearbyint(seconds * paces_[d].full), 1.0, double(most_[d]));
      batches.push_back(static_cast<std::uint32_t>(many));
    }
    return batches;
  }

  [[nodiscard]] std::pair<double, std::vector<std::uint32_t>> improved(
      std::pair<double, std::vector<std::uint32_t>> at) const {
    for (bool better = true; better;) {
      better = false;
      const std::vector<std::uint32_t> from = at.second;
      for (std::size_t d = 0; d < from.size(); ++d) {
        for (const std::int64_t step : {-16, -4, -1, 1, 4, 16}) {
          const std::int64_t moved = from[d] + step;
          if (moved < 1 || moved > most_[d]) continue;
          auto next = from;
          next[d] = static_cast<std::uint32_t>(moved);
          if (const double r = rated(next); r < at.first) at = {r, std::move(next)}, better = true;
        }
      }
    }
    return at;
  }

  const batch_quality& quality_;
  std::span<const device_pace> paces_;
  std::span<const std::uint32_t> most_;
  double mbit_s_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL device_pace fit_pace(std::span<const double> batches, std::span<const double> per_second,
                                   const device_pace& least) {
  CAUSEWAY_EXPECT(!batches.empty() && batches.size() == per_second.size());
  return detail::pace_fit{batches, per_second, least}.best();
}

CAUSEWAY_DECL double batch_quality::at(double batch, double mbit) const {
  if (worse.empty()) return 0;
  CAUSEWAY_EXPECT(worse.size() == batches.size() * mbit_s.size());
  const auto [row, down] = detail::place_in(batches, batch);
  const auto [column, right] = detail::place_in(mbit_s, mbit);
  const auto value = [&](std::size_t r, std::size_t c) {
    return worse[std::min(r, batches.size() - 1) * mbit_s.size() + std::min(c, mbit_s.size() - 1)];
  };
  const double above = (1 - right) * value(row, column) + right * value(row, column + 1);
  const double below = (1 - right) * value(row + 1, column) + right * value(row + 1, column + 1);
  return (1 - down) * above + down * below;
}

CAUSEWAY_DECL double sent_bytes(const batch_rate_task& task, double share) {
  constexpr double head = 47, segment = 1472, segment_head = 66;
  double sum = 0;
  for (const std::uint64_t size : task.tensors) {
    const double values = std::max(1.0, std::ceil(share * static_cast<double>(size)));
    const double bytes = head + (task.value_bytes + task.place_bytes) * values;
    sum += bytes + segment_head * std::ceil((bytes + segment - 1) / segment);
  }
  return sum;
}

CAUSEWAY_DECL double pass_seconds(std::span<const device_pace> paces, std::span<const std::uint32_t> batches) {
  double sum = 0;
  for (std::size_t d = 0; d < paces.size(); ++d) sum += paces[d].seconds(batches[d]);
  return 1.5 * sum / static_cast<double>(paces.size());
}

CAUSEWAY_DECL double like_measured(const batch_rate_task& task, std::span<const device_pace> paces,
                                   std::span<const std::uint32_t> batches, double mbit_s) {
  const double all = std::accumulate(batches.begin(), batches.end(), 0.0);
  double per_second = 0;
  for (std::size_t d = 0; d < paces.size(); ++d) per_second += paces[d].per_second(batches[d] / all * task.quality_batch);
  const double seconds = 1.5 * task.quality_batch / per_second;
  const double needed = 8e-6 * sent_bytes(task, task.quality_share) / seconds;
  return mbit_s * task.quality_mbit_s / needed;
}

CAUSEWAY_DECL double batch_objective(const batch_quality& quality, std::span<const device_pace> paces,
                                     std::span<const std::uint32_t> batches, double mbit_s) {
  double all = 0, slowest = 0, sum = 0, squares = 0;
  for (std::size_t d = 0; d < paces.size(); ++d) {
    const double seconds = paces[d].seconds(batches[d]);
    all += batches[d];
    slowest = std::max(slowest, seconds);
    sum += seconds;
  }
  const double many = static_cast<double>(paces.size()), mean = sum / many;
  for (std::size_t d = 0; d < paces.size(); ++d) {
    const double off = paces[d].seconds(batches[d]) - mean;
    squares += off * off;
  }
  return (1 + 50 * quality.at(all, mbit_s)) * slowest / all + 5 * std::sqrt(squares / many) / mean;
}

CAUSEWAY_DECL std::vector<std::uint32_t> choose_batches(const batch_quality& quality, std::span<const device_pace> paces,
                                                        std::span<const std::uint32_t> most, double mbit_s) {
  CAUSEWAY_EXPECT(!paces.empty() && paces.size() == most.size());
  return detail::batch_search{quality, paces, most, mbit_s}.run();
}

CAUSEWAY_DECL double choose_share(const batch_rate_task& task, std::span<const device_pace> paces,
                                  std::span<const std::uint32_t> batches, double mbit_s) {
  const double room = mbit_s * 1e6 / 8 * pass_seconds(paces, batches);
  double low = 0.001, high = 1;
  if (sent_bytes(task, high) <= room) low = high;
  for (int step = 0; step < 20 && low < high; ++step) {
    const double middle = (low + high) / 2;
    (sent_bytes(task, middle) <= room ? low : high) = middle;
  }
  return low / std::max(1.0, task.peers - 1.0);
}

CAUSEWAY_DECL double next_bandwidth(double before, double measured, double waited, double computed) {
  const double mean = 0.9 * before + 0.1 * measured, part = waited / (waited + computed);
  return part < 0.05 ? 1.1 * mean : mean * std::max(0.75, 1 - part);
}

CAUSEWAY_DECL batch_rate_controller::batch_rate_controller(batch_rate_task task, std::vector<std::uint32_t> most,
                                                           batch_rate start)
    : task_{std::move(task)}, most_{std::move(most)}, now_{std::move(start)}, paces_(most_.size()), seen_(most_.size()) {
  CAUSEWAY_EXPECT(!most_.empty() && now_.batches.size() == most_.size());
}

CAUSEWAY_DECL std::optional<batch_rate> batch_rate_controller::seen(const batch_rate_report& report) {
  constexpr std::uint32_t unused = 4, reliable = 4;              // reports of a device
  constexpr std::uint32_t pause = 3 + 4, pause_running = 3 + 5;  // until what was decided shows
  CAUSEWAY_EXPECT(report.batches.size() == most_.size() && report.backward.size() == most_.size());
  if (reports_ >= unused) learn(report);
  ++reports_;
  ++since_;
  if (reports_ < unused + reliable || since_ < (running_ ? pause_running : pause)) return std::nullopt;
  since_ = 0;
  if (!running_ && now_.batches == most_) running_ = true;
  if (running_) return now_ = follow(report);
  for (std::size_t d = 0; d < most_.size(); ++d) {
    const double grown = std::nearbyint(1.5 * now_.batches[d]);
    now_.batches[d] = std::min(most_[d], static_cast<std::uint32_t>(grown));
  }
  return now_;
}

CAUSEWAY_DECL void batch_rate_controller::learn(const batch_rate_report& report) {
  const double kept = running_ ? 0.999 : 0.9;
  for (std::size_t d = 0; d < most_.size(); ++d) {
    const double pace = report.batches[d] / report.backward[d];
    const auto [known, fresh] = seen_[d].try_emplace(report.batches[d], pace);
    if (!fresh) known->second = kept * known->second + (1 - kept) * pace;
    std::vector<double> batches, paces;
    for (const auto& [batch, per_second] : seen_[d]) {
      batches.push_back(batch);
      paces.push_back(per_second);
    }
    paces_[d] = fit_pace(batches, paces);
  }
}

CAUSEWAY_DECL batch_rate batch_rate_controller::follow(const batch_rate_report& report) {
  constexpr std::uint32_t keep_batches = 100;
  double waited = std::numeric_limits<double>::infinity(), computed = 0;
  for (std::size_t d = 0; d < most_.size(); ++d) {
    waited = std::min(waited, report.waited[d]);
    computed += 1.5 * report.backward[d] / static_cast<double>(most_.size());
  }
  mbit_s_ = followed_ == 0 ? report.mbit_s : next_bandwidth(mbit_s_, report.mbit_s, waited, computed);
  batch_rate next = now_;
  if (followed_++ % keep_batches == 0) {
    next.batches = choose_batches(task_.quality, paces_, most_, like_measured(task_, paces_, now_.batches, mbit_s_));
  }
  next.share = choose_share(task_, paces_, next.batches, mbit_s_);
  return next;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_BATCH_RATE_IPP
#endif

// ---- causeway/core/result.hpp ----
#ifndef CAUSEWAY_CORE_RESULT_HPP
#define CAUSEWAY_CORE_RESULT_HPP

// A value or an error. Our own type rather than std::expected, also where that exists, so that the ABI does not depend on
// the language mode, and a union by hand rather than std::variant, which costs a compiler several times as much for each T.
// Nothing in the library throws for a reason that the network, a disk or a peer can cause.

#include <functional>
#include <memory>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// A `T`, or the `error` that prevented it. Reading the wrong side is a precondition violation.
template <class T>
class [[nodiscard]] result {
 public:
  using value_type = T;

  result(T value) : has_value_{true}, value_{std::move(value)} {}                     // NOLINT: converting on purpose
  result(causeway::error failure) : has_value_{false}, error_{std::move(failure)} {}  // NOLINT

  result(const result& other) requires std::is_copy_constructible_v<T> : has_value_{other.has_value_} { take(other); }
  result(result&& other) noexcept : has_value_{other.has_value_} { take(std::move(other)); }
  result& operator=(result other) noexcept {
    drop();
    has_value_ = other.has_value_;
    take(std::move(other));
    return *this;
  }
  ~result() { drop(); }

  [[nodiscard]] bool has_value() const noexcept { return has_value_; }
  explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] T& value() & { return check(), value_; }
  [[nodiscard]] const T& value() const& { return check(), value_; }
  [[nodiscard]] T&& value() && { return check(), std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] causeway::error& error() & { return check_failed(), error_; }
  [[nodiscard]] const causeway::error& error() const& { return check_failed(), error_; }
  [[nodiscard]] causeway::error&& error() && { return check_failed(), std::move(error_); }

  [[nodiscard]] T value_or(T fallback) const& { return has_value() ? value() : std::move(fallback); }

  /// `f(value)`, itself a result; or the error unchanged.
  template <class F>
  auto and_then(F&& f) && -> std::invoke_result_t<F, T&&> {
    if (!has_value()) return std::move(*this).error();
    return std::invoke(std::forward<F>(f), std::move(*this).value());
  }

  /// `f(value)` wrapped into a result; or the error unchanged.
  template <class F>
  auto transform(F&& f) && -> result<std::invoke_result_t<F, T&&>> {
    if (!has_value()) return std::move(*this).error();
    return std::invoke(std::forward<F>(f), std::move(*this).value());
  }

 private:
  void check() const { CAUSEWAY_EXPECT(has_value()); }
  void check_failed() const { CAUSEWAY_EXPECT(!has_value()); }

  /// Constructs the side that `has_value_` names, which `other` has.
  template <class Other>
  void take(Other&& other) {
    if (has_value_) {
      std::construct_at(&value_, std::forward<Other>(other).value_);
    } else {
      std::construct_at(&error_, std::forward<Other>(other).error_);
    }
  }
  void drop() noexcept {
    if (has_value_) {
      std::destroy_at(&value_);
    } else {
      std::destroy_at(&error_);
    }
  }

  bool has_value_;
  union {
    T value_;
    causeway::error error_;
  };
};

/// Success, or an error.
template <>
class [[nodiscard]] result<void> {
 public:
  using value_type = void;

  result() = default;
  result(causeway::error failure) : error_{std::move(failure)} {}  // NOLINT: converting on purpose

  [[nodiscard]] bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const { CAUSEWAY_EXPECT(has_value()); }

  [[nodiscard]] causeway::error& error() & { return check_failed(), *error_; }
  [[nodiscard]] const causeway::error& error() const& { return check_failed(), *error_; }
  [[nodiscard]] causeway::error&& error() && { return check_failed(), std::move(*error_); }

 private:
  void check_failed() const { CAUSEWAY_EXPECT(!has_value()); }

  std::optional<causeway::error> error_;
};

}}  // namespace causeway::CAUSEWAY_ABI

/// Returns the error of `expression` from the enclosing function, if it is one.
#define CAUSEWAY_TRY(...)                                                                                     \
  do {                                                                                                        \
    if (auto causeway_outcome = (__VA_ARGS__); !causeway_outcome) return std::move(causeway_outcome).error(); \
  } while (false)

#define CAUSEWAY_JOIN_(a, b) a##b
#define CAUSEWAY_JOIN(a, b) CAUSEWAY_JOIN_(a, b)
#define CAUSEWAY_ASSIGN_(name, declaration, ...) \
  auto name = (__VA_ARGS__);                     \
  if (!name) return std::move(name).error();     \
  declaration = std::move(name).value()

/// `CAUSEWAY_ASSIGN(auto x, f())`: declares `x` from the value of a result, or returns its error.
#define CAUSEWAY_ASSIGN(declaration, ...) \
  CAUSEWAY_ASSIGN_(CAUSEWAY_JOIN(causeway_result_, __LINE__), declaration, __VA_ARGS__)

#endif  // CAUSEWAY_CORE_RESULT_HPP

// ---- causeway/core/rng.hpp ----
#ifndef CAUSEWAY_CORE_RNG_HPP
#define CAUSEWAY_CORE_RNG_HPP

// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): the n-th number of a (seed, stream) pair is the same on
// every peer, on every machine, whatever was drawn elsewhere. The whole state is three integers.

#include <array>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Philox4x32 with 10 rounds: four 32-bit words from a 128-bit counter and a 64-bit key.
CAUSEWAY_HD constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                          std::uint64_t key) noexcept {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32U) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32U) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}

/// Draws from one stream of one seed. A regular value; not safe to share between threads.
class rng {
 public:
  using result_type = std::uint64_t;

  constexpr explicit rng(std::uint64_t seed = 0, std::uint64_t stream = 0) noexcept : seed_{seed}, stream_{stream} {}

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return ~std::uint64_t{0}; }
  constexpr result_type operator()() noexcept { return next(); }

  /// 64 uniform bits.
  constexpr std::uint64_t next() noexcept {
    const auto words = philox({static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(position_ >> 32U),
                               static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32U)},
                              seed_);
    ++position_;
    return (std::uint64_t{words[1]} << 32U) | words[0];
  }

  /// Uniform in [0, 1), 24 bits.
  constexpr float uniform() noexcept { return static_cast<float>(next() >> 40U) * 0x1.0p-24F; }

  /// Uniform in [0, bound), without bias; `bound` must be positive.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    const std::uint64_t limit = max() - max() % bound;
    std::uint64_t draw = next();
    while (draw >= limit) draw = next();
    return draw % bound;
  }

  /// Standard normal, by the ziggurat of Marsaglia and Tsang (2000) with bits of their own for layer, sign and place
  /// (Doornik 2005). 98.8 % of the numbers come of one draw and one product, so that every machine has the same bits,
  /// whatever its logarithm is.
  CAUSEWAY_DECL float normal() noexcept;

  void serialize(auto& ar) { ar(seed_, stream_, position_); }

  friend constexpr bool operator==(const rng&, const rng&) = default;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t position_ = 0;
};

/// Puts `items` into a random order, each equally likely.
template <class Items>
constexpr void shuffle(Items& items, rng& draw) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[draw.below(i)]);
}

/// A stream number from a few integers, so that (purpose, epoch, peer) never collide by accident.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) noexcept {
  const auto words = philox({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32U),
                             static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32U)},
                            a);
  return (std::uint64_t{words[1]} << 32U) | words[0];
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_RNG_HPP

// ---- causeway/core/impl/rng.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_CORE_IMPL_RNG_IPP
#define CAUSEWAY_CORE_IMPL_RNG_IPP

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

/// The right ends of 256 layers of equal area under exp(-x^2 / 2), from the lowest: its first number is that area by its
/// height, its second where the tail begins.
// clang-format off
inline constexpr double normal_layers[] = {
    3.910757959524916, 3.654152885361009, 3.449278298561431, 3.3202447338398255, 3.2245750520478014, 3.147889289518001,
    3.0835261320021434, 3.0278377917695933, 2.978603279881843, 2.9343668672088876, 2.894121053613412, 2.8571387308732246,
    2.822877396826443, 2.7909211740019275, 2.760944005279986, 2.7326853590440114, 2.705933656123062, 2.680514643285745,
    2.6562830375767432, 2.6331163936315827, 2.6109105184888235, 2.5895759867082866, 2.569035452681844, 2.5492215503247833,
    2.530075232159854, 2.5115444416266945, 2.4935830412710467, 2.476149939670523, 2.459208374334705, 2.442725318200364,
    2.4266709849371466, 2.4110184139011195, 2.3957431197819274, 2.3808227951720857, 2.366237056717291, 2.3519672273791445,
    2.337996148796529, 2.3243080188711325, 2.310888250601372, 2.2977233489028634, 2.284800802724492, 2.2721089902283818,
    2.2596370951737876, 2.247375032947389, 2.235313384929921, 2.2234433400925107, 2.211756642884161, 2.2002455466112765,
    2.1889027716263607, 2.177721467740293, 2.1666951803543086, 2.1558178198767375, 2.145083634047889, 2.134487182846017,
    2.1240233156895236, 2.113687150686653, 2.1034740557148774, 2.093379631138792, 2.0833996939983046, 2.073530263518743,
    2.0637675478117323, 2.0541079316506523, 2.0445479652175313, 2.035084353729619, 2.025713947863854, 2.016433734906204,
    2.0072408305605287, 1.9981324713584196, 1.989106007617438, 1.9801588969004766, 1.9712886979336592, 1.962493064944363,
    1.9537697423846467, 1.9451165600086784, 1.9365314282756947, 1.9280123340526658, 1.9195573365931882,
    1.9111645637712533, 1.9028322085504292, 1.8945585256707047, 1.8863418285367828, 1.8781804862929958,
    1.8700729210712668, 1.8620176053996742, 1.8540130597602018, 1.8460578502851854, 1.8381505865828067, 1.830289919682757,
    1.8224745400938858, 1.8147031759662826, 1.8069745913508208, 1.7992875845497203, 1.7916409865521625,
    1.7840336595494415, 1.7764644955245228, 1.7689324149112686, 1.7614363653189102, 1.7539753203176716,
    1.7465482782817223, 1.7391542612859117, 1.7317923140529632, 1.724461502948045, 1.717160915017823, 1.7098896570713018,
    1.7026468547999232, 1.6954316519345616, 1.6882432094371953, 1.681080704725174, 1.673943330926125, 1.6668302961616654,
    1.6597408228581825, 1.652674147083056, 1.6456295179047824, 1.6386061967755476, 1.6316034569348736, 1.6246205828330347,
    1.6176568695730156, 1.6107116223698301, 1.6037841560260946, 1.5968737944227882, 1.5899798700241907,
    1.5831017233960292, 1.5762387027359064, 1.5693901634151237, 1.562555467531045, 1.5557339834691764, 1.5489250854741734,
    1.5421281532290019, 1.535342571441514, 1.5285677294377125, 1.521803020760998, 1.5150478427767147, 1.5083015962813116,
    1.5015636851154637, 1.4948335157804935, 1.4881104970574475, 1.4813940396281873, 1.4746835556978555,
    1.4679784586180795, 1.4612781625102755, 1.4545820818884103, 1.447889631280576, 1.441200224848724, 1.4345132760058923,
    1.427828197030256, 1.421144398675309, 1.4144612897754711, 1.407778276846399, 1.401094763679251, 1.394410150928141,
    1.3877238356899761, 1.3810352110758555, 1.3743436657731662, 1.367648583597476, 1.360949343033283, 1.354245316762635,
    1.3475358711805872, 1.340820365896404, 1.33409815321936, 1.3273685776279258, 1.3206309752210563, 1.3138846731502205,
    1.3071289890307312, 1.3003632303308372, 1.2935866937369478, 1.2867986644932436, 1.279998415713818, 1.2731852076653563,
    1.2663582870182295, 1.2595168860637143, 1.2526602218948972, 1.2457874955486272, 1.2388978911056874,
    1.2319905747461362, 1.2250646937565308, 1.2181193754854815, 1.211153726243699, 1.2041668301443815, 1.1971577478794415,
    1.190125515426692, 1.1830691426826867, 1.175987612015452, 1.168879876730833, 1.1617448594456115, 1.1545814503599277,
    1.147388505420849, 1.1401648443681514, 1.1329092486525338, 1.1256204592155334, 1.118297174119345, 1.1109380460135758,
    1.1035416794246398, 1.0961066278520215, 1.0886313906539797, 1.0811144097034038, 1.0735540657924363,
    1.0659486747621225, 1.0582964833306752, 1.05059566459093, 1.042844313144149, 1.035040439833441, 1.0271819660356458,
    1.0192667174654841, 1.0112924174399958, 1.003256679544673, 0.995156999635091, 0.9869907470990624, 0.9787551552942246,
    0.9704473110642244, 0.9620641432230406, 0.953602409881086, 0.9450586844681654, 0.9364293402865751, 0.9277105334020002,
    0.9188981836495906, 0.9099879534967185, 0.9009752244612218, 0.8918550707329416, 0.8826222295851656,
    0.8732710680888608, 0.8637955455533088, 0.8541891710081638, 0.8444449549091539, 0.8345553540863822,
    0.8245122087522921, 0.8143066701352152, 0.8039291169899713, 0.7933690588406233, 0.7826150233072331,
    0.7716544242245681, 0.7604734064301081, 0.7490566620178153, 0.7373872114342956, 0.7254461409099996,
    0.7132122851909759, 0.7006618411068151, 0.6877678927957885, 0.6744998228372938, 0.6608225742444197,
    0.6466957148949938, 0.6320722363860611, 0.6168969900077514, 0.6011046177559927, 0.5846167661063794,
    0.5673382570538188, 0.5491517023271651, 0.5299097206615582, 0.5094233296020918, 0.487443966139236,
    0.46363433679088223, 0.4375184022078717, 0.40838913461199117, 0.37512133287838056, 0.33573751921442524,
    0.2861745917920725, 0.2152418959848817, 0.0};
// clang-format on

}  // namespace detail

CAUSEWAY_DECL float rng::normal() noexcept {
  const auto curve = [](double x) { return std::exp(-0.5 * x * x); };
  const auto above_zero = [&] { return (static_cast<double>(next() >> 11U) + 0.5) * 0x1.0p-53; };
  for (;;) {
    const std::uint64_t bits = next();
    const double* const ends = detail::normal_layers + (bits & 0xFFU);
    const double sign = (bits & 0x100U) != 0 ? -1.0 : 1.0;
    const double x = static_cast<double>(bits >> 11U) * 0x1.0p-53 * ends[0];
    if (x < ends[1]) return static_cast<float>(sign * x);
    if (ends == detail::normal_layers) {
      double beyond = 0;
      double room = 0;
      do {
        beyond = -std::log(above_zero()) / ends[1];
        room = -2 * std::log(above_zero());
      } while (room <= beyond * beyond);
      return static_cast<float>(sign * (ends[1] + beyond));
    }
    const double height = curve(ends[0]) + above_zero() * (curve(ends[1]) - curve(ends[0]));
    if (height < curve(x)) return static_cast<float>(sign * x);
  }
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_IMPL_RNG_IPP
#endif

// ---- causeway/plan/clusters.hpp ----
#ifndef CAUSEWAY_PLAN_CLUSTERS_HPP
#define CAUSEWAY_PLAN_CLUSTERS_HPP

// Which peers should hold a copy of the model together: Ravnest (Menon et al. 2024, arXiv 2401.01728) sorts them by a
// genetic algorithm into clusters of similar bandwidth, each with enough memory, in which the model is split by memory. The
// paper does not give its fitness; ours follows from what the clusters do. A cluster is a pipeline without bubbles, so it
// goes at the pace of its slowest member: of the part of the model that its share of the memory brings, or of its messages.
// All clusters then wait for the slowest one to average with. The fitness is the pace of the slowest cluster, and then the
// clusters' mean: peers with slow lines end up together, where they hold up nobody else.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct cluster_peer {
  double memory = 0;     ///< bytes, above 0
  double speed = 1;      ///< operations per second, above 0
  double bandwidth = 1;  ///< bytes per second, above 0
};

/// What each cluster does with a micro-batch.
struct cluster_task {
  double memory = 0;      ///< bytes that the model takes, with all that training it takes
  double operations = 0;  ///< of the whole model
  double message = 0;     ///< bytes that a peer sends to the next
};

struct cluster_options {
  std::uint64_t seed = 1;
  std::size_t population = 24;
  std::size_t children = 150;
};

struct cluster_plan {
  std::vector<std::size_t> cluster_of;  ///< of each peer
  double slowest = 0;                   ///< seconds for a micro-batch in the slowest cluster
  double mean = 0;                      ///< in all clusters
};

namespace detail {

class cluster_search {
 public:
  CAUSEWAY_DECL cluster_search(std::span<const cluster_peer> peers, const cluster_task& task, std::size_t clusters,
                               const cluster_options& options);

  /// Lower is better: bytes missing in all clusters, the slowest, the mean.
  struct rated {
    std::vector<std::size_t> cluster_of;
    double missing = 0, slowest = 0, mean = 0;

    CAUSEWAY_DECL [[nodiscard]] bool operator<(const rated& o) const;
  };

  CAUSEWAY_DECL [[nodiscard]] rated rate(std::vector<std::size_t> cluster_of) const;

  CAUSEWAY_DECL [[nodiscard]] rated run();

 private:
  /// The first: by bandwidth, as many in each cluster. The others at random.
  CAUSEWAY_DECL std::vector<std::size_t> founder(bool sorted);

  /// Each peer from one of its parents, and then one moved or two swapped; every child ends in a local optimum.
  CAUSEWAY_DECL std::vector<std::size_t> changed(std::vector<std::size_t> child, const std::vector<std::size_t>& father);

  CAUSEWAY_DECL [[nodiscard]] rated improved(rated r) const;

  /// One peer moved, or two swapped.
  CAUSEWAY_DECL bool improve(rated& best) const;

  std::vector<cluster_peer> peers_;
  cluster_task task_;
  std::size_t clusters_;
  cluster_options options_;
  rng draw_;
};

}  // namespace detail

/// Sorts peers into `clusters` clusters that each hold the model. The same input and seed give the same clusters.
/// errc::out_of_memory: no such clusters were found; take fewer.
CAUSEWAY_DECL result<cluster_plan> plan_clusters(std::span<const cluster_peer> peers, const cluster_task& task,
                                                 std::size_t clusters, const cluster_options& options = {});

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_CLUSTERS_HPP

// ---- causeway/plan/impl/clusters.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_CLUSTERS_IPP
#define CAUSEWAY_PLAN_IMPL_CLUSTERS_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL cluster_search::cluster_search(std::span<const cluster_peer> peers, const cluster_task& task,
                                             std::size_t clusters, const cluster_options& options)
    : peers_{peers.begin(), peers.end()},
      task_{task},
      clusters_{clusters},
      options_{options},
      draw_{options.seed, mix(0x636C7573U)} {}

CAUSEWAY_DECL bool cluster_search::rated::operator<(const rated& o) const {
  if (missing != o.missing) return missing < o.missing;
  if (slowest != o.slowest) return slowest < o.slowest;
  return mean < o.mean;
}

CAUSEWAY_DECL auto cluster_search::rate(std::vector<std::size_t> cluster_of) const -> rated {
  rated r{std::move(cluster_of), 0, 0, 0};
  std::vector<double> memory(clusters_), pace(clusters_);
  for (std::size_t i = 0; i < peers_.size(); ++i) memory[r.cluster_of[i]] += peers_[i].memory;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const cluster_peer& p = peers_[i];
    const double share = p.memory / memory[r.cluster_of[i]];
    const double message = share < 1 ? task_.message / p.bandwidth : 0;  // alone it sends nothing
    pace[r.cluster_of[i]] = std::max({pace[r.cluster_of[i]], share * task_.operations / p.speed, message});
  }
  for (std::size_t c = 0; c < clusters_; ++c) {
    r.missing += std::max(0.0, task_.memory - memory[c]);
    r.slowest = std::max(r.slowest, pace[c]);
    r.mean += pace[c] / static_cast<double>(clusters_);
  }
  return r;
}

CAUSEWAY_DECL auto cluster_search::run() -> rated {
  std::vector<rated> all;
  for (std::size_t i = 0; i < std::max<std::size_t>(2, options_.population); ++i) {
    all.push_back(improved(rate(founder(i == 0))));
  }
  for (std::size_t i = 0; i < options_.children; ++i) {
    rated& mother = all[draw_.below(all.size())];
    rated& father = all[draw_.below(all.size())];
    rated child = improved(rate(changed(mother.cluster_of, father.cluster_of)));
    rated& worse = mother < father ? father : mother;
    if (child < worse) worse = std::move(child);
  }
  return *std::min_element(all.begin(), all.end());
}

CAUSEWAY_DECL std::vector<std::size_t> cluster_search::founder(bool sorted) {
  std::vector<std::size_t> cluster_of(peers_.size());
  if (!sorted) {
    for (std::size_t& c : cluster_of) c = draw_.below(clusters_);
    return cluster_of;
  }
  std::vector<std::size_t> order(peers_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return peers_[a].bandwidth < peers_[b].bandwidth; });
  for (std::size_t i = 0; i < order.size(); ++i) cluster_of[order[i]] = i * clusters_ / order.size();
  return cluster_of;
}

CAUSEWAY_DECL std::vector<std::size_t> cluster_search::changed(std::vector<std::size_t> child,
                                                               const std::vector<std::size_t>& father) {
  for (std::size_t i = 0; i < child.size(); ++i) {
    if (draw_.below(2) == 0) child[i] = father[i];
  }
  const std::size_t a = draw_.below(child.size()), b = draw_.below(child.size());
  if (draw_.below(2) == 0) {
    std::swap(child[a], child[b]);
  } else {
    child[a] = draw_.below(clusters_);
  }
  return child;
}

CAUSEWAY_DECL auto cluster_search::improved(rated r) const -> rated {
  while (improve(r)) {
  }
  return r;
}

CAUSEWAY_DECL bool cluster_search::improve(rated& best) const {
  const auto keep = [&](std::vector<std::size_t> next) {
    rated r = rate(std::move(next));
    if (!(r < best)) return false;
    best = std::move(r);
    return true;
  };
  for (std::size_t a = 0; a < peers_.size(); ++a) {
    for (std::size_t c = 0; c < clusters_; ++c) {
      auto next = best.cluster_of;
      next[a] = c;
      if (keep(std::move(next))) return true;
    }
    for (std::size_t b = 0; b < a; ++b) {
      auto next = best.cluster_of;
      std::swap(next[a], next[b]);
      if (keep(std::move(next))) return true;
    }
  }
  return false;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<cluster_plan> plan_clusters(std::span<const cluster_peer> peers, const cluster_task& task,
                                                 std::size_t clusters, const cluster_options& options) {
  if (clusters == 0 || clusters > peers.size()) {
    return fail(errc::invalid_argument, "clusters",
                std::to_string(clusters) + " clusters of " + std::to_string(peers.size()) + " peers; take 1 to so many");
  }
  for (const cluster_peer& p : peers) {
    if (!(p.memory > 0) || !(p.speed > 0) || !(p.bandwidth > 0))
      return fail(errc::invalid_argument, "clusters", "each peer needs a memory, a speed and a bandwidth above 0");
  }
  const auto best = detail::cluster_search{peers, task, clusters, options}.run();
  if (best.missing > 0) {
    return fail(errc::out_of_memory, "clusters",
                "no " + std::to_string(clusters) + " clusters were found that all hold the model; take fewer clusters");
  }
  return cluster_plan{best.cluster_of, best.slowest, best.mean};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_CLUSTERS_IPP
#endif

// ---- causeway/plan/matching.hpp ----
#ifndef CAUSEWAY_PLAN_MATCHING_HPP
#define CAUSEWAY_PLAN_MATCHING_HPP

// Who talks to whom between two stages: the pairing of two equally large sets whose dearest pair is as cheap as can be
// (bottleneck assignment). Edges are let in by rising cost and a maximum matching is grown by augmenting paths (Kuhn),
// which stays one as edges are added: the first limit at which nobody is left alone is the optimum.

#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct pairing {
  double bottleneck = 0;                ///< the dearest pair
  std::vector<std::size_t> partner_of;  ///< of each row: a column
};

namespace detail {

/// Kept between calls so that a search that asks a million times allocates nothing.
class bottleneck_matcher {
 public:
  /// `costs` is size x size, row by row; all finite. Returns the bottleneck; `row_of()` has the pairs.
  CAUSEWAY_DECL double solve(std::span<const double> costs, std::size_t size);

  [[nodiscard]] const std::vector<std::size_t>& row_of() const noexcept { return row_of_; }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  CAUSEWAY_DECL [[nodiscard]] double lower_bound() const;

  CAUSEWAY_DECL [[nodiscard]] double next_limit() const;

  CAUSEWAY_DECL bool augment_from(std::size_t row);

  CAUSEWAY_DECL bool augment(std::size_t row);

  std::span<const double> costs_;
  std::size_t size_ = 0;
  std::size_t mark_ = 0;
  double limit_ = 0;
  std::vector<std::size_t> row_of_;
  std::vector<std::size_t> seen_;
};

}  // namespace detail

/// The pairing of rows and columns with the least bottleneck. `costs` is size x size, row by row, finite, >= 0. Time at
/// most O(size^5), in practice that of reading the costs a few times.
CAUSEWAY_DECL pairing bottleneck_pairing(std::span<const double> costs, std::size_t size);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_MATCHING_HPP

// ---- causeway/plan/impl/matching.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_MATCHING_IPP
#define CAUSEWAY_PLAN_IMPL_MATCHING_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL double bottleneck_matcher::solve(std::span<const double> costs, std::size_t size) {
  costs_ = costs;
  size_ = size;
  row_of_.assign(size, none);
  seen_.assign(size, 0);
  mark_ = 0;
  limit_ = lower_bound();
  for (std::size_t row = 0; row < size; ++row) {
    while (!augment_from(row)) limit_ = next_limit();
  }
  return limit_;
}

CAUSEWAY_DECL double bottleneck_matcher::lower_bound() const {  // each row and column must pay at least its cheapest edge
  double bound = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    double row = std::numeric_limits<double>::infinity(), column = row;
    for (std::size_t j = 0; j < size_; ++j) {
      row = std::min(row, costs_[i * size_ + j]);
      column = std::min(column, costs_[j * size_ + i]);
    }
    bound = std::max({bound, row, column});
  }
  return bound;
}

CAUSEWAY_DECL double bottleneck_matcher::next_limit() const {
  double next = std::numeric_limits<double>::infinity();
  for (const double c : costs_) {
    if (c > limit_) next = std::min(next, c);
  }
  return next;
}

CAUSEWAY_DECL bool bottleneck_matcher::augment_from(std::size_t row) {
  ++mark_;
  return augment(row);
}

CAUSEWAY_DECL bool bottleneck_matcher::augment(std::size_t row) {
  for (std::size_t column = 0; column < size_; ++column) {
    if (costs_[row * size_ + column] > limit_ || seen_[column] == mark_) continue;
    seen_[column] = mark_;
    if (row_of_[column] != none && !augment(row_of_[column])) continue;
    row_of_[column] = row;
    return true;
  }
  return false;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL pairing bottleneck_pairing(std::span<const double> costs, std::size_t size) {
  CAUSEWAY_EXPECT(costs.size() == size * size);
  detail::bottleneck_matcher matcher;
  pairing p{matcher.solve(costs, size), std::vector<std::size_t>(size)};
  for (std::size_t column = 0; column < size; ++column) p.partner_of[matcher.row_of()[column]] = column;
  return p;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_MATCHING_IPP
#endif

// ---- causeway/plan/open_path.hpp ----
#ifndef CAUSEWAY_PLAN_OPEN_PATH_HPP
#define CAUSEWAY_PLAN_OPEN_PATH_HPP

// In which order to visit all places once, without coming back: the open travelling salesman's problem that orders the
// stages of a pipeline. Exact up to 12 places (dynamic programming over subsets, Held and Karp 1962); beyond, from every
// start to the nearest place left, then runs are reversed and moved as long as that helps. Costs are symmetric.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct open_path {
  double cost = 0;
  std::vector<std::size_t> order;
};

inline constexpr std::size_t exact_path_places = 12;

/// What the path `order` costs; `costs` is places x places, row by row.
CAUSEWAY_DECL double cost_of_path(std::span<const double> costs, std::size_t places, std::span<const std::size_t> order);

namespace detail {

/// best[s][j]: the cheapest path over exactly the places of set s that ends at j.
class path_table {
 public:
  /// The cost of the best path.
  CAUSEWAY_DECL double fill(std::span<const double> costs, std::size_t places);

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> order() const;

 private:
  [[nodiscard]] double at(std::uint32_t set, std::size_t j) const { return best_[set * n_ + j]; }

  CAUSEWAY_DECL void spread(std::uint32_t set, std::size_t from);

  CAUSEWAY_DECL [[nodiscard]] std::size_t cheapest_end(std::uint32_t set) const;

  std::span<const double> costs_;
  std::size_t n_ = 0;
  std::uint32_t sets_ = 0;
  std::vector<double> best_;
};

CAUSEWAY_DECL std::vector<std::size_t> nearest_first(std::span<const double> costs, std::size_t places, std::size_t start);

}  // namespace detail

/// A cheapest path over all places, or for more than 12 a good one. `costs` is places x places, symmetric, finite, >= 0.
/// Time: 2^n n^2 additions up to 12, about n^5 beyond.
CAUSEWAY_DECL open_path shortest_open_path(std::span<const double> costs, std::size_t places);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_OPEN_PATH_HPP

// ---- causeway/plan/impl/open_path.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_OPEN_PATH_IPP
#define CAUSEWAY_PLAN_IMPL_OPEN_PATH_IPP

#include <algorithm>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Tries every run reversed (2-opt) and every run of up to three places moved (Or-opt) until nothing helps.
CAUSEWAY_DECL void improve_path(std::span<const double> costs, std::size_t places, open_path& path) {
  std::vector<std::size_t> tried;
  const auto keep = [&] {
    const double cost = cost_of_path(costs, places, tried);
    if (cost >= path.cost * (1 - 1e-12)) return false;
    path = {cost, tried};
    return true;
  };
  for (bool helped = true; helped;) {
    helped = false;
    for (std::size_t first = 0; first + 1 < places; ++first) {
      for (std::size_t last = first + 2; last <= places; ++last) {
        tried = path.order;
        std::reverse(tried.begin() + static_cast<std::ptrdiff_t>(first), tried.begin() + static_cast<std::ptrdiff_t>(last));
        helped = keep() || helped;
        for (std::size_t end = last + 1; end <= places; ++end) {
          if (last - first > 3 && end - last > 3) break;
          tried = path.order;
          const auto at = tried.begin();
          std::rotate(at + static_cast<std::ptrdiff_t>(first), at + static_cast<std::ptrdiff_t>(last),
                      at + static_cast<std::ptrdiff_t>(end));
          helped = keep() || helped;
        }
      }
    }
  }
}

CAUSEWAY_DECL double path_table::fill(std::span<const double> costs, std::size_t places) {
  costs_ = costs;
  n_ = places;
  sets_ = std::uint32_t{1} << n_;
  best_.assign(sets_ * n_, std::numeric_limits<double>::infinity());
  for (std::size_t j = 0; j < n_; ++j) best_[(std::size_t{1} << j) * n_ + j] = 0;
  for (std::uint32_t set = 1; set < sets_; ++set) {
    for (std::size_t j = 0; j < n_; ++j) {
      if ((set >> j & 1U) != 0) spread(set, j);
    }
  }
  const auto last = best_.end() - static_cast<std::ptrdiff_t>(n_);
  return *std::min_element(last, best_.end());
}

CAUSEWAY_DECL std::vector<std::size_t> path_table::order() const {
  std::uint32_t set = sets_ - 1;
  std::size_t last = cheapest_end(set);
  std::vector<std::size_t> path{last};
  while (path.size() < n_) {
    const double here = at(set, last);
    set &= ~(std::uint32_t{1} << last);
    for (std::size_t j = 0; j < n_; ++j) {
      if ((set >> j & 1U) == 0 || at(set, j) + costs_[j * n_ + last] != here) continue;
      last = j;
      break;
    }
    path.push_back(last);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

CAUSEWAY_DECL void path_table::spread(std::uint32_t set, std::size_t from) {
  const double base = at(set, from);
  for (std::size_t to = 0; to < n_; ++to) {
    if ((set >> to & 1U) != 0) continue;
    double& known = best_[(set | std::uint32_t{1} << to) * n_ + to];
    known = std::min(known, base + costs_[from * n_ + to]);
  }
}

CAUSEWAY_DECL std::size_t path_table::cheapest_end(std::uint32_t set) const {
  std::size_t end = 0;
  for (std::size_t j = 1; j < n_; ++j) {
    if (at(set, j) < at(set, end)) end = j;
  }
  return end;
}

CAUSEWAY_DECL std::vector<std::size_t> nearest_first(std::span<const double> costs, std::size_t places, std::size_t start) {
  std::vector<std::size_t> order(places);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::swap(order[0], order[start]);
  for (std::size_t i = 1; i < places; ++i) {
    const auto from = order.begin() + static_cast<std::ptrdiff_t>(i);
    const double* row = costs.data() + order[i - 1] * places;
    std::iter_swap(from, std::min_element(from, order.end(), [&](auto a, auto b) { return row[a] < row[b]; }));
  }
  return order;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double cost_of_path(std::span<const double> costs, std::size_t places, std::span<const std::size_t> order) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) sum += costs[order[i] * places + order[i + 1]];
  return sum;
}

CAUSEWAY_DECL open_path shortest_open_path(std::span<const double> costs, std::size_t places) {
  CAUSEWAY_EXPECT(costs.size() == places * places);
  if (places == 0) return {};
  if (places <= exact_path_places) {
    detail::path_table table;
    const double cost = table.fill(costs, places);
    return {cost, table.order()};
  }
  open_path best{std::numeric_limits<double>::infinity(), {}};
  for (std::size_t start = 0; start < places; ++start) {
    open_path next{0, detail::nearest_first(costs, places, start)};
    next.cost = cost_of_path(costs, places, next.order);
    detail::improve_path(costs, places, next);
    if (next.cost < best.cost) best = std::move(next);
  }
  return best;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_OPEN_PATH_IPP
#endif

// ---- causeway/plan/link_matrix.hpp ----
#ifndef CAUSEWAY_PLAN_LINK_MATRIX_HPP
#define CAUSEWAY_PLAN_LINK_MATRIX_HPP

// What a message costs between any two devices: a delay and then the bytes at a rate (alpha-beta model; Hockney 1994). A
// direction may differ from its reverse. Links do not disturb one another: what shares a line must be told a smaller rate.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// One direction between two devices.
struct link_cost {
  double delay = 0;                                            ///< seconds until the first bit arrives, >= 0
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bits per second, > 0; infinite: the same device

  /// Seconds until the last of `bytes` bytes has arrived.
  [[nodiscard]] double seconds(double bytes) const noexcept { return delay + 8 * bytes / bandwidth; }
};

/// The links between `size()` devices, or between as many regions: then the diagonal holds the links within a region.
class link_matrix {
 public:
  link_matrix() = default;

  /// The same link everywhere, and nothing to pay from a device to itself.
  CAUSEWAY_DECL explicit link_matrix(std::size_t devices, const link_cost& everywhere = {});

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  CAUSEWAY_DECL [[nodiscard]] const link_cost& operator()(std::size_t from, std::size_t to) const;

  /// One direction.
  CAUSEWAY_DECL void set(std::size_t from, std::size_t to, const link_cost& link);

  CAUSEWAY_DECL void set_both(std::size_t a, std::size_t b, const link_cost& link);

  /// Seconds for `bytes` there and as many back, halved: what a direction costs on average.
  CAUSEWAY_DECL [[nodiscard]] double mean_seconds(std::size_t a, std::size_t b, double bytes) const;

  /// The links between devices, where this matrix is one of regions and device i stands in region `region_of[i]`.
  CAUSEWAY_DECL [[nodiscard]] link_matrix devices_in(std::span<const std::size_t> region_of) const;

 private:
  std::size_t size_ = 0;
  std::vector<link_cost> links_;
};

/// Whether every delay is finite and >= 0, and every bandwidth > 0. errc::invalid_argument names the pair.
CAUSEWAY_DECL result<void> check(const link_matrix& links);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_LINK_MATRIX_HPP

// ---- causeway/plan/impl/link_matrix.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_LINK_MATRIX_IPP
#define CAUSEWAY_PLAN_IMPL_LINK_MATRIX_IPP

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL link_matrix::link_matrix(std::size_t devices, const link_cost& everywhere)
    : size_{devices}, links_(devices * devices, everywhere) {
  for (std::size_t i = 0; i < devices; ++i) links_[i * devices + i] = {};
}

CAUSEWAY_DECL const link_cost& link_matrix::operator()(std::size_t from, std::size_t to) const {
  CAUSEWAY_EXPECT(from < size_ && to < size_);
  return links_[from * size_ + to];
}

CAUSEWAY_DECL void link_matrix::set(std::size_t from, std::size_t to, const link_cost& link) {
  CAUSEWAY_EXPECT(from < size_ && to < size_);
  links_[from * size_ + to] = link;
}

CAUSEWAY_DECL void link_matrix::set_both(std::size_t a, std::size_t b, const link_cost& link) {
  set(a, b, link);
  set(b, a, link);
}

CAUSEWAY_DECL double link_matrix::mean_seconds(std::size_t a, std::size_t b, double bytes) const {
  return ((*this)(a, b).seconds(bytes) + (*this)(b, a).seconds(bytes)) / 2;
}

CAUSEWAY_DECL link_matrix link_matrix::devices_in(std::span<const std::size_t> region_of) const {
  link_matrix all{region_of.size()};
  for (std::size_t i = 0; i < region_of.size(); ++i) {
    for (std::size_t j = 0; j < region_of.size(); ++j) {
      if (i != j) all.set(i, j, (*this)(region_of[i], region_of[j]));
    }
  }
  return all;
}

CAUSEWAY_DECL result<void> check(const link_matrix& links) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    for (std::size_t j = 0; j < links.size(); ++j) {
      const link_cost& l = links(i, j);
      if (std::isfinite(l.delay) && l.delay >= 0 && l.bandwidth > 0) continue;
      return fail(errc::invalid_argument, "link " + std::to_string(i) + " to " + std::to_string(j),
                  "has a delay that is not finite and >= 0, or no bandwidth; leave devices without links out");
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_LINK_MATRIX_IPP
#endif

// ---- causeway/plan/placement.hpp ----
#ifndef CAUSEWAY_PLAN_PLACEMENT_HPP
#define CAUSEWAY_PLAN_PLACEMENT_HPP

// Which device holds which stage of which replica, and what that costs on the links in the model of DTFM (Yuan et al.,
// NeurIPS 2022, arXiv 2206.01288): the stage's gradients are averaged by a sharded parameter server within its group of
// devices, and each hop between two stages waits for its slowest pair.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What is to be placed: `replicas` pipelines of `stages` stages.
struct pipeline_task {
  std::size_t replicas = 1;     ///< D_DP, at least 1
  std::size_t stages = 1;       ///< D_PP, at least 1
  double stage_bytes = 0;       ///< of a stage's gradients, that its replicas average: c_dp
  double activation_bytes = 0;  ///< of a replica's activations between two stages in a step: c_pp
};

/// A device for each (stage, replica).
struct placement {
  std::size_t replicas = 0;
  std::vector<std::size_t> devices;  ///< stage by stage

  [[nodiscard]] std::size_t stages() const noexcept { return replicas == 0 ? 0 : devices.size() / replicas; }
  CAUSEWAY_DECL [[nodiscard]] std::size_t device(std::size_t stage, std::size_t replica) const;
  /// The devices that hold `stage`.
  CAUSEWAY_DECL [[nodiscard]] std::span<const std::size_t> group(std::size_t stage) const;

  friend bool operator==(const placement&, const placement&) = default;
};

/// Seconds on the links in a step.
struct placement_cost {
  double data_parallel = 0;  ///< the slowest device of all groups
  double pipeline = 0;       ///< one direction, all hops

  /// Forward and backward, and the average.
  [[nodiscard]] double total() const noexcept { return data_parallel + 2 * pipeline; }
};

namespace detail {

/// What one of a group of `replicas` devices pays for another: its share of the other's gradients, and back.
CAUSEWAY_DECL double exchange_seconds(const link_matrix& links, std::size_t a, std::size_t b, const pipeline_task& task);

}  // namespace detail

/// Seconds in which the devices `group` average the gradients of their stage:
///   max over d of the sum over d' != d of 2 (A(d,d') + c_dp / (D_DP B(d,d'))).
/// Where the directions of a link differ, 2 x is both directions.
CAUSEWAY_DECL double data_parallel_seconds(const link_matrix& links, std::span<const std::size_t> group,
                                           const pipeline_task& task);

/// What `where` costs as it stands: nothing is paired or ordered anew.
CAUSEWAY_DECL placement_cost cost_of(const link_matrix& links, const placement& where, const pipeline_task& task);

/// Devices 0, 1, 2, ... fill the first stage, then the second: ranks of a stage are neighbours.
CAUSEWAY_DECL placement placed_by_stage(const pipeline_task& task);

/// Devices 0, 1, 2, ... fill the first replica, then the second: round robin over the stages.
CAUSEWAY_DECL placement placed_by_replica(const pipeline_task& task);

/// Blind to the network: each place gets a device at random.
CAUSEWAY_DECL placement placed_at_random(const pipeline_task& task, std::size_t devices, rng& draw);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PLACEMENT_HPP

// ---- causeway/plan/impl/placement.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_PLACEMENT_IPP
#define CAUSEWAY_PLAN_IMPL_PLACEMENT_IPP

#include <algorithm>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL double exchange_seconds(const link_matrix& links, std::size_t a, std::size_t b, const pipeline_task& task) {
  return 2 * links.mean_seconds(a, b, task.stage_bytes / static_cast<double>(task.replicas));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::size_t placement::device(std::size_t stage, std::size_t replica) const {
  CAUSEWAY_EXPECT(replica < replicas && stage < stages());
  return devices[stage * replicas + replica];
}

CAUSEWAY_DECL std::span<const std::size_t> placement::group(std::size_t stage) const {
  CAUSEWAY_EXPECT(stage < stages());
  return std::span{devices}.subspan(stage * replicas, replicas);
}

CAUSEWAY_DECL double data_parallel_seconds(const link_matrix& links, std::span<const std::size_t> group,
                                           const pipeline_task& task) {
  double slowest = 0;
  for (const std::size_t d : group) {
    double sum = 0;
    for (const std::size_t other : group) {
      if (other != d) sum += detail::exchange_seconds(links, d, other, task);
    }
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

CAUSEWAY_DECL placement_cost cost_of(const link_matrix& links, const placement& where, const pipeline_task& task) {
  CAUSEWAY_EXPECT(where.replicas == task.replicas && where.stages() == task.stages);
  placement_cost cost;
  for (std::size_t s = 0; s < task.stages; ++s) {
    cost.data_parallel = std::max(cost.data_parallel, data_parallel_seconds(links, where.group(s), task));
    double hop = 0;
    for (std::size_t r = 0; s + 1 < task.stages && r < task.replicas; ++r) {
      hop = std::max(hop, links.mean_seconds(where.device(s, r), where.device(s + 1, r), task.activation_bytes));
    }
    cost.pipeline += hop;
  }
  return cost;
}

CAUSEWAY_DECL placement placed_by_stage(const pipeline_task& task) {
  placement p{task.replicas, std::vector<std::size_t>(task.replicas * task.stages)};
  std::iota(p.devices.begin(), p.devices.end(), std::size_t{0});
  return p;
}

CAUSEWAY_DECL placement placed_by_replica(const pipeline_task& task) {
  placement p = placed_by_stage(task);
  for (std::size_t s = 0; s < task.stages; ++s) {
    for (std::size_t r = 0; r < task.replicas; ++r) p.devices[s * task.replicas + r] = r * task.stages + s;
  }
  return p;
}

CAUSEWAY_DECL placement placed_at_random(const pipeline_task& task, std::size_t devices, rng& draw) {
  CAUSEWAY_EXPECT(devices >= task.replicas * task.stages);
  std::vector<std::size_t> all(devices);
  std::iota(all.begin(), all.end(), std::size_t{0});
  shuffle(all, draw);
  all.resize(task.replicas * task.stages);
  return {task.replicas, std::move(all)};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PLACEMENT_IPP
#endif

// ---- causeway/plan/dtfm_score.hpp ----
#ifndef CAUSEWAY_PLAN_DTFM_SCORE_HPP
#define CAUSEWAY_PLAN_DTFM_SCORE_HPP

// What a partition of the devices into stage groups costs in DTFM's model (arXiv 2206.01288, section 3) when its groups are
// paired and ordered as well as can be: the costliest group's average, plus twice the cheapest open path over the groups,
// where going from one group to another costs the bottleneck of their best pairing. A swap of two devices changes two
// groups only; everything else is kept.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Devices by place: group g has the places [g * replicas, (g + 1) * replicas); those after the last group are spare.
struct dtfm_partition {
  std::vector<std::size_t> devices;
  std::vector<double> group_seconds;  // data parallel, of each group
  std::vector<double> hop_seconds;    // between groups, stages x stages
  double total = std::numeric_limits<double>::infinity();
};

class dtfm_scorer {
 public:
  CAUSEWAY_DECL dtfm_scorer(const link_matrix& links, const pipeline_task& task);

  [[nodiscard]] const pipeline_task& task() const noexcept { return task_; }
  [[nodiscard]] std::size_t devices() const noexcept { return devices_; }
  [[nodiscard]] double exchange(std::size_t a, std::size_t b) const { return exchange_[a * devices_ + b]; }
  [[nodiscard]] double hop(std::size_t a, std::size_t b) const { return hop_[a * devices_ + b]; }
  [[nodiscard]] std::uint64_t evaluations() const noexcept { return evaluations_; }

  /// Devices of the same kind see the same links: swapping them changes nothing.
  [[nodiscard]] std::size_t kind(std::size_t device) const { return kinds_[device]; }

  CAUSEWAY_DECL void score(dtfm_partition& p);

  /// Swaps the devices at the places `a`, all of one group, with those at `b` if that makes `p` better.
  CAUSEWAY_DECL bool improve_by_swap(dtfm_partition& p, std::span<const std::size_t> a, std::span<const std::size_t> b);

  /// The groups in the order of the best path, each device paired with one of the next group.
  CAUSEWAY_DECL [[nodiscard]] placement arranged(const dtfm_partition& p);

 private:
  CAUSEWAY_DECL void find_kinds();

  CAUSEWAY_DECL [[nodiscard]] bool same_links(std::size_t a, std::size_t b) const;

  CAUSEWAY_DECL [[nodiscard]] double group_seconds(const dtfm_partition& p, std::size_t g) const;

  CAUSEWAY_DECL [[nodiscard]] static double slowest_group(const dtfm_partition& p);

  CAUSEWAY_DECL void fill_costs(std::span<const std::size_t> rows, std::span<const std::size_t> columns);

  CAUSEWAY_DECL void pair_groups(dtfm_partition& p, std::size_t g, std::size_t h);

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> partners_of(std::span<const std::size_t> before,
                                                                   std::span<const std::size_t> next);

  /// The true cost (beyond 12 groups: of a quickly found path), or at least `limit` where a bound shows it is not less.
  CAUSEWAY_DECL [[nodiscard]] double total(const dtfm_partition& p, double limit);

  /// Always to the nearest group left, from the best start: what many groups are searched with. `arranged` does better.
  CAUSEWAY_DECL [[nodiscard]] double quick_path(const dtfm_partition& p) const;

  /// Of the least weight (Prim 1957): no path over all groups is cheaper.
  CAUSEWAY_DECL [[nodiscard]] double spanning_tree(std::span<const double> costs);

  pipeline_task task_;
  std::size_t devices_;
  std::vector<double> exchange_;
  std::vector<double> hop_;
  std::vector<std::size_t> kinds_;
  std::uint64_t evaluations_ = 0;
  // Space that is used again and again.
  dtfm_partition tried_;
  std::vector<double> costs_;
  std::vector<double> reach_;
  bottleneck_matcher matcher_;
  path_table paths_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

#endif  // CAUSEWAY_PLAN_DTFM_SCORE_HPP

// ---- causeway/plan/impl/dtfm_score.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_DTFM_SCORE_IPP
#define CAUSEWAY_PLAN_IMPL_DTFM_SCORE_IPP

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL dtfm_scorer::dtfm_scorer(const link_matrix& links, const pipeline_task& task)
    : task_{task}, devices_{links.size()}, exchange_(devices_ * devices_), hop_(devices_ * devices_) {
  for (std::size_t i = 0; i < devices_; ++i) {
    for (std::size_t j = 0; j < devices_; ++j) {
      if (i == j) continue;
      exchange_[i * devices_ + j] = exchange_seconds(links, i, j, task);
      hop_[i * devices_ + j] = links.mean_seconds(i, j, task.activation_bytes);
    }
  }
  find_kinds();
}

CAUSEWAY_DECL void dtfm_scorer::score(dtfm_partition& p) {
  p.group_seconds.resize(task_.stages);
  p.hop_seconds.assign(task_.stages * task_.stages, 0);
  for (std::size_t g = 0; g < task_.stages; ++g) {
    p.group_seconds[g] = group_seconds(p, g);
    for (std::size_t h = 0; h < g; ++h) pair_groups(p, g, h);
  }
  p.total = total(p, std::numeric_limits<double>::infinity());
}

CAUSEWAY_DECL bool dtfm_scorer::improve_by_swap(dtfm_partition& p, std::span<const std::size_t> a,
                                                std::span<const std::size_t> b) {
  tried_ = p;
  for (std::size_t i = 0; i < a.size(); ++i) std::swap(tried_.devices[a[i]], tried_.devices[b[i]]);
  const std::size_t ga = a[0] / task_.replicas, gb = b[0] / task_.replicas;
  for (const std::size_t g : {ga, gb}) {
    if (g < task_.stages) tried_.group_seconds[g] = group_seconds(tried_, g);
  }
  ++evaluations_;
  if (slowest_group(tried_) >= p.total) return false;
  for (std::size_t h = 0; h < task_.stages; ++h) {
    if (ga < task_.stages && h != ga) pair_groups(tried_, ga, h);
    if (gb < task_.stages && h != gb && h != ga) pair_groups(tried_, gb, h);
  }
  tried_.total = total(tried_, p.total);
  if (tried_.total >= p.total * (1 - 1e-12)) return false;
  std::swap(p, tried_);
  return true;
}

CAUSEWAY_DECL placement dtfm_scorer::arranged(const dtfm_partition& p) {
  const open_path path = shortest_open_path(p.hop_seconds, task_.stages);
  placement where{task_.replicas, {}};
  for (const std::size_t g : path.order) {
    const std::size_t* group = p.devices.data() + g * task_.replicas;
    std::vector<std::size_t> column(task_.replicas);
    for (std::size_t r = 0; r < task_.replicas; ++r) column[r] = group[r];
    if (!where.devices.empty())
      column = partners_of({where.devices.end() - std::ptrdiff_t(task_.replicas), task_.replicas}, column);
    where.devices.insert(where.devices.end(), column.begin(), column.end());
  }
  return where;
}

CAUSEWAY_DECL void dtfm_scorer::find_kinds() {
  kinds_.resize(devices_);
  for (std::size_t i = 0; i < devices_; ++i) {
    kinds_[i] = i;
    for (std::size_t j = 0; j < i && kinds_[i] == i; ++j) {
      if (kinds_[j] == j && same_links(i, j)) kinds_[i] = j;
    }
  }
}

CAUSEWAY_DECL bool dtfm_scorer::same_links(std::size_t a, std::size_t b) const {
  for (std::size_t other = 0; other < devices_; ++other) {
    if (other == a || other == b) continue;
    if (exchange(a, other) != exchange(b, other) || hop(a, other) != hop(b, other)) return false;
  }
  return true;
}

CAUSEWAY_DECL double dtfm_scorer::group_seconds(const dtfm_partition& p, std::size_t g) const {
  const std::size_t* group = p.devices.data() + g * task_.replicas;
  double slowest = 0;
  for (std::size_t i = 0; i < task_.replicas; ++i) {
    const double* row = exchange_.data() + group[i] * devices_;
    double sum = 0;
    for (std::size_t j = 0; j < task_.replicas; ++j) sum += row[group[j]];  // 0 to itself
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

CAUSEWAY_DECL double dtfm_scorer::slowest_group(const dtfm_partition& p) {
  return *std::max_element(p.group_seconds.begin(), p.group_seconds.end());
}

CAUSEWAY_DECL void dtfm_scorer::fill_costs(std::span<const std::size_t> rows, std::span<const std::size_t> columns) {
  costs_.resize(rows.size() * columns.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < columns.size(); ++j) costs_[i * columns.size() + j] = hop(rows[i], columns[j]);
  }
}

CAUSEWAY_DECL void dtfm_scorer::pair_groups(dtfm_partition& p, std::size_t g, std::size_t h) {
  const std::span<const std::size_t> all{p.devices};
  const std::size_t n = task_.replicas;
  fill_costs(all.subspan(g * n, n), all.subspan(h * n, n));
  const double seconds = matcher_.solve(costs_, n);
  p.hop_seconds[g * task_.stages + h] = p.hop_seconds[h * task_.stages + g] = seconds;
}

CAUSEWAY_DECL std::vector<std::size_t> dtfm_scorer::partners_of(std::span<const std::size_t> before,
                                                                std::span<const std::size_t> next) {
  fill_costs(before, next);
  const pairing pairs = bottleneck_pairing(costs_, before.size());
  std::vector<std::size_t> column(before.size());
  for (std::size_t r = 0; r < before.size(); ++r) column[r] = next[pairs.partner_of[r]];
  return column;
}

CAUSEWAY_DECL double dtfm_scorer::total(const dtfm_partition& p, double limit) {
  const double average = slowest_group(p);
  if (average + 2 * spanning_tree(p.hop_seconds) >= limit) return limit;
  return average + 2 * (task_.stages > exact_path_places ? quick_path(p) : paths_.fill(p.hop_seconds, task_.stages));
}

CAUSEWAY_DECL double dtfm_scorer::quick_path(const dtfm_partition& p) const {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t start = 0; start < task_.stages; ++start) {
    const auto order = nearest_first(p.hop_seconds, task_.stages, start);
    best = std::min(best, cost_of_path(p.hop_seconds, task_.stages, order));
  }
  return best;
}

CAUSEWAY_DECL double dtfm_scorer::spanning_tree(std::span<const double> costs) {
  constexpr double far = std::numeric_limits<double>::infinity();
  const std::size_t n = task_.stages;
  reach_.assign(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(n));
  reach_[0] = -1;  // in the tree
  double sum = 0;
  for (std::size_t added = 1; added < n; ++added) {
    std::size_t next = 0;
    double least = far;
    for (std::size_t i = 0; i < n; ++i) {
      if (reach_[i] >= 0 && reach_[i] < least) least = reach_[i], next = i;
    }
    sum += least;
    reach_[next] = -1;
    for (std::size_t i = 0; i < n; ++i) reach_[i] = std::min(reach_[i], costs[next * n + i]);
  }
  return sum;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

#endif  // CAUSEWAY_PLAN_IMPL_DTFM_SCORE_IPP
#endif

// ---- causeway/plan/dtfm.hpp ----
#ifndef CAUSEWAY_PLAN_DTFM_HPP
#define CAUSEWAY_PLAN_DTFM_HPP

// Places pipelines on devices that are linked unequally: DTFM's scheduler (Yuan et al., NeurIPS 2022, arXiv 2206.01288). A
// population of balanced partitions evolves: two parents are crossed at five points, the child is mended to be balanced,
// improved by cyclic moves between groups (in the manner of Kernighan and Lin, gains from the links' costs), and takes the
// place of its worse parent where it is better.
//
// The paper leaves the gains open. Here they are differences of mean link costs, and each child draws what it strives for:
// groups of near devices (cheap averages) or of devices far from each other (so that near ones are in neighbouring stages:
// cheap hops). A sequence of cycles may go uphill; its best point by the true cost is kept. Ours besides: half of the first
// population deals chains of near devices out to groups; its best ones and each child end with swaps that lower the true
// cost, of single devices and of all that are alike. All devices are taken to compute alike.

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct dtfm_options {
  std::uint64_t seed = 1;
  std::size_t population = 32;         ///< at least 2
  std::size_t children = 400;          ///< how many are bred
  std::uint64_t evaluations = 200000;  ///< of partitions, after which no more children are bred
};

struct dtfm_plan {
  placement where;
  placement_cost cost;
  std::uint64_t evaluations = 0;
};

/// A placement of `task` on some of the devices of `links`, as cheap as the search finds. The same input and seed give the
/// same plan on every machine. errc::invalid_argument: links that are none, or too few devices.
CAUSEWAY_DECL result<dtfm_plan> plan_dtfm(const link_matrix& links, const pipeline_task& task,
                                          const dtfm_options& options = {});

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_DTFM_HPP

// ---- causeway/plan/impl/dtfm.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_DTFM_IPP
#define CAUSEWAY_PLAN_IMPL_DTFM_IPP

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class dtfm_search {
 public:
  CAUSEWAY_DECL dtfm_search(const link_matrix& links, const pipeline_task& task, const dtfm_options& options)
      : scorer_{links, task}, options_{options}, draw_{options.seed, mix(0x6474666DU)} {}

  CAUSEWAY_DECL dtfm_plan run() {
    found();
    for (std::size_t i = 0; i < options_.children && scorer_.evaluations() < options_.evaluations; ++i) breed();
    const auto best = std::min_element(population_.begin(), population_.end(),
                                       [](const auto& a, const auto& b) { return a.total < b.total; });
    return {scorer_.arranged(*best), {}, scorer_.evaluations()};
  }

 private:
  [[nodiscard]] std::size_t groups() const noexcept { return scorer_.task().stages; }
  [[nodiscard]] std::size_t replicas() const noexcept { return scorer_.task().replicas; }
  [[nodiscard]] std::size_t places() const noexcept { return groups() * replicas(); }

  CAUSEWAY_DECL void found() {
    dtfm_partition p;
    p.devices.resize(scorer_.devices());
    std::iota(p.devices.begin(), p.devices.end(), std::size_t{0});
    for (std::size_t i = 0; i < std::max<std::size_t>(2, options_.population); ++i) {
      shuffle(p.devices, draw_);
      if (i % 2 == 0) deal_neighbours(p.devices);
      scorer_.score(p);
      population_.push_back(p);
    }
    std::stable_sort(population_.begin(), population_.end(),
                     [](const auto& a, const auto& b) { return a.total < b.total; });
    for (std::size_t i = 0; i < population_.size() / 4; ++i) swap_while_better(population_[i]);
  }

  /// Puts the devices in a chain, each followed by the nearest one left, cuts the chain into pieces for a random number of
  /// groups each, and deals each piece out to its groups: one group gathers neighbours, many groups each get some of them.
  CAUSEWAY_DECL void deal_neighbours(std::vector<std::size_t>& devices) {
    for (std::size_t i = 1; i < devices.size(); ++i) {
      const auto left = devices.begin() + static_cast<std::ptrdiff_t>(i);
      const auto nearer = [&, from = devices[i - 1]](auto a, auto b) {
        return scorer_.hop(from, a) < scorer_.hop(from, b);
      };
      std::iter_swap(left, std::min_element(left, devices.end(), nearer));
    }
    const std::vector<std::size_t> chain = devices;
    for (std::size_t first = 0; first < groups();) {
      const std::size_t some = 1 + draw_.below(groups() - first);
      for (std::size_t i = 0; i < some * replicas(); ++i) {
        devices[(first + i % some) * replicas() + i / some] = chain[first * replicas() + i];
      }
      first += some;
    }
  }

  CAUSEWAY_DECL void breed() {
    const std::size_t first = draw_.below(population_.size());
    const std::size_t second = (first + 1 + draw_.below(population_.size() - 1)) % population_.size();
    dtfm_partition child = crossed(population_[first], population_[second]);
    move_in_cycles(child);
    swap_while_better(child);
    for (const auto& p : population_) {
      if (p.total == child.total) return;  // twins would crowd out what differs
    }
    dtfm_partition& worse = population_[population_[first].total > population_[second].total ? first : second];
    if (child.total < worse.total) worse = std::move(child);
  }

  /// The group of each device; `groups()` for spare ones.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> labels(const dtfm_partition& p) const {
    std::vector<std::size_t> label(p.devices.size(), groups());
    for (std::size_t i = 0; i < places(); ++i) label[p.devices[i]] = i / replicas();
    return label;
  }

  /// Renames the groups of `label` so that they share as many devices as possible, one after another, with those of `like`.
  CAUSEWAY_DECL void rename_like(std::vector<std::size_t>& label, const std::vector<std::size_t>& like) const {
    const std::size_t n = groups();
    std::vector<std::size_t> common((n + 1) * (n + 1)), name(n + 1, n);
    for (std::size_t d = 0; d < label.size(); ++d) ++common[label[d] * (n + 1) + like[d]];
    std::vector<char> taken(n + 1);
    for (std::size_t round = 0; round < n; ++round) {
      std::size_t from = n, to = n;
      for (std::size_t a = 0; a < n; ++a) {
        for (std::size_t b = 0; b < n && name[a] == n; ++b) {
          if (taken[b] != 0) continue;
          if (from == n || common[a * (n + 1) + b] > common[from * (n + 1) + to]) from = a, to = b;
        }
      }
      name[from] = to;
      taken[to] = 1;
    }
    for (std::size_t& l : label) l = name[l];
  }

  CAUSEWAY_DECL dtfm_partition crossed(const dtfm_partition& mother, const dtfm_partition& father) {
    std::vector<std::size_t> label = labels(mother);
    std::vector<std::size_t> other = labels(father);
    rename_like(other, label);
    std::array<std::size_t, 5> cuts{};
    for (std::size_t& c : cuts) c = draw_.below(label.size() + 1);
    std::sort(cuts.begin(), cuts.end());
    for (const std::size_t segment : {0U, 2U, 4U}) {  // [c0, c1), [c2, c3), [c4, end) from the father
      const std::size_t end = segment + 1 < cuts.size() ? cuts[segment + 1] : label.size();
      for (std::size_t d = cuts[segment]; d < end; ++d) label[d] = other[d];
    }
    return mended(label);
  }

  /// Groups that are too large give random devices to those that are too small.
  CAUSEWAY_DECL dtfm_partition mended(const std::vector<std::size_t>& label) {
    std::vector<std::vector<std::size_t>> members(groups() + 1);
    for (std::size_t d = 0; d < label.size(); ++d) members[label[d]].push_back(d);
    std::vector<std::size_t> left_over;
    const auto capacity = [&](std::size_t g) { return g < groups() ? replicas() : label.size() - places(); };
    for (std::size_t g = 0; g <= groups(); ++g) {
      shuffle(members[g], draw_);
      while (members[g].size() > capacity(g)) {
        left_over.push_back(members[g].back());
        members[g].pop_back();
      }
    }
    shuffle(left_over, draw_);
    dtfm_partition p;
    for (std::size_t g = 0; g <= groups(); ++g) {
      while (members[g].size() < capacity(g)) {
        members[g].push_back(left_over.back());
        left_over.pop_back();
      }
      p.devices.insert(p.devices.end(), members[g].begin(), members[g].end());
    }
    return p;
  }

  /// The mean cost between the device at `place` and the others of a group.
  CAUSEWAY_DECL [[nodiscard]] double mean_cost(const dtfm_partition& p, std::size_t place, std::size_t group,
                                               bool gather) const {
    const std::size_t device = p.devices[place];
    double sum = 0;
    for (std::size_t i = group * replicas(); i < (group + 1) * replicas(); ++i) {
      sum += gather ? scorer_.exchange(device, p.devices[i]) : scorer_.hop(device, p.devices[i]);  // 0 to itself
    }
    const std::size_t others = replicas() - (place / replicas() == group ? 1 : 0);
    return others == 0 ? 0 : sum / static_cast<double>(others);
  }

  struct move {
    std::size_t place = 0;
    std::size_t to = 0;
    double gain = -std::numeric_limits<double>::infinity();
  };

  /// The best move of a device that is not locked from `from` to a group that `open` lets in.
  CAUSEWAY_DECL [[nodiscard]] move best_move(const dtfm_partition& p, std::size_t from, const std::vector<char>& open,
                                             const std::vector<char>& locked, bool gather) const {
    move best;
    for (std::size_t i = from * replicas(); i < (from + 1) * replicas(); ++i) {
      if (locked[p.devices[i]] != 0) continue;
      const double here = mean_cost(p, i, from, gather);
      for (std::size_t to = 0; to < groups(); ++to) {
        if (to == from || open[to] == 0) continue;
        const double there = mean_cost(p, i, to, gather);
        const double gain = gather ? here - there : there - here;
        if (gain > best.gain) best = {i, to, gain};
      }
    }
    return best;
  }

  /// One cycle: a device of each group goes to the next one, and the last one's to the first. False: nothing to move.
  CAUSEWAY_DECL bool cycle(dtfm_partition& p, std::vector<char>& locked, bool gather) {
    std::vector<char> open(groups(), 1);
    const std::size_t start = draw_.below(groups());
    std::vector<std::size_t> moving;  // places, whose devices go to the next one's
    std::size_t here = start;
    open[start] = 0;
    for (;;) {
      const move m = best_move(p, here, open, locked, gather);
      if (m.gain == -std::numeric_limits<double>::infinity()) break;
      locked[p.devices[m.place]] = 1;
      moving.push_back(m.place);
      if (m.to == start) break;
      open[m.to] = 0;
      here = m.to;
      open[start] = 1;  // from the second move on the cycle may close
    }
    if (moving.size() < 2) return false;
    const std::size_t last = p.devices[moving.back()];
    for (std::size_t i = moving.size(); i-- > 1;) p.devices[moving[i]] = p.devices[moving[i - 1]];
    p.devices[moving.front()] = last;
    return true;
  }

  CAUSEWAY_DECL void move_in_cycles(dtfm_partition& p) {
    scorer_.score(p);
    if (groups() < 2) return;
    const bool gather = draw_.below(2) == 0;
    std::vector<char> locked(scorer_.devices());
    dtfm_partition now = p;
    while (cycle(now, locked, gather)) {
      scorer_.score(now);
      if (now.total < p.total) p = now;
    }
  }

  /// Swaps two devices of different kinds and groups, or as many as there are of these kinds in these groups, while that
  /// makes the partition better; places come in random order.
  CAUSEWAY_DECL void swap_while_better(dtfm_partition& p) {
    for (bool helped = true; helped && scorer_.evaluations() < options_.evaluations;) {
      helped = false;
      std::vector<std::size_t> order = one_of_each_kind(p);
      shuffle(order, draw_);
      for (std::size_t i = 0; i < order.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) helped = try_swap(p, order[i], order[j]) || helped;
      }
    }
  }

  [[nodiscard]] std::size_t group_at(std::size_t place) const { return std::min(place / replicas(), groups()); }

  /// Places that stand for all: devices of a kind in the same group are alike.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> one_of_each_kind(const dtfm_partition& p) const {
    std::vector<std::size_t> some;
    std::vector<std::size_t> last(scorer_.devices(), groups() + 1);  // the group in which a kind was seen last
    for (std::size_t i = 0; i < p.devices.size(); ++i) {
      std::size_t& seen = last[scorer_.kind(p.devices[i])];
      if (seen != group_at(i)) some.push_back(i);
      seen = group_at(i);
    }
    return some;
  }

  /// The places in the group of `place` with devices of the same kind.
  CAUSEWAY_DECL void find_alike(const dtfm_partition& p, std::size_t place, std::vector<std::size_t>& alike) const {
    alike.clear();
    const std::size_t group = group_at(place);
    const std::size_t end = group < groups() ? (group + 1) * replicas() : p.devices.size();
    for (std::size_t i = group * replicas(); i < end; ++i) {
      if (scorer_.kind(p.devices[i]) == scorer_.kind(p.devices[place])) alike.push_back(i);
    }
  }

  CAUSEWAY_DECL bool try_swap(dtfm_partition& p, std::size_t a, std::size_t b) {
    if (group_at(a) == group_at(b) || scorer_.kind(p.devices[a]) == scorer_.kind(p.devices[b])) return false;
    find_alike(p, a, alike_a_);
    find_alike(p, b, alike_b_);
    const std::size_t most = std::min(alike_a_.size(), alike_b_.size());
    const std::span<const std::size_t> all_a{alike_a_}, all_b{alike_b_};
    if (most > 1 && scorer_.improve_by_swap(p, all_a.first(most), all_b.first(most))) return true;
    return scorer_.improve_by_swap(p, all_a.first(1), all_b.first(1));
  }

  dtfm_scorer scorer_;
  dtfm_options options_;
  rng draw_;
  std::vector<dtfm_partition> population_;
  std::vector<std::size_t> alike_a_, alike_b_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<dtfm_plan> plan_dtfm(const link_matrix& links, const pipeline_task& task,
                                          const dtfm_options& options) {
  CAUSEWAY_TRY(check(links));
  if (task.replicas == 0 || task.stages == 0 || task.replicas > links.size() / task.stages) {
    return fail(errc::invalid_argument, "placement",
                std::to_string(task.replicas) + " replicas of " + std::to_string(task.stages) + " stages do not go on " +
                    std::to_string(links.size()) + " devices; take fewer of either, at least 1");
  }
  detail::dtfm_search search{links, task, options};
  dtfm_plan found = search.run();
  found.cost = cost_of(links, found.where, task);
  return found;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_DTFM_IPP
#endif

// ---- causeway/plan/flow_search.hpp ----
#ifndef CAUSEWAY_PLAN_FLOW_SEARCH_HPP
#define CAUSEWAY_PLAN_FLOW_SEARCH_HPP

// How peers find paths for micro-batches among themselves, where nobody knows all of them: GWTF's decentralised flow (Go
// With The Flow: Blagoev et al. 2025, arXiv 2509.21221), as its first author's earlier program has it (NikolayBlagoev/
// DecCom-Python 099f5a5, flowprotocol.py and flownode.py, 2024); the program of the paper itself is not public. Flows grow
// from their end: a peer that has a way to it offers that to the stage before, with what it costs, and whoever is there
// takes the cheapest that it knows of. Then peers of a stage exchange the ways of two flows, or one takes a flow over from
// another, wherever the links get cheaper, and by chance where they do not (simulated annealing).
//
// This is the protocol as a computation, on one machine. A peer decides on nothing but its own flows and links, the offers
// of the next stage, and the flows that peers of its stage told it of; every message is counted. A request is answered
// before the next peer acts: there messages take milliseconds and peers act every two seconds.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct flow_peer {
  /// 0: it has data, and its micro-batches go from it through stages 1, 2, ... and back to it.
  std::uint32_t stage = 0;
  std::uint32_t capacity = 1;  ///< micro-batches of a step that it can carry; in stage 0, that it has
};

/// [i·peers + j]: (c_i + c_j)/2, and the mean of both directions' delays, and the bytes at their mean bandwidth: what a
/// micro-batch costs between neighbours (the paper's d_ij, as reviews of it quote it). `seconds`: a micro-batch's
/// computation at each peer.
CAUSEWAY_DECL [[nodiscard]] std::vector<double> flow_costs(const link_matrix& links, std::span<const double> seconds,
                                                           double bytes);

/// Defaults are those of the program.
struct flow_search_options {
  std::uint64_t seed = 1;
  double temperature = 1.7;     ///< of a peer at the beginning, in the unit of the costs
  double cooling = 0.95;        ///< with every change that it takes part in; above 0
  double look_free = 0.3;       ///< the chance that a peer without anything to ask for looks for a change
  double look_offering = 0.1;   ///< and one with an offer that nobody has taken yet
  std::uint32_t patience = 10;  ///< periods in which nobody takes a peer's offers, until it gives them up
  std::uint32_t waiting = 12;   ///< periods in which a flow finds no next peer, until it goes back to the one before
  std::uint32_t ignored = 5;    ///< how often a peer passes another over that it has just asked for a change
};

struct flow_tally {
  std::uint64_t messages = 0;
  std::uint64_t taken = 0;       ///< offers
  std::uint64_t changed = 0;     ///< pairs of flows that exchanged their ways
  std::uint64_t redirected = 0;  ///< flows that another peer took over
};

class flow_search {
 public:
  /// `costs`: [peers, peers], symmetric, finite and >= 0. Stages are 0 to the highest without a gap.
  CAUSEWAY_DECL flow_search(std::vector<flow_peer> peers, std::vector<double> costs,
                            const flow_search_options& options = {});

  /// Every peer acts once, in an order that is drawn. Time: O(flows of a stage)² for each of its peers that looks.
  CAUSEWAY_DECL void period();

  /// It is gone: its neighbours see their connections end, and offer anew or look for another way.
  CAUSEWAY_DECL void lose(std::size_t peer);

  /// Of every flow that is complete the peers, from its data through all stages; the end, which is the first, is left out.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::size_t>> paths() const;

  /// Σ over all links of `paths()`, the one back to the data too.
  CAUSEWAY_DECL [[nodiscard]] double cost() const;

  [[nodiscard]] const flow_tally& tally() const noexcept { return tally_; }
  [[nodiscard]] double temperature(std::size_t peer) const { return states_[peer].temperature; }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// A flow at a peer. Without `up` it is an offer (or begins here), without `down` it looks for a way (or ends here).
  struct flow {
    std::size_t at = none;               // the peer; none: there is no such flow any more
    std::size_t target = none;           // where it ends
    std::size_t up = none, down = none;  // flows at the neighbours
    double cost = 0;                     // from here to the target, as told
    std::uint32_t waited = 0;
  };
  struct state {
    bool here = true;
    std::vector<std::size_t> flows{};
    double temperature = 0;
    std::uint32_t unwanted = 0;  // periods in which nobody took an offer
    std::vector<std::uint32_t> ignored{};
  };
  struct offer {
    std::size_t from = none, flow = none;  // no flow: the end itself
    std::size_t target = none;
    double cost = 0;
  };
  struct proposal {
    std::size_t other = none, theirs = none;
    std::size_t mine = none;  // none: to take theirs over
    double gain = 0;
  };

  [[nodiscard]] double link(std::size_t a, std::size_t b) const { return costs_[a * peers_.size() + b]; }
  [[nodiscard]] bool has_data(std::size_t p) const { return peers_[p].stage == 0; }
  [[nodiscard]] std::size_t before(const flow& f) const { return flows_[f.up].at; }
  [[nodiscard]] std::size_t after(const flow& f) const { return flows_[f.down].at; }
  [[nodiscard]] const std::vector<std::size_t>& next_stage(std::size_t p) const {
    return stages_[(peers_[p].stage + 1) % stages_.size()];
  }
  CAUSEWAY_DECL [[nodiscard]] std::size_t with_way(std::size_t p) const;
  CAUSEWAY_DECL [[nodiscard]] std::size_t taken_up(std::size_t p) const;
  CAUSEWAY_DECL [[nodiscard]] bool wanted(std::size_t p, std::size_t target) const;

  CAUSEWAY_DECL void act(std::size_t p);
  CAUSEWAY_DECL void push_back_old(std::size_t p);
  CAUSEWAY_DECL bool give_up_offers(std::size_t p);
  CAUSEWAY_DECL [[nodiscard]] std::optional<offer> cheapest_offer(std::size_t p) const;
  CAUSEWAY_DECL void take(std::size_t p, const offer& o);
  CAUSEWAY_DECL void look(std::size_t p);
  CAUSEWAY_DECL void consider(std::size_t p, const proposal& made, std::optional<proposal>& best);
  CAUSEWAY_DECL [[nodiscard]] bool by_chance(double gain, double temperature);
  CAUSEWAY_DECL void change(std::size_t mine, std::size_t theirs);
  CAUSEWAY_DECL void redirect(std::size_t p, std::size_t theirs);

  CAUSEWAY_DECL std::size_t add(std::size_t p, std::size_t target);
  CAUSEWAY_DECL void erase(std::size_t f);
  CAUSEWAY_DECL void join(std::size_t up, std::size_t down);
  CAUSEWAY_DECL void go_on(std::size_t p, std::size_t target, std::size_t down);
  CAUSEWAY_DECL void lose_way(std::size_t f);
  CAUSEWAY_DECL void lose_user(std::size_t f);
  CAUSEWAY_DECL void tell_cost(std::size_t f);
  CAUSEWAY_DECL void announce(std::size_t p);

  std::vector<flow_peer> peers_;
  std::vector<double> costs_;
  flow_search_options options_;
  rng draw_;
  std::vector<std::vector<std::size_t>> stages_;
  std::vector<state> states_;
  std::vector<flow> flows_;
  flow_tally tally_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_FLOW_SEARCH_HPP

// ---- causeway/plan/impl/flow_search.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_FLOW_SEARCH_IPP
#define CAUSEWAY_PLAN_IMPL_FLOW_SEARCH_IPP

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::vector<double> flow_costs(const link_matrix& links, std::span<const double> seconds, double bytes) {
  CAUSEWAY_EXPECT(seconds.size() == links.size());
  std::vector<double> costs(links.size() * links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    for (std::size_t j = 0; j < links.size(); ++j) {
      if (i == j) continue;
      const link_cost &there = links(i, j), &back = links(j, i);
      costs[i * links.size() + j] =
          (seconds[i] + seconds[j] + there.delay + back.delay) / 2 + 2 * 8 * bytes / (there.bandwidth + back.bandwidth);
    }
  }
  return costs;
}

CAUSEWAY_DECL flow_search::flow_search(std::vector<flow_peer> peers, std::vector<double> costs,
                                       const flow_search_options& options)
    : peers_{std::move(peers)}, costs_{std::move(costs)}, options_{options}, draw_{options.seed, mix(0x666C6F77U)} {
  CAUSEWAY_EXPECT(costs_.size() == peers_.size() * peers_.size() && options_.cooling > 0);
  states_.assign(peers_.size(), {});
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (peers_[p].stage >= stages_.size()) stages_.resize(peers_[p].stage + 1);
    stages_[peers_[p].stage].push_back(p);
    states_[p].temperature = options_.temperature;
    states_[p].ignored.assign(peers_.size(), 0);
  }
}

CAUSEWAY_DECL void flow_search::period() {
  std::vector<std::size_t> order;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (states_[p].here) order.push_back(p);
  }
  shuffle(order, draw_);
  for (const std::size_t p : order) act(p);
}

CAUSEWAY_DECL void flow_search::lose(std::size_t peer) {
  states_[peer].here = false;
  auto& stage = stages_[peers_[peer].stage];
  stage.erase(std::find(stage.begin(), stage.end(), peer));
  const std::vector<std::size_t> lost = states_[peer].flows;
  for (const std::size_t f : lost) {
    const auto [up, down] = std::pair{flows_[f].up, flows_[f].down};
    erase(f);
    if (up != none) lose_way(up);
    if (down != none) lose_user(down);
  }
}

CAUSEWAY_DECL std::vector<std::vector<std::size_t>> flow_search::paths() const {
  std::vector<std::vector<std::size_t>> all;
  for (const std::size_t data : stages_.front()) {
    for (std::size_t f : states_[data].flows) {
      if (flows_[f].down == none) continue;
      std::vector<std::size_t> path{data};
      while (flows_[f].down != none && !has_data(after(flows_[f]))) {
        path.push_back(after(flows_[f]));
        f = flows_[f].down;
      }
      if (flows_[f].down != none) all.push_back(std::move(path));
    }
  }
  return all;
}

CAUSEWAY_DECL double flow_search::cost() const {
  double sum = 0;
  for (const auto& path : paths()) {
    for (std::size_t i = 0; i < path.size(); ++i) sum += link(path[i], path[(i + 1) % path.size()]);
  }
  return sum;
}

// ---- what a peer does in a period ------------------------------------------------------------------------------------

CAUSEWAY_DECL std::size_t flow_search::with_way(std::size_t p) const {
  const auto& own = states_[p].flows;
  return static_cast<std::size_t>(
      std::count_if(own.begin(), own.end(), [this](std::size_t f) { return flows_[f].down != none; }));
}

CAUSEWAY_DECL std::size_t flow_search::taken_up(std::size_t p) const {
  const auto& own = states_[p].flows;
  return static_cast<std::size_t>(
      std::count_if(own.begin(), own.end(), [this](std::size_t f) { return flows_[f].up != none; }));
}

CAUSEWAY_DECL void flow_search::act(std::size_t p) {
  if (!has_data(p)) {
    push_back_old(p);
    if (give_up_offers(p)) return;
  }
  const bool offering = !has_data(p) && with_way(p) > taken_up(p);
  if (!offering && with_way(p) < peers_[p].capacity) {
    if (const auto o = cheapest_offer(p)) return take(p, *o);
  }
  if (has_data(p)) return;
  const double chance = offering ? options_.look_offering : options_.look_free;
  if (double{draw_.uniform()} < chance) look(p);
}

/// Flows that have looked for a way for too long go back to the peer before.
CAUSEWAY_DECL void flow_search::push_back_old(std::size_t p) {
  const std::vector<std::size_t> own = states_[p].flows;
  for (const std::size_t f : own) {
    if (flows_[f].down != none || ++flows_[f].waited < options_.waiting) continue;
    const std::size_t up = flows_[f].up;
    erase(f);
    ++tally_.messages;
    lose_way(up);
  }
}

/// A peer whose offers nobody takes lets others have the ways that it holds.
CAUSEWAY_DECL bool flow_search::give_up_offers(std::size_t p) {
  const std::vector<std::size_t> own = states_[p].flows;
  const auto is_offer = [this](std::size_t f) { return flows_[f].up == none; };
  if (std::none_of(own.begin(), own.end(), is_offer)) return false;
  if (++states_[p].unwanted < options_.patience) return false;
  states_[p].unwanted = 0;
  for (const std::size_t f : own) {
    if (!is_offer(f)) continue;
    const std::size_t down = flows_[f].down;
    erase(f);
    ++tally_.messages;
    lose_user(down);
  }
  announce(p);
  return true;
}

/// Whether a flow to `target` would serve: flows that look for a way come first.
CAUSEWAY_DECL bool flow_search::wanted(std::size_t p, std::size_t target) const {
  if (has_data(p)) return target == p;
  bool all = true;
  for (const std::size_t f : states_[p].flows) {
    if (flows_[f].down != none) continue;
    if (flows_[f].target == target) return true;
    all = false;
  }
  return all;
}

CAUSEWAY_DECL std::optional<flow_search::offer> flow_search::cheapest_offer(std::size_t p) const {
  std::optional<offer> best;
  const auto see = [&](const offer& o) {
    if (wanted(p, o.target) && (!best || o.cost < best->cost)) best = o;
  };
  for (const std::size_t q : next_stage(p)) {
    if (has_data(q)) {
      if (taken_up(q) < peers_[q].capacity) see({q, none, q, link(p, q)});
      continue;
    }
    for (const std::size_t f : states_[q].flows) {
      if (flows_[f].up == none) see({q, f, flows_[f].target, link(p, q) + flows_[f].cost});
    }
  }
  return best;
}

CAUSEWAY_DECL void flow_search::take(std::size_t p, const offer& o) {
  tally_.messages += 2;  // asked and granted
  ++tally_.taken;
  const std::size_t down = o.flow == none ? add(o.from, o.target) : o.flow;
  states_[p].unwanted = 0;
  go_on(p, o.target, down);
  announce(o.from);
}

// ---- changes among the peers of a stage ---------------------------------------------------------------------------------

CAUSEWAY_DECL bool flow_search::by_chance(double gain, double temperature) {
  return std::exp(gain / temperature) > double{draw_.uniform()};
}

CAUSEWAY_DECL void flow_search::consider(std::size_t p, const proposal& made, std::optional<proposal>& best) {
  const double least = best ? best->gain : 0;
  if (made.gain > least || (least <= 0 && by_chance(made.gain, states_[p].temperature))) best = made;
}

/// Asks the peer of the stage with which most can be saved, or by chance another one.
CAUSEWAY_DECL void flow_search::look(std::size_t p) {
  std::optional<proposal> best;
  for (const std::size_t q : stages_[peers_[p].stage]) {
    if (q == p) continue;
    if (states_[p].ignored[q] > 0) {
      --states_[p].ignored[q];
      continue;
    }
    for (const std::size_t theirs : states_[q].flows) {
      const flow& f = flows_[theirs];
      if (f.down == none) continue;
      const std::size_t to = after(f);
      if (f.up != none && with_way(p) < peers_[p].capacity) {
        const std::size_t from = before(f);
        consider(p, {q, theirs, none, link(from, q) + link(q, to) - link(from, p) - link(p, to)}, best);
      }
      for (const std::size_t mine : states_[p].flows) {
        const flow& g = flows_[mine];
        if (g.down == none || after(g) == to || g.target != f.target) continue;
        consider(p, {q, theirs, mine, link(q, to) + link(p, after(g)) - link(q, after(g)) - link(p, to)}, best);
      }
    }
  }
  if (!best) return;
  tally_.messages += 2;  // proposed and answered
  states_[p].ignored[best->other] = options_.ignored;
  if (best->gain <= 0 && !by_chance(best->gain, states_[best->other].temperature)) return;
  for (const std::size_t both : {p, best->other}) states_[both].temperature *= options_.cooling;
  best->mine == none ? redirect(p, best->theirs) : change(best->mine, best->theirs);
}

CAUSEWAY_DECL void flow_search::change(std::size_t mine, std::size_t theirs) {
  ++tally_.changed;
  tally_.messages += 2;  // to both next peers
  const auto [a, b] = std::pair{flows_[mine].down, flows_[theirs].down};
  join(mine, b);
  join(theirs, a);
  tell_cost(mine);
  tell_cost(theirs);
}

/// `p` takes over the way of another's flow, and offers it; the flow goes back to the peer before.
CAUSEWAY_DECL void flow_search::redirect(std::size_t p, std::size_t theirs) {
  ++tally_.redirected;
  tally_.messages += 2;  // to the neighbours
  const flow f = flows_[theirs];
  erase(theirs);
  announce(f.at);
  lose_way(f.up);
  go_on(p, f.target, f.down);
}

// ---- flows ------------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL std::size_t flow_search::add(std::size_t p, std::size_t target) {
  flows_.push_back({.at = p, .target = target});
  states_[p].flows.push_back(flows_.size() - 1);
  return flows_.size() - 1;
}

CAUSEWAY_DECL void flow_search::erase(std::size_t f) {
  auto& own = states_[flows_[f].at].flows;
  own.erase(std::find(own.begin(), own.end(), f));
  flows_[f] = {};
}

CAUSEWAY_DECL void flow_search::join(std::size_t up, std::size_t down) {
  flows_[up].down = down;
  flows_[up].waited = 0;
  flows_[up].cost = link(flows_[up].at, flows_[down].at) + flows_[down].cost;
  flows_[down].up = up;
}

/// A way to `target` for a flow of `p` that looks for one, or else to be offered.
CAUSEWAY_DECL void flow_search::go_on(std::size_t p, std::size_t target, std::size_t down) {
  const auto& own = states_[p].flows;
  const auto found = std::find_if(own.begin(), own.end(), [&](std::size_t f) {
    return !has_data(p) && flows_[f].down == none && flows_[f].target == target;
  });
  const std::size_t up = found == own.end() ? add(p, target) : *found;
  join(up, down);
  tell_cost(up);
}

/// The next peer has it no more.
CAUSEWAY_DECL void flow_search::lose_way(std::size_t f) {
  flows_[f].down = none;
  if (flows_[f].up != none) return;
  const std::size_t p = flows_[f].at;
  erase(f);
  announce(p);
}

/// The peer before has it no more.
CAUSEWAY_DECL void flow_search::lose_user(std::size_t f) {
  flows_[f].up = none;
  const std::size_t p = flows_[f].at;
  if (flows_[f].down == none) erase(f);
  announce(p);
}

/// Tells the peers before of another cost, up to where the flow begins or is offered.
CAUSEWAY_DECL void flow_search::tell_cost(std::size_t f) {
  while (flows_[f].up != none) {
    const std::size_t up = flows_[f].up;
    const double cost = link(flows_[up].at, flows_[f].at) + flows_[f].cost;
    ++tally_.messages;
    if (flows_[up].cost == cost) return;
    flows_[up].cost = cost;
    f = up;
  }
  announce(flows_[f].at);
}

/// Its offers to the stage before, and all its flows to the peers of its stage.
CAUSEWAY_DECL void flow_search::announce(std::size_t p) {
  const std::size_t stages = stages_.size(), stage = peers_[p].stage;
  tally_.messages += stages_[(stage + stages - 1) % stages].size();
  if (!has_data(p)) tally_.messages += stages_[stage].size() - 1;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_FLOW_SEARCH_IPP
#endif

// ---- causeway/plan/link_fixtures.hpp ----
#ifndef CAUSEWAY_PLAN_LINK_FIXTURES_HPP
#define CAUSEWAY_PLAN_LINK_FIXTURES_HPP

// The five networks that DTFM was measured on (Yuan et al., NeurIPS 2022, arXiv 2206.01288; the authors' figures): one data
// centre, a data centre of spot instances, two universities, four sites in the United States, eight cities worldwide. The
// figures are taken as delays of one direction, as the source does; bench/sim/networks/ reads the same ones as round trips.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// (1) Machines of eight devices: 100 Gbit/s within a machine, 3.125 between, no delay.
CAUSEWAY_DECL link_matrix one_data_centre(std::size_t devices);

/// (2) Spot instances: the first eight have four devices and 100 Gbit/s within; all others one; 1.25 Gbit/s between.
CAUSEWAY_DECL link_matrix spot_data_centre(std::size_t devices);

/// (3) Half of the devices in Ohio, half in Virginia.
CAUSEWAY_DECL link_matrix two_universities(std::size_t devices);

/// (4) A quarter each in Virginia, Oregon, California and Ohio.
CAUSEWAY_DECL link_matrix four_sites(std::size_t devices);

/// The cities of `worldwide`, in the order of its devices.
inline constexpr std::array<std::string_view, 8> worldwide_cities{"Oregon", "Virginia", "Ohio",      "Tokyo",
                                                                  "Seoul",  "London",   "Frankfurt", "Ireland"};

/// (5) An eighth each in eight cities, from 11 ms and 1.12 Gbit/s (Virginia and Ohio) to 228 ms and 0.335 (Seoul and
/// Ireland); 10 ms and 2 Gbit/s within a city.
CAUSEWAY_DECL link_matrix worldwide(std::size_t devices);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_LINK_FIXTURES_HPP

// ---- causeway/plan/impl/link_fixtures.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_LINK_FIXTURES_IPP
#define CAUSEWAY_PLAN_IMPL_LINK_FIXTURES_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

inline constexpr link_cost ms_gbit(double milliseconds, double gigabits) noexcept {
  return {milliseconds * 1e-3, gigabits * 1e9};
}

/// `from(i)` for each pair i < j of regions, in the order 0-1, 0-2, ..., 1-2, ...; `within` on the diagonal.
CAUSEWAY_DECL link_matrix regions_from(std::size_t regions, std::span<const link_cost> pairs, const link_cost& within) {
  link_matrix m{regions};
  std::size_t next = 0;
  for (std::size_t i = 0; i < regions; ++i) {
    m.set(i, i, within);
    for (std::size_t j = i + 1; j < regions; ++j) m.set_both(i, j, pairs[next++]);
  }
  return m;
}

/// As many devices in each region, region after region; the last ones get one less where that does not work out.
CAUSEWAY_DECL link_matrix evenly_spread(const link_matrix& regions, std::size_t devices) {
  std::vector<std::size_t> region_of(devices);
  for (std::size_t i = 0; i < devices; ++i) region_of[i] = i * regions.size() / devices;
  return regions.devices_in(region_of);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL link_matrix one_data_centre(std::size_t devices) {
  link_matrix m{devices, detail::ms_gbit(0, 3.125)};
  for (std::size_t i = 0; i < devices; ++i) {
    for (std::size_t j = 0; j < devices; ++j) {
      if (i != j && i / 8 == j / 8) m.set(i, j, detail::ms_gbit(0, 100));
    }
  }
  return m;
}

CAUSEWAY_DECL link_matrix spot_data_centre(std::size_t devices) {
  link_matrix m{devices, detail::ms_gbit(0, 1.25)};
  for (std::size_t i = 0; i < devices && i < 32; ++i) {
    for (std::size_t j = 0; j < devices && j < 32; ++j) {
      if (i != j && i / 4 == j / 4) m.set(i, j, detail::ms_gbit(0, 100));
    }
  }
  return m;
}

CAUSEWAY_DECL link_matrix two_universities(std::size_t devices) {
  constexpr std::array pairs{detail::ms_gbit(11, 1.12)};
  return detail::evenly_spread(detail::regions_from(2, pairs, detail::ms_gbit(1, 5)), devices);
}

CAUSEWAY_DECL link_matrix four_sites(std::size_t devices) {
  using detail::ms_gbit;
  constexpr std::array pairs{ms_gbit(67, 1.15), ms_gbit(59, 1.05), ms_gbit(11, 1.12),
                             ms_gbit(12, 1.25), ms_gbit(49, 1.10), ms_gbit(52, 1.02)};
  return detail::evenly_spread(detail::regions_from(4, pairs, ms_gbit(10, 2)), devices);
}

CAUSEWAY_DECL link_matrix worldwide(std::size_t devices) {
  using detail::ms_gbit;
  constexpr std::array pairs{ms_gbit(67, 0.79),   ms_gbit(49, 1.10),   ms_gbit(96, 0.523),  ms_gbit(124, 0.46),  // Oregon
                             ms_gbit(136, 0.42),  ms_gbit(143, 0.404), ms_gbit(124, 0.482),                      //
                             ms_gbit(11, 1.12),   ms_gbit(143, 0.524), ms_gbit(172, 0.500), ms_gbit(76, 1.16),   // Virginia
                             ms_gbit(90, 1.02),   ms_gbit(67, 1.05),                                             //
                             ms_gbit(130, 0.694), ms_gbit(159, 0.529), ms_gbit(86, 1.05),   ms_gbit(99, 0.799),  // Ohio
                             ms_gbit(77, 1.14),                                                                  //
                             ms_gbit(34, 1.10),   ms_gbit(210, 0.366), ms_gbit(223, 0.36),  ms_gbit(199, 0.465),  // Tokyo
                             ms_gbit(238, 0.342), ms_gbit(235, 0.358), ms_gbit(228, 0.335),                       // Seoul
                             ms_gbit(14, 1.14),   ms_gbit(12, 1.09),                                              // London
                             ms_gbit(24, 1.08)};  // Frankfurt
  return detail::evenly_spread(detail::regions_from(worldwide_cities.size(), pairs, ms_gbit(10, 2)), devices);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_LINK_FIXTURES_IPP
#endif

// ---- causeway/core/concepts.hpp ----
#ifndef CAUSEWAY_CORE_CONCEPTS_HPP
#define CAUSEWAY_CORE_CONCEPTS_HPP

// What <concepts> asks of a type, asked of the language instead of <type_traits>: no class is instantiated for an answer.
// std::movable instantiates some forty for each type, std::convertible_to ten for each pair: together a sixth of all that
// including the presets instantiated.

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Can be moved into a new object, and into an old one.
template <class T>
concept Movable = requires(T from, T& to) {
  T(static_cast<T&&>(from));
  to = static_cast<T&&>(from);
};

/// Can be copied likewise, besides.
template <class T>
concept Copyable = Movable<T> && requires(const T& from, T& to) {
  T(from);
  to = from;
};

template <class T>
concept DefaultInitializable = requires {
  T{};
};

template <class From, class To>
concept ConvertibleTo = requires(From (&make)(), void (&take)(To)) {
  take(make());
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_CONCEPTS_HPP

// ---- causeway/plan/liveput.hpp ----
#ifndef CAUSEWAY_PLAN_LIVEPUT_HPP
#define CAUSEWAY_PLAN_LIVEPUT_HPP

// How to train on instances that will be taken away: Parcae (Duan et al., NSDI 2024, arXiv 2403.14097). Not the throughput
// counts but the liveput, what is expected of it when some instances, nobody knows which, are preempted; and what it costs
// to change. For a forecast of available instances the best sequence of (D, P) is found by dynamic programming over
// intervals. Which instances are lost is sampled: each set of them is as likely as any other of its size.
//
// Moving from one interval to the next costs, in seconds in which nothing is trained:
//   nothing        if no instance of a pipeline was lost and D and P stay (or D shrinks);
//   intra_stage    if what was lost is made good by instances that hold the same stage;
//   inter_stage    if instances must load another stage, or join;
//   pipeline       if the number of stages changes: everybody loads.
// Where weights are on no server, samples are trained again besides when all instances of a stage are lost.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// D pipelines of P stages; 0 x 0: nothing is trained.
struct pipeline_shape {
  std::size_t replicas = 0;
  std::size_t stages = 0;

  [[nodiscard]] std::size_t instances() const noexcept { return replicas * stages; }
  friend bool operator==(const pipeline_shape&, const pipeline_shape&) = default;
};

struct migration_costs {
  double intra_stage = 0;  ///< seconds
  double inter_stage = 0;
  double pipeline = 0;
  double repeated_samples = 0;  ///< when no instance has a stage any more; with a server for the weights 0
};

/// Samples per second of a shape, 0 where it cannot train: what a planner or a measurement says.
template <class F>
concept ShapeThroughput = requires(const F& f, const pipeline_shape& s) {
  { f(s) } -> ConvertibleTo<double>;
};

struct liveput_options {
  std::size_t samples = 256;  ///< preemptions that are tried, at least 1
  std::uint64_t seed = 1;
};

namespace detail {

/// How many instances of each stage survive, over and over.
class preemption_draws {
 public:
  /// `lost` of `available` instances, of which `shape` uses the first ones and the others are spare.
  CAUSEWAY_DECL preemption_draws(const pipeline_shape& shape, std::size_t available, std::size_t lost,
                                 const liveput_options& o);

  /// The mean of `f(alive instances of each stage)`.
  template <class F>
    requires requires(F& f, const std::vector<std::size_t>& alive) {
      { f(alive) } -> ConvertibleTo<double>;
    }
  [[nodiscard]] double mean(F f) const {
    double sum = 0;
    for (const auto& alive : draws_) sum += f(alive);
    return sum / static_cast<double>(draws_.size());
  }

  /// Seconds to go on as `next`.
  CAUSEWAY_DECL [[nodiscard]] double migration(const pipeline_shape& next, const migration_costs& costs) const;

  /// The part of the draws in which nothing is left of some stage.
  CAUSEWAY_DECL [[nodiscard]] double lost_share() const;

 private:
  pipeline_shape shape_;
  std::vector<std::vector<std::size_t>> draws_;
};

}  // namespace detail

/// What is expected of `shape` when `lost` of `available` instances are preempted and the pipelines that can be completed
/// from instances of the same stages go on: samples per second.
template <ShapeThroughput Throughput>
double liveput(const pipeline_shape& shape, std::size_t available, std::size_t lost, const Throughput& throughput,
               const liveput_options& options = {}) {
  CAUSEWAY_EXPECT(shape.instances() <= available);
  if (shape.instances() == 0) return 0;
  const detail::preemption_draws draws{shape, available, lost, options};
  return draws.mean([&](const std::vector<std::size_t>& alive) -> double {
    return throughput(pipeline_shape{*std::min_element(alive.begin(), alive.end()), shape.stages});
  });
}

/// Seconds that going from `now`, with `before` instances, to `next`, with `after`, is expected to take.
CAUSEWAY_DECL double expected_migration(const pipeline_shape& now, std::size_t before, const pipeline_shape& next,
                                        std::size_t after, const migration_costs& costs,
                                        const liveput_options& options = {});

/// A shape for each interval.
struct liveput_plan {
  std::vector<pipeline_shape> shapes;
  double samples = 0;  ///< expected in all intervals
};

/// The sequence of shapes, for `available` instances in each interval, that is expected to train the most samples, from
/// `now` with `instances` instances on. Preemptions come between intervals. Shapes have at most `most_stages` stages.
/// Costs about (n ln n)^2 steps for each interval and n ln n draws, n the instances.
template <ShapeThroughput Throughput>
liveput_plan plan_liveput(const pipeline_shape& now, std::size_t instances, std::span<const std::size_t> available,
                          double interval_seconds, std::size_t most_stages, const migration_costs& costs,
                          const Throughput& throughput, const liveput_options& options = {}) {
  CAUSEWAY_EXPECT(now.instances() <= instances);
  struct state {
    pipeline_shape shape;
    double samples = 0;
    std::size_t before = 0;
  };
  std::vector<std::vector<state>> table{{{now, 0, 0}}};
  std::size_t count = instances;
  for (const std::size_t n : available) {
    std::vector<state> next{{{0, 0}, -std::numeric_limits<double>::infinity(), 0}};
    for (std::size_t p = 1; p <= std::min(most_stages, n); ++p) {
      for (std::size_t d = 1; d * p <= n; ++d) next.push_back({{d, p}, -std::numeric_limits<double>::infinity(), 0});
    }
    std::vector<double> rates;
    for (const state& s : next) rates.push_back(s.shape.instances() == 0 ? 0 : static_cast<double>(throughput(s.shape)));
    const auto& last = table.back();
    for (std::size_t i = 0; i < last.size(); ++i) {
      const detail::preemption_draws draws{last[i].shape, count, count > n ? count - n : 0, options};
      const double repeated = costs.repeated_samples > 0 ? costs.repeated_samples * draws.lost_share() : 0;
      for (std::size_t j = 0; j < next.size(); ++j) {
        const double pause = draws.migration(next[j].shape, costs);
        const double samples = last[i].samples - repeated + rates[j] * std::max(0.0, interval_seconds - pause);
        if (samples > next[j].samples) next[j].samples = samples, next[j].before = i;
      }
    }
    table.push_back(std::move(next));
    count = n;
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < table.back().size(); ++i) {
    if (table.back()[i].samples > table.back()[best].samples) best = i;
  }
  liveput_plan plan{{}, table.back()[best].samples};
  for (std::size_t t = table.size() - 1; t > 0; --t) {
    plan.shapes.push_back(table[t][best].shape);
    best = table[t][best].before;
  }
  std::reverse(plan.shapes.begin(), plan.shapes.end());
  return plan;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_LIVEPUT_HPP

// ---- causeway/plan/impl/liveput.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_LIVEPUT_IPP
#define CAUSEWAY_PLAN_IMPL_LIVEPUT_IPP

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL preemption_draws::preemption_draws(const pipeline_shape& shape, std::size_t available, std::size_t lost,
                                                 const liveput_options& o)
    : shape_{shape} {
  std::vector<std::size_t> all(available);
  std::iota(all.begin(), all.end(), std::size_t{0});
  rng draw{o.seed, mix(shape.replicas, shape.stages, available * 4096 + lost)};
  for (std::size_t i = 0; i < std::max<std::size_t>(1, o.samples); ++i) {
    std::vector<std::size_t> alive(shape.stages, shape.replicas);
    for (std::size_t k = 0; k < std::min(lost, available); ++k) {
      std::swap(all[k], all[k + draw.below(available - k)]);
      if (all[k] < shape.instances()) --alive[all[k] % shape.stages];
    }
    draws_.push_back(std::move(alive));
  }
}

CAUSEWAY_DECL double preemption_draws::migration(const pipeline_shape& next, const migration_costs& costs) const {
  if (next.instances() == 0) return 0;
  if (next.stages != shape_.stages) return costs.pipeline;
  return mean([&](const std::vector<std::size_t>& alive) {
    const std::size_t fewest = *std::min_element(alive.begin(), alive.end());
    const std::size_t most = *std::max_element(alive.begin(), alive.end());
    if (next.replicas > fewest) return costs.inter_stage;
    return fewest == shape_.replicas && most == shape_.replicas ? 0.0 : costs.intra_stage;
  });
}

CAUSEWAY_DECL double preemption_draws::lost_share() const {
  if (shape_.instances() == 0) return 0;
  return mean(
      [](const std::vector<std::size_t>& alive) { return *std::min_element(alive.begin(), alive.end()) == 0 ? 1.0 : 0.0; });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double expected_migration(const pipeline_shape& now, std::size_t before, const pipeline_shape& next,
                                        std::size_t after, const migration_costs& costs, const liveput_options& options) {
  if (now.instances() == 0) return next.instances() == 0 ? 0 : costs.pipeline;
  return detail::preemption_draws{now, before, before > after ? before - after : 0, options}.migration(next, costs);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_LIVEPUT_IPP
#endif

// ---- causeway/plan/peer_grid.hpp ----
#ifndef CAUSEWAY_PLAN_PEER_GRID_HPP
#define CAUSEWAY_PLAN_PEER_GRID_HPP

// Who does which stage of which pipeline, with holes where peers were lost, and spare peers. Policies for pipelines of one
// depth share it.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

class peer_grid {
 public:
  static constexpr std::uint32_t hole = std::numeric_limits<std::uint32_t>::max();
  using place = std::pair<std::size_t, std::size_t>;  // pipeline, stage

  CAUSEWAY_DECL explicit peer_grid(std::size_t stages);

  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] std::size_t pipelines() const { return cells_.size(); }
  [[nodiscard]] std::size_t spares() const { return spare_.size(); }
  [[nodiscard]] std::uint32_t at(std::size_t pipeline, std::size_t stage) const { return cells_[pipeline][stage]; }
  [[nodiscard]] bool filled(std::size_t pipeline, std::size_t stage) const { return at(pipeline, stage) != hole; }

  CAUSEWAY_DECL [[nodiscard]] std::size_t holes(std::size_t pipeline) const;
  CAUSEWAY_DECL [[nodiscard]] std::size_t holes() const;
  /// How many pipelines have this stage.
  CAUSEWAY_DECL [[nodiscard]] std::size_t holders(std::size_t stage) const;
  /// Peers that are there, spare ones too.
  [[nodiscard]] std::size_t peers() const { return pipelines() * stages_ - holes() + spares(); }

  CAUSEWAY_DECL void add_spares(std::span<const std::uint32_t> peers);

  /// Makes holes of sorted `peers`; which.
  CAUSEWAY_DECL std::vector<place> lose(std::span<const std::uint32_t> peers);

  /// Puts a spare into each hole, as far as they go. How many.
  CAUSEWAY_DECL std::size_t fill();

  /// As many whole pipelines as there are peers for: those with the fewest holes stay, the others' peers fill them. How
  /// many peers have a new stage.
  CAUSEWAY_DECL std::size_t rebuild();

  /// Moves a peer from a stage to another of the same or another pipeline, whose place must be a hole.
  CAUSEWAY_DECL void move(place from, place to);

 private:
  std::size_t stages_;
  std::vector<std::vector<std::uint32_t>> cells_;  // [pipeline][stage]
  std::vector<std::uint32_t> spare_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PEER_GRID_HPP

// ---- causeway/plan/impl/peer_grid.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_PEER_GRID_IPP
#define CAUSEWAY_PLAN_IMPL_PEER_GRID_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL peer_grid::peer_grid(std::size_t stages) : stages_{stages} { CAUSEWAY_EXPECT(stages > 0); }

CAUSEWAY_DECL void peer_grid::add_spares(std::span<const std::uint32_t> peers) {
  spare_.insert(spare_.end(), peers.begin(), peers.end());
}

CAUSEWAY_DECL std::size_t peer_grid::holes(std::size_t pipeline) const {
  return static_cast<std::size_t>(std::count(cells_[pipeline].begin(), cells_[pipeline].end(), hole));
}

CAUSEWAY_DECL std::size_t peer_grid::holes() const {
  std::size_t sum = 0;
  for (std::size_t d = 0; d < pipelines(); ++d) sum += holes(d);
  return sum;
}

CAUSEWAY_DECL std::size_t peer_grid::holders(std::size_t stage) const {
  return static_cast<std::size_t>(
      std::count_if(cells_.begin(), cells_.end(), [&](const auto& p) { return p[stage] != hole; }));
}

CAUSEWAY_DECL auto peer_grid::lose(std::span<const std::uint32_t> peers) -> std::vector<place> {
  const auto gone = [&](std::uint32_t id) { return std::binary_search(peers.begin(), peers.end(), id); };
  std::erase_if(spare_, gone);
  std::vector<place> made;
  for (std::size_t d = 0; d < pipelines(); ++d) {
    for (std::size_t s = 0; s < stages_; ++s) {
      if (!filled(d, s) || !gone(at(d, s))) continue;
      cells_[d][s] = hole;
      made.emplace_back(d, s);
    }
  }
  return made;
}

CAUSEWAY_DECL std::size_t peer_grid::fill() {
  std::size_t moved = 0;
  for (auto& pipeline : cells_) {
    for (auto& cell : pipeline) {
      if (cell != hole || spare_.empty()) continue;
      cell = spare_.front();
      spare_.erase(spare_.begin());
      ++moved;
    }
  }
  return moved;
}

CAUSEWAY_DECL std::size_t peer_grid::rebuild() {
  const std::size_t whole = peers() / stages_;
  std::stable_sort(cells_.begin(), cells_.end(), [](const auto& a, const auto& b) {
    return std::count(a.begin(), a.end(), hole) < std::count(b.begin(), b.end(), hole);
  });
  for (std::size_t d = whole; d < pipelines(); ++d) {
    for (const std::uint32_t id : cells_[d]) {
      if (id != hole) spare_.push_back(id);
    }
  }
  cells_.resize(whole, std::vector<std::uint32_t>(stages_, hole));
  return fill();
}

CAUSEWAY_DECL void peer_grid::move(place from, place to) {
  CAUSEWAY_EXPECT(filled(from.first, from.second) && !filled(to.first, to.second));
  std::swap(cells_[from.first][from.second], cells_[to.first][to.second]);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PEER_GRID_IPP
#endif

// ---- causeway/plan/schedule.hpp ----
#ifndef CAUSEWAY_PLAN_SCHEDULE_HPP
#define CAUSEWAY_PLAN_SCHEDULE_HPP

// A pipeline's schedule as data: what each rank does with the micro-batches of one step, in order. Generators write it
// (schedules.hpp), one validator reads it (schedule_check.hpp), one cursor walks it at run time and in simulation
// (schedule_cursor.hpp, timeline.hpp). A schedule says nothing about time.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What a rank can do with one micro-batch and one of its chunks.
enum class work : std::uint8_t {
  forward,          ///< keeps its activations, unless the same rank recomputes them later: then only its input
  backward,         ///< both gradients: of the input and of the weights
  input_gradient,   ///< the half of a backward that the stage before waits for
  weight_gradient,  ///< the other half: any time after the input gradient
  recompute,        ///< the activations again, from the stored input
};

/// One item of a rank's order.
struct operation {
  work kind = work::forward;
  std::uint32_t micro_batch = 0;
  std::uint32_t chunk = 0;  ///< which of the rank's chunks of the model

  friend bool operator==(const operation&, const operation&) = default;
};

/// The way of a micro-batch through ranks and chunks.
enum class stage_path : std::uint8_t {
  round,    ///< chunk c of rank p is virtual stage c * ranks + p: through all ranks, and through all of them again
  folded,   ///< every other chunk runs through the ranks backwards: rank 0 of two chunks has the first stage and the last,
            ///< and the last rank hands the first chunk's output to itself
  two_ways  ///< two chunks, each a stage of a whole pipeline: the first half of the micro-batches (the larger one) goes
            ///< from the first rank to the last through chunks 0, the others from the last to the first through chunks 1.
            ///< Stage s is on ranks s and ranks - 1 - s, whose gradients are added up
};

/// What each rank of a pipeline does with the micro-batches of one step, in order. The forward pass runs through virtual
/// stages 0, 1, ..., the backward pass the other way; where those are, `path` says.
struct schedule {
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 1;  ///< of the model, on each rank
  std::uint32_t micro_batches = 1;
  bool flushes = true;  ///< one update at the end. False: a stage updates after each micro-batch's weight gradient
  std::vector<std::vector<operation>> orders;  ///< [rank]
  stage_path path = stage_path::round;

  friend bool operator==(const schedule&, const schedule&) = default;
};

/// A place where an operation runs.
struct stage_place {
  std::uint32_t rank = 0;
  std::uint32_t chunk = 0;

  friend bool operator==(const stage_place&, const stage_place&) = default;
};

/// How many virtual stages a schedule has.
[[nodiscard]] constexpr std::uint32_t virtual_stages(const schedule& s) noexcept {
  return s.path == stage_path::two_ways ? s.ranks : s.ranks * s.chunks;
}

/// The first micro-batch that goes from the last rank to the first, where there are two ways.
[[nodiscard]] constexpr std::uint32_t first_back(const schedule& s) noexcept { return (s.micro_batches + 1) / 2; }

/// Whether a micro-batch goes through a chunk.
[[nodiscard]] constexpr bool goes_through(const schedule& s, std::uint32_t micro_batch, std::uint32_t chunk) noexcept {
  return s.path != stage_path::two_ways || (micro_batch >= first_back(s)) == (chunk == 1);
}

/// The virtual stage of a place.
[[nodiscard]] constexpr std::uint32_t virtual_stage(const schedule& s, stage_place at) noexcept {
  const std::uint32_t rank = s.path != stage_path::round && at.chunk % 2 == 1 ? s.ranks - 1 - at.rank : at.rank;
  return s.path == stage_path::two_ways ? rank : at.chunk * s.ranks + rank;
}

/// The place of a virtual stage, for a micro-batch: only where there are two ways does it matter which.
[[nodiscard]] constexpr stage_place place_of(const schedule& s, std::uint32_t stage,
                                             std::uint32_t micro_batch = 0) noexcept {
  const bool back = s.path == stage_path::two_ways && micro_batch >= first_back(s);
  const std::uint32_t chunk = back ? 1 : stage / s.ranks, rank = stage % s.ranks;
  return {s.path != stage_path::round && chunk % 2 == 1 ? s.ranks - 1 - rank : rank, chunk};
}

/// Whether an operation gives the gradient of the stage's input.
[[nodiscard]] constexpr bool gives_input_gradient(work kind) noexcept {
  return kind == work::backward || kind == work::input_gradient;
}

/// Whether an operation adds to the gradient of the stage's weights.
[[nodiscard]] constexpr bool gives_weight_gradient(work kind) noexcept {
  return kind == work::backward || kind == work::weight_gradient;
}

/// Where the input of `op` on `rank` comes from: the stage before for a forward, the stage after for a gradient; nothing
/// for what needs only what the rank itself holds, as the data set for the first stage and the loss for the last.
/// May be the same rank (`ranks` = 1, or where the path is folded).
[[nodiscard]] constexpr std::optional<stage_place> source_of(const schedule& s, std::uint32_t rank,
                                                             const operation& op) noexcept {
  const std::uint32_t stage = virtual_stage(s, {rank, op.chunk});
  if (op.kind == work::forward && stage > 0) return place_of(s, stage - 1, op.micro_batch);
  if (gives_input_gradient(op.kind) && stage + 1 < virtual_stages(s)) return place_of(s, stage + 1, op.micro_batch);
  return std::nullopt;
}

/// Where the output of `op` on `rank` goes, or nothing.
[[nodiscard]] constexpr std::optional<stage_place> target_of(const schedule& s, std::uint32_t rank,
                                                             const operation& op) noexcept {
  const std::uint32_t stage = virtual_stage(s, {rank, op.chunk});
  if (op.kind == work::forward && stage + 1 < virtual_stages(s)) return place_of(s, stage + 1, op.micro_batch);
  if (gives_input_gradient(op.kind) && stage > 0) return place_of(s, stage - 1, op.micro_batch);
  return std::nullopt;
}

/// The letter of a kind: F, B, I, W, R.
[[nodiscard]] constexpr char letter(work kind) noexcept {
  switch (kind) {
    case work::forward: return 'F';
    case work::backward: return 'B';
    case work::input_gradient: return 'I';
    case work::weight_gradient: return 'W';
    case work::recompute: return 'R';
  }
  return '?';
}

/// "F3", and "F3.1" in chunk 1.
CAUSEWAY_DECL [[nodiscard]] std::string to_string(const operation& op);

/// What a rank holds, in units of one micro-batch in one chunk.
struct held_memory {
  std::int64_t activations = 0;  ///< from a forward or recompute to the weight gradient
  std::int64_t inputs = 0;       ///< of forwards whose activations are recomputed, up to the recompute

  constexpr held_memory& operator+=(const held_memory& other) noexcept {
    activations += other.activations;
    inputs += other.inputs;
    return *this;
  }
  [[nodiscard]] constexpr bool within(const held_memory& bound) const noexcept {
    return activations <= bound.activations && inputs <= bound.inputs;
  }
  friend bool operator==(const held_memory&, const held_memory&) = default;
};

/// The larger of each.
[[nodiscard]] constexpr held_memory larger(const held_memory& a, const held_memory& b) noexcept {
  return {std::max(a.activations, b.activations), std::max(a.inputs, b.inputs)};
}

/// What each operation of a rank adds to (or frees from) what the rank holds. Operations must name micro-batches and
/// chunks that the schedule has.
CAUSEWAY_DECL [[nodiscard]] std::vector<held_memory> memory_changes(const schedule& s, std::uint32_t rank);

/// The most that a rank holds at one time if it follows its order.
CAUSEWAY_DECL [[nodiscard]] held_memory peak_memory(const schedule& s, std::uint32_t rank);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SCHEDULE_HPP

// ---- causeway/plan/impl/schedule.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::string to_string(const operation& op) {
  std::string text = letter(op.kind) + std::to_string(op.micro_batch);
  if (op.chunk > 0) text += '.' + std::to_string(op.chunk);
  return text;
}

CAUSEWAY_DECL std::vector<held_memory> memory_changes(const schedule& s, std::uint32_t rank) {
  CAUSEWAY_EXPECT(rank < s.orders.size());
  const std::vector<operation>& order = s.orders[rank];
  const auto unit = [&](const operation& op) {
    CAUSEWAY_EXPECT(op.chunk < s.chunks && op.micro_batch < s.micro_batches);
    return std::size_t{op.chunk} * s.micro_batches + op.micro_batch;
  };
  std::vector<bool> recomputed(std::size_t{s.chunks} * s.micro_batches);
  for (const operation& op : order) {
    if (op.kind == work::recompute) recomputed[unit(op)] = true;
  }
  std::vector<held_memory> changes;
  changes.reserve(order.size());
  for (const operation& op : order) {
    switch (op.kind) {
      case work::forward: changes.push_back(recomputed[unit(op)] ? held_memory{0, 1} : held_memory{1, 0}); break;
      case work::recompute: changes.push_back({1, -1}); break;
      case work::input_gradient: changes.push_back({0, 0}); break;  // the weight gradient needs the activations, too
      default: changes.push_back({-1, 0}); break;
    }
  }
  return changes;
}

CAUSEWAY_DECL held_memory peak_memory(const schedule& s, std::uint32_t rank) {
  held_memory now, peak;
  for (const held_memory& change : memory_changes(s, rank)) {
    now += change;
    peak = larger(peak, now);
  }
  return peak;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_IPP
#endif

// ---- causeway/plan/stage_costs.hpp ----
#ifndef CAUSEWAY_PLAN_STAGE_COSTS_HPP
#define CAUSEWAY_PLAN_STAGE_COSTS_HPP

// What a pipeline's stages and the links between them cost, in seconds and bytes: the delay and bandwidth model of
// CrossPipe and Varuna's calibration. Also jitter: how much one operation or message differs from that.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Seconds that one micro-batch takes in one virtual stage.
struct stage_cost {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double recompute = 1;

  /// Of one operation; a backward is both halves.
  [[nodiscard]] constexpr double of(work kind) const noexcept {
    switch (kind) {
      case work::forward: return forward;
      case work::backward: return input_gradient + weight_gradient;
      case work::input_gradient: return input_gradient;
      case work::weight_gradient: return weight_gradient;
      case work::recompute: return recompute;
    }
    return 0;
  }
};

/// What it takes from one virtual stage to the next. A message occupies its link for bytes / bytes_per_second and arrives
/// `latency` seconds later. A link carries one message at a time in each direction, and a sender does not wait.
struct edge_cost {
  double latency = 0;         ///< seconds
  double bytes_forward = 0;   ///< activations of one micro-batch
  double bytes_backward = 0;  ///< their gradients
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

/// The costs of a pipeline. Virtual stages of the same rank share its links.
struct stage_costs {
  std::vector<stage_cost> stages;  ///< [virtual stage]
  std::vector<edge_cost> edges;    ///< [v]: between virtual stages v and v + 1; one fewer than stages
};

/// Stages that are all alike, and so are their links.
CAUSEWAY_DECL [[nodiscard]] stage_costs equal_costs(std::uint32_t virtual_stages, const stage_cost& stage = {},
                                                    const edge_cost& edge = {});

/// How far operations and messages take another time than their cost: each has a factor of its own,
/// exp(sigma z - sigma^2 / 2) with z standard normal, so that its mean is 1. The factor depends on the seed and on what it
/// is for, not on when it is drawn: different orders of the same operations meet the same luck.
struct jitter {
  double sigma = 0;  ///< 0: none
  std::uint64_t seed = 0;

  CAUSEWAY_DECL [[nodiscard]] double factor(std::uint32_t stage, const operation& op, bool message) const;
};

/// Whether costs are as many as the stages of a pipeline, none below 0, and none above 1e18 seconds or bytes (so that sums
/// stay finite).
CAUSEWAY_DECL [[nodiscard]] result<void> check(const stage_costs& costs, std::uint32_t virtual_stages);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_STAGE_COSTS_HPP

// ---- causeway/plan/impl/stage_costs.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_STAGE_COSTS_IPP
#define CAUSEWAY_PLAN_IMPL_STAGE_COSTS_IPP

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL stage_costs equal_costs(std::uint32_t virtual_stages, const stage_cost& stage, const edge_cost& edge) {
  CAUSEWAY_EXPECT(virtual_stages > 0);
  return {std::vector<stage_cost>(virtual_stages, stage), std::vector<edge_cost>(virtual_stages - 1, edge)};
}

CAUSEWAY_DECL double jitter::factor(std::uint32_t stage, const operation& op, bool message) const {
  if (sigma == 0) return 1;
  const std::uint64_t what = static_cast<std::uint64_t>(op.kind) * 2 + (message ? 1 : 0);
  rng draw{seed, mix(stage, op.micro_batch, what)};
  return std::exp(sigma * static_cast<double>(draw.normal()) - sigma * sigma / 2);
}

CAUSEWAY_DECL result<void> check(const stage_costs& costs, std::uint32_t virtual_stages) {
  if (costs.stages.size() != virtual_stages || costs.edges.size() + 1 != virtual_stages) {
    return fail(errc::invalid_argument, "costs",
                "are of " + std::to_string(costs.stages.size()) + " stages and " + std::to_string(costs.edges.size()) +
                    " edges, but the pipeline has " + std::to_string(virtual_stages) +
                    " virtual stages, and one edge less");
  }
  const auto good = [](double x) { return x >= 0 && x <= 1e18; };
  for (std::size_t v = 0; v < costs.stages.size(); ++v) {
    const stage_cost& c = costs.stages[v];
    if (!good(c.forward) || !good(c.input_gradient) || !good(c.weight_gradient) || !good(c.recompute))
      return fail(errc::non_finite, "costs of stage " + std::to_string(v), "must be seconds from 0 to 1e18");
  }
  for (std::size_t v = 0; v < costs.edges.size(); ++v) {
    const edge_cost& e = costs.edges[v];
    const bool moves = e.bytes_per_second > 0 && good(std::max(e.bytes_forward, e.bytes_backward) / e.bytes_per_second);
    if (!good(e.latency) || !good(e.bytes_forward) || !good(e.bytes_backward) || !moves) {
      return fail(errc::non_finite, "costs of edge " + std::to_string(v),
                  "must be from 0 to 1e18 seconds and bytes, with a bandwidth above 0 that carries them in that time");
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_STAGE_COSTS_IPP
#endif

// ---- causeway/plan/pipeline_clock.hpp ----
#ifndef CAUSEWAY_PLAN_PIPELINE_CLOCK_HPP
#define CAUSEWAY_PLAN_PIPELINE_CLOCK_HPP

// Time in a pipeline, event by event: when ranks are free, when messages arrive, when links are busy. Who decides what a
// rank does next is the caller: a cursor on a given order (timeline.hpp), or a rule that writes an order
// (schedule_rules.hpp).

#include <queue>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// One operation with its place in time, in seconds.
struct timed_operation {
  operation op;
  double start = 0;
  double end = 0;
};

namespace detail {

/// Runs all ranks of a pipeline of the shape (ranks, chunks, micro-batches) of a schedule; its orders are not read.
class pipeline_clock {
 public:
  CAUSEWAY_DECL pipeline_clock(const schedule& shape, const stage_costs& costs, const jitter& noise);

  static constexpr double never = std::numeric_limits<double>::infinity();

  [[nodiscard]] double now() const noexcept { return now_; }
  CAUSEWAY_DECL [[nodiscard]] bool arrived(std::uint32_t rank, const operation& op) const noexcept;

  /// When the input of an operation is there, if its sender has begun with it, on links without queues or jitter; else
  /// `never`. 0 for what needs no input from elsewhere.
  CAUSEWAY_DECL [[nodiscard]] double expected(std::uint32_t rank, const operation& op) const noexcept;

  /// Seconds that an operation takes, without jitter.
  CAUSEWAY_DECL [[nodiscard]] double cost(std::uint32_t rank, const operation& op) const noexcept;

  /// Until nothing happens any more: `choose(rank)` gives an optional operation whenever a rank is free and something may
  /// have changed for it; `started(rank, timed_operation)` learns what has begun.
  template <class Choose, class Started>
  void run(Choose&& choose, Started&& started) {
    for (std::uint32_t r = 0; r < shape_.ranks; ++r) wake(0, r);
    std::vector<std::uint32_t> awake;
    while (take_events(awake)) {
      for (const std::uint32_t rank : awake) {
        if (running_[rank].busy) continue;
        if (const auto op = choose(rank)) started(rank, start(rank, *op));
      }
    }
  }

  /// Asks this rank again at this moment.
  CAUSEWAY_DECL void wake(std::uint32_t rank);

 private:
  struct state {
    bool busy = false;
    operation op;
    double end = 0;
  };
  using event = std::pair<double, std::uint32_t>;  // when, rank

  CAUSEWAY_DECL void wake(double when, std::uint32_t rank);

  CAUSEWAY_DECL [[nodiscard]] std::size_t input(std::uint32_t stage, const operation& op) const noexcept;

  CAUSEWAY_DECL timed_operation start(std::uint32_t rank, const operation& op);

  // All ranks for which something happens at the next moment, in their order.
  CAUSEWAY_DECL bool take_events(std::vector<std::uint32_t>& awake);

  CAUSEWAY_DECL void finish(std::uint32_t rank);

  // The end of a message's way. Messages of all chunks share the link from this rank to that one.
  CAUSEWAY_DECL double send(std::uint32_t rank, const stage_place& target, const operation& op);

  CAUSEWAY_DECL [[nodiscard]] const edge_cost& edge(std::uint32_t from, const stage_place& target) const noexcept;

  // Seconds for which a message occupies its link.
  CAUSEWAY_DECL [[nodiscard]] double transfer(std::uint32_t from, const stage_place& target,
                                              const operation& op) const noexcept;

  // Ranks are on a ring: each has a link to the next and one to the one before; with two ranks these are the same.
  CAUSEWAY_DECL [[nodiscard]] bool is_next(std::uint32_t rank, std::uint32_t target) const noexcept;

  const schedule& shape_;
  const stage_costs& costs_;
  jitter noise_;
  std::vector<state> running_;
  std::vector<double> link_free_;  // [2 rank + (1: to the next)]: from when on
  std::vector<double> arrives_;    // [forward or backward][virtual stage][micro-batch]
  std::vector<double> expected_;   // the same
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  double now_ = 0;
};

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PIPELINE_CLOCK_HPP

// ---- causeway/plan/impl/pipeline_clock.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_PIPELINE_CLOCK_IPP
#define CAUSEWAY_PLAN_IMPL_PIPELINE_CLOCK_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL pipeline_clock::pipeline_clock(const schedule& shape, const stage_costs& costs, const jitter& noise)
    : shape_{shape},
      costs_{costs},
      noise_{noise},
      running_(shape.ranks),
      link_free_(std::size_t{2} * shape.ranks),
      arrives_(std::size_t{2} * virtual_stages(shape) * shape.micro_batches, never),
      expected_(arrives_) {}

CAUSEWAY_DECL void pipeline_clock::wake(std::uint32_t rank) { wake(now_, rank); }

CAUSEWAY_DECL void pipeline_clock::wake(double when, std::uint32_t rank) { events_.emplace(when, rank); }

CAUSEWAY_DECL bool pipeline_clock::arrived(std::uint32_t rank, const operation& op) const noexcept {
  return !source_of(shape_, rank, op) || arrives_[input(virtual_stage(shape_, {rank, op.chunk}), op)] <= now_;
}

CAUSEWAY_DECL double pipeline_clock::expected(std::uint32_t rank, const operation& op) const noexcept {
  return source_of(shape_, rank, op) ? expected_[input(virtual_stage(shape_, {rank, op.chunk}), op)] : 0;
}

CAUSEWAY_DECL double pipeline_clock::cost(std::uint32_t rank, const operation& op) const noexcept {
  return costs_.stages[virtual_stage(shape_, {rank, op.chunk})].of(op.kind);
}

CAUSEWAY_DECL std::size_t pipeline_clock::input(std::uint32_t stage, const operation& op) const noexcept {
  const std::size_t pass = op.kind == work::forward ? 0 : 1;
  return (pass * virtual_stages(shape_) + stage) * shape_.micro_batches + op.micro_batch;
}

CAUSEWAY_DECL timed_operation pipeline_clock::start(std::uint32_t rank, const operation& op) {
  const std::uint32_t stage = virtual_stage(shape_, {rank, op.chunk});
  const double end = now_ + costs_.stages[stage].of(op.kind) * noise_.factor(stage, op, false);
  running_[rank] = {true, op, end};
  if (const auto target = target_of(shape_, rank, op)) {
    const double way = target->rank == rank ? 0 : transfer(stage, *target, op) + edge(stage, *target).latency;
    expected_[input(virtual_stage(shape_, *target), op)] = end + way;
  }
  wake(end, rank);
  return {op, now_, end};
}

CAUSEWAY_DECL bool pipeline_clock::take_events(std::vector<std::uint32_t>& awake) {
  awake.clear();
  if (events_.empty()) return false;
  now_ = events_.top().first;
  while (!events_.empty() && events_.top().first == now_) {
    const std::uint32_t rank = events_.top().second;
    events_.pop();
    if (awake.empty() || awake.back() != rank) awake.push_back(rank);
    if (running_[rank].busy && running_[rank].end <= now_) finish(rank);
  }
  return true;
}

CAUSEWAY_DECL void pipeline_clock::finish(std::uint32_t rank) {
  running_[rank].busy = false;
  const operation& op = running_[rank].op;
  const auto target = target_of(shape_, rank, op);
  if (!target) return;
  const double there = target->rank == rank ? now_ : send(rank, *target, op);
  arrives_[input(virtual_stage(shape_, *target), op)] = there;
  if (target->rank != rank) wake(there, target->rank);
}

CAUSEWAY_DECL double pipeline_clock::send(std::uint32_t rank, const stage_place& target, const operation& op) {
  const std::uint32_t from = virtual_stage(shape_, {rank, op.chunk});
  const double factor = noise_.factor(from, op, true);
  double& free = link_free_[std::size_t{2} * rank + (is_next(rank, target.rank) ? 1 : 0)];
  free = std::max(free, now_) + transfer(from, target, op) * factor;
  return free + edge(from, target).latency * factor;
}

CAUSEWAY_DECL const edge_cost& pipeline_clock::edge(std::uint32_t from, const stage_place& target) const noexcept {
  return costs_.edges[std::min(from, virtual_stage(shape_, target))];
}

CAUSEWAY_DECL double pipeline_clock::transfer(std::uint32_t from, const stage_place& target,
                                              const operation& op) const noexcept {
  const edge_cost& e = edge(from, target);
  return (op.kind == work::forward ? e.bytes_forward : e.bytes_backward) / e.bytes_per_second;
}

CAUSEWAY_DECL bool pipeline_clock::is_next(std::uint32_t rank, std::uint32_t target) const noexcept {
  return target == (rank + 1) % shape_.ranks;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

#endif  // CAUSEWAY_PLAN_IMPL_PIPELINE_CLOCK_IPP
#endif

// ---- causeway/plan/schedule_check.hpp ----
#ifndef CAUSEWAY_PLAN_SCHEDULE_CHECK_HPP
#define CAUSEWAY_PLAN_SCHEDULE_CHECK_HPP

// Whether a schedule can be run: complete, in an order that gives the gradients of the unsplit model, without deadlock, and
// within a bound of memory. Takes any schedule, from whatever source: it reads nothing that it has not checked.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Whether each rank adds up each chunk's gradients in the order of the micro-batches: both the input's and the weights'.
CAUSEWAY_DECL [[nodiscard]] result<void> keeps_order(const schedule& s);

/// Whether a schedule can be run: each micro-batch goes forward once and backward once (whole or in halves) through each
/// chunk of each rank, in the order of keeps_order if it `flushes`; and no ranks wait for each other in a circle.
/// Gives what each rank holds at most. Errors name the rank, the position in its order, and the operation.
CAUSEWAY_DECL [[nodiscard]] result<std::vector<held_memory>> check(const schedule& s);

/// Also whether no rank holds more than `bound` at any time.
CAUSEWAY_DECL [[nodiscard]] result<std::vector<held_memory>> check(const schedule& s, const held_memory& bound);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SCHEDULE_CHECK_HPP

// ---- causeway/plan/impl/schedule_check.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_CHECK_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_CHECK_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

constexpr unsigned bit_of(work kind) noexcept { return 1U << static_cast<unsigned>(kind); }

CAUSEWAY_DECL error wrong_operation(const schedule& s, std::size_t rank, std::size_t position, const std::string& message) {
  return fail(errc::invalid_argument,
              "rank " + std::to_string(rank) + ", position " + std::to_string(position) + ", " +
                  to_string(s.orders[rank][position]),
              message);
}

/// Walks one rank's order and remembers what each micro-batch and chunk has been through.
class rank_order_check {
 public:
  CAUSEWAY_DECL rank_order_check(const schedule& s, std::size_t rank)
      : s_{s}, rank_{rank}, seen_(std::size_t{s.chunks} * s.micro_batches) {}

  CAUSEWAY_DECL [[nodiscard]] result<void> run() {
    const std::vector<operation>& order = s_.orders[rank_];
    for (std::size_t i = 0; i < order.size(); ++i) CAUSEWAY_TRY(take(i, order[i]));
    for (std::size_t unit = 0; unit < seen_.size(); ++unit) CAUSEWAY_TRY(complete(unit));
    return {};
  }

 private:
  CAUSEWAY_DECL [[nodiscard]] result<void> take(std::size_t position, const operation& op) {
    constexpr unsigned gradients = bit_of(work::backward) | bit_of(work::input_gradient) | bit_of(work::weight_gradient);
    const auto wrong = [&](const std::string& message) { return wrong_operation(s_, rank_, position, message); };
    if (static_cast<unsigned>(op.kind) > static_cast<unsigned>(work::recompute)) return wrong("no such kind of work");
    if (op.micro_batch >= s_.micro_batches || op.chunk >= s_.chunks)
      return wrong("the schedule has no such micro-batch or chunk");
    if (!goes_through(s_, op.micro_batch, op.chunk))
      return wrong("its micro-batch goes the other way, through the other chunk");
    unsigned& seen = seen_[std::size_t{op.chunk} * s_.micro_batches + op.micro_batch];
    if ((seen & bit_of(op.kind)) != 0) return wrong("stands here for the second time; remove one");
    if (op.kind != work::forward && (seen & bit_of(work::forward)) == 0) return wrong("stands before its forward");
    if (op.kind == work::recompute && (seen & gradients) != 0) return wrong("stands after the gradient that needs it");
    if (op.kind == work::backward && (seen & gradients) != 0) return wrong("repeats a gradient; remove one");
    if (op.kind == work::input_gradient && (seen & gradients) != 0) return wrong("repeats a gradient; remove one");
    if (op.kind == work::weight_gradient && (seen & bit_of(work::backward)) != 0)
      return wrong("repeats a gradient; remove one");
    if (op.kind == work::weight_gradient && (seen & bit_of(work::input_gradient)) == 0)
      return wrong("stands before its input gradient");
    seen |= bit_of(op.kind);
    return {};
  }

  CAUSEWAY_DECL [[nodiscard]] result<void> complete(std::size_t unit) const {
    if (!goes_through(s_, static_cast<std::uint32_t>(unit % s_.micro_batches),
                      static_cast<std::uint32_t>(unit / s_.micro_batches))) {
      return {};
    }
    const auto is_missing = [&](work kind) { return (seen_[unit] & bit_of(kind)) == 0; };
    const auto missing = [&](work kind) {
      const operation op{kind, static_cast<std::uint32_t>(unit % s_.micro_batches),
                         static_cast<std::uint32_t>(unit / s_.micro_batches)};
      return fail(errc::invalid_argument, "rank " + std::to_string(rank_), to_string(op) + " is missing");
    };
    if (is_missing(work::forward)) return missing(work::forward);
    if (!is_missing(work::backward)) return {};
    if (is_missing(work::input_gradient)) return missing(work::backward);
    if (is_missing(work::weight_gradient)) return missing(work::weight_gradient);
    return {};
  }

  const schedule& s_;
  std::size_t rank_;
  std::vector<unsigned> seen_;  // [unit]: bits of kinds
};

/// Runs all ranks in order without clocks. A rank that cannot go on sleeps until what it waits for has run.
class deadlock_check {
 public:
  CAUSEWAY_DECL explicit deadlock_check(const schedule& s)
      : s_{s}, next_(s.ranks), there_(std::size_t{2} * virtual_stages(s) * s.micro_batches) {}

  CAUSEWAY_DECL [[nodiscard]] result<void> run() {
    std::vector<std::uint32_t> awake;
    for (std::uint32_t r = 0; r < s_.ranks; ++r) awake.push_back(r);
    while (!awake.empty()) {
      const std::uint32_t rank = awake.back();
      awake.pop_back();
      advance(rank, awake);
    }
    for (std::uint32_t r = 0; r < s_.ranks; ++r) {
      if (next_[r] < s_.orders[r].size()) return stuck(r);
    }
    return {};
  }

 private:
  // Whether the output of a virtual stage for a micro-batch exists, forward or backward.
  CAUSEWAY_DECL [[nodiscard]] std::size_t output(std::uint32_t stage, const operation& op) const noexcept {
    const std::size_t pass = op.kind == work::forward ? 0 : 1;
    return (pass * virtual_stages(s_) + stage) * s_.micro_batches + op.micro_batch;
  }

  CAUSEWAY_DECL void advance(std::uint32_t rank, std::vector<std::uint32_t>& awake) {
    const std::vector<operation>& order = s_.orders[rank];
    for (std::size_t& i = next_[rank]; i < order.size(); ++i) {
      const auto source = source_of(s_, rank, order[i]);
      if (source && !there_[output(virtual_stage(s_, *source), order[i])]) return;
      if (order[i].kind != work::forward && !gives_input_gradient(order[i].kind)) continue;
      there_[output(virtual_stage(s_, {rank, order[i].chunk}), order[i])] = true;
      if (const auto target = target_of(s_, rank, order[i]); target && target->rank != rank) awake.push_back(target->rank);
    }
  }

  CAUSEWAY_DECL [[nodiscard]] error stuck(std::uint32_t rank) const {
    const auto source = source_of(s_, rank, s_.orders[rank][next_[rank]]);
    return wrong_operation(s_, rank, next_[rank],
                           "deadlock: waits for rank " + std::to_string(source->rank) + ", chunk " +
                               std::to_string(source->chunk) + ", which waits for something after this");
  }

  const schedule& s_;
  std::vector<std::size_t> next_;
  std::vector<bool> there_;
};

CAUSEWAY_DECL result<void> check_sizes(const schedule& s) {
  if (s.ranks == 0 || s.chunks == 0 || s.micro_batches == 0)
    return fail(errc::invalid_argument, "schedule", "needs at least one rank, one chunk and one micro-batch");
  if (s.orders.size() != s.ranks) {
    return fail(errc::invalid_argument, "schedule",
                "has orders for " + std::to_string(s.orders.size()) + " of " + std::to_string(s.ranks) + " ranks");
  }
  const bool both = s.path == stage_path::two_ways;
  if (both && (s.chunks != 2 || s.ranks % 2 != 0))
    return fail(errc::invalid_argument, "schedule", "two ways need an even number of ranks, and two chunks on each");
  const std::uint64_t units = std::uint64_t{both ? 1 : s.chunks} * s.micro_batches;
  for (std::size_t r = 0; r < s.orders.size(); ++r) {
    if (s.orders[r].size() / 2 < units) {  // also keeps what follows from allocating more than the caller did
      return fail(errc::invalid_argument, "rank " + std::to_string(r),
                  "its " + std::to_string(s.orders[r].size()) + " operations are fewer than a forward and a backward of " +
                      std::to_string(units) + " micro-batches and chunks; operations are missing");
    }
  }
  return {};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<void> keeps_order(const schedule& s) {
  for (std::size_t r = 0; r < s.orders.size(); ++r) {
    std::vector<std::uint32_t> inputs(s.chunks);  // the micro-batch that comes next
    if (s.path == stage_path::two_ways && s.chunks == 2) inputs[1] = first_back(s);
    std::vector<std::uint32_t> weights = inputs;
    for (std::size_t i = 0; i < s.orders[r].size(); ++i) {
      const operation& op = s.orders[r][i];
      if (op.chunk >= s.chunks) return detail::wrong_operation(s, r, i, "the schedule has no such chunk");
      const bool out_of_order = (gives_input_gradient(op.kind) && op.micro_batch != inputs[op.chunk]++) ||
                                (gives_weight_gradient(op.kind) && op.micro_batch != weights[op.chunk]++);
      if (out_of_order) {
        return detail::wrong_operation(s, r, i,
                                       "gradients must be added up in the order of micro-batches, or their sum has other "
                                       "bits than the unsplit model's");
      }
    }
  }
  return {};
}

CAUSEWAY_DECL result<std::vector<held_memory>> check(const schedule& s) {
  CAUSEWAY_TRY(detail::check_sizes(s));
  for (std::size_t r = 0; r < s.ranks; ++r) CAUSEWAY_TRY(detail::rank_order_check{s, r}.run());
  if (s.flushes) CAUSEWAY_TRY(keeps_order(s));
  CAUSEWAY_TRY(detail::deadlock_check{s}.run());
  std::vector<held_memory> peaks;
  for (std::uint32_t r = 0; r < s.ranks; ++r) peaks.push_back(peak_memory(s, r));
  return peaks;
}

CAUSEWAY_DECL result<std::vector<held_memory>> check(const schedule& s, const held_memory& bound) {
  CAUSEWAY_ASSIGN(std::vector<held_memory> peaks, check(s));
  for (std::uint32_t r = 0; r < s.ranks; ++r) {
    if (peaks[r].within(bound)) continue;
    held_memory now;
    const std::vector<held_memory> changes = memory_changes(s, r);
    std::size_t i = 0;
    while ((now += changes[i]).within(bound)) ++i;
    return detail::wrong_operation(s, r, i,
                                   "would hold " + std::to_string(now.activations) + " sets of activations and " +
                                       std::to_string(now.inputs) + " stored inputs, more than the bound of " +
                                       std::to_string(bound.activations) + " and " + std::to_string(bound.inputs) +
                                       "; run fewer forwards ahead, or recompute");
  }
  return peaks;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_CHECK_IPP
#endif

// ---- causeway/plan/schedule_cursor.hpp ----
#ifndef CAUSEWAY_PLAN_SCHEDULE_CURSOR_HPP
#define CAUSEWAY_PLAN_SCHEDULE_CURSOR_HPP

// What a rank does next: its order of a schedule and what of it is done. In strict order a rank waits for the input of the
// next operation; in opportunistic order (Varuna, EuroSys 2022, section 3.2) it meanwhile runs the first later operation
// whose input is there. What that may not change:
//   - the sums of gradients: operations of the same kind and chunk keep their order, and so do a chunk's backward and its
//     halves, so that micro-batches are added up in the same order and have the same bits;
//   - what an operation needs from the rank itself: operations of the same micro-batch and chunk keep their order;
//   - memory: an operation that takes memory runs early only if all that it overtakes still finds room in the limit, in
//     order. With room for one set of activations nothing but forwards that store their input can come between a
//     recompute and its backward.
// What remains is always a part of the order with its order kept, and has room: so a schedule without deadlock has none
// in opportunistic order either. Both the simulator and the executor of pipelines use this cursor.

#include <concepts>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Whether a rank may run an operation before its turn.
enum class run_order : std::uint8_t { strict, opportunistic };

/// Walks one rank's order. A regular value; allocates only when made; not safe to share between threads.
class schedule_cursor {
 public:
  /// What to do now.
  struct choice {
    std::size_t index = 0;  ///< in the rank's order
    bool ready = false;     ///< run it; otherwise nothing can run, and this is the operation to wait for
  };

  /// `s` must have passed `check` of schedule_check.hpp. The limit is what the order itself needs at most.
  CAUSEWAY_DECL schedule_cursor(const schedule& s, std::uint32_t rank, run_order mode = run_order::strict);

  /// With another limit: at least what the order itself needs; more lets an opportunistic rank run further ahead.
  CAUSEWAY_DECL schedule_cursor(const schedule& s, std::uint32_t rank, run_order mode, const held_memory& limit);

  [[nodiscard]] bool finished() const noexcept { return first_ == order_.size(); }
  [[nodiscard]] const std::vector<operation>& order() const noexcept { return order_; }

  /// The operation to run now, or to wait for. `ready(operation)`: whether its input from another rank (source_of) has
  /// arrived; true for what needs none. Not to be called once finished. Cost: one call of `ready` if the next in order is
  /// ready or the order strict, otherwise at most linear in what remains.
  template <std::predicate<const operation&> Ready>
  [[nodiscard]] choice next(Ready&& ready) {
    CAUSEWAY_EXPECT(!finished());
    if (ready(order_[first_])) return {first_, true};
    if (mode_ == run_order::strict) return {first_, false};
    ++scan_;
    held_memory then = held_, peak = held_;  // if what is overtaken ran in order
    for (std::size_t i = first_; i < order_.size(); ++i) {
      if (done_[i]) continue;
      if (i != first_ && may_overtake(i, peak) && ready(order_[i])) return {i, true};
      skip(order_[i]);
      then += changes_[i];
      peak = larger(peak, then);
    }
    return {first_, false};
  }

  /// The operation of a choice has run.
  CAUSEWAY_DECL void complete(std::size_t index);

  /// What the rank holds now.
  [[nodiscard]] const held_memory& held() const noexcept { return held_; }

  /// From the first operation again: the next step.
  CAUSEWAY_DECL void rewind();

 private:
  // Of a chunk: what must keep its order among itself. A backward is of two of these.
  enum line : std::size_t { forwards, recomputes, input_gradients, weight_gradients, lines };

  static constexpr bool is_on(work kind, std::size_t line) noexcept {
    switch (line) {
      case forwards: return kind == work::forward;
      case recomputes: return kind == work::recompute;
      case input_gradients: return gives_input_gradient(kind);
      default: return gives_weight_gradient(kind);
    }
  }

  CAUSEWAY_DECL [[nodiscard]] std::size_t unit(const operation& op) const noexcept;

  CAUSEWAY_DECL [[nodiscard]] bool may_overtake(std::size_t index, held_memory peak) const;

  CAUSEWAY_DECL void skip(const operation& op);

  std::vector<operation> order_;
  std::vector<held_memory> changes_;
  std::vector<bool> done_;
  // the scan that last passed over an operation of a micro-batch and chunk, and of a line and chunk
  std::vector<std::uint64_t> skipped_units_;
  std::vector<std::array<std::uint64_t, lines>> skipped_kinds_;
  std::uint64_t scan_ = 0;
  std::uint32_t micro_batches_;
  run_order mode_;
  held_memory limit_;
  held_memory held_;
  std::size_t first_ = 0;  // not done
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SCHEDULE_CURSOR_HPP

// ---- causeway/plan/impl/schedule_cursor.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_CURSOR_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_CURSOR_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL schedule_cursor::schedule_cursor(const schedule& s, std::uint32_t rank, run_order mode)
    : schedule_cursor{s, rank, mode, peak_memory(s, rank)} {}

CAUSEWAY_DECL schedule_cursor::schedule_cursor(const schedule& s, std::uint32_t rank, run_order mode,
                                               const held_memory& limit)
    : order_{s.orders[rank]},
      changes_{memory_changes(s, rank)},
      done_(order_.size()),
      skipped_units_(std::size_t{s.micro_batches} * s.chunks),
      skipped_kinds_(s.chunks),
      micro_batches_{s.micro_batches},
      mode_{mode},
      limit_{limit} {
  CAUSEWAY_EXPECT(peak_memory(s, rank).within(limit));
}

CAUSEWAY_DECL void schedule_cursor::complete(std::size_t index) {
  CAUSEWAY_EXPECT(index < order_.size() && !done_[index]);
  done_[index] = true;
  held_ += changes_[index];
  while (first_ < order_.size() && done_[first_]) ++first_;
}

CAUSEWAY_DECL void schedule_cursor::rewind() {
  done_.assign(done_.size(), false);
  first_ = 0;
  held_ = {};
}

CAUSEWAY_DECL std::size_t schedule_cursor::unit(const operation& op) const noexcept {
  return std::size_t{op.chunk} * micro_batches_ + op.micro_batch;
}

CAUSEWAY_DECL bool schedule_cursor::may_overtake(std::size_t index, held_memory peak) const {
  const operation& op = order_[index];
  if (skipped_units_[unit(op)] == scan_) return false;
  for (std::size_t l = 0; l < lines; ++l) {
    if (is_on(op.kind, l) && skipped_kinds_[op.chunk][l] == scan_) return false;
  }
  const held_memory& change = changes_[index];
  return (change.activations <= 0 || peak.activations + change.activations <= limit_.activations) &&
         (change.inputs <= 0 || peak.inputs + change.inputs <= limit_.inputs);
}

CAUSEWAY_DECL void schedule_cursor::skip(const operation& op) {
  skipped_units_[unit(op)] = scan_;
  for (std::size_t l = 0; l < lines; ++l) {
    if (is_on(op.kind, l)) skipped_kinds_[op.chunk][l] = scan_;
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_CURSOR_IPP
#endif

// ---- causeway/plan/timeline.hpp ----
#ifndef CAUSEWAY_PLAN_TIMELINE_HPP
#define CAUSEWAY_PLAN_TIMELINE_HPP

// When everything in a schedule happens, given what stages and links cost: a discrete simulation of one step. Each rank
// does one operation at a time, in strict or opportunistic order (schedule_cursor.hpp: the same cursor that the executor
// uses).

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// How ranks behave.
struct timeline_options {
  run_order order = run_order::strict;
  jitter noise;
  std::optional<held_memory> limit;  ///< of each rank in opportunistic order; none: what its order itself needs at most
};

/// A schedule in time.
struct timeline {
  std::vector<std::vector<timed_operation>> ranks;  ///< [rank]: as they ran
  std::vector<held_memory> peaks;                   ///< [rank]
  double makespan = 0;                              ///< seconds from the start to the last operation's end
  std::uint32_t chunks = 1;

  /// Seconds in which a rank computes. Recomputing counts.
  CAUSEWAY_DECL [[nodiscard]] double busy(std::uint32_t rank) const;
  /// The part of the makespan in which a rank does nothing.
  [[nodiscard]] double bubble(std::uint32_t rank) const { return makespan > 0 ? 1 - busy(rank) / makespan : 0; }
  /// The part of all ranks' time in which they compute.
  CAUSEWAY_DECL [[nodiscard]] double efficiency() const;
};

/// The timeline of a schedule. Errors: those of `check` for the schedule and for the costs; a limit below what an order
/// needs. Cost: O(operations log ranks) in strict order.
CAUSEWAY_DECL [[nodiscard]] result<timeline> timeline_of(const schedule& s, const stage_costs& costs,
                                                         const timeline_options& options = {});

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_TIMELINE_HPP

// ---- causeway/plan/impl/timeline.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_TIMELINE_IPP
#define CAUSEWAY_PLAN_IMPL_TIMELINE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double timeline::busy(std::uint32_t rank) const {
  double sum = 0;
  for (const timed_operation& t : ranks[rank]) sum += t.end - t.start;
  return sum;
}

CAUSEWAY_DECL double timeline::efficiency() const {
  double sum = 0;
  for (std::uint32_t r = 0; r < ranks.size(); ++r) sum += busy(r);
  return makespan > 0 ? sum / (static_cast<double>(ranks.size()) * makespan) : 1;
}

CAUSEWAY_DECL result<timeline> timeline_of(const schedule& s, const stage_costs& costs, const timeline_options& options) {
  CAUSEWAY_ASSIGN(const std::vector<held_memory> needs, options.limit ? plan::check(s, *options.limit) : plan::check(s));
  CAUSEWAY_TRY(plan::check(costs, virtual_stages(s)));
  std::vector<schedule_cursor> cursors;
  for (std::uint32_t r = 0; r < s.ranks; ++r) cursors.emplace_back(s, r, options.order, options.limit.value_or(needs[r]));

  timeline out{std::vector<std::vector<timed_operation>>(s.ranks), std::vector<held_memory>(s.ranks), 0, s.chunks};
  detail::pipeline_clock clock{s, costs, options.noise};
  const auto choose = [&](std::uint32_t rank) -> std::optional<operation> {
    schedule_cursor& cursor = cursors[rank];
    if (cursor.finished()) return std::nullopt;
    const auto chosen = cursor.next([&](const operation& op) { return clock.arrived(rank, op); });
    if (!chosen.ready) return std::nullopt;
    cursor.complete(chosen.index);  // nothing is chosen before its end
    return cursor.order()[chosen.index];
  };
  clock.run(choose, [&](std::uint32_t rank, const timed_operation& t) {
    out.ranks[rank].push_back(t);
    out.peaks[rank] = larger(out.peaks[rank], cursors[rank].held());
    out.makespan = std::max(out.makespan, t.end);
  });
  return out;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TIMELINE_IPP
#endif

// ---- causeway/plan/picture.hpp ----
#ifndef CAUSEWAY_PLAN_PICTURE_HPP
#define CAUSEWAY_PLAN_PICTURE_HPP

// Pictures of a timeline: as text for a terminal or a page, and as SVG. One line per rank, time to the right.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// A line per rank: a column for each unit of time (seconds; 0: the shortest operation, or makespan / 200) shows what runs
/// in its middle. A micro-batch's last digit as 0-9 is its forward, A-J its backward or input gradient, a-j its weight
/// gradient; * a recompute; a dot nothing. With several chunks a column has two letters, the second the chunk's last digit.
/// The unit must give less than a million columns.
CAUSEWAY_DECL [[nodiscard]] std::string text_picture(const timeline& t, double unit = 0);

/// What the letters of a text picture mean, in one line.
CAUSEWAY_DECL [[nodiscard]] std::string text_legend(const timeline& t, double unit = 0);

/// The same as a file for browsers: a lane per rank, colours by kind, a tooltip with the times of each operation.
CAUSEWAY_DECL [[nodiscard]] std::string svg_picture(const timeline& t, std::string_view title);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PICTURE_HPP

// ---- causeway/plan/impl/picture.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_PICTURE_IPP
#define CAUSEWAY_PLAN_IMPL_PICTURE_IPP

#include <charconv>
#include <cmath>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// The last digit of the micro-batch as 0-9, A-J or a-j, by kind; a recompute is *.
[[nodiscard]] constexpr char mark(const operation& op) noexcept {
  const auto digit = static_cast<char>(op.micro_batch % 10);
  switch (op.kind) {
    case work::forward: return static_cast<char>('0' + digit);
    case work::weight_gradient: return static_cast<char>('a' + digit);
    case work::recompute: return '*';
    default: return static_cast<char>('A' + digit);
  }
}

/// Blue forwards, orange gradients, green weight gradients, grey recomputes: told apart by colour-blind people, too. Later
/// chunks are lighter.
[[nodiscard]] constexpr std::string_view colour(work kind) noexcept {
  switch (kind) {
    case work::forward: return "#4477aa";
    case work::weight_gradient: return "#228833";
    case work::recompute: return "#999999";
    default: return "#ee7733";
  }
}

inline constexpr double lane = 28, margin = 70, drawing_width = 1100;  // of an SVG, in its units

inline constexpr std::size_t most_columns = 200;  // of a text picture whose unit nobody chose

/// The shortest operation of all, but no shorter than what fits `most_columns`.
CAUSEWAY_DECL double natural_unit(const timeline& t) {
  double unit = t.makespan;
  for (const auto& rank : t.ranks) {
    for (const timed_operation& o : rank) {
      if (o.end > o.start) unit = std::min(unit, o.end - o.start);
    }
  }
  unit = std::max(unit, t.makespan / static_cast<double>(most_columns));
  return unit > 0 ? unit : 1;
}

CAUSEWAY_DECL std::string decimal(double value, int digits) {
  std::array<char, 400> text;  // DBL_MAX has 309 digits
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits);
  return end.ec == std::errc{} ? std::string{text.data(), end.ptr} : std::string{"?"};
}

CAUSEWAY_DECL void draw_operation(std::string& svg, const timeline& t, std::size_t rank, const timed_operation& o,
                                  double scale) {
  const double x = margin + o.start * scale, width = (o.end - o.start) * scale;
  const double y = lane * (static_cast<double>(rank) + 1);
  const double opacity = 1 - 0.55 * o.op.chunk / std::max(1.0, t.chunks - 1.0);
  svg += "<rect x=\"" + decimal(x, 2) + "\" y=\"" + decimal(y, 2) + "\" width=\"" + decimal(width, 2) + "\" height=\"" +
         decimal(lane - 4, 2) + "\" fill=\"" + std::string{colour(o.op.kind)} + "\" fill-opacity=\"" +
         decimal(t.chunks > 1 ? opacity : 1, 2) + "\" stroke=\"white\"><title>" + to_string(o.op) + ": " +
         decimal(o.start, 3) + " to " + decimal(o.end, 3) + " s</title></rect>\n";
  const std::string label = std::to_string(o.op.micro_batch);
  if (width < 7 * static_cast<double>(label.size()) + 2) return;
  svg += "<text x=\"" + decimal(x + width / 2, 2) + "\" y=\"" + decimal(y + lane / 2 + 2, 2) +
         "\" text-anchor=\"middle\">" + label + "</text>\n";
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::string text_picture(const timeline& t, double unit) {
  CAUSEWAY_EXPECT(unit >= 0);
  if (unit == 0) unit = detail::natural_unit(t);
  CAUSEWAY_EXPECT(t.makespan / unit < 1e6);
  const auto column = [&](double seconds) {  // the first whose middle is not before this moment
    return static_cast<std::size_t>(std::max(0.0, std::ceil(seconds / unit - 0.5 - 1e-9)));
  };
  const std::size_t letters = t.chunks > 1 ? 2 : 1;
  const std::size_t digits = std::to_string(t.ranks.size() - 1).size();
  std::string text;
  for (std::size_t r = 0; r < t.ranks.size(); ++r) {
    std::string line(column(t.makespan) * letters, '.');
    for (const timed_operation& o : t.ranks[r]) {
      for (std::size_t c = column(o.start); c < column(o.end); ++c) {
        line[c * letters] = detail::mark(o.op);
        if (letters == 2) line[c * letters + 1] = static_cast<char>('0' + o.op.chunk % 10);
      }
    }
    const std::string number = std::to_string(r);
    text += "rank " + std::string(digits - number.size(), ' ') + number + "  " + line + '\n';
  }
  return text;
}

CAUSEWAY_DECL std::string text_legend(const timeline& t, double unit) {
  std::string legend = "0-9 forward, A-J backward or input gradient, a-j weight gradient, * recompute";
  if (t.chunks > 1) legend += "; then the chunk";
  return legend + "; a column is " + detail::decimal(unit > 0 ? unit : detail::natural_unit(t), 3) + " s\n";
}

CAUSEWAY_DECL std::string svg_picture(const timeline& t, std::string_view title) {
  const double scale = t.makespan > 0 ? detail::drawing_width / t.makespan : 0;
  const double height = detail::lane * (static_cast<double>(t.ranks.size()) + 2);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
                    detail::decimal(detail::drawing_width + detail::margin + 10, 0) + ' ' + detail::decimal(height, 0) +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n<text x=\"10\" y=\"18\">";
  for (const char c : title) {
    switch (c) {
      case '<': svg += "&lt;"; break;
      case '&': svg += "&amp;"; break;
      default: svg += c; break;
    }
  }
  svg += ": " + detail::decimal(t.makespan, 3) + " s, efficiency " + detail::decimal(t.efficiency(), 3) + "</text>\n";
  for (std::size_t r = 0; r < t.ranks.size(); ++r) {
    const double y = detail::lane * (static_cast<double>(r) + 1.5) + 2;
    svg += "<text x=\"10\" y=\"" + detail::decimal(y, 2) + "\">rank " + std::to_string(r) + "</text>\n";
    for (const timed_operation& o : t.ranks[r]) detail::draw_operation(svg, t, r, o, scale);
  }
  return svg + "</svg>\n";
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PICTURE_IPP
#endif

// ---- causeway/plan/stage_split.hpp ----
#ifndef CAUSEWAY_PLAN_STAGE_SPLIT_HPP
#define CAUSEWAY_PLAN_STAGE_SPLIT_HPP

// Where to cut a model into the stages of a pipeline: consecutive blocks, at least one for each stage, the embedding with
// the first and the head with the last. The slowest stage sets the pace, so it is made as quick as can be within what the
// devices can hold; among the splits that reach this pace the most balanced one is taken. Exact, by dynamic programming.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What a part of a model costs whoever holds it.
struct block_cost {
  double parameters = 0;
  double seconds = 0;     ///< forward and backward of a micro-batch, on a device of speed 1
  double memory = 0;      ///< bytes of parameters, gradients and optimizer state
  double activation = 0;  ///< bytes kept for the backward pass, for each micro-batch under way

  CAUSEWAY_DECL block_cost& operator+=(const block_cost& o) noexcept;
};

/// A model as it can be cut.
struct model_cost {
  std::vector<block_cost> blocks;
  block_cost embedding;  ///< always in the first stage
  block_cost head;       ///< always in the last stage; of a tied table what the second copy costs
};

/// Who takes a stage.
struct stage_device {
  double speed = 1;                                         ///< > 0
  double memory = std::numeric_limits<double>::infinity();  ///< bytes, >= 0
  double under_way = 1;                                     ///< micro-batches whose activations it keeps: 1F1B: P - stage
};

/// Where stages begin.
struct stage_split {
  std::vector<std::size_t> first_block;  ///< of each stage; the first is 0
  std::size_t blocks = 0;
  double slowest = 0;  ///< of the stages: seconds, or parameters, or blocks, as the split was made

  [[nodiscard]] std::size_t stages() const noexcept { return first_block.size(); }
  CAUSEWAY_DECL [[nodiscard]] std::size_t end(std::size_t stage) const;
  /// As parallel::pipeline takes them: the first block of each stage but the first.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::int64_t> cuts() const;
};

/// The blocks [from, to) of `model` as a stage, with the embedding and the head where it holds them.
CAUSEWAY_DECL block_cost cost_of_stage(const model_cost& model, std::size_t from, std::size_t to);

namespace detail {

/// Sums over runs of blocks in constant time.
class stage_sums {
 public:
  CAUSEWAY_DECL explicit stage_sums(const model_cost& model);

  CAUSEWAY_DECL [[nodiscard]] double of(double block_cost::*what, std::size_t from, std::size_t to) const;

  CAUSEWAY_DECL [[nodiscard]] double memory(const stage_device& d, std::size_t from, std::size_t to) const;

 private:
  const model_cost& model_;
  std::vector<block_cost> before_;
};

}  // namespace detail

/// As many blocks in each stage as in any other, or one more. errc::invalid_argument: fewer blocks than stages.
CAUSEWAY_DECL result<stage_split> split_evenly(std::size_t blocks, std::size_t stages);

/// The largest stage has as few parameters as can be. errc::invalid_argument: fewer blocks than stages.
CAUSEWAY_DECL result<stage_split> split_by_parameters(const model_cost& model, std::size_t stages);

/// Stage s on `devices[s]`: the slowest takes as little time as can be, and each fits its device's memory.
/// errc::invalid_argument: fewer blocks than devices; errc::out_of_memory: no split fits, with the least memory of every
/// device at which one would.
CAUSEWAY_DECL result<stage_split> split_by_time(const model_cost& model, std::span<const stage_device> devices);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_STAGE_SPLIT_HPP

// ---- causeway/plan/impl/stage_split.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_STAGE_SPLIT_IPP
#define CAUSEWAY_PLAN_IMPL_STAGE_SPLIT_IPP

#include <cmath>
#include <cstdio>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL result<void> check_stages(std::size_t blocks, std::size_t stages) {
  if (stages > 0 && stages <= blocks) return {};
  return fail(errc::invalid_argument, "stages",
              std::to_string(blocks) + " blocks do not go into " + std::to_string(stages) +
                  " stages; each stage needs a block: take 1 to " + std::to_string(blocks));
}

/// Splits `blocks` into `stages` runs of at least one so that the largest `load(stage, from, to)` is least, and then the
/// sum of its squares. Infinite loads are not allowed; an infinite optimum: nothing fits. O(stages blocks^2) loads.
template <class Load>
  requires requires(Load& f, std::size_t i) {
    { f(i, i, i) } -> ConvertibleTo<double>;
  }
stage_split least_largest(std::size_t blocks, std::size_t stages, Load load) {
  constexpr double none = std::numeric_limits<double>::infinity();
  const std::size_t width = blocks + 1;
  // best[s * width + b]: blocks [0, b) in s stages. First for the largest load, then for the squares under that limit.
  std::vector<double> best;
  std::vector<std::size_t> cut((stages + 1) * width);
  const auto fill = [&](auto joined) {
    best.assign((stages + 1) * width, none);
    best[0] = 0;
    for (std::size_t s = 1; s <= stages; ++s) {
      for (std::size_t b = s; b <= blocks - (stages - s); ++b) {
        for (std::size_t c = s - 1; c < b; ++c) {
          const double before = best[(s - 1) * width + c];
          const double cost = before == none ? none : joined(before, load(s - 1, c, b));
          if (cost >= best[s * width + b]) continue;
          best[s * width + b] = cost;
          cut[s * width + b] = c;
        }
      }
    }
    return best.back();
  };
  const double limit = fill([](double before, double stage) { return std::max(before, stage); });
  stage_split split{std::vector<std::size_t>(stages), blocks, limit};
  if (limit == none) return split;
  fill([&](double before, double stage) { return stage <= limit ? before + stage * stage : none; });
  for (std::size_t s = stages, b = blocks; s > 0; b = split.first_block[--s]) split.first_block[s - 1] = cut[s * width + b];
  return split;
}

CAUSEWAY_DECL std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", std::ceil(bytes * 1e-7) * 1e-2);
  return text;
}

CAUSEWAY_DECL stage_sums::stage_sums(const model_cost& model) : model_{model}, before_(model.blocks.size() + 1) {
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    before_[b + 1] = before_[b];
    before_[b + 1] += model.blocks[b];
  }
}

CAUSEWAY_DECL double stage_sums::of(double block_cost::*what, std::size_t from, std::size_t to) const {
  double sum = before_[to].*what - before_[from].*what;
  if (from == 0) sum += model_.embedding.*what;
  if (to + 1 == before_.size()) sum += model_.head.*what;
  return sum;
}

CAUSEWAY_DECL double stage_sums::memory(const stage_device& d, std::size_t from, std::size_t to) const {
  return of(&block_cost::memory, from, to) + d.under_way * of(&block_cost::activation, from, to);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL block_cost& block_cost::operator+=(const block_cost& o) noexcept {
  parameters += o.parameters;
  seconds += o.seconds;
  memory += o.memory;
  activation += o.activation;
  return *this;
}

CAUSEWAY_DECL std::size_t stage_split::end(std::size_t stage) const {
  return stage + 1 < first_block.size() ? first_block[stage + 1] : blocks;
}

CAUSEWAY_DECL std::vector<std::int64_t> stage_split::cuts() const {
  std::vector<std::int64_t> some;
  for (std::size_t s = 1; s < first_block.size(); ++s) some.push_back(static_cast<std::int64_t>(first_block[s]));
  return some;
}

CAUSEWAY_DECL block_cost cost_of_stage(const model_cost& model, std::size_t from, std::size_t to) {
  block_cost sum;
  if (from == 0) sum += model.embedding;
  for (std::size_t b = from; b < to; ++b) sum += model.blocks[b];
  if (to == model.blocks.size()) sum += model.head;
  return sum;
}

CAUSEWAY_DECL result<stage_split> split_evenly(std::size_t blocks, std::size_t stages) {
  CAUSEWAY_TRY(detail::check_stages(blocks, stages));
  stage_split split{std::vector<std::size_t>(stages), blocks, static_cast<double>((blocks + stages - 1) / stages)};
  for (std::size_t s = 0; s < stages; ++s) split.first_block[s] = s * blocks / stages;
  return split;
}

CAUSEWAY_DECL result<stage_split> split_by_parameters(const model_cost& model, std::size_t stages) {
  CAUSEWAY_TRY(detail::check_stages(model.blocks.size(), stages));
  const detail::stage_sums sums{model};
  return detail::least_largest(model.blocks.size(), stages, [&](std::size_t, std::size_t from, std::size_t to) {
    return sums.of(&block_cost::parameters, from, to);
  });
}

CAUSEWAY_DECL result<stage_split> split_by_time(const model_cost& model, std::span<const stage_device> devices) {
  const std::size_t blocks = model.blocks.size();
  CAUSEWAY_TRY(detail::check_stages(blocks, devices.size()));
  const detail::stage_sums sums{model};
  const stage_split split = detail::least_largest(blocks, devices.size(), [&](auto s, auto from, auto to) {
    CAUSEWAY_EXPECT(devices[s].speed > 0);
    if (sums.memory(devices[s], from, to) > devices[s].memory) return std::numeric_limits<double>::infinity();
    return sums.of(&block_cost::seconds, from, to) / devices[s].speed;
  });
  if (split.slowest < std::numeric_limits<double>::infinity()) return split;
  const double enough = detail::least_largest(blocks, devices.size(), [&](auto s, auto from, auto to) {
                          return sums.memory(devices[s], from, to);
                        }).slowest;
  return fail(errc::out_of_memory, "stages",
              "no cut into " + std::to_string(devices.size()) + " stages fits the devices' memory; " +
                  detail::gigabytes(enough) + " on each would do, or take more stages or fewer micro-batches under way");
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_STAGE_SPLIT_IPP
#endif

// ---- causeway/plan/step_estimate.hpp ----
#ifndef CAUSEWAY_PLAN_STEP_ESTIMATE_HPP
#define CAUSEWAY_PLAN_STEP_ESTIMATE_HPP

// How long a training step takes on given devices and links, and where the time goes. Each replica runs its micro-batches
// through its stages as in GPipe: all forward, then all backward. Stages and links are machines that each micro-batch takes
// alike, so a pass takes the first one's way through all of them and the slowest machine's time for each further one: exact
// (a flow shop of equal jobs). Links carry both directions at once and do not disturb one another. When the slowest replica
// is through, each stage's replicas average their gradients as in DTFM's model (placement.hpp). Nothing of the average is
// overlapped.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What a step consists of. Seconds are those of a device of speed 1.
struct step_work {
  std::vector<double> forward;         ///< of one micro-batch, each stage
  std::vector<double> backward;        ///< with what is recomputed
  std::vector<double> gradient_bytes;  ///< of each stage
  double message_bytes = 0;            ///< of one micro-batch between two stages, and its gradient back
  std::size_t micro_batches = 1;       ///< of one replica, at least 1
};

/// Seconds of a step, in parts that add up.
struct step_estimate {
  double compute = 0;               ///< that the busiest device of the slowest replica computes
  double bubble = 0;                ///< that it waits for other stages' work
  double activations = 0;           ///< that the replica's messages add to that: exposed communication
  double averaging = 0;             ///< of gradients: exposed communication too
  std::size_t replica = 0;          ///< the slowest
  std::size_t averaging_stage = 0;  ///< whose average takes the longest

  [[nodiscard]] double total() const noexcept { return compute + bubble + activations + averaging; }
};

/// The step of `where`; device d computes at `speeds[d]`, which is above 0.
CAUSEWAY_DECL step_estimate estimate_step(const link_matrix& links, const placement& where, std::span<const double> speeds,
                                          const step_work& work);

/// Swaps devices of `where` with one another, and with those that it leaves out, as long as that makes the step shorter;
/// at most `evaluations` tries. DTFM's cost takes all devices as equally fast and a batch as one message: this does not.
CAUSEWAY_DECL step_estimate refine_by_swaps(const link_matrix& links, placement& where, std::span<const double> speeds,
                                            const step_work& work, std::size_t evaluations);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_STEP_ESTIMATE_HPP

// ---- causeway/plan/impl/step_estimate.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_STEP_ESTIMATE_IPP
#define CAUSEWAY_PLAN_IMPL_STEP_ESTIMATE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// One replica's two passes; `links`: null for free ones.
CAUSEWAY_DECL double replica_seconds(const step_work& work, const placement& where, std::span<const double> speeds,
                                     const link_matrix* links, std::size_t replica) {
  double down = 0, up = 0, slowest_down = 0, slowest_up = 0;
  const auto add = [](double seconds, double latency, double& sum, double& slowest) {
    sum += seconds + latency;
    slowest = std::max(slowest, seconds);
  };
  for (std::size_t s = 0; s < where.stages(); ++s) {
    const std::size_t device = where.device(s, replica);
    add(work.forward[s] / speeds[device], 0, down, slowest_down);
    add(work.backward[s] / speeds[device], 0, up, slowest_up);
    if (links == nullptr || s + 1 == where.stages()) continue;
    const link_cost& out = (*links)(device, where.device(s + 1, replica));
    const link_cost& back = (*links)(where.device(s + 1, replica), device);
    add(8 * work.message_bytes / out.bandwidth, out.delay, down, slowest_down);
    add(8 * work.message_bytes / back.bandwidth, back.delay, up, slowest_up);
  }
  return down + up + static_cast<double>(work.micro_batches - 1) * (slowest_down + slowest_up);
}

CAUSEWAY_DECL double stage_average(const link_matrix& links, const placement& where, const step_work& work,
                                   std::size_t stage) {
  return data_parallel_seconds(links, where.group(stage), {where.replicas, where.stages(), work.gradient_bytes[stage], 0});
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL step_estimate estimate_step(const link_matrix& links, const placement& where, std::span<const double> speeds,
                                          const step_work& work) {
  CAUSEWAY_EXPECT(speeds.size() == links.size() && work.forward.size() == where.stages() && work.micro_batches > 0);
  step_estimate e;
  double slowest = 0;
  for (std::size_t r = 0; r < where.replicas; ++r) {
    const double seconds = detail::replica_seconds(work, where, speeds, &links, r);
    if (seconds > slowest) slowest = seconds, e.replica = r;
  }
  for (std::size_t s = 0; s < where.stages(); ++s) {
    const double busy =
        static_cast<double>(work.micro_batches) * (work.forward[s] + work.backward[s]) / speeds[where.device(s, e.replica)];
    e.compute = std::max(e.compute, busy);
    const double average = detail::stage_average(links, where, work, s);
    if (average > e.averaging) e.averaging = average, e.averaging_stage = s;
  }
  const double without_links = detail::replica_seconds(work, where, speeds, nullptr, e.replica);
  e.bubble = without_links - e.compute;
  e.activations = slowest - without_links;
  return e;
}

CAUSEWAY_DECL step_estimate refine_by_swaps(const link_matrix& links, placement& where, std::span<const double> speeds,
                                            const step_work& work, std::size_t evaluations) {
  std::vector<char> used(links.size());
  for (const std::size_t d : where.devices) used[d] = 1;
  std::vector<std::size_t> all = where.devices;
  for (std::size_t d = 0; d < links.size(); ++d) {
    if (used[d] == 0) all.push_back(d);
  }
  const std::size_t placed = where.devices.size();
  step_estimate best = estimate_step(links, where, speeds, work);
  for (bool helped = true; helped && evaluations > 0;) {
    helped = false;
    for (std::size_t a = 0; a < placed; ++a) {
      for (std::size_t b = a + 1; b < all.size() && evaluations > 0; ++b, --evaluations) {
        std::swap(all[a], all[b]);
        where.devices[a] = all[a];
        if (b < placed) where.devices[b] = all[b];
        const step_estimate next = estimate_step(links, where, speeds, work);
        if (next.total() < best.total() * (1 - 1e-9)) {
          best = next;
          helped = true;
          continue;
        }
        std::swap(all[a], all[b]);
        where.devices[a] = all[a];
        if (b < placed) where.devices[b] = all[b];
      }
    }
  }
  return best;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_STEP_ESTIMATE_IPP
#endif

// ---- causeway/plan/transformer_cost.hpp ----
#ifndef CAUSEWAY_PLAN_TRANSFORMER_COST_HPP
#define CAUSEWAY_PLAN_TRANSFORMER_COST_HPP

// What a decoder-only transformer costs to train, from its sizes: parameters, operations, memory and what crosses a cut.
// Operations are those of the matrix products (2 per parameter and token) and of causal attention, which meets half of the
// context on average. Activations are recomputed block by block: of each micro-batch under way only the blocks' inputs are
// kept, and one block's 34 width bytes per token (Korthikanti et al. 2022, arXiv 2205.05198, table 2, without the scores,
// which a fused attention does not store).

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// The sizes of a model.
struct transformer_shape {
  std::string_view name;
  std::size_t layers = 1;
  std::size_t width = 1;
  std::size_t hidden = 4;    ///< of the feed-forward part
  std::size_t kv_width = 1;  ///< of keys and of values: width, or less with grouped queries
  std::size_t vocabulary = 1;
  std::size_t context = 1;  ///< tokens in a sequence
  bool gated = false;       ///< three feed-forward matrices, no biases and no table of positions: Llama; else GPT
  bool tied = true;         ///< the head is the embedding's table
};

inline constexpr std::array<transformer_shape, 14> transformer_presets{{
    {"gpt2", 12, 768, 3072, 768, 50257, 1024, false, true},
    {"gpt2-medium", 24, 1024, 4096, 1024, 50257, 1024, false, true},
    {"gpt2-large", 36, 1280, 5120, 1280, 50257, 1024, false, true},
    {"gpt2-xl", 48, 1600, 6400, 1600, 50257, 1024, false, true},
    {"gpt3-xl", 24, 2048, 8192, 2048, 50257, 2048, false, true},
    {"gpt3-6.7b", 32, 4096, 16384, 4096, 50257, 2048, false, true},
    {"gpt3-13b", 40, 5120, 20480, 5120, 50257, 2048, false, true},
    {"gpt3-175b", 96, 12288, 49152, 12288, 50257, 2048, false, true},
    {"llama-7b", 32, 4096, 11008, 4096, 32000, 2048, true, false},
    {"llama-13b", 40, 5120, 13824, 5120, 32000, 2048, true, false},
    {"llama-30b", 60, 6656, 17920, 6656, 32000, 2048, true, false},
    {"llama-65b", 80, 8192, 22016, 8192, 32000, 2048, true, false},
    {"llama3-8b", 32, 4096, 14336, 1024, 128256, 8192, true, false},
    {"llama3-70b", 80, 8192, 28672, 1024, 128256, 8192, true, false},
}};

/// The preset called `name`, or nullptr.
CAUSEWAY_DECL const transformer_shape* find_transformer(std::string_view name);

/// How numbers are kept.
struct training_bytes {
  double state = 16;      ///< per parameter: weight, gradient and Adam's moments in f32, or f16 with an f32 copy
  double gradient = 4;    ///< per parameter, when replicas average
  double activation = 2;  ///< per value that crosses a cut
};

/// Of the whole model.
CAUSEWAY_DECL double total_parameters(const transformer_shape& t);

/// Bytes from one stage to the next, for `tokens` tokens; their gradients are as many.
CAUSEWAY_DECL double boundary_bytes(const transformer_shape& t, double tokens, const training_bytes& bytes);

/// Bytes that a stage needs while it works on one block, once.
CAUSEWAY_DECL double working_bytes(const transformer_shape& t, double tokens);

/// Each block with micro-batches of `tokens` tokens. `seconds` are operations of forward, recomputed forward and backward,
/// and so seconds on a device of `speed` operations per second.
CAUSEWAY_DECL model_cost cost_of(const transformer_shape& t, double tokens, const training_bytes& bytes);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_TRANSFORMER_COST_HPP

// ---- causeway/plan/impl/transformer_cost.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_TRANSFORMER_COST_IPP
#define CAUSEWAY_PLAN_IMPL_TRANSFORMER_COST_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL double matrix_parameters(const transformer_shape& t) {
  const auto w = static_cast<double>(t.width), h = static_cast<double>(t.hidden), kv = static_cast<double>(t.kv_width);
  return 2 * w * w + 2 * w * kv + (t.gated ? 3 : 2) * w * h;
}

/// Forward; the backward pass takes twice as much.
CAUSEWAY_DECL double block_operations(const transformer_shape& t) {
  return 2 * matrix_parameters(t) + 2 * static_cast<double>(t.context) * static_cast<double>(t.width);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Of one block, with norms and biases.
CAUSEWAY_DECL double block_parameters(const transformer_shape& t) {
  const auto w = static_cast<double>(t.width), h = static_cast<double>(t.hidden), kv = static_cast<double>(t.kv_width);
  return detail::matrix_parameters(t) + (t.gated ? 2 * w : 4 * w + 2 * w + 2 * kv + h + w);
}

CAUSEWAY_DECL const transformer_shape* find_transformer(std::string_view name) {
  for (const transformer_shape& t : transformer_presets) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

CAUSEWAY_DECL double total_parameters(const transformer_shape& t) {
  const auto w = static_cast<double>(t.width), v = static_cast<double>(t.vocabulary);
  const double tables = v * w * (t.tied ? 1 : 2) + (t.gated ? 0 : static_cast<double>(t.context) * w);
  return static_cast<double>(t.layers) * block_parameters(t) + tables + (t.gated ? w : 2 * w);
}

CAUSEWAY_DECL double boundary_bytes(const transformer_shape& t, double tokens, const training_bytes& bytes) {
  return tokens * static_cast<double>(t.width) * bytes.activation;
}

CAUSEWAY_DECL double working_bytes(const transformer_shape& t, double tokens) {
  return 34 * tokens * static_cast<double>(t.width);
}

CAUSEWAY_DECL model_cost cost_of(const transformer_shape& t, double tokens, const training_bytes& bytes) {
  constexpr double passes = 4;  // forward, forward again, and twice that for the backward pass
  const auto w = static_cast<double>(t.width), v = static_cast<double>(t.vocabulary);
  model_cost m;
  const double block = block_parameters(t);
  m.blocks.assign(t.layers, {block, passes * tokens * detail::block_operations(t), block * bytes.state,
                             boundary_bytes(t, tokens, bytes)});
  m.embedding.parameters = v * w + (t.gated ? 0 : static_cast<double>(t.context) * w);
  m.embedding.memory = m.embedding.parameters * bytes.state;
  m.head.parameters = t.tied ? 0 : v * w;  // a tied table is counted once, but both ends hold it
  m.head.seconds = 3 * tokens * 2 * v * w;
  m.head.memory = v * w * bytes.state + 4 * tokens * v;  // and the logits
  return m;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TRANSFORMER_COST_IPP
#endif

// ---- causeway/plan/pipeline_plan.hpp ----
#ifndef CAUSEWAY_PLAN_PIPELINE_PLAN_HPP
#define CAUSEWAY_PLAN_PIPELINE_PLAN_HPP

// A whole plan for training a transformer on devices that are linked unequally: how many stages and replicas, which device
// holds which stage of which replica, where the model is cut, and what a step takes. For each shape DTFM places the stages
// (dtfm.hpp), the cut follows the devices' speed and memory (stage_split.hpp), and swaps against the predicted step follow
// (step_estimate.hpp). Where the shape is open, all are searched a little and the better ones more.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// A device: operations per second that training reaches on it (not those of the data sheet), and bytes.
struct compute_device {
  double speed = 1e12;
  double memory = std::numeric_limits<double>::infinity();
};

struct pipeline_plan_options {
  std::size_t global_batch = 1;  ///< sequences in a step
  std::size_t micro_batch = 1;   ///< sequences
  std::size_t stages = 0;        ///< 0: any
  std::size_t replicas = 0;      ///< 0: as many as go on the devices, or a half, a quarter, ... of that
  training_bytes bytes{};
  dtfm_options search{};
  bool refine = true;  ///< with swaps against the predicted step
};

struct pipeline_plan {
  placement where;
  stage_split split;
  step_work work;
  step_estimate step;
  placement_cost dtfm;  ///< of `where` in DTFM's model
  std::uint64_t evaluations = 0;

  [[nodiscard]] std::size_t stages() const noexcept { return where.stages(); }
};

/// The plan with the shortest step that the search finds. errc::out_of_memory: the model fits in no shape;
/// errc::invalid_argument: sizes that do not go together. The same input and seed give the same plan.
CAUSEWAY_DECL result<pipeline_plan> plan_pipeline(const transformer_shape& shape, const link_matrix& links,
                                                  std::span<const compute_device> devices,
                                                  const pipeline_plan_options& options);

/// What placements take that know nothing of the links, with the shape of `like` and the devices' own cut.
struct blind_steps {
  double mean = 0;        ///< of `draws` random placements
  double median = 0;      ///<
  double by_stage = 0;    ///< the devices in the order of their list, stage by stage
  double by_replica = 0;  ///< replica by replica: round robin over the stages
  double dtfm = 0;        ///< the mean cost of random placements in DTFM's model
};

/// Placements whose devices cannot hold what they get are left out; 0 where none can.
CAUSEWAY_DECL blind_steps estimate_blind(const transformer_shape& shape, const link_matrix& links,
                                         std::span<const compute_device> devices, const pipeline_plan_options& options,
                                         std::size_t replicas, std::size_t stages, std::size_t draws = 200);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PIPELINE_PLAN_HPP

// ---- causeway/plan/impl/pipeline_plan.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_PIPELINE_PLAN_IPP
#define CAUSEWAY_PLAN_IMPL_PIPELINE_PLAN_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class pipeline_planner {
 public:
  CAUSEWAY_DECL pipeline_planner(const transformer_shape& shape, const link_matrix& links,
                                 std::span<const compute_device> devices, const pipeline_plan_options& options)
      : shape_{shape}, links_{links}, devices_{devices.begin(), devices.end()}, options_{options} {
    tokens_ = static_cast<double>(options.micro_batch * shape.context);
    model_ = plan::cost_of(shape, tokens_, options.bytes);
    for (const compute_device& d : devices_) speeds_.push_back(d.speed);
  }

  [[nodiscard]] std::span<const double> speeds() const noexcept { return speeds_; }

  CAUSEWAY_DECL [[nodiscard]] pipeline_task task(std::size_t replicas, std::size_t stages) const {
    const double tokens = static_cast<double>(share(replicas) * shape_.context);
    return {replicas, stages, total_parameters(shape_) / static_cast<double>(stages) * options_.bytes.gradient,
            boundary_bytes(shape_, tokens, options_.bytes)};
  }

  /// The cut for these devices: each stage is as fast, and as large, as the least of its replicas.
  CAUSEWAY_DECL [[nodiscard]] result<pipeline_plan> cut(placement where) const {
    pipeline_plan p;
    p.work.micro_batches = (share(where.replicas) + options_.micro_batch - 1) / options_.micro_batch;
    std::vector<stage_device> holders;
    for (std::size_t s = 0; s < where.stages(); ++s) {
      stage_device h{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(),
                     static_cast<double>(p.work.micro_batches)};
      for (const std::size_t d : where.group(s)) {
        h.speed = std::min(h.speed, devices_[d].speed);
        h.memory = std::min(h.memory, devices_[d].memory - working_bytes(shape_, tokens_));
      }
      holders.push_back(h);
    }
    CAUSEWAY_ASSIGN(p.split, split_by_time(model_, holders));
    set_work(p);
    p.where = std::move(where);
    return p;
  }

  /// The best plan of this shape, with a search of `search`. DTFM is asked twice: as in the paper, where a replica's
  /// activations cross each hop as one message, and with messages that go on as micro-batches, so that the hops' times
  /// overlap: then a hop costs about 1 / (stages - 1) of that. The order of the list is tried too: it is often by site.
  CAUSEWAY_DECL [[nodiscard]] result<pipeline_plan> run(std::size_t replicas, std::size_t stages,
                                                        const dtfm_options& search) const {
    pipeline_task whole = task(replicas, stages), overlapped = whole;
    overlapped.activation_bytes /= static_cast<double>(std::max<std::size_t>(2, stages) - 1);
    result<pipeline_plan> best = fail(errc::out_of_memory, "plan", "nothing was tried");
    std::uint64_t evaluations = 0;
    const auto consider = [&](placement where) {
      auto p = arranged(std::move(where), search);
      if (!best || (p && p->step.total() < best->step.total())) best = std::move(p);
    };
    for (const pipeline_task& t : {whole, overlapped}) {
      CAUSEWAY_ASSIGN(dtfm_plan placed, plan_dtfm(links_, t, search));
      evaluations += placed.evaluations;
      consider(std::move(placed.where));
      if (stages <= 2) break;  // one hop: the same twice
    }
    if (options_.refine) consider(placed_by_stage(whole));
    if (options_.refine) consider(placed_by_replica(whole));
    if (!best) return best;
    best->evaluations = evaluations;
    best->dtfm = plan::cost_of(links_, best->where, whole);
    return best;
  }

 private:
  [[nodiscard]] std::size_t share(std::size_t replicas) const { return (options_.global_batch + replicas - 1) / replicas; }

  CAUSEWAY_DECL void set_work(pipeline_plan& p) const {
    for (std::size_t s = 0; s < p.split.stages(); ++s) {
      const block_cost c = cost_of_stage(model_, p.split.first_block[s], p.split.end(s));
      p.work.forward.push_back(c.seconds / 4);  // of forward, recomputed forward, and twice that
      p.work.backward.push_back(c.seconds * 3 / 4);
      p.work.gradient_bytes.push_back(c.parameters * options_.bytes.gradient);
    }
    p.work.message_bytes = boundary_bytes(shape_, tokens_, options_.bytes);
  }

  /// Cut, and refined where that is wanted and helps.
  CAUSEWAY_DECL [[nodiscard]] result<pipeline_plan> arranged(placement where, const dtfm_options& search) const {
    CAUSEWAY_ASSIGN(pipeline_plan p, cut(std::move(where)));
    p.step = estimate_step(links_, p.where, speeds_, p.work);
    if (!options_.refine) return p;
    placement swapped = p.where;
    refine_by_swaps(links_, swapped, speeds_, p.work, std::max<std::uint64_t>(4000, search.evaluations / 4));
    auto anew = cut(std::move(swapped));  // other devices, other cut; their memory may not do
    if (!anew) return p;
    anew->step = estimate_step(links_, anew->where, speeds_, anew->work);
    if (anew->step.total() < p.step.total()) return anew;
    return p;
  }

  transformer_shape shape_;
  const link_matrix& links_;
  std::vector<compute_device> devices_;
  pipeline_plan_options options_;
  double tokens_ = 0;
  model_cost model_;
  std::vector<double> speeds_;
};

CAUSEWAY_DECL result<void> check_pipeline_plan(const link_matrix& links, std::span<const compute_device> devices,
                                               const pipeline_plan_options& o) {
  const auto wrong = [](std::string what) { return fail(errc::invalid_argument, "plan", std::move(what)); };
  if (devices.empty() || devices.size() != links.size()) return wrong("needs a device for each row of the links");
  for (const compute_device& d : devices) {
    if (!(d.speed > 0) || !(d.memory > 0)) return wrong("each device needs a speed and a memory above 0");
  }
  if (o.global_batch == 0 || o.micro_batch == 0)
    return wrong("needs a global batch and a micro-batch of a sequence or more");
  return {};
}

/// Searches each shape a little, the better quarter of them six times as long, and so on (successive halving, Jamieson and
/// Talwalkar 2016): the last ones with the whole of `search`.
CAUSEWAY_DECL result<pipeline_plan> best_of_shapes(const pipeline_planner& planner,
                                                   const std::vector<std::pair<std::size_t, std::size_t>>& shapes,
                                                   const dtfm_options& search) {
  struct attempt {
    std::size_t replicas = 0, stages = 0;
    double seconds = 0;
  };
  std::vector<attempt> left;
  for (const auto& [replicas, stages] : shapes) left.push_back({replicas, stages});
  result<pipeline_plan> best = fail(errc::out_of_memory, "plan", "nothing was tried");
  for (std::uint64_t budget = shapes.size() == 1 ? search.evaluations : 1500;; budget *= 6) {
    dtfm_options some = search;
    some.evaluations = std::min(budget, search.evaluations);
    for (attempt& a : left) {
      result<pipeline_plan> p = planner.run(a.replicas, a.stages, some);
      a.seconds = p ? p->step.total() : std::numeric_limits<double>::infinity();
      if (!best || (p && p->step.total() < best->step.total())) best = std::move(p);
    }
    if (!best || budget >= search.evaluations) return best;
    std::stable_sort(left.begin(), left.end(), [](const attempt& a, const attempt& b) { return a.seconds < b.seconds; });
    left.resize(std::max<std::size_t>(1, left.size() / 4));
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// The shapes (replicas, stages) that `options` leave open, for a model of `layers` blocks on `devices` devices.
CAUSEWAY_DECL std::vector<std::pair<std::size_t, std::size_t>> pipeline_shapes(std::size_t layers, std::size_t devices,
                                                                               const pipeline_plan_options& options) {
  std::vector<std::pair<std::size_t, std::size_t>> shapes;
  for (std::size_t s = 1; s <= std::min(layers, devices); ++s) {
    if (options.stages != 0 && s != options.stages) continue;
    const std::size_t most = std::min(devices / s, options.global_batch);
    if (options.replicas != 0 && options.replicas <= most) shapes.emplace_back(options.replicas, s);
    if (options.replicas != 0) continue;
    for (std::size_t r = most; r > 0; r /= 2) shapes.emplace_back(r, s);  // leaving far devices out can be quicker
  }
  return shapes;
}

CAUSEWAY_DECL result<pipeline_plan> plan_pipeline(const transformer_shape& shape, const link_matrix& links,
                                                  std::span<const compute_device> devices,
                                                  const pipeline_plan_options& options) {
  CAUSEWAY_TRY(detail::check_pipeline_plan(links, devices, options));
  const detail::pipeline_planner planner{shape, links, devices, options};
  const auto shapes = pipeline_shapes(shape.layers, devices.size(), options);
  if (shapes.empty()) {
    return fail(errc::invalid_argument, "plan",
                std::to_string(options.stages) + " stages of " + std::to_string(options.replicas) +
                    " replicas do not go with " + std::to_string(devices.size()) + " devices, " +
                    std::to_string(shape.layers) + " blocks and a batch of " + std::to_string(options.global_batch) +
                    "; 0 leaves a number open");
  }
  return detail::best_of_shapes(planner, shapes, options.search);
}

CAUSEWAY_DECL blind_steps estimate_blind(const transformer_shape& shape, const link_matrix& links,
                                         std::span<const compute_device> devices, const pipeline_plan_options& options,
                                         std::size_t replicas, std::size_t stages, std::size_t draws) {
  const detail::pipeline_planner planner{shape, links, devices, options};
  const pipeline_task task = planner.task(replicas, stages);
  const auto seconds = [&](placement where) {
    const auto p = planner.cut(std::move(where));
    return p ? estimate_step(links, p->where, planner.speeds(), p->work).total() : 0;
  };
  blind_steps blind{0, 0, seconds(placed_by_stage(task)), seconds(placed_by_replica(task)), 0};
  rng draw{options.search.seed, mix(0x626C696EU)};
  std::vector<double> all;
  for (std::size_t i = 0; i < draws; ++i) {
    placement where = placed_at_random(task, links.size(), draw);
    blind.dtfm += plan::cost_of(links, where, task).total() / static_cast<double>(draws);
    if (const double s = seconds(std::move(where)); s > 0) all.push_back(s);
  }
  if (all.empty()) return blind;
  std::sort(all.begin(), all.end());
  blind.median = all[all.size() / 2];
  for (const double s : all) blind.mean += s / static_cast<double>(all.size());
  return blind;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PIPELINE_PLAN_IPP
#endif

// ---- causeway/plan/preemption_trace.hpp ----
#ifndef CAUSEWAY_PLAN_PREEMPTION_TRACE_HPP
#define CAUSEWAY_PLAN_PREEMPTION_TRACE_HPP

// When the instances of a cluster come and go, and made-up traces of that. Text is in preemption_trace_text.hpp.
//
// Made-up traces follow what is published of spot instances: they are taken back several at a time, from one zone (Thorpe
// et al., Bamboo, NSDI 2023, section 3), and replaced some minutes later. The distributions are ours: events are Poisson
// with a rate in proportion to what is live, sizes geometric, delays of replacements exponential.

#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct instance_event {
  double seconds = 0;  ///< from the start of the trace
  bool arrives = true;
  std::uint32_t instance = 0;  ///< its place in `instances`

  friend bool operator==(const instance_event&, const instance_event&) = default;
};

struct trace_instance {
  std::string name;
  std::uint32_t zone = 0;  ///< its place in `zones`

  friend bool operator==(const trace_instance&, const trace_instance&) = default;
};

/// Events in the order of time; of equal times, in the order in which they happen. An instance arrives before it leaves,
/// and may come again.
struct preemption_trace {
  std::vector<instance_event> events;
  std::vector<trace_instance> instances;
  std::vector<std::string> zones;
  double seconds = 0;  ///< length: not before the last event

  friend bool operator==(const preemption_trace&, const preemption_trace&) = default;
};

/// What a trace is like.
struct trace_summary {
  double mean_instances = 0;  ///< over time
  std::size_t fewest = 0;     ///< after the events of the first moment
  std::size_t most = 0;
  std::size_t losses = 0;
  std::size_t bulks = 0;         ///< moments at which at least one instance leaves
  double hourly_loss_share = 0;  ///< losses for each instance and hour
};

CAUSEWAY_DECL trace_summary summary_of(const preemption_trace& trace);

/// What a made-up trace is to be like.
struct trace_options {
  std::uint32_t instances = 48;     ///< asked for; all are there at the start
  std::uint32_t zones = 3;          ///< instances are spread over them in turn
  double hours = 24;                ///< length
  double hourly_loss_share = 0.10;  ///< of the live instances, in an hour on average
  double bulk = 3;                  ///< instances lost at once, on average, if the zone has as many; >= 1
  double replacement = 600;         ///< seconds until a lost instance is replaced, on average
};

/// A made-up trace; the same for the same options and seed. Times are whole milliseconds.
CAUSEWAY_DECL preemption_trace make_trace(const trace_options& options, std::uint64_t seed);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PREEMPTION_TRACE_HPP

// ---- causeway/plan/impl/preemption_trace.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_IPP
#define CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Uniform in (0, 1).
inline double open_unit(rng& draw) { return (static_cast<double>(draw.next() >> 12U) + 0.5) * 0x1.0p-52; }

inline double exponential(rng& draw, double mean) { return -mean * std::log(open_unit(draw)); }

/// Whole milliseconds, as files have them.
inline double whole_ms(double seconds) { return std::ceil(seconds * 1000) / 1000; }

/// At least 1, with this mean.
CAUSEWAY_DECL std::uint32_t geometric(rng& draw, double mean) {
  std::uint32_t n = 1;
  while (n < 4096 && open_unit(draw) > 1 / mean) ++n;
  return n;
}

class trace_maker {
 public:
  CAUSEWAY_DECL trace_maker(const trace_options& o, std::uint64_t seed) : options_{o}, draw_{seed, mix(0x7472616365U)} {
    for (std::uint32_t z = 0; z < o.zones; ++z) trace_.zones.push_back("zone" + std::to_string(z));
  }

  CAUSEWAY_DECL preemption_trace make() {
    const double end = options_.hours * 3600;
    for (std::uint32_t i = 0; i < options_.instances; ++i) arrive(0, i % options_.zones);
    double now = 0;
    while (now < end) {
      const double rate = options_.hourly_loss_share * static_cast<double>(live_.size()) / (3600 * options_.bulk);
      const double loss = rate > 0 ? whole_ms(now + exponential(draw_, 1 / rate)) : std::numeric_limits<double>::infinity();
      const double come = coming_.empty() ? std::numeric_limits<double>::infinity() : coming_.top().first;
      now = std::min(loss, come);  // an arrival changes the rate: the next loss is drawn anew, which has no memory
      if (now >= end) break;
      if (come <= loss) {
        const std::uint32_t zone = coming_.top().second;
        coming_.pop();
        arrive(now, zone);
      } else {
        lose(now);
      }
    }
    trace_.seconds = end;
    return std::move(trace_);
  }

 private:
  CAUSEWAY_DECL void arrive(double now, std::uint32_t zone) {
    const auto id = static_cast<std::uint32_t>(trace_.instances.size());
    trace_.instances.push_back({"node" + std::to_string(id + 1), zone});
    trace_.events.push_back({now, true, id});
    live_.push_back(id);
  }

  /// Some instances of the zone of one that is drawn: large zones are hit more often.
  CAUSEWAY_DECL void lose(double now) {
    const std::uint32_t zone = trace_.instances[live_[draw_.below(live_.size())]].zone;
    std::vector<std::uint32_t> there;
    for (const std::uint32_t id : live_) {
      if (trace_.instances[id].zone == zone) there.push_back(id);
    }
    for (std::uint32_t n = geometric(draw_, options_.bulk); n > 0 && !there.empty(); --n) {
      const auto at = static_cast<std::ptrdiff_t>(draw_.below(there.size()));
      const std::uint32_t id = there[static_cast<std::size_t>(at)];
      there.erase(there.begin() + at);
      live_.erase(std::find(live_.begin(), live_.end(), id));
      trace_.events.push_back({now, false, id});
      coming_.emplace(whole_ms(now + exponential(draw_, options_.replacement)), zone);
    }
  }

  const trace_options& options_;
  rng draw_;
  preemption_trace trace_;
  std::vector<std::uint32_t> live_;
  using arrival = std::pair<double, std::uint32_t>;  // when, zone
  std::priority_queue<arrival, std::vector<arrival>, std::greater<>> coming_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL trace_summary summary_of(const preemption_trace& trace) {
  trace_summary s{0, std::numeric_limits<std::size_t>::max(), 0, 0, 0, 0};
  std::size_t live = 0;
  double sum = 0, last_loss = -1;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const instance_event& e = trace.events[i];
    if (!e.arrives) {
      ++s.losses;
      if (e.seconds != last_loss) ++s.bulks;
      last_loss = e.seconds;
    }
    live += e.arrives ? 1 : std::numeric_limits<std::size_t>::max();  // minus one
    s.most = std::max(s.most, live);
    const double until = i + 1 < trace.events.size() ? trace.events[i + 1].seconds : trace.seconds;
    if (until > e.seconds || i + 1 == trace.events.size()) s.fewest = std::min(s.fewest, live);
    sum += (until - e.seconds) * static_cast<double>(live);
  }
  if (trace.events.empty()) s.fewest = 0;
  if (trace.seconds > 0) s.mean_instances = sum / trace.seconds;
  if (sum > 0) s.hourly_loss_share = static_cast<double>(s.losses) * 3600 / sum;
  return s;
}

CAUSEWAY_DECL preemption_trace make_trace(const trace_options& options, std::uint64_t seed) {
  CAUSEWAY_EXPECT(options.zones > 0 && options.hours > 0 && options.hourly_loss_share >= 0 && options.bulk >= 1 &&
                  options.replacement > 0);
  return detail::trace_maker{options, seed}.make();
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_IPP
#endif

// ---- causeway/plan/routed_time.hpp ----
#ifndef CAUSEWAY_PLAN_ROUTED_TIME_HPP
#define CAUSEWAY_PLAN_ROUTED_TIME_HPP

// How long a step takes in which micro-batches go different ways: each names the peer of every stage. Pipelines with a
// dead rank whose micro-batches go to its twins (ReCycle), ranks that do two stages (Bamboo after a failover), swarms. An
// event simulation: a peer that is free takes the gradient that is ready, of the lowest micro-batch; else a forward, if it
// has room for its activations; else a weight gradient that was put off; else a redundant forward. With one peer for each
// stage this is 1F1B. Links are not shared: a message takes its time, and no two wait for each other. What the peers do in
// it is also an order of work, to be run elsewhere: routed_schedule.hpp. A micro-batch may leave middle stages out
// (SkipPipe), and peers and the ways between them may differ: then they have their own seconds.

#include <set>
#include <tuple>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// In place of a peer: the micro-batch does not pass the stage. Not the first or the last one.
inline constexpr std::uint32_t left_out = std::numeric_limits<std::uint32_t>::max();

struct routed_step {
  stage_costs costs;                               ///< of P stages
  std::vector<std::vector<std::uint32_t>> routes;  ///< [micro-batch][stage]: peer, or left_out
  std::uint32_t share = 1;                         ///< micro-batches of a peer without losses: with them it keeps the
                                                   ///< activations of P - s; with more, of more in proportion
  bool halves = false;     ///< backwards are split: input gradients first, weight gradients in what would be bubbles
  bool shadows = false;    ///< a peer repeats the forward of the stage after its own (of the first, after the last)
  std::uint32_t room = 0;  ///< micro-batches whose activations every peer has room for; 0: as `share` says
  std::vector<stage_cost> peers{};          ///< [peer]: instead of its stage's cost; empty: all are alike
  std::vector<std::vector<double>> ways{};  ///< [from][to]: seconds of a message, instead of the edges'
};

/// The same way for all micro-batches: peers 0, 1, ... are a pipeline.
CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> straight_routes(std::size_t stages, std::size_t micro_batches);

namespace detail {

class route_clock {
 public:
  CAUSEWAY_DECL explicit route_clock(const routed_step& step);

  /// Seconds until all is done.
  CAUSEWAY_DECL double run();

  /// What each peer has done, without redundant forwards; an operation's chunk is its stage.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<operation>> take_orders();

 private:
  enum kind : std::uint8_t { gradient, forward, weight, shadow, kinds };  // in the order of preference
  using item = std::pair<std::uint32_t, std::size_t>;                     // micro-batch, stage

  struct peer_state {
    bool busy = false;
    std::array<std::set<item>, kinds> ready;
  };
  // when, in which order, peer, what; a message that arrives, or an operation that ends
  using event = std::tuple<double, std::uint64_t, std::uint32_t, kind, item, bool>;

  [[nodiscard]] std::uint32_t peer_of(const item& i) const { return step_.routes[i.first][i.second]; }
  [[nodiscard]] std::size_t next_stage(std::size_t s) const { return s + 1 < stages_ ? s + 1 : 0; }
  // That the micro-batch passes, after this one or before it; there is one.
  CAUSEWAY_DECL [[nodiscard]] std::size_t next_passed(const item& i) const;
  CAUSEWAY_DECL [[nodiscard]] std::size_t passed_before(const item& i) const;

  CAUSEWAY_DECL [[nodiscard]] double seconds(kind k, const item& i) const;

  CAUSEWAY_DECL [[nodiscard]] work work_of(kind k) const;

  CAUSEWAY_DECL void choose(std::uint32_t peer);

  CAUSEWAY_DECL void start(std::uint32_t peer, kind k, item i);

  CAUSEWAY_DECL void finish(std::uint32_t peer, kind k, item i);

  CAUSEWAY_DECL void send(std::uint32_t from, kind k, const item& what, std::size_t edge);

  const routed_step& step_;
  std::size_t stages_;
  std::vector<peer_state> peers_;
  std::vector<std::vector<operation>> orders_;
  std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> room_;  // of (peer, stage): activations that still fit
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
  std::size_t gradients_ = 0;  // that are to be done
  double now_ = 0;
};

}  // namespace detail

/// Seconds from the start of a step until all its work is done; without averaging gradients.
/// Costs O(n log n) of n micro-batches times stages.
CAUSEWAY_DECL double seconds_of(const routed_step& step);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_ROUTED_TIME_HPP

// ---- causeway/plan/impl/routed_time.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_ROUTED_TIME_IPP
#define CAUSEWAY_PLAN_IMPL_ROUTED_TIME_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL route_clock::route_clock(const routed_step& step) : step_{step}, stages_{step.costs.stages.size()} {
  std::uint32_t peers = 0;
  for (const auto& route : step.routes) {
    CAUSEWAY_EXPECT(route.size() == stages_ && route.front() != left_out && route.back() != left_out);
    for (std::size_t s = 0; s < stages_; ++s) {
      if (route[s] == left_out) continue;
      ++gradients_;
      peers = std::max(peers, route[s] + 1);
      ++room_[{route[s], s}];
    }
  }
  for (auto& [at, room] : room_) {  // of all micro-batches that come here, those that fit at once
    const std::size_t usual = ((stages_ - at.second) * room + step.share - 1) / step.share;
    room = std::max<std::size_t>(1, step.room > 0 ? step.room : usual);
  }
  peers_.resize(peers);
  orders_.resize(peers);
  for (std::uint32_t m = 0; m < step.routes.size(); ++m) peers_[step.routes[m][0]].ready[forward].insert({m, 0});
}

CAUSEWAY_DECL std::vector<std::vector<operation>> route_clock::take_orders() { return std::move(orders_); }

CAUSEWAY_DECL double route_clock::run() {
  for (std::uint32_t p = 0; p < peers_.size(); ++p) choose(p);
  std::set<std::uint32_t> awake;
  while (!events_.empty()) {
    now_ = std::get<0>(events_.top());
    for (awake.clear(); !events_.empty() && std::get<0>(events_.top()) == now_; events_.pop()) {
      const auto [when, sequence, peer, k, what, ends] = events_.top();
      if (ends)
        finish(peer, k, what);
      else
        peers_[peer].ready[k].insert(what);
      awake.insert(peer);
    }
    for (const std::uint32_t p : awake) choose(p);
  }
  CAUSEWAY_EXPECT(gradients_ == 0);  // the last stage always goes on, so all do
  return now_;
}

CAUSEWAY_DECL std::size_t route_clock::next_passed(const item& i) const {
  std::size_t s = i.second + 1;
  while (step_.routes[i.first][s] == left_out) ++s;
  return s;
}

CAUSEWAY_DECL std::size_t route_clock::passed_before(const item& i) const {
  std::size_t s = i.second - 1;
  while (step_.routes[i.first][s] == left_out) --s;
  return s;
}

CAUSEWAY_DECL double route_clock::seconds(kind k, const item& i) const {
  const stage_cost& c = step_.peers.empty() ? step_.costs.stages[i.second] : step_.peers[peer_of(i)];
  if (k == gradient) return c.input_gradient + (step_.halves ? 0 : c.weight_gradient);
  if (k == weight) return c.weight_gradient;
  return k == forward ? c.forward : step_.costs.stages[next_stage(i.second)].forward;
}

CAUSEWAY_DECL work route_clock::work_of(kind k) const {
  if (k == forward) return work::forward;
  if (k == weight) return work::weight_gradient;
  return step_.halves ? work::input_gradient : work::backward;
}

CAUSEWAY_DECL void route_clock::choose(std::uint32_t peer) {
  peer_state& p = peers_[peer];
  if (p.busy) return;
  for (int k = 0; k < kinds; ++k) {
    for (const item& i : p.ready[static_cast<std::size_t>(k)]) {
      if (k == forward && room_[{peer, i.second}] == 0) continue;
      start(peer, static_cast<kind>(k), i);
      return;
    }
  }
}

CAUSEWAY_DECL void route_clock::start(std::uint32_t peer, kind k, item i) {
  peers_[peer].ready[k].erase(i);
  peers_[peer].busy = true;
  if (k == forward) --room_[{peer, i.second}];
  if (k != shadow) orders_[peer].push_back({work_of(k), i.first, static_cast<std::uint32_t>(i.second)});
  events_.emplace(now_ + seconds(k, i), sequence_++, peer, k, i, true);
}

CAUSEWAY_DECL void route_clock::finish(std::uint32_t peer, kind k, item i) {
  peers_[peer].busy = false;
  if (k == forward) {
    if (step_.shadows && stages_ > 1 && step_.routes[i.first][next_stage(i.second)] != peer)
      peers_[peer].ready[shadow].insert(i);
    if (i.second + 1 < stages_)
      send(peer, forward, {i.first, next_passed(i)}, i.second);
    else
      peers_[peer].ready[gradient].insert(i);
  } else if (k == gradient) {
    --gradients_;
    if (step_.halves)
      peers_[peer].ready[weight].insert(i);
    else
      ++room_[{peer, i.second}];
    if (i.second > 0) send(peer, gradient, {i.first, passed_before(i)}, i.second - 1);
  } else if (k == weight) {
    ++room_[{peer, i.second}];
  }
}

CAUSEWAY_DECL void route_clock::send(std::uint32_t from, kind k, const item& what, std::size_t edge) {
  const edge_cost& e = step_.costs.edges[edge];
  const std::uint32_t to = peer_of(what);
  const double bytes = k == forward ? e.bytes_forward : e.bytes_backward;
  const double along = step_.ways.empty() ? e.latency + bytes / e.bytes_per_second : step_.ways[from][to];
  const double way = to == from ? 0 : along;
  events_.emplace(now_ + way, sequence_++, to, k, what, false);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> straight_routes(std::size_t stages, std::size_t micro_batches) {
  std::vector<std::uint32_t> route(stages);
  for (std::size_t s = 0; s < stages; ++s) route[s] = static_cast<std::uint32_t>(s);
  return std::vector<std::vector<std::uint32_t>>(micro_batches, route);
}

CAUSEWAY_DECL double seconds_of(const routed_step& step) {
  CAUSEWAY_EXPECT(!step.costs.stages.empty() && step.costs.edges.size() + 1 == step.costs.stages.size() && step.share > 0);
  return detail::route_clock{step}.run();
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_ROUTED_TIME_IPP
#endif

// ---- causeway/plan/recovery.hpp ----
#ifndef CAUSEWAY_PLAN_RECOVERY_HPP
#define CAUSEWAY_PLAN_RECOVERY_HPP

// What policies against lost stages have in common: the job that they keep going, what it costs to go on, and what a
// policy answers when peers come and go. The policies are in recovery_*.hpp; they decide and compute, and do nothing:
// preemption_replay.hpp runs them against a trace. All keep the global batch: with fewer pipelines each does more
// micro-batches.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// A model, how it is trained, and what going on costs. Peers are alike, and so are their links.
struct recovery_job {
  model_cost model;                      ///< seconds of a micro-batch; memory: what is copied or saved
  double forward_share = 0.;             ///< of a block's seconds; both halves of the backward take as long as each other
  std::size_t micro_batches = 1;         ///< of the global batch
  std::size_t micro_batch = 1;           ///< samples
  double boundary_bytes = 0;             ///< of activations between stages, per micro-batch
  double gradient_bytes = 2;             ///< per parameter, when pipelines average
  link_cost link;                        ///< between any two peers
  double detection = 0;                  ///< seconds until a loss is noticed
  double restart = 0;                    ///< seconds to end all processes and have them meet again
  double regroup = 0;                    ///< seconds to change who is whose neighbour, without ending processes
  double read_bytes_per_second = 1e18;   ///< of a checkpoint, by each peer
  double write_bytes_per_second = 1e18;  ///< of a checkpoint, by each peer, while it computes
  double checkpoint_stall = 0;           ///< seconds in which nothing is computed for each checkpoint
  std::size_t checkpoint_steps = 1;      ///< at least so many between checkpoints; the last must have been written

  [[nodiscard]] double samples() const { return static_cast<double>(micro_batches * micro_batch); }
  /// Of one sample on one peer that does all the model and never waits.
  CAUSEWAY_DECL [[nodiscard]] double sample_seconds() const;
};

/// What becomes of the step that is under way.
enum class step_fate : std::uint8_t {
  goes_on,         ///< what was computed of it stays
  begins_again,    ///< from its first sample
  from_checkpoint  ///< and so do all since the last checkpoint that was written whole
};

/// A policy's answer.
struct recovery_action {
  double pause = 0;  ///< seconds from now in which nothing is computed
  step_fate fate = step_fate::goes_on;
  double repeated_steps = 0;  ///< that must be done once more to be where training was: weights were lost and made up
};

/// Decides what happens when peers leave and come. `changed` is asked once for all that happens at one moment, with sorted
/// ids; `boundary` after each step; `step_seconds` is infinite if no step can be done; `checkpoint_bytes`: what the peer
/// with the most writes, 0: the policy makes no checkpoints.
template <class P>
concept recovery_policy = requires(P& p, const P& c, std::span<const std::uint32_t> peers) {
  { p.changed(peers, peers) } -> std::same_as<recovery_action>;
  { p.boundary() } -> std::same_as<recovery_action>;
  { c.step_seconds() } -> std::same_as<double>;
  { c.checkpoint_bytes() } -> std::same_as<double>;
};

inline constexpr double no_step = std::numeric_limits<double>::infinity();

/// A model cut into stages of equal peers. Keeps a pointer to the job, as the policies do: it must outlive them.
class cut_job {
 public:
  /// The slowest stage is as quick as can be. errc::invalid_argument: more stages than blocks.
  CAUSEWAY_DECL static result<cut_job> make(const recovery_job& job, std::size_t stages);

  [[nodiscard]] const recovery_job& job() const { return *job_; }
  [[nodiscard]] std::size_t stages() const { return costs_.stages.size(); }
  [[nodiscard]] const stage_costs& costs() const { return costs_; }
  [[nodiscard]] double state_bytes() const { return state_; }  ///< of the largest stage
  [[nodiscard]] double copy_seconds() const { return job_->link.seconds(state_); }
  [[nodiscard]] double load_seconds() const { return state_ / job_->read_bytes_per_second; }

  /// A ring all-reduce of the largest stage over `replicas`.
  CAUSEWAY_DECL [[nodiscard]] double average_seconds(std::size_t replicas) const;

  /// The micro-batches of the pipeline with the most, of `replicas`.
  [[nodiscard]] std::size_t share(std::size_t replicas) const { return (job_->micro_batches + replicas - 1) / replicas; }

  /// A step of `replicas` whole pipelines in 1F1B.
  CAUSEWAY_DECL [[nodiscard]] double step_seconds(std::size_t replicas) const;

 private:
  cut_job() = default;

  const recovery_job* job_ = nullptr;
  stage_costs costs_;
  double state_ = 0, parameters_ = 0;
};

namespace detail {

/// Takes `gone` out of `from`; both keep their order. How many were there.
CAUSEWAY_DECL std::size_t take_out(std::vector<std::uint32_t>& from, std::span<const std::uint32_t> gone);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_HPP

// ---- causeway/plan/impl/recovery.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double recovery_job::sample_seconds() const {
  return cost_of_stage(model, 0, model.blocks.size()).seconds / static_cast<double>(micro_batch);
}

CAUSEWAY_DECL result<cut_job> cut_job::make(const recovery_job& job, std::size_t stages) {
  const std::vector<stage_device> devices(stages);
  CAUSEWAY_ASSIGN(const stage_split split, split_by_time(job.model, devices));
  cut_job cut;
  cut.job_ = &job;
  for (std::size_t s = 0; s < stages; ++s) {
    const block_cost cost = cost_of_stage(job.model, split.first_block[s], split.end(s));
    const double forward = cost.seconds * job.forward_share, half = (cost.seconds - forward) / 2;
    cut.costs_.stages.push_back({forward, half, half, forward});
    cut.state_ = std::max(cut.state_, cost.memory);
    cut.parameters_ = std::max(cut.parameters_, cost.parameters);
  }
  const edge_cost edge{job.link.delay, job.boundary_bytes, job.boundary_bytes, job.link.bandwidth / 8};
  cut.costs_.edges.assign(stages - 1, edge);
  return cut;
}

CAUSEWAY_DECL double cut_job::average_seconds(std::size_t replicas) const {
  const auto d = static_cast<double>(replicas);
  return replicas < 2 ? 0 : 2 * (d - 1) * job_->link.seconds(parameters_ * job_->gradient_bytes / d);
}

CAUSEWAY_DECL double cut_job::step_seconds(std::size_t replicas) const {
  if (replicas == 0) return no_step;
  const std::size_t m = share(replicas);
  return seconds_of({costs_, straight_routes(stages(), m), static_cast<std::uint32_t>(m)}) + average_seconds(replicas);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL std::size_t take_out(std::vector<std::uint32_t>& from, std::span<const std::uint32_t> gone) {
  return std::erase_if(from, [&](std::uint32_t id) { return std::binary_search(gone.begin(), gone.end(), id); });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_IPP
#endif

// ---- causeway/plan/preemption_replay.hpp ----
#ifndef CAUSEWAY_PLAN_PREEMPTION_REPLAY_HPP
#define CAUSEWAY_PLAN_PREEMPTION_REPLAY_HPP

// How much is trained while peers come and go as a trace says, if a policy against lost stages decides what happens. Event
// by event: peers that leave, peers that are ready some time after they came, ends of pauses, of steps, and of checkpoints.
// Every sample that is computed ends up committed, thrown away, or under way at the end; a step commits its global batch
// once, and a checkpoint that is gone back to takes back what came after it.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct replay_options {
  double preparation = 0;                ///< seconds from an instance's arrival until it can train; not at the start
  double dollars_per_instance_hour = 0;  ///< from arrival on
};

/// What a replay came to. Samples are parts of whole ones where a step was broken off.
struct replay_result {
  double seconds = 0;
  double committed = 0;    ///< samples in the final weights
  double thrown_away = 0;  ///< samples computed, and computed again
  double under_way = 0;    ///< samples of the step that the trace's end broke off
  double computed = 0;     ///< samples: the sum of these three
  double paused = 0;       ///< seconds
  double stalled = 0;      ///< seconds with too few peers for a step
  std::size_t pauses = 0;
  std::size_t steps = 0;        ///< committed
  double instance_seconds = 0;  ///< of instances that are there
  double dollars = 0;           ///< for them
  double possible_samples = 0;  ///< if all of them had computed all the time without a bubble

  [[nodiscard]] double throughput() const { return seconds > 0 ? committed / seconds : 0; }  ///< samples per second
  /// The part of what the live instances could have computed that became committed samples.
  [[nodiscard]] double share() const { return possible_samples > 0 ? committed / possible_samples : 0; }
  [[nodiscard]] double dollars_per_sample() const { return committed > 0 ? dollars / committed : 0; }
};

namespace detail {

template <recovery_policy Policy>
class replayer {
 public:
  replayer(const preemption_trace& trace, const recovery_job& job, const replay_options& options, Policy& policy)
      : trace_{trace}, job_{job}, options_{options}, policy_{policy}, ready_at_(trace.instances.size(), never) {}

  replay_result run() {
    out_.seconds = trace_.seconds;
    for (;;) {
      change_members();
      const double next = std::min({trace_.seconds, next_member(), ends_pause(), ends_step()});
      const bool step = next == ends_step();
      advance(next);
      if (step) finish_step();
      if (now_ >= trace_.seconds) break;
    }
    out_.under_way = part_ * job_.samples();
    out_.steps = static_cast<std::size_t>(done_);
    out_.committed = done_ * job_.samples();
    out_.possible_samples = out_.instance_seconds / job_.sample_seconds();
    out_.dollars = out_.instance_seconds / 3600 * options_.dollars_per_instance_hour;
    return out_;
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  [[nodiscard]] bool paused() const { return now_ < resume_; }
  [[nodiscard]] double ends_pause() const { return paused() ? resume_ : never; }
  [[nodiscard]] double ends_step() const {
    return paused() || step_ == never ? never : std::max(now_, now_ + (1 - part_) * step_);
  }
  [[nodiscard]] double next_member() const {
    const double event = event_ < trace_.events.size() ? trace_.events[event_].seconds : never;
    return std::min(event, coming_.empty() ? never : coming_.begin()->first);
  }

  void advance(double to) {
    const double dt = to - now_;
    out_.instance_seconds += dt * static_cast<double>(live_);
    if (paused()) {
      out_.paused += dt;
    } else if (step_ == never) {
      out_.stalled += dt;
    } else {
      const double part = to == ends_step() ? 1 - part_ : std::min(dt / step_, 1 - part_);
      part_ += part;
      out_.computed += part * job_.samples();
    }
    now_ = to;
  }

  /// All that leave, come and become ready now.
  void change_members() {
    std::vector<std::uint32_t> lost, come;
    for (; event_ < trace_.events.size() && trace_.events[event_].seconds <= now_; ++event_) {
      const instance_event& e = trace_.events[event_];
      double& ready = ready_at_[e.instance];
      if (e.arrives) {
        ++live_;
        ready = now_ > 0 ? now_ + options_.preparation : 0;
        coming_.insert({ready, e.instance});
      } else {
        --live_;
        if (coming_.erase({ready, e.instance}) == 0) lost.push_back(e.instance);
      }
    }
    for (; !coming_.empty() && coming_.begin()->first <= now_; coming_.erase(coming_.begin()))
      come.push_back(coming_.begin()->second);
    if (lost.empty() && come.empty()) return;
    std::sort(lost.begin(), lost.end());
    std::sort(come.begin(), come.end());
    apply(policy_.changed(lost, come));
  }

  void finish_step() {
    part_ = 0;
    if (repeats_ > 0) {  // what training lost is made good first
      const double again = std::min(repeats_, 1.0);
      repeats_ -= again;
      out_.thrown_away += again * job_.samples();
      done_ += 1 - again;
    } else {
      done_ += 1;
    }
    save();
    apply(policy_.boundary());
  }

  /// Begins a checkpoint if none is being written and it is time.
  void save() {
    written();
    if (policy_.checkpoint_bytes() == 0 || writing_ends_ != never) return;
    if (done_ - saved_ < static_cast<double>(job_.checkpoint_steps)) return;
    writing_ = done_;
    writing_ends_ = now_ + job_.checkpoint_stall + policy_.checkpoint_bytes() / job_.write_bytes_per_second;
    pause_for(job_.checkpoint_stall);
  }

  void written() {
    if (writing_ends_ > now_) return;
    saved_ = writing_;
    writing_ends_ = never;
  }

  void pause_for(double seconds) {
    if (seconds > 0 && !paused()) ++out_.pauses;
    resume_ = std::max(resume_, now_ + seconds);
  }

  void apply(const recovery_action& action) {
    written();
    if (action.fate != step_fate::goes_on) {
      out_.thrown_away += part_ * job_.samples();
      part_ = 0;
    }
    if (action.fate == step_fate::from_checkpoint) {
      out_.thrown_away += (done_ - saved_) * job_.samples();
      done_ = saved_;
      writing_ends_ = never;
      repeats_ = 0;  // the checkpoint's weights are whole; the steps that were owed are gone with the others
    }
    repeats_ += action.repeated_steps;
    step_ = policy_.step_seconds();
    if (now_ > 0) pause_for(action.pause);  // who is there at the start has started before the trace does
  }

  const preemption_trace& trace_;
  const recovery_job& job_;
  const replay_options& options_;
  Policy& policy_;
  replay_result out_;
  std::vector<double> ready_at_;                       // [instance]
  std::set<std::pair<double, std::uint32_t>> coming_;  // when ready, instance
  std::size_t event_ = 0, live_ = 0;
  double now_ = 0, resume_ = 0, step_ = never;
  double part_ = 0;                // of the step under way
  double done_ = 0, repeats_ = 0;  // steps
  double saved_ = 0, writing_ = 0, writing_ends_ = never;
};

}  // namespace detail

/// Runs a policy against a trace. The policy starts without peers; those of the trace's first moment are ready at once.
/// Deterministic.
template <recovery_policy Policy>
replay_result replay(const preemption_trace& trace, const recovery_job& job, const replay_options& options, Policy policy) {
  CAUSEWAY_EXPECT(trace.seconds >= 0 && options.preparation >= 0 && job.sample_seconds() > 0);
  return detail::replayer<Policy>{trace, job, options, policy}.run();
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PREEMPTION_REPLAY_HPP

// ---- causeway/core/table_text.hpp ----
#ifndef CAUSEWAY_CORE_TABLE_TEXT_HPP
#define CAUSEWAY_CORE_TABLE_TEXT_HPP

// What tables have in common that people write as text: lines, comments from '#' on, fields, numbers, and errors that name
// the line. Nothing is trusted, and sizes are bounded.

#include <charconv>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace text {

inline constexpr std::size_t longest_table = std::size_t{16} << 20U;

CAUSEWAY_DECL std::string_view trimmed(std::string_view text);

/// The parts of `text` between `separator`, trimmed. At least one.
CAUSEWAY_DECL std::vector<std::string_view> split(std::string_view text, char separator);

/// One line of a file, for messages.
struct place {
  const std::string& name;
  std::size_t line;

  CAUSEWAY_DECL [[nodiscard]] error wrong(const std::string& what) const;
};

/// Calls `take(line, place)` for each line that holds more than blanks and comments. `name` is for messages.
template <class Take>
result<void> for_each_line(std::string_view text, const std::string& name, Take take) {
  if (text.size() > longest_table) return fail(errc::too_large, name, "longer than 16 MiB; leave out what is not needed");
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string_view line = trimmed(whole.substr(0, whole.find('#')));
    if (!line.empty()) CAUSEWAY_TRY(take(line, place{name, number}));
  }
  return {};
}

/// A number of type T that takes the whole field.
template <class T>
result<T> number_from(std::string_view field, const place& at, const char* what) {
  T value{};
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (field.empty() || code != std::errc{} || end != field.data() + field.size()) {
    return at.wrong(std::string{what} + " is not a number: \"" + std::string{field.substr(0, 40)} + '"');
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return at.wrong(std::string{what} + " must be finite");
  }
  return value;
}

/// `value` in [least, most].
CAUSEWAY_DECL result<double> number_between(std::string_view field, double least, double most, const place& at,
                                            const char* what);

}}}  // namespace causeway::CAUSEWAY_ABI::text

#endif  // CAUSEWAY_CORE_TABLE_TEXT_HPP

// ---- causeway/core/impl/table_text.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_CORE_IMPL_TABLE_TEXT_IPP
#define CAUSEWAY_CORE_IMPL_TABLE_TEXT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace text {

CAUSEWAY_DECL std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

CAUSEWAY_DECL std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

CAUSEWAY_DECL error place::wrong(const std::string& what) const {
  return fail(errc::bad_text, name + ", line " + std::to_string(line), what);
}

CAUSEWAY_DECL result<double> number_between(std::string_view field, double least, double most, const place& at,
                                            const char* what) {
  CAUSEWAY_ASSIGN(const double value, number_from<double>(field, at, what));
  if (value >= least && value <= most) return value;
  return at.wrong(std::string{what} + " is out of range: " + std::string{field.substr(0, 40)});
}

}}}  // namespace causeway::CAUSEWAY_ABI::text

#endif  // CAUSEWAY_CORE_IMPL_TABLE_TEXT_IPP
#endif

// ---- causeway/plan/preemption_trace_text.hpp ----
#ifndef CAUSEWAY_PLAN_PREEMPTION_TRACE_TEXT_HPP
#define CAUSEWAY_PLAN_PREEMPTION_TRACE_TEXT_HPP

// Traces of preemptions as CSV: docs/reference/traces.md. Three kinds of tables are told apart by their first line: columns
// with names; "time,add|remove,instance" as Oobleck's; "time,count" as Bamboo's and Parcae's. Text is not trusted: sizes
// are bounded, and every error names its line.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct trace_text_options {
  std::string name = "trace";  ///< for messages
  double per_second = 1000;    ///< units of a time column that does not say its own: Oobleck, Parcae; 1: Bamboo
  std::uint64_t seed = 0;      ///< of tables of counts: they do not say which instance leaves, so it is drawn
};

/// Reads a trace. errc::bad_text names the line; errc::too_large beyond 16 MiB, 1,048,576 events or 65,536 instances at one
/// time. In tables of counts the instances that leave are drawn with `options.seed`.
CAUSEWAY_DECL result<preemption_trace> read_trace(std::string_view text, const trace_text_options& options = {});

/// As `milliseconds,event,instance,zone`; read_trace gives the same trace again if its times are whole milliseconds.
CAUSEWAY_DECL std::string write_trace(const preemption_trace& trace);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PREEMPTION_TRACE_TEXT_HPP

// ---- causeway/plan/impl/preemption_trace_text.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_TEXT_IPP
#define CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_TEXT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

inline constexpr std::size_t most_trace_events = std::size_t{1} << 20U;
inline constexpr std::size_t most_trace_instances = 65'536;  // at one time
inline constexpr double longest_trace = 1e9;                 // seconds: 31 years

class trace_reader {
 public:
  CAUSEWAY_DECL explicit trace_reader(const trace_text_options& o)
      : options_{o}, per_second_{o.per_second}, draw_{o.seed, mix(0x636f756e74U)} {}

  CAUSEWAY_DECL result<preemption_trace> read(std::string_view text) {
    CAUSEWAY_TRY(text::for_each_line(text, options_.name, [this](std::string_view line, const text::place& at) {
      line_ = at.line;
      return take(text::split(line, ','));
    }));
    if (!known_) return fail(errc::bad_text, options_.name, "has no line with a time; see docs/reference/traces.md");
    if (trace_.zones.empty()) trace_.zones.emplace_back();
    return std::move(trace_);
  }

 private:
  static constexpr std::size_t absent = static_cast<std::size_t>(-1);

  [[nodiscard]] text::place here() const { return {options_.name, line_}; }
  [[nodiscard]] error wrong(const std::string& what) const { return here().wrong(what); }
  CAUSEWAY_DECL static std::string quoted(std::string_view field) { return '"' + std::string{field.substr(0, 40)} + '"'; }

  CAUSEWAY_DECL result<void> take(const std::vector<std::string_view>& fields) {
    if (!known_) {
      known_ = true;
      width_ = fields.size();
      if (!text::number_from<double>(fields[0], here(), "the time")) return take_header(fields);
      if (width_ != 2 && width_ != 3)
        return wrong("a table without names of columns has 2 (time,count) or 3 (time,add|remove,instance), not " +
                     std::to_string(width_));
      (width_ == 2 ? count_ : event_) = 1;
      if (width_ == 3) instance_ = 2;
      time_ = 0;
    }
    if (fields.size() != width_)
      return wrong("has " + std::to_string(fields.size()) + " fields, the first line " + std::to_string(width_));
    CAUSEWAY_ASSIGN(const double seconds, time_from(fields[time_]));
    trace_.seconds = seconds;
    return count_ != absent ? take_count(seconds, fields[count_]) : take_event(seconds, fields);
  }

  CAUSEWAY_DECL result<void> take_header(const std::vector<std::string_view>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string_view n = names[i];
      std::size_t* column = nullptr;
      if (n == "time" || n == "seconds" || n == "milliseconds") column = &time_;
      if (n == "event") column = &event_;
      if (n == "instance" || n == "node") column = &instance_;
      if (n == "zone") column = &zone_;
      if (n == "count") column = &count_;
      if (column == nullptr) continue;  // columns for people
      if (*column != absent) return wrong("names the column " + quoted(n) + " twice");
      *column = i;
      if (n == "seconds") per_second_ = 1;
      if (n == "milliseconds") per_second_ = 1000;
    }
    if (time_ == absent) return wrong("names no column seconds, milliseconds or time");
    const bool events = event_ != absent && instance_ != absent;
    if (events == (count_ != absent)) return wrong("names either event and instance, or count");
    return {};
  }

  CAUSEWAY_DECL result<double> time_from(std::string_view field) {
    CAUSEWAY_ASSIGN(double value, text::number_from<double>(field, here(), "the time"));
    value /= per_second_;
    if (!(value >= 0 && value <= longest_trace)) return wrong("times are from 0 to 1e9 seconds, not " + quoted(field));
    if (value < trace_.seconds) return wrong("goes back in time; sort the lines");
    return value;
  }

  CAUSEWAY_DECL result<void> take_event(double seconds, const std::vector<std::string_view>& fields) {
    const std::string_view what = fields[event_], name = fields[instance_];
    if (what == "end") return {};  // only makes the trace as long as that
    if (what != "add" && what != "remove") return wrong("the event is add, remove or end, not " + quoted(what));
    if (name.empty() || name.size() > 64) return wrong("the instance's name has 1 to 64 bytes");
    CAUSEWAY_ASSIGN(const std::uint32_t id, instance_of(name, zone_ == absent ? std::string_view{} : fields[zone_]));
    return add(seconds, what == "add", id);
  }

  CAUSEWAY_DECL result<std::uint32_t> instance_of(std::string_view name, std::string_view zone) {
    if (zone.size() > 64) return wrong("the zone's name has at most 64 bytes");
    const auto z = zones_.emplace(std::string{zone}, static_cast<std::uint32_t>(zones_.size()));
    if (z.second) trace_.zones.emplace_back(zone);
    const auto id = ids_.emplace(std::string{name}, static_cast<std::uint32_t>(ids_.size()));
    if (id.second) {
      trace_.instances.push_back({std::string{name}, z.first->second});
      here_.push_back(false);
      place_.push_back(0);
    }
    if (trace_.instances[id.first->second].zone != z.first->second)
      return wrong(quoted(name) + " was in another zone before");
    return id.first->second;
  }

  CAUSEWAY_DECL result<void> add(double seconds, bool arrives, std::uint32_t id) {
    if (here_[id] == arrives)
      return wrong(quoted(trace_.instances[id].name) + (arrives ? " is there already" : " is not there"));
    if (trace_.events.size() == most_trace_events || (arrives && live_.size() == most_trace_instances))
      return fail(errc::too_large, options_.name + ", line " + std::to_string(line_),
                  "more than 1,048,576 events, or 65,536 instances at one time");
    here_[id] = arrives;
    if (arrives) {
      place_[id] = live_.size();
      live_.push_back(id);
    } else {
      live_[place_[id]] = live_.back();
      place_[live_.back()] = place_[id];
      live_.pop_back();
    }
    trace_.events.push_back({seconds, arrives, id});
    return {};
  }

  CAUSEWAY_DECL result<void> take_count(double seconds, std::string_view field) {
    const auto count = text::number_from<std::uint32_t>(field, here(), "the count");
    if (!count || *count > most_trace_instances)
      return wrong("the count is a whole number up to 65,536, not " + quoted(field));
    while (live_.size() < *count) {
      CAUSEWAY_ASSIGN(const std::uint32_t id, instance_of("node" + std::to_string(ids_.size() + 1), {}));
      CAUSEWAY_TRY(add(seconds, true, id));
    }
    while (live_.size() > *count) CAUSEWAY_TRY(add(seconds, false, live_[draw_.below(live_.size())]));
    return {};
  }

  const trace_text_options& options_;
  double per_second_;
  rng draw_;
  preemption_trace trace_;
  std::map<std::string, std::uint32_t, std::less<>> ids_, zones_;
  std::vector<bool> here_;
  std::vector<std::uint32_t> live_;
  std::vector<std::size_t> place_;  // of those that are here, in live_
  std::size_t line_ = 0, width_ = 0;
  std::size_t time_ = absent, event_ = absent, instance_ = absent, zone_ = absent, count_ = absent;
  bool known_ = false;  // what the columns are
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<preemption_trace> read_trace(std::string_view text, const trace_text_options& options) {
  return detail::trace_reader{options}.read(text);
}

CAUSEWAY_DECL std::string write_trace(const preemption_trace& trace) {
  std::string text = "milliseconds,event,instance,zone\n";
  const auto ms = [](double seconds) { return std::to_string(std::llround(seconds * 1000)); };
  for (const instance_event& e : trace.events) {
    const trace_instance& i = trace.instances[e.instance];
    text += ms(e.seconds) + (e.arrives ? ",add," : ",remove,") + i.name + ',' + trace.zones[i.zone] + '\n';
  }
  return text + ms(trace.seconds) + ",end,,\n";
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PREEMPTION_TRACE_TEXT_IPP
#endif

// ---- causeway/plan/schedules.hpp ----
#ifndef CAUSEWAY_PLAN_SCHEDULES_HPP
#define CAUSEWAY_PLAN_SCHEDULES_HPP

// Schedules of pipelines with a closed form. In all of them the backwards of a chunk run in the order of the micro-batches,
// 0, 1, 2, ..., on every rank: gradients are then added up in the order of the unsplit model and have its bits. (The GPipe
// of the paper runs them the other way; its bubble and memory are the same.)

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

namespace detail {

/// An empty schedule of these sizes, or why there is none.
CAUSEWAY_DECL [[nodiscard]] result<schedule> start_schedule(std::uint32_t ranks, std::uint32_t chunks,
                                                            std::uint32_t micro_batches);

}  // namespace detail

/// GPipe (Huang et al., NeurIPS 2019): all forwards, then all backwards. Holds the activations of all micro-batches.
/// Bubble with equal stages: (p - 1) / (m + p - 1) of the step, for p ranks and m micro-batches.
CAUSEWAY_DECL [[nodiscard]] result<schedule> gpipe(std::uint32_t ranks, std::uint32_t micro_batches);

/// Forwards alone, chunk by chunk: an evaluation.
CAUSEWAY_DECL [[nodiscard]] result<schedule> forwards_only(std::uint32_t ranks, std::uint32_t chunks,
                                                           std::uint32_t micro_batches,
                                                           stage_path path = stage_path::round);

/// PipeDream-flush (Narayanan et al., ICML 2021), "1F1B": rank r runs p - 1 - r forwards ahead, then alternates. The bubble
/// of GPipe, but at most p - r sets of activations on rank r.
CAUSEWAY_DECL [[nodiscard]] result<schedule> one_f_one_b(std::uint32_t ranks, std::uint32_t micro_batches);

/// Interleaved 1F1B (Narayanan et al., SC 2021; the order of Megatron-LM): each rank holds `chunks` parts of the model, and
/// micro-batches go through them in groups of `ranks`. `micro_batches` must be a multiple of `ranks`.
/// Bubble: (p - 1) / (v m + p - 1) of the step for v chunks, at up to 2 (p - 1 - r) + (v - 1) p + 1 activations of 1 / v
/// the size.
CAUSEWAY_DECL [[nodiscard]] result<schedule> interleaved(std::uint32_t ranks, std::uint32_t chunks,
                                                         std::uint32_t micro_batches);

/// ZB-H1 (Qi et al., ICLR 2024, arXiv 2401.10241): 1F1B with backwards in halves. Only the input gradient keeps the stage
/// before waiting; rank r stays r weight gradients behind and runs them where 1F1B has its last bubble. Every rank holds up
/// to p sets of activations, as many as rank 0 of 1F1B. Each rank waits (p - 1)(F + I - W) seconds for m >= p, equal stages
/// and W <= F; above that (p - 1) I, as a weight gradient then delays the next forward.
CAUSEWAY_DECL [[nodiscard]] result<schedule> zero_bubble(std::uint32_t ranks, std::uint32_t micro_batches);

/// ZB-H2 (the same paper): twice as many forwards ahead, and twice as many weight gradients behind, fill the first bubble,
/// too. Between its first operation and its last rank 0 waits (p - 1)(F + I - 2W) seconds, and not at all where that is 0:
/// when all three take the same time, say. For m >= 2p - 1, equal stages and W <= F; above that as if W were F. The step as
/// a whole takes (p - 1) max(F, F + I - 2W) longer than its work, since ranks begin one after another; they go on with the
/// next step likewise. Up to 2p - 1 sets of activations on every rank.
CAUSEWAY_DECL [[nodiscard]] result<schedule> zero_bubble_h2(std::uint32_t ranks, std::uint32_t micro_batches);

/// ZB-V (the same paper, section 6; the order is that of PyTorch's ScheduleZBVZeroBubble): a folded pipeline of two chunks
/// of half the size on each rank, so that rank 0 has the first stage and the last. When F, I and W take the same time, a
/// rank works without a pause from its first operation to its last, for m >= 2p - 1 and equal stages, in half the memory of
/// ZB-H2: up to 2p sets of activations of half the size, as rank 0 of 1F1B. The step as a whole takes p - 1 forwards of a
/// chunk longer than its work.
CAUSEWAY_DECL [[nodiscard]] result<schedule> zero_bubble_v(std::uint32_t ranks, std::uint32_t micro_batches);

/// The k-th operation (0, 1, ...) of a rank in PipeDream's endless stream (Narayanan et al., SOSP 2019): p - r forwards,
/// then a backward and a forward in turn, without a flush. A stage updates its weights after each backward, so that
/// p - 1 - r updates come between a micro-batch's forward and its backward on rank r.
[[nodiscard]] constexpr operation stream_operation(std::uint32_t ranks, std::uint32_t rank, std::uint64_t k) noexcept {
  const std::uint64_t warm_up = ranks - rank;
  if (k < warm_up) return {work::forward, static_cast<std::uint32_t>(k)};
  const std::uint64_t turn = k - warm_up;
  if (turn % 2 == 0) return {work::backward, static_cast<std::uint32_t>(turn / 2)};
  return {work::forward, static_cast<std::uint32_t>(warm_up + turn / 2)};
}

/// A stretch of that stream: its first `micro_batches`, all of which come to their end. No flush in between, `flushes` is
/// false; the bubble is that of filling the pipeline once. The order is that of 1F1B: only the updates differ.
CAUSEWAY_DECL [[nodiscard]] result<schedule> asynchronous(std::uint32_t ranks, std::uint32_t micro_batches);

/// The same schedule with activations recomputed: forwards store only their input, and a recompute stands right before each
/// backward (or input gradient), but not where the forward itself stands there. GPipe's and Megatron's checkpoints.
CAUSEWAY_DECL [[nodiscard]] schedule with_recompute(const schedule& s);

/// The part of a step in which each rank waits with equal stages and no cost of links: (p - 1) / (v m + p - 1), of gpipe
/// and one_f_one_b for v = 1 chunk and of interleaved.
[[nodiscard]] constexpr double flush_bubble(std::uint32_t ranks, std::uint32_t micro_batches, std::uint32_t chunks = 1) {
  CAUSEWAY_EXPECT(ranks > 0 && micro_batches > 0 && chunks > 0);
  return (ranks - 1.0) / (static_cast<double>(chunks) * micro_batches + ranks - 1.0);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SCHEDULES_HPP

// ---- causeway/plan/impl/schedules.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULES_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULES_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Forwards ahead of the first backward, then one backward for each forward, then the backwards that remain.
CAUSEWAY_DECL std::vector<operation> one_for_one(std::uint32_t warm_up, std::uint32_t micro_batches) {
  std::vector<operation> order;
  order.reserve(std::size_t{2} * micro_batches);
  std::uint32_t forward = 0;
  while (forward < std::min(warm_up, micro_batches)) order.push_back({work::forward, forward++});
  for (std::uint32_t backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) order.push_back({work::forward, forward++});
    order.push_back({work::backward, backward});
  }
  return order;
}

/// 1F1B with backwards in halves: rank r runs `times` (p - 1 - r) forwards ahead, and stays `times` r weight gradients
/// behind.
CAUSEWAY_DECL result<schedule> in_halves(std::uint32_t ranks, std::uint32_t micro_batches, std::uint32_t times) {
  CAUSEWAY_ASSIGN(schedule s, start_schedule(ranks, 1, micro_batches));
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::uint32_t done = 0;  // weight gradients
    for (const operation& op : one_for_one(times * (ranks - 1 - r), micro_batches)) {
      const bool halves = op.kind == work::backward;
      s.orders[r].push_back({halves ? work::input_gradient : op.kind, op.micro_batch});
      if (halves && op.micro_batch >= times * r) s.orders[r].push_back({work::weight_gradient, done++});
    }
    while (done < micro_batches) s.orders[r].push_back({work::weight_gradient, done++});
  }
  return s;
}

inline constexpr std::uint64_t most_operations = std::uint64_t{1} << 26U;  // of one schedule: 800 MB

CAUSEWAY_DECL result<schedule> start_schedule(std::uint32_t ranks, std::uint32_t chunks, std::uint32_t micro_batches) {
  if (ranks == 0 || chunks == 0 || micro_batches == 0)
    return fail(errc::invalid_argument, "schedule", "needs at least one rank, one chunk and one micro-batch");
  const std::uint64_t stages = std::uint64_t{ranks} * chunks;  // no overflow: both have 32 bits
  if (stages > most_operations || stages * micro_batches > most_operations / 3) {
    return fail(errc::too_large, "schedule",
                std::to_string(ranks) + " ranks of " + std::to_string(chunks) + " chunks with " +
                    std::to_string(micro_batches) + " micro-batches are too many operations; use fewer micro-batches");
  }
  schedule s{ranks, chunks, micro_batches, true, {}};
  s.orders.resize(ranks);
  return s;
}

/// Writes the order of one rank of zero_bubble_v.
class folded_order {
 public:
  folded_order(std::uint32_t ranks, std::uint32_t rank, std::uint32_t micro_batches)
      : ahead_{ranks - rank}, rank_{rank}, count_{std::max(2 * ranks - 1, micro_batches)}, kept_{micro_batches} {}

  std::vector<operation> write() {
    begin();
    while (forwards_[1] < forwards_[0] || forwards_[0] < count_) {
      if (forwards_[0] < count_) forward(0);
      backward(0);
      forward(1);
      backward(1);
    }
    end();
    return std::move(order_);
  }

 private:
  void begin() {
    for (std::uint32_t i = 0; i < 2 * ahead_ - 1; ++i) forward(0);
    for (std::uint32_t i = 0; i < rank_; ++i) {
      forward(1);
      forward(0);
    }
    for (std::uint32_t i = 0; i < ahead_; ++i) {
      forward(1);
      backward(1);
    }
  }
  void end() {
    for (std::uint32_t i = 0; i < rank_; ++i) {
      input(0);
      input(1);
    }
    for (std::uint32_t i = 0; i < ahead_; ++i) backward(0);
    for (const std::uint32_t chunk : {1U, 0U}) {
      while (weights_[chunk] < inputs_[chunk]) weight(chunk);
    }
  }
  void forward(std::uint32_t chunk) { add(work::forward, forwards_[chunk]++, chunk); }
  void input(std::uint32_t chunk) { add(work::input_gradient, inputs_[chunk]++, chunk); }
  void weight(std::uint32_t chunk) { add(work::weight_gradient, weights_[chunk]++, chunk); }
  void backward(std::uint32_t chunk) {
    input(chunk);
    weight(chunk);
  }
  /// The order is that of at least 2p - 1 micro-batches, without those that are not there.
  void add(work kind, std::uint32_t micro_batch, std::uint32_t chunk) {
    if (micro_batch < kept_) order_.push_back({kind, micro_batch, chunk});
  }

  std::uint32_t ahead_, rank_, count_, kept_;
  std::array<std::uint32_t, 2> forwards_{}, inputs_{}, weights_{};
  std::vector<operation> order_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<schedule> gpipe(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 1, micro_batches));
  for (auto& order : s.orders) order = detail::one_for_one(micro_batches, micro_batches);
  return s;
}

CAUSEWAY_DECL result<schedule> forwards_only(std::uint32_t ranks, std::uint32_t chunks, std::uint32_t micro_batches,
                                             stage_path path) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, chunks, micro_batches));
  s.path = path;
  for (auto& order : s.orders) {
    for (std::uint32_t c = 0; c < chunks; ++c) {
      for (std::uint32_t m = 0; m < micro_batches; ++m) {
        if (goes_through(s, m, c)) order.push_back({work::forward, m, c});
      }
    }
  }
  return s;
}

CAUSEWAY_DECL result<schedule> one_f_one_b(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 1, micro_batches));
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::one_for_one(ranks - 1 - r, micro_batches);
  return s;
}

CAUSEWAY_DECL result<schedule> interleaved(std::uint32_t ranks, std::uint32_t chunks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, chunks, micro_batches));
  if (micro_batches % ranks != 0) {
    return fail(errc::invalid_argument, "interleaved",
                "needs a number of micro-batches that the " + std::to_string(ranks) + " ranks divide, not " +
                    std::to_string(micro_batches) + "; change it, or use one_f_one_b");
  }
  const std::uint32_t units = chunks * micro_batches;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    // Twice the way to the last rank: a micro-batch comes back from its last chunk as it went there. With one chunk the
    // forwards ahead of 1F1B suffice.
    const std::uint32_t ahead = chunks == 1 ? ranks - 1 - r : 2 * (ranks - 1 - r) + (chunks - 1) * ranks;
    const auto unit = [&](work kind, std::uint32_t k) {
      const std::uint32_t chunk = k / ranks % chunks;
      const std::uint32_t micro_batch = k / (ranks * chunks) * ranks + k % ranks;
      return operation{kind, micro_batch, kind == work::forward ? chunk : chunks - 1 - chunk};
    };
    for (const operation& op : detail::one_for_one(ahead, units)) s.orders[r].push_back(unit(op.kind, op.micro_batch));
  }
  return s;
}

CAUSEWAY_DECL result<schedule> zero_bubble(std::uint32_t ranks, std::uint32_t micro_batches) {
  return detail::in_halves(ranks, micro_batches, 1);
}

CAUSEWAY_DECL result<schedule> zero_bubble_h2(std::uint32_t ranks, std::uint32_t micro_batches) {
  return detail::in_halves(ranks, micro_batches, 2);
}

CAUSEWAY_DECL result<schedule> zero_bubble_v(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(ranks, 2, micro_batches));
  s.path = stage_path::folded;
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::folded_order{ranks, r, micro_batches}.write();
  return s;
}

CAUSEWAY_DECL result<schedule> asynchronous(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, one_f_one_b(ranks, micro_batches));
  s.flushes = false;
  return s;
}

CAUSEWAY_DECL schedule with_recompute(const schedule& s) {
  schedule out = s;
  for (auto& order : out.orders) {
    const std::vector<operation> before = std::exchange(order, {});
    for (std::size_t i = 0; i < before.size(); ++i) {
      const operation& op = before[i];
      const bool fresh = i > 0 && before[i - 1] == operation{work::forward, op.micro_batch, op.chunk};
      if (gives_input_gradient(op.kind) && !fresh) order.push_back({work::recompute, op.micro_batch, op.chunk});
      order.push_back(op);
    }
  }
  return out;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULES_IPP
#endif

// ---- causeway/plan/schedule_varuna.hpp ----
#ifndef CAUSEWAY_PLAN_SCHEDULE_VARUNA_HPP
#define CAUSEWAY_PLAN_SCHEDULE_VARUNA_HPP

// Varuna's schedule (Athlur et al., EuroSys 2022, section 3.2): not a closed form but what a rule does on given costs. The
// paper states the rule in words; the tie-breaks are ours:
//   1. The gradient is there: backward. It goes before everything, as the stage before waits for it.
//   2. The last rank runs each backward right after its forward, and recomputes nothing. All others store a forward's
//      input only.
//   3. The gradient is on its way, and a forward would end too late to recompute before it arrives: recompute now.
//   4. Otherwise a forward, if its input is there and fewer than the given number of inputs are stored.
//   5. Otherwise, if the gradient is on its way: recompute, though early.
// A rank so holds one set of activations and a bounded number of inputs. The order is meant for opportunistic ranks.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// The order that the rule writes on the costs of one stage per rank, when no rank stores more than `stored_inputs`. Twice
/// as many as ranks make it as short as 1F1B with recomputation on equal stages without links; slow links want more.
/// Errors: costs that do not fit; no room for an input.
CAUSEWAY_DECL [[nodiscard]] result<schedule> varuna(const stage_costs& costs, std::uint32_t micro_batches,
                                                    std::uint32_t stored_inputs);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SCHEDULE_VARUNA_HPP

// ---- causeway/plan/impl/schedule_varuna.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_VARUNA_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_VARUNA_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// What one rank has done, and what the rule wants next.
class varuna_rule {
 public:
  varuna_rule(const schedule& shape, std::uint32_t rank, std::uint32_t stored_inputs)
      : rank_{rank}, last_{rank + 1 == shape.ranks}, micro_batches_{shape.micro_batches}, most_stored_{stored_inputs} {}

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> choose(const pipeline_clock& clock) {
    if (backwards_ == micro_batches_) return std::nullopt;
    const operation backward{work::backward, backwards_}, recompute{work::recompute, backwards_};
    if (has_activations_ && clock.arrived(rank_, backward)) return take(backward);
    const double gradient = forwards_ == backwards_ ? pipeline_clock::never : clock.expected(rank_, backward);
    const double needed = has_activations_ ? 0 : clock.cost(rank_, recompute);
    const auto forward = next_forward(clock);
    if (forward && clock.now() + clock.cost(rank_, *forward) + needed <= gradient) return take(*forward);
    if (!has_activations_ && gradient < pipeline_clock::never) return take(recompute);
    return std::nullopt;
  }

 private:
  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> next_forward(const pipeline_clock& clock) const {
    const operation forward{work::forward, forwards_};
    const bool room = last_ ? forwards_ == backwards_ : forwards_ - backwards_ - (has_activations_ ? 1 : 0) < most_stored_;
    if (forwards_ == micro_batches_ || !room || !clock.arrived(rank_, forward)) return std::nullopt;
    return forward;
  }

  CAUSEWAY_DECL [[nodiscard]] operation take(const operation& op) {
    forwards_ += op.kind == work::forward ? 1 : 0;
    backwards_ += op.kind == work::backward ? 1 : 0;
    if (op.kind != work::forward || last_) has_activations_ = op.kind != work::backward;
    return op;
  }

  std::uint32_t rank_;
  bool last_;
  std::uint32_t micro_batches_;
  std::uint32_t most_stored_;
  std::uint32_t forwards_ = 0;
  std::uint32_t backwards_ = 0;
  bool has_activations_ = false;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<schedule> varuna(const stage_costs& costs, std::uint32_t micro_batches, std::uint32_t stored_inputs) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_schedule(static_cast<std::uint32_t>(costs.stages.size()), 1, micro_batches));
  CAUSEWAY_TRY(plan::check(costs, s.ranks));
  if (stored_inputs == 0) return fail(errc::invalid_argument, "varuna", "a rank must have room for at least one input");
  std::vector<detail::varuna_rule> rules;
  for (std::uint32_t r = 0; r < s.ranks; ++r) rules.emplace_back(s, r, stored_inputs);
  detail::pipeline_clock clock{s, costs, {}};
  clock.run([&](std::uint32_t rank) { return rules[rank].choose(clock); },
            [&](std::uint32_t rank, const timed_operation& t) {
              s.orders[rank].push_back(t.op);
              if (t.op.kind == work::backward && rank > 0) clock.wake(rank - 1);  // its gradient is on the way
            });
  return s;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_VARUNA_IPP
#endif

// ---- causeway/plan/varuna_search.hpp ----
#ifndef CAUSEWAY_PLAN_VARUNA_SEARCH_HPP
#define CAUSEWAY_PLAN_VARUNA_SEARCH_HPP

// How many stages, replicas and micro-batches to train with on G devices: Varuna's search (Athlur et al., EuroSys 2022,
// section 4). Calibration gives numbers that do not depend on G; for each number of stages the schedule is simulated event
// by event; the quickest is taken. When G changes it is asked again: the global batch stays, so that training goes on with
// the same optimisation problem (job morphing).
//
// Devices are alike, and so are links. A step is the pipeline's makespan and then the average of the gradients in each
// stage, by a ring: 2 (D - 1) messages of 1 / D of the stage. Where the global batch does not divide evenly, the replica
// with the most samples is simulated, with its last micro-batch as if it were full.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What one cut-point (the part of the model up to the next place where it may be cut) takes, measured once.
struct cut_point {
  std::vector<double> forward;   ///< F(m) in seconds, for each measured micro-batch size
  std::vector<double> backward;  ///< B(m) without recomputing the forward
  double gradient_bytes = 0;     ///< that replicas average
  double memory = 0;             ///< bytes of parameters, gradients and optimizer state
  double activation = 0;         ///< bytes for the backward pass, per sample
};

struct varuna_calibration {
  std::vector<std::size_t> sizes;  ///< of micro-batches in samples, rising, the first at least 1
  std::vector<cut_point> points;
  double boundary_bytes = 0;  ///< of activations between two cut-points, per sample
  link_cost hop;              ///< between stages
  link_cost ring;             ///< between the replicas of a stage
};

struct varuna_options {
  std::size_t devices = 1;                                         ///< G
  std::size_t global_batch = 1;                                    ///< samples per step, M
  double device_memory = std::numeric_limits<double>::infinity();  ///< bytes
  double knee = 0.05;             ///< the micro-batch is the least whose F(m) / m is within this part of the best
  std::size_t stored_inputs = 0;  ///< a rank keeps at most; 0: twice the stages
};

struct varuna_plan {
  std::size_t replicas = 0;       ///< D
  std::size_t micro_batch = 0;    ///< m, samples
  std::size_t micro_batches = 0;  ///< N_m, of the replica with the most samples
  stage_split split;              ///< of the cut-points; its stages are P
  double pipeline_seconds = 0;
  double average_seconds = 0;

  [[nodiscard]] std::size_t stages() const noexcept { return split.stages(); }
  [[nodiscard]] double seconds() const noexcept { return pipeline_seconds + average_seconds; }
};

/// The place in `sizes` of the micro-batch at the knee of F(m) / m, F summed over all cut-points: larger ones would only
/// make the bubble larger.
CAUSEWAY_DECL std::size_t knee_of(const varuna_calibration& c, double tolerance);

namespace detail {

/// One number of stages at one micro-batch size.
class varuna_try {
 public:
  CAUSEWAY_DECL varuna_try(const varuna_calibration& c, const varuna_options& o, std::size_t size);

  CAUSEWAY_DECL [[nodiscard]] result<varuna_plan> run(std::size_t stages) const;

 private:
  CAUSEWAY_DECL [[nodiscard]] stage_costs costs_of(const stage_split& split) const;

  CAUSEWAY_DECL [[nodiscard]] double average_seconds(const varuna_plan& plan) const;

  const varuna_calibration& calibration_;
  const varuna_options& options_;
  std::size_t size_;
  double samples_;
  model_cost model_;  // its `parameters` are the bytes of gradients
};

}  // namespace detail

/// The quickest (P, D, m, N_m) with P * D <= G. errc::invalid_argument: a calibration that is not complete;
/// errc::out_of_memory: the model fits in no number of stages. Costs a simulation for each number of stages up to G.
CAUSEWAY_DECL result<varuna_plan> plan_varuna(const varuna_calibration& calibration, const varuna_options& options);

/// The plan for each number of devices from 1 to `options.devices`, or why there is none: what to change to when devices
/// come and go.
CAUSEWAY_DECL std::vector<result<varuna_plan>> morphing_table(const varuna_calibration& calibration,
                                                              varuna_options options);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_VARUNA_SEARCH_HPP

// ---- causeway/plan/impl/varuna_search.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_VARUNA_SEARCH_IPP
#define CAUSEWAY_PLAN_IMPL_VARUNA_SEARCH_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL result<void> check_varuna(const varuna_calibration& c, const varuna_options& o) {
  const auto wrong = [](const char* what) { return fail(errc::invalid_argument, "varuna's search", what); };
  if (c.sizes.empty() || c.sizes[0] == 0 ||
      std::adjacent_find(c.sizes.begin(), c.sizes.end(), [](auto a, auto b) { return a >= b; }) != c.sizes.end())
    return wrong("needs calibrated micro-batch sizes that rise from 1 or more");
  if (c.points.empty()) return wrong("needs a cut-point");
  for (const cut_point& p : c.points) {
    if (p.forward.size() != c.sizes.size() || p.backward.size() != c.sizes.size())
      return wrong("needs a forward and a backward time of each cut-point for each micro-batch size");
  }
  if (o.devices == 0 || o.global_batch == 0) return wrong("needs at least one device and one sample");
  return {};
}

CAUSEWAY_DECL varuna_try::varuna_try(const varuna_calibration& c, const varuna_options& o, std::size_t size)
    : calibration_{c}, options_{o}, size_{size}, samples_{static_cast<double>(c.sizes[size])} {
  for (const cut_point& p : c.points) {
    model_.blocks.push_back({p.gradient_bytes, p.forward[size] + p.backward[size], p.memory, p.activation * samples_});
  }
}

CAUSEWAY_DECL result<varuna_plan> varuna_try::run(std::size_t stages) const {
  const std::size_t replicas = options_.devices / stages;
  const std::size_t share = (options_.global_batch + replicas - 1) / replicas;
  varuna_plan plan{replicas, calibration_.sizes[size_], 0, {}, 0, 0};
  plan.micro_batches = (share + plan.micro_batch - 1) / plan.micro_batch;
  const std::size_t stored =
      std::min(options_.stored_inputs == 0 ? 2 * stages : options_.stored_inputs, plan.micro_batches);
  const double kept = static_cast<double>(stored) * calibration_.boundary_bytes * samples_;
  const std::vector<stage_device> devices(stages, stage_device{1, options_.device_memory - kept, 1});
  CAUSEWAY_ASSIGN(plan.split, split_by_time(model_, devices));
  const stage_costs costs = costs_of(plan.split);
  CAUSEWAY_ASSIGN(const schedule order,
                  varuna(costs, static_cast<std::uint32_t>(plan.micro_batches), static_cast<std::uint32_t>(stored)));
  CAUSEWAY_ASSIGN(const timeline t, timeline_of(order, costs));
  plan.pipeline_seconds = t.makespan;
  plan.average_seconds = average_seconds(plan);
  return plan;
}

CAUSEWAY_DECL stage_costs varuna_try::costs_of(const stage_split& split) const {
  stage_costs costs;
  for (std::size_t s = 0; s < split.stages(); ++s) {
    double forward = 0, backward = 0;
    for (std::size_t i = split.first_block[s]; i < split.end(s); ++i) {
      forward += calibration_.points[i].forward[size_];
      backward += calibration_.points[i].backward[size_];
    }
    costs.stages.push_back({forward, backward / 2, backward / 2, forward});
  }
  const double bytes = calibration_.boundary_bytes * samples_;
  costs.edges.assign(split.stages() - 1, {calibration_.hop.delay, bytes, bytes, calibration_.hop.bandwidth / 8});
  return costs;
}

CAUSEWAY_DECL double varuna_try::average_seconds(const varuna_plan& plan) const {
  const double d = static_cast<double>(plan.replicas);
  double slowest = 0;
  for (std::size_t s = 0; s < plan.stages(); ++s) {
    const block_cost stage = cost_of_stage(model_, plan.split.first_block[s], plan.split.end(s));
    slowest = std::max(slowest, 2 * (d - 1) * calibration_.ring.seconds(stage.parameters / d));
  }
  return slowest;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::size_t knee_of(const varuna_calibration& c, double tolerance) {
  std::vector<double> per_sample(c.sizes.size());
  for (std::size_t i = 0; i < per_sample.size(); ++i) {
    for (const cut_point& p : c.points) per_sample[i] += p.forward[i] / static_cast<double>(c.sizes[i]);
  }
  const double best = *std::min_element(per_sample.begin(), per_sample.end());
  std::size_t knee = 0;
  while (per_sample[knee] > best * (1 + tolerance)) ++knee;
  return knee;
}

CAUSEWAY_DECL result<varuna_plan> plan_varuna(const varuna_calibration& calibration, const varuna_options& options) {
  CAUSEWAY_TRY(detail::check_varuna(calibration, options));
  const detail::varuna_try attempt{calibration, options, knee_of(calibration, options.knee)};
  result<varuna_plan> best = fail(errc::out_of_memory, "varuna's search", "nothing was tried");
  for (std::size_t p = 1; p <= std::min(calibration.points.size(), options.devices); ++p) {
    result<varuna_plan> next = attempt.run(p);
    if (!best || (next && next->seconds() < best->seconds())) best = std::move(next);
  }
  return best;
}

CAUSEWAY_DECL std::vector<result<varuna_plan>> morphing_table(const varuna_calibration& calibration,
                                                              varuna_options options) {
  std::vector<result<varuna_plan>> table;
  for (std::size_t devices = options.devices, g = 1; g <= devices; ++g) {
    options.devices = g;
    table.push_back(plan_varuna(calibration, options));
  }
  return table;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_VARUNA_SEARCH_IPP
#endif

// ---- causeway/plan/recovery_morph.hpp ----
#ifndef CAUSEWAY_PLAN_RECOVERY_MORPH_HPP
#define CAUSEWAY_PLAN_RECOVERY_MORPH_HPP

// morph: Varuna (Athlur et al., EuroSys 2022). Whenever the number of peers changes, the number of stages and of pipelines
// is searched anew (varuna_search.hpp: with its schedule, which recomputes activations), the global batch stays, and all
// processes meet again and load the last checkpoint. A change that leaves the plan as it is and hits only spare peers is
// none.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// A job as Varuna's search takes it: each block is a cut-point, the embedding and the head are of the first and the last.
CAUSEWAY_DECL varuna_calibration calibration_of(const recovery_job& job);

class morph_recovery {
 public:
  /// `device_memory`: bytes for parameters and optimizer state, and the inputs that are kept to be recomputed from.
  CAUSEWAY_DECL explicit morph_recovery(const recovery_job& job,
                                        double device_memory = std::numeric_limits<double>::infinity());

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  recovery_action boundary() { return {}; }
  [[nodiscard]] double step_seconds() const { return now_.seconds; }
  [[nodiscard]] double checkpoint_bytes() const { return now_.bytes; }
  [[nodiscard]] std::size_t stages() const { return now_.stages; }
  [[nodiscard]] std::size_t replicas() const { return now_.replicas; }

 private:
  struct choice {
    std::size_t stages = 0, replicas = 0;
    double seconds = no_step;
    double bytes = 0;  // of the largest stage
  };

  CAUSEWAY_DECL choice best(std::size_t peers);

  const recovery_job* job_;
  varuna_calibration calibration_;
  varuna_options options_;
  std::vector<std::uint32_t> active_, spare_;
  choice now_;
  std::map<std::size_t, choice> known_;  // [peers]
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_MORPH_HPP

// ---- causeway/plan/impl/recovery_morph.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_MORPH_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_MORPH_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL varuna_calibration calibration_of(const recovery_job& job) {
  varuna_calibration c{
      {job.micro_batch}, {}, job.boundary_bytes / static_cast<double>(job.micro_batch), job.link, job.link};
  const std::size_t blocks = job.model.blocks.size();
  for (std::size_t b = 0; b < blocks; ++b) {
    block_cost cost = job.model.blocks[b];
    if (b == 0) cost += job.model.embedding;
    if (b + 1 == blocks) cost += job.model.head;
    const double forward = cost.seconds * job.forward_share;
    c.points.push_back({{forward}, {cost.seconds - forward}, cost.parameters * job.gradient_bytes, cost.memory, 0});
  }
  return c;
}

CAUSEWAY_DECL morph_recovery::morph_recovery(const recovery_job& job, double device_memory)
    : job_{&job}, calibration_{calibration_of(job)} {
  options_.global_batch = job.micro_batches * job.micro_batch;
  options_.device_memory = device_memory;
}

CAUSEWAY_DECL recovery_action morph_recovery::changed(std::span<const std::uint32_t> lost,
                                                      std::span<const std::uint32_t> come) {
  const std::size_t broken = detail::take_out(active_, lost);
  detail::take_out(spare_, lost);
  spare_.insert(spare_.end(), come.begin(), come.end());
  const choice next = best(active_.size() + spare_.size());
  if (broken == 0 && next.stages == now_.stages && next.replicas == now_.replicas) return {};
  now_ = next;
  spare_.insert(spare_.begin(), active_.begin(), active_.end());
  const auto used = spare_.begin() + static_cast<std::ptrdiff_t>(next.stages * next.replicas);
  active_.assign(spare_.begin(), used);
  spare_.erase(spare_.begin(), used);
  return {(broken > 0 ? job_->detection : 0) + job_->restart + next.bytes / job_->read_bytes_per_second,
          step_fate::from_checkpoint};
}

CAUSEWAY_DECL auto morph_recovery::best(std::size_t peers) -> choice {
  const auto [known, fresh] = known_.try_emplace(peers);
  if (!fresh || peers == 0) return known->second;
  options_.devices = peers;
  const auto plan = plan_varuna(calibration_, options_);
  if (!plan) return known->second;  // too few
  choice& c = known->second;
  c = {plan->stages(), plan->replicas, plan->seconds(), 0};
  for (std::size_t s = 0; s < plan->stages(); ++s) {
    const block_cost stage = cost_of_stage(job_->model, plan->split.first_block[s], plan->split.end(s));
    c.bytes = std::max(c.bytes, stage.memory);
  }
  return c;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_MORPH_IPP
#endif

// ---- causeway/plan/recovery_neighbour.hpp ----
#ifndef CAUSEWAY_PLAN_RECOVERY_NEIGHBOUR_HPP
#define CAUSEWAY_PLAN_RECOVERY_NEIGHBOUR_HPP

// neighbour_init: CheckFree. No checkpoints and no redundancy: a lost stage is made up from the weights of its two
// neighbours and training goes on. What that costs in training is not for a replay to know: it is a parameter, the steps
// that must be done once more for each stage that was made up. A stage that another pipeline still has is copied from
// there, whole. If two neighbours are gone with all their holders, or an end of the pipeline (which has one neighbour only;
// the paper's CheckFree+ swaps stages during training for that) the same parameter is taken: derived, and kind to the
// policy.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct neighbour_options {
  std::size_t stages = 1;
  double repeated_steps = 0;  ///< that make up for one stage's lost weights
};

class neighbour_recovery {
 public:
  CAUSEWAY_DECL static result<neighbour_recovery> make(const recovery_job& job, const neighbour_options& options);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return 0; }
  [[nodiscard]] const peer_grid& grid() const { return grid_; }

 private:
  CAUSEWAY_DECL neighbour_recovery(cut_job cut, const neighbour_options& options);

  cut_job cut_;
  neighbour_options options_;
  peer_grid grid_;
  double step_ = no_step;
  double owed_ = 0;  // stages that were lost while nothing could be made up
  bool started_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_NEIGHBOUR_HPP

// ---- causeway/plan/impl/recovery_neighbour.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_NEIGHBOUR_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_NEIGHBOUR_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL neighbour_recovery::neighbour_recovery(cut_job cut, const neighbour_options& options)
    : cut_{std::move(cut)}, options_{options}, grid_{options.stages} {}

CAUSEWAY_DECL result<neighbour_recovery> neighbour_recovery::make(const recovery_job& job,
                                                                  const neighbour_options& options) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, options.stages));
  return neighbour_recovery{std::move(cut), options};
}

CAUSEWAY_DECL recovery_action neighbour_recovery::changed(std::span<const std::uint32_t> lost,
                                                          std::span<const std::uint32_t> come) {
  const std::size_t broken = grid_.lose(lost).size();
  grid_.add_spares(come);
  if (broken == 0 && (grid_.pipelines() > 0 || grid_.peers() < cut_.stages())) return {};
  double made_up = owed_;  // stages
  if (started_ && grid_.pipelines() > 0) {
    for (std::size_t s = 0; s < cut_.stages(); ++s) made_up += grid_.holders(s) == 0 ? 1 : 0;
  }
  grid_.rebuild();
  step_ = cut_.step_seconds(grid_.pipelines());
  started_ = true;
  owed_ = 0;
  if (grid_.pipelines() == 0) {  // those who are left keep their weights and wait
    owed_ = made_up;
    return {0, step_fate::begins_again};
  }
  return {cut_.job().detection + cut_.job().regroup + cut_.copy_seconds(), step_fate::begins_again,
          made_up * options_.repeated_steps};
}

CAUSEWAY_DECL recovery_action neighbour_recovery::boundary() {
  if (grid_.peers() / cut_.stages() <= grid_.pipelines()) return {};
  grid_.rebuild();
  step_ = cut_.step_seconds(grid_.pipelines());
  return {cut_.job().regroup + cut_.copy_seconds()};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_NEIGHBOUR_IPP
#endif

// ---- causeway/plan/recovery_proactive.hpp ----
#ifndef CAUSEWAY_PLAN_RECOVERY_PROACTIVE_HPP
#define CAUSEWAY_PLAN_RECOVERY_PROACTIVE_HPP

// proactive: Parcae (Duan et al., NSDI 2024). Every interval, and at every loss, the number of peers is forecast from how
// many there were (availability.hpp), and pipelines take the shape that is best for what is expected (liveput.hpp), before
// peers go. A peer that is lost is made good from its own stage first, then by spares and peers of stages that have too
// many. The weights are also on a server that is not taken away (ParcaePS), whose cost is not counted: no checkpoint is
// gone back to, the step under way begins again. Intervals are counted in steps; the paper's are a minute.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct proactive_options {
  std::size_t most_stages = 1;                                     ///< of a shape
  double device_memory = std::numeric_limits<double>::infinity();  ///< bytes of parameters and optimizer state
  double interval = 60;                                            ///< seconds between plans, in whole steps
  std::size_t lookahead = 4;                                       ///< intervals
  std::size_t history = 60;                                        ///< intervals that the forecast is fitted to
  liveput_options draws{16, 1};
};

class proactive_recovery {
 public:
  CAUSEWAY_DECL proactive_recovery(const recovery_job& job, const proactive_options& options);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return 0; }
  [[nodiscard]] const pipeline_shape& shape() const { return shape_; }

 private:
  CAUSEWAY_DECL [[nodiscard]] std::size_t peers() const;

  /// What a step of a shape takes; infinite if it does not fit.
  CAUSEWAY_DECL double seconds(const pipeline_shape& s);

  /// From the shape that is, which `before` peers had, to the first of the best sequence for what is forecast.
  CAUSEWAY_DECL pipeline_shape next_shape(std::size_t before);

  CAUSEWAY_DECL [[nodiscard]] double largest_stage();

  /// Moves peers so that there are pipelines of this shape: seconds.
  CAUSEWAY_DECL double take(const pipeline_shape& next, bool broken);

  /// Stages with too few peers take spares, and from stages with too many. How many peers changed.
  CAUSEWAY_DECL std::size_t deal();

  const recovery_job* job_;
  proactive_options options_;
  pipeline_shape shape_;
  std::vector<std::vector<std::uint32_t>> of_stage_;  // of some more peers than the shape has replicas, after it shrank
  std::vector<std::uint32_t> spare_;
  std::vector<std::size_t> history_;
  double step_ = no_step, elapsed_ = 0;
  std::map<std::pair<std::size_t, std::size_t>, double> seconds_;  // of (replicas, stages)
  std::map<std::vector<std::size_t>, pipeline_shape> planned_;     // of the shape, what it had, and the forecast
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_PROACTIVE_HPP

// ---- causeway/plan/impl/recovery_proactive.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_PROACTIVE_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_PROACTIVE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL proactive_recovery::proactive_recovery(const recovery_job& job, const proactive_options& options)
    : job_{&job}, options_{options} {}

CAUSEWAY_DECL recovery_action proactive_recovery::changed(std::span<const std::uint32_t> lost,
                                                          std::span<const std::uint32_t> come) {
  const std::size_t before = peers();
  std::size_t broken = 0;
  for (auto& stage : of_stage_) broken += detail::take_out(stage, lost);
  detail::take_out(spare_, lost);
  spare_.insert(spare_.end(), come.begin(), come.end());
  if (broken == 0 && shape_.instances() > 0) return {};  // peers that came wait for the next plan
  const double pause = take(next_shape(before), broken > 0);
  return {pause + (broken > 0 ? job_->detection : 0), step_fate::begins_again};
}

CAUSEWAY_DECL recovery_action proactive_recovery::boundary() {
  elapsed_ += step_;
  if (elapsed_ < options_.interval) return {};
  elapsed_ = 0;
  history_.push_back(peers());
  if (history_.size() > options_.history) history_.erase(history_.begin());
  return {take(next_shape(peers()), false)};
}

CAUSEWAY_DECL std::size_t proactive_recovery::peers() const {
  std::size_t n = spare_.size();
  for (const auto& stage : of_stage_) n += stage.size();
  return n;
}

CAUSEWAY_DECL double proactive_recovery::seconds(const pipeline_shape& s) {
  if (s.instances() == 0 || s.stages > job_->model.blocks.size()) return no_step;
  const auto [known, fresh] = seconds_.try_emplace({s.replicas, s.stages}, no_step);
  if (!fresh) return known->second;
  const auto cut = cut_job::make(*job_, s.stages);
  if (cut && cut->state_bytes() <= options_.device_memory) known->second = cut->step_seconds(s.replicas);
  return known->second;
}

CAUSEWAY_DECL pipeline_shape proactive_recovery::next_shape(std::size_t before) {
  std::vector<std::size_t> available{peers()};
  for (const std::size_t n : forecast(fit_availability(history_), peers(), options_.lookahead)) available.push_back(n);
  const std::size_t had = std::max(before, shape_.instances());
  std::vector<std::size_t> key{shape_.replicas, shape_.stages, had};
  key.insert(key.end(), available.begin(), available.end());
  const auto [known, fresh] = planned_.try_emplace(std::move(key));
  if (!fresh) return known->second;
  const double copy = job_->link.seconds(largest_stage());
  const migration_costs costs{job_->regroup, job_->regroup + copy, job_->regroup + copy};
  const auto throughput = [&](const pipeline_shape& s) { return job_->samples() / seconds(s); };
  const liveput_plan plan =
      plan_liveput(shape_, had, available, options_.interval, options_.most_stages, costs, throughput, options_.draws);
  return known->second = plan.shapes.front();
}

CAUSEWAY_DECL double proactive_recovery::largest_stage() {
  if (shape_.instances() == 0) return 0;
  return cut_job::make(*job_, shape_.stages)->state_bytes();
}

CAUSEWAY_DECL double proactive_recovery::take(const pipeline_shape& next, bool broken) {
  const bool grows = next.replicas > shape_.replicas;
  const bool same = next.stages == shape_.stages && next.instances() > 0;
  if (!same) {
    for (const auto& stage : of_stage_) spare_.insert(spare_.end(), stage.begin(), stage.end());
    of_stage_.assign(next.stages, {});
  }
  shape_ = next;
  step_ = seconds(next);
  if (next.instances() == 0) return 0;
  const std::size_t moved = deal();
  if (moved > 0) return job_->regroup + job_->link.seconds(largest_stage());
  return broken || grows ? job_->regroup : 0;
}

CAUSEWAY_DECL std::size_t proactive_recovery::deal() {
  std::size_t moved = 0;
  for (auto& stage : of_stage_) {
    for (; stage.size() < shape_.replicas; ++moved) {
      auto* from = &spare_;
      for (auto& other : of_stage_) {
        if (from->empty() && other.size() > shape_.replicas) from = &other;
      }
      CAUSEWAY_EXPECT(!from->empty());  // a shape has at most as many instances as there are
      stage.push_back(from->back());
      from->pop_back();
    }
  }
  return moved;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_PROACTIVE_IPP
#endif

// ---- causeway/plan/recovery_redundant.hpp ----
#ifndef CAUSEWAY_PLAN_RECOVERY_REDUNDANT_HPP
#define CAUSEWAY_PLAN_RECOVERY_REDUNDANT_HPP

// redundant: Bamboo (Thorpe et al., NSDI 2023). Each peer holds its successor's stage too (the last one the first stage)
// and repeats its forwards in bubbles; when the successor is lost it does both stages from then on, backwards included, and
// the step goes on. After the step the peers regroup, by the rule of Bamboo's simulator, as long as there are enough for a
// pipeline: if spare peers can fill all holes,
// if more than 5 % of the peers are such that another loss would be fatal, or if there are enough peers for one more
// pipeline. Losing a peer and its predecessor is fatal: the step begins again if another pipeline holds the stage, else
// all since the last checkpoint is lost.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct redundant_options {
  std::size_t stages = 1;      ///< of each pipeline; the paper takes 1.5 times as many as without redundancy
  double failover = 0;         ///< seconds until a predecessor has taken over: the lost stage's state back to the device
  double most_at_risk = 0.05;  ///< of the peers, without regrouping
};

class redundant_recovery {
 public:
  CAUSEWAY_DECL static result<redundant_recovery> make(const recovery_job& job, const redundant_options& options);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  recovery_action boundary() { return must_regroup() ? regroup() : recovery_action{}; }

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] const peer_grid& grid() const { return grid_; }

 private:
  CAUSEWAY_DECL redundant_recovery(cut_job cut, const redundant_options& options);

  [[nodiscard]] std::size_t before(std::size_t s) const { return s == 0 ? cut_.stages() - 1 : s - 1; }

  /// A hole whose predecessor is a hole has nobody who can do it.
  CAUSEWAY_DECL [[nodiscard]] bool fatal() const;

  /// A stage is held by its own peers and their predecessors.
  CAUSEWAY_DECL [[nodiscard]] bool all_stages_held() const;

  CAUSEWAY_DECL [[nodiscard]] bool must_regroup() const;

  CAUSEWAY_DECL recovery_action regroup();

  /// From nothing, once there are enough peers: only a checkpoint has the weights.
  CAUSEWAY_DECL recovery_action revive();

  /// A step takes as long as the slowest pipeline.
  CAUSEWAY_DECL void update();

  CAUSEWAY_DECL double pipeline_seconds(std::size_t d);

  cut_job cut_;
  redundant_options options_;
  peer_grid grid_;
  double step_ = no_step;
  std::map<std::pair<std::size_t, std::vector<std::uint32_t>>, double> seconds_;  // of (micro-batches, route)
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_REDUNDANT_HPP

// ---- causeway/plan/impl/recovery_redundant.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_REDUNDANT_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_REDUNDANT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL redundant_recovery::redundant_recovery(cut_job cut, const redundant_options& options)
    : cut_{std::move(cut)}, options_{options}, grid_{options.stages} {}

CAUSEWAY_DECL result<redundant_recovery> redundant_recovery::make(const recovery_job& job,
                                                                  const redundant_options& options) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, options.stages));
  return redundant_recovery{std::move(cut), options};
}

CAUSEWAY_DECL recovery_action redundant_recovery::changed(std::span<const std::uint32_t> lost,
                                                          std::span<const std::uint32_t> come) {
  const std::size_t broken = grid_.lose(lost).size();
  grid_.add_spares(come);
  const recovery_job& job = cut_.job();
  if (grid_.pipelines() == 0) return revive();
  if (broken == 0) return {};
  if (!fatal()) {
    update();
    return {job.detection + options_.failover};
  }
  const bool held = all_stages_held();
  recovery_action action = regroup();
  action.pause += job.detection;
  action.fate = step_fate::begins_again;
  if (!held) action = {job.detection + job.restart + 2 * cut_.load_seconds(), step_fate::from_checkpoint};
  return action;
}

CAUSEWAY_DECL bool redundant_recovery::fatal() const {
  for (std::size_t d = 0; d < grid_.pipelines(); ++d) {
    for (std::size_t s = 0; s < cut_.stages(); ++s) {
      if (!grid_.filled(d, s) && !grid_.filled(d, before(s))) return true;
    }
  }
  return false;
}

CAUSEWAY_DECL bool redundant_recovery::all_stages_held() const {
  for (std::size_t s = 0; s < cut_.stages(); ++s) {
    if (grid_.holders(s) + grid_.holders(before(s)) == 0) return false;
  }
  return true;
}

CAUSEWAY_DECL bool redundant_recovery::must_regroup() const {
  if (grid_.peers() < cut_.stages()) return false;  // the last pipeline goes on with peers that do two stages
  const std::size_t doubled = grid_.holes();  // peers with two stages; neither they nor their predecessors may be lost
  const auto active = static_cast<double>(grid_.pipelines() * cut_.stages() - doubled);
  return (doubled > 0 && grid_.spares() >= doubled) || 2 * static_cast<double>(doubled) > options_.most_at_risk * active ||
         grid_.peers() / cut_.stages() > grid_.pipelines();
}

CAUSEWAY_DECL recovery_action redundant_recovery::regroup() {
  const std::size_t moved = grid_.rebuild();
  update();
  // A peer with a new stage fetches that and its successor's.
  return {cut_.job().regroup + (moved > 0 ? 2 * cut_.copy_seconds() : 0)};
}

CAUSEWAY_DECL recovery_action redundant_recovery::revive() {
  if (grid_.peers() < cut_.stages()) return {};
  regroup();
  return {cut_.job().restart + 2 * cut_.load_seconds(), step_fate::from_checkpoint};
}

CAUSEWAY_DECL void redundant_recovery::update() {
  step_ = grid_.pipelines() == 0 ? no_step : 0;
  for (std::size_t d = 0; d < grid_.pipelines(); ++d) step_ = std::max(step_, pipeline_seconds(d));
  step_ += cut_.average_seconds(grid_.pipelines());
}

CAUSEWAY_DECL double redundant_recovery::pipeline_seconds(std::size_t d) {
  const std::size_t m = cut_.share(grid_.pipelines());
  std::vector<std::uint32_t> route(cut_.stages());
  for (std::size_t s = 0; s < route.size(); ++s) route[s] = static_cast<std::uint32_t>(grid_.filled(d, s) ? s : before(s));
  const auto [known, fresh] = seconds_.try_emplace({m, route});
  if (fresh) {
    const std::vector<std::vector<std::uint32_t>> routes(m, route);
    known->second = seconds_of({cut_.costs(), routes, static_cast<std::uint32_t>(m), false, true});
  }
  return known->second;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_REDUNDANT_IPP
#endif

// ---- causeway/plan/recovery_reroute.hpp ----
#ifndef CAUSEWAY_PLAN_RECOVERY_REROUTE_HPP
#define CAUSEWAY_PLAN_RECOVERY_REROUTE_HPP

// reroute: ReCycle (Gandhi et al., SOSP 2024). The micro-batches of a lost peer go to the peers that have the same stage in
// other pipelines, in turn; backwards are split, so that weight gradients fill bubbles. No redundant work and no spare
// memory for it. The step begins again: the lost peer's gradients are gone. After the step losses are evened out among the
// stages (the paper's failure normalization), spare peers fill holes, and once there are peers for one more pipeline it is
// made. A stage without any peer: from the checkpoint, with whole pipelines of those that are left.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

class reroute_recovery {
 public:
  CAUSEWAY_DECL static result<reroute_recovery> make(const recovery_job& job, std::size_t stages);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] const peer_grid& grid() const { return grid_; }

 private:
  CAUSEWAY_DECL explicit reroute_recovery(cut_job cut);

  CAUSEWAY_DECL [[nodiscard]] std::size_t fewest() const;

  /// Until no stage has two peers more than another. How many peers moved.
  CAUSEWAY_DECL std::size_t even_out();

  CAUSEWAY_DECL [[nodiscard]] peer_grid::place place(std::size_t stage, bool filled) const;

  CAUSEWAY_DECL void update();

  /// Micro-batch m belongs to pipeline m mod D; where that has a hole, the twins take its micro-batches in turn.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> routes() const;

  cut_job cut_;
  peer_grid grid_;
  double step_ = no_step;
  std::map<std::vector<std::uint32_t>, double> seconds_;  // of which places are filled
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_REROUTE_HPP

// ---- causeway/plan/impl/recovery_reroute.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_REROUTE_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_REROUTE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL reroute_recovery::reroute_recovery(cut_job cut) : cut_{std::move(cut)}, grid_{cut_.stages()} {}

CAUSEWAY_DECL result<reroute_recovery> reroute_recovery::make(const recovery_job& job, std::size_t stages) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, stages));
  return reroute_recovery{std::move(cut)};
}

CAUSEWAY_DECL recovery_action reroute_recovery::changed(std::span<const std::uint32_t> lost,
                                                        std::span<const std::uint32_t> come) {
  const std::size_t broken = grid_.lose(lost).size();
  grid_.add_spares(come);
  const recovery_job& job = cut_.job();
  if (broken == 0 && grid_.pipelines() > 0) return {};
  if (grid_.pipelines() == 0 || fewest() == 0) {
    const bool wait = grid_.pipelines() == 0 && grid_.peers() < cut_.stages();
    grid_.rebuild();
    update();
    if (wait) return {};
    return {job.detection + job.restart + cut_.load_seconds(), step_fate::from_checkpoint};
  }
  update();
  return {job.detection, step_fate::begins_again};
}

CAUSEWAY_DECL recovery_action reroute_recovery::boundary() {
  std::size_t moved = 0;
  if (grid_.peers() / cut_.stages() > grid_.pipelines())
    moved = grid_.rebuild();
  else
    moved = grid_.fill() + even_out();
  if (moved == 0) return {};
  update();
  return {cut_.job().regroup + cut_.copy_seconds()};
}

CAUSEWAY_DECL std::size_t reroute_recovery::fewest() const {
  std::size_t least = grid_.pipelines();
  for (std::size_t s = 0; s < cut_.stages(); ++s) least = std::min(least, grid_.holders(s));
  return least;
}

CAUSEWAY_DECL std::size_t reroute_recovery::even_out() {
  for (std::size_t moved = 0;; ++moved) {
    std::size_t rich = 0, poor = 0;
    for (std::size_t s = 1; s < cut_.stages(); ++s) {
      if (grid_.holders(s) > grid_.holders(rich)) rich = s;
      if (grid_.holders(s) < grid_.holders(poor)) poor = s;
    }
    if (grid_.holders(rich) < grid_.holders(poor) + 2) return moved;
    grid_.move(place(rich, true), place(poor, false));
  }
}

CAUSEWAY_DECL peer_grid::place reroute_recovery::place(std::size_t stage, bool filled) const {
  std::size_t d = 0;
  while (grid_.filled(d, stage) != filled) ++d;
  return {d, stage};
}

CAUSEWAY_DECL void reroute_recovery::update() {
  const std::size_t replicas = grid_.pipelines();
  if (replicas == 0 || fewest() == 0) {
    step_ = no_step;
    return;
  }
  std::vector<std::uint32_t> alive;
  for (std::size_t s = 0; s < cut_.stages(); ++s) {
    for (std::size_t d = 0; d < replicas; ++d) alive.push_back(grid_.filled(d, s) ? 1 : 0);
  }
  const auto [known, fresh] = seconds_.try_emplace(alive);
  if (fresh) {
    routed_step step{cut_.costs(), routes(), static_cast<std::uint32_t>(cut_.share(replicas))};
    step.halves = true;
    known->second = seconds_of(step);
  }
  step_ = known->second + cut_.average_seconds(replicas);
}

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> reroute_recovery::routes() const {
  const std::size_t replicas = grid_.pipelines(), stages = cut_.stages();
  std::vector<std::vector<std::uint32_t>> all;
  std::vector<std::size_t> turn(stages);
  for (std::size_t m = 0; m < cut_.job().micro_batches; ++m) {
    all.emplace_back();
    for (std::size_t s = 0; s < stages; ++s) {
      std::size_t d = m % replicas;
      if (!grid_.filled(d, s)) {
        do d = turn[s]++ % replicas;
        while (!grid_.filled(d, s));
      }
      all.back().push_back(static_cast<std::uint32_t>(d * stages + s));
    }
  }
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_REROUTE_IPP
#endif

// ---- causeway/plan/recovery_restart.hpp ----
#ifndef CAUSEWAY_PLAN_RECOVERY_RESTART_HPP
#define CAUSEWAY_PLAN_RECOVERY_RESTART_HPP

// checkpoint_restart: when a peer of a pipeline is lost, or peers for one more pipeline are there, all processes end, meet
// again as whole pipelines, and load the last checkpoint. The baseline of Bamboo (NSDI 2023, section 3; its simulator
// restarts for both reasons, too).

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

class restart_recovery {
 public:
  CAUSEWAY_DECL static result<restart_recovery> make(const recovery_job& job, std::size_t stages);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  recovery_action boundary() { return {}; }
  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] std::size_t replicas() const { return replicas_; }

 private:
  CAUSEWAY_DECL explicit restart_recovery(cut_job cut);

  cut_job cut_;
  std::vector<std::uint32_t> active_, spare_;
  std::size_t replicas_ = 0;
  double step_ = no_step;
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_RESTART_HPP

// ---- causeway/plan/impl/recovery_restart.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_RESTART_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_RESTART_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL restart_recovery::restart_recovery(cut_job cut) : cut_{std::move(cut)} {}

CAUSEWAY_DECL result<restart_recovery> restart_recovery::make(const recovery_job& job, std::size_t stages) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, stages));
  return restart_recovery{std::move(cut)};
}

CAUSEWAY_DECL recovery_action restart_recovery::changed(std::span<const std::uint32_t> lost,
                                                        std::span<const std::uint32_t> come) {
  const std::size_t broken = detail::take_out(active_, lost);
  detail::take_out(spare_, lost);
  spare_.insert(spare_.end(), come.begin(), come.end());
  const std::size_t replicas = (active_.size() + spare_.size()) / cut_.stages();
  if (broken == 0 && replicas <= replicas_) return {};
  spare_.insert(spare_.end(), active_.begin(), active_.end());
  const auto used = spare_.begin() + static_cast<std::ptrdiff_t>(replicas * cut_.stages());
  active_.assign(spare_.begin(), used);
  spare_.erase(spare_.begin(), used);
  replicas_ = replicas;
  step_ = cut_.step_seconds(replicas);
  const recovery_job& job = cut_.job();
  return {(broken > 0 ? job.detection : 0) + job.restart + cut_.load_seconds(), step_fate::from_checkpoint};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_RESTART_IPP
#endif

// ---- causeway/plan/recovery_swarm.hpp ----
#ifndef CAUSEWAY_PLAN_RECOVERY_SWARM_HPP
#define CAUSEWAY_PLAN_RECOVERY_SWARM_HPP

// Peers that serve stages without being pipelines (SWARM, Ryabinin et al., ICML 2023): each micro-batch goes through any
// peer of each stage, so that what a lost peer did goes to the others of its stage, and the step goes on. Peers that come
// take the stage with the fewest; with rebalancing, a peer moves after a step while a stage has two more than another. A
// stage that lost its last peer stalls all until a peer has come to it, from its checkpoint. Routing is even here: equal
// peers behind queues of expected times (stage/) come to that.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct swarm_options {
  std::size_t stages = 1;
  bool rebalances = true;
};

class swarm_recovery {
 public:
  CAUSEWAY_DECL static result<swarm_recovery> make(const recovery_job& job, const swarm_options& options);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return cut_.state_bytes(); }
  [[nodiscard]] std::size_t peers_of(std::size_t stage) const { return of_stage_[stage].size(); }

 private:
  CAUSEWAY_DECL swarm_recovery(cut_job cut, const swarm_options& options);

  CAUSEWAY_DECL [[nodiscard]] std::size_t extreme(bool most) const;
  [[nodiscard]] std::size_t fewest() const { return of_stage_[extreme(false)].size(); }

  CAUSEWAY_DECL recovery_action resume();

  CAUSEWAY_DECL void update();

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> routes(const std::vector<std::size_t>& counts) const;

  cut_job cut_;
  swarm_options options_;
  std::vector<std::vector<std::uint32_t>> of_stage_;
  bool lost_weights_ = false;  // a stage had no peer
  double step_ = no_step;
  std::map<std::vector<std::size_t>, double> seconds_;  // of peers of each stage
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_SWARM_HPP

// ---- causeway/plan/impl/recovery_swarm.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_SWARM_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_SWARM_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL swarm_recovery::swarm_recovery(cut_job cut, const swarm_options& options)
    : cut_{std::move(cut)}, options_{options}, of_stage_(options.stages) {}

CAUSEWAY_DECL result<swarm_recovery> swarm_recovery::make(const recovery_job& job, const swarm_options& options) {
  CAUSEWAY_ASSIGN(cut_job cut, cut_job::make(job, options.stages));
  return swarm_recovery{std::move(cut), options};
}

CAUSEWAY_DECL recovery_action swarm_recovery::changed(std::span<const std::uint32_t> lost,
                                                      std::span<const std::uint32_t> come) {
  const bool stalled = fewest() == 0;
  std::size_t broken = 0;
  for (auto& peers : of_stage_) broken += detail::take_out(peers, lost);
  if (fewest() == 0) lost_weights_ = lost_weights_ || !stalled;
  for (const std::uint32_t id : come) of_stage_[extreme(false)].push_back(id);
  update();
  if (stalled || lost_weights_) return resume();
  return {broken > 0 ? cut_.job().detection : 0};
}

CAUSEWAY_DECL recovery_action swarm_recovery::boundary() {
  if (!options_.rebalances || fewest() == 0) return {};
  std::size_t moved = 0;
  for (;; ++moved) {
    auto &rich = of_stage_[extreme(true)], &poor = of_stage_[extreme(false)];
    if (rich.size() < poor.size() + 2) break;
    poor.push_back(rich.back());
    rich.pop_back();
  }
  if (moved > 0) update();
  return {moved > 0 ? cut_.copy_seconds() : 0};  // weights of the new stage, all that move at once
}

CAUSEWAY_DECL std::size_t swarm_recovery::extreme(bool most) const {
  std::size_t found = 0;
  for (std::size_t s = 1; s < of_stage_.size(); ++s) {
    const std::size_t a = of_stage_[s].size(), b = of_stage_[found].size();
    if (most ? a > b : a < b) found = s;
  }
  return found;
}

CAUSEWAY_DECL recovery_action swarm_recovery::resume() {
  if (fewest() == 0) return {0, step_fate::begins_again};
  lost_weights_ = false;
  return {cut_.load_seconds(), step_fate::from_checkpoint};
}

CAUSEWAY_DECL void swarm_recovery::update() {
  if (fewest() == 0) {
    step_ = no_step;
    return;
  }
  std::vector<std::size_t> counts;
  for (const auto& peers : of_stage_) counts.push_back(peers.size());
  const auto [known, fresh] = seconds_.try_emplace(counts);
  if (fresh) known->second = seconds_of({cut_.costs(), routes(counts), 1});  // share 1: queues, not a memory bound
  step_ = known->second + cut_.average_seconds(*std::max_element(counts.begin(), counts.end()));
}

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> swarm_recovery::routes(const std::vector<std::size_t>& counts) const {
  std::vector<std::vector<std::uint32_t>> all(cut_.job().micro_batches);
  for (std::size_t m = 0; m < all.size(); ++m) {
    std::size_t first = 0;  // peer of the stage
    for (const std::size_t n : counts) {
      all[m].push_back(static_cast<std::uint32_t>(first + m % n));
      first += n;
    }
  }
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_SWARM_IPP
#endif

// ---- causeway/plan/templates.hpp ----
#ifndef CAUSEWAY_PLAN_TEMPLATES_HPP
#define CAUSEWAY_PLAN_TEMPLATES_HPP

// Pipeline templates that are worked out before anything fails: Oobleck (Jang et al., SOSP 2023, arXiv 2309.08125,
// section 4). n0 is the least number of peers that hold the model; there is a template for each size n0, n0 + 1, ..., up to
// N - f n0, so that f + 1 pipelines can be made of any number of peers from (f + 1) n0 to N: sizes without gaps add up to
// sums without gaps. A template is the cut of the blocks into stages, each on some accelerators of one peer, that minimises
// the time of a 1F1B iteration.
//
// That time is taken as the first micro-batch's way through all stages (fill and drain), and the slowest stage for each
// further one (steady): an upper bound, reached where the last stage is the slowest. It grows with the sum and the maximum
// of the stages, so that the search keeps every pair that no other beats in both: exact. It peels off one stage after
// another instead of halving, which visits fewer states than the paper's divide and conquer for the same optimum.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What peers are and how they are linked. All are alike.
struct template_peers {
  double memory = std::numeric_limits<double>::infinity();  ///< bytes, of each accelerator
  std::size_t accelerators = 1;                             ///< in each peer; a stage is on some of one peer
  double sharing = 1;  ///< each further accelerator of a stage adds that much of the first one's speed, in [0, 1]
  double hop = 0;      ///< seconds of a micro-batch from one stage to the next and its gradient back
};

struct template_stage {
  std::size_t first_block = 0;
  std::size_t end = 0;
  std::size_t accelerators = 1;
  std::size_t peer = 0;  ///< in the pipeline
  double seconds = 0;    ///< of a micro-batch, forward and backward
};

/// A pipeline of `peers` peers.
struct pipeline_template {
  std::size_t peers = 0;
  std::vector<template_stage> stages;
  double fill_drain = 0;  ///< seconds: all stages and hops
  double slowest = 0;     ///< seconds: of the stages

  /// Seconds that `micro_batches` take; 0 for none.
  CAUSEWAY_DECL [[nodiscard]] double seconds(std::size_t micro_batches) const noexcept;
  /// How many micro-batches are through in `limit` seconds, at most `most`. The inverse of `seconds`.
  CAUSEWAY_DECL [[nodiscard]] std::size_t within(double limit, std::size_t most) const noexcept;
};

/// Templates of consecutive sizes.
struct template_set {
  std::size_t failures = 0;  ///< f
  std::vector<pipeline_template> templates;

  [[nodiscard]] std::size_t smallest() const { return templates.front().peers; }  ///< n0
  [[nodiscard]] std::size_t largest() const { return templates.back().peers; }
  [[nodiscard]] bool has(std::size_t peers) const { return peers >= smallest() && peers <= largest(); }
  CAUSEWAY_DECL [[nodiscard]] const pipeline_template& of(std::size_t peers) const;
};

namespace detail {

class template_cutter {
 public:
  CAUSEWAY_DECL template_cutter(const model_cost& model, const template_peers& peers, std::size_t micro_batches);

  /// The best template of `n` peers; no stages: the model does not fit, or has too few blocks.
  CAUSEWAY_DECL [[nodiscard]] pipeline_template best(std::size_t n);

 private:
  struct point {
    double sum = 0;
    double most = 0;
    std::size_t block = 0, used = 0, before = 0;  // where the last stage begins, and the point it was added to
  };

  std::vector<point>& at(std::size_t block, std::size_t used) { return points_[block * width_ + used]; }

  CAUSEWAY_DECL [[nodiscard]] double stage_seconds(std::size_t from, std::size_t to, std::size_t accelerators) const;

  /// Blocks [0, b) on exactly u accelerators, for all b and u; a peer's next stage never reaches into the next peer.
  CAUSEWAY_DECL void fill(std::size_t n);

  CAUSEWAY_DECL void add_stage(std::size_t from, std::size_t to, std::size_t used, std::size_t mine);

  CAUSEWAY_DECL static void keep(std::vector<point>& front, const point& p);

  stage_sums sums_;
  std::size_t blocks_;
  template_peers peers_;
  std::size_t micro_batches_;
  std::size_t width_ = 0;
  std::vector<std::vector<point>> points_;
};

}  // namespace detail

/// Whether `pipelines` or more pipelines with sizes from `smallest` to `largest` add up to exactly `peers`.
CAUSEWAY_DECL bool covers(std::size_t smallest, std::size_t largest, std::size_t pipelines, std::size_t peers);

/// The templates for `peers` peers that survive `failures` at once. `micro_batches` of an iteration of one pipeline weigh
/// the slowest stage against the sum. errc::out_of_memory: too few peers for f + 1 copies of the model, with how many would
/// do; errc::invalid_argument: sizes that cannot make every number of peers, as the model has too few blocks.
CAUSEWAY_DECL result<template_set> make_templates(const model_cost& model, const template_peers& kind, std::size_t peers,
                                                  std::size_t failures, std::size_t micro_batches);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_TEMPLATES_HPP

// ---- causeway/plan/impl/templates.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_TEMPLATES_IPP
#define CAUSEWAY_PLAN_IMPL_TEMPLATES_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL template_cutter::template_cutter(const model_cost& model, const template_peers& peers,
                                               std::size_t micro_batches)
    : sums_{model}, blocks_{model.blocks.size()}, peers_{peers}, micro_batches_{micro_batches} {}

CAUSEWAY_DECL pipeline_template template_cutter::best(std::size_t n) {
  fill(n);
  const std::vector<point>& ends = at(blocks_, n * peers_.accelerators);
  pipeline_template t{n, {}, 0, 0};
  const point* chosen = nullptr;
  const auto seconds = [&](const point& p) { return p.sum + static_cast<double>(micro_batches_ - 1) * p.most; };
  for (const point& p : ends) {
    if (chosen == nullptr || seconds(p) < seconds(*chosen)) chosen = &p;
  }
  if (chosen == nullptr) return t;
  t.fill_drain = chosen->sum;
  t.slowest = chosen->most;
  std::size_t end = blocks_, used = n * peers_.accelerators;
  for (const point* p = chosen; end > 0;) {
    const std::size_t mine = used - p->used;
    t.stages.push_back({p->block, end, mine, p->used / peers_.accelerators, stage_seconds(p->block, end, mine)});
    const point* next = &at(p->block, p->used)[p->before];
    end = p->block;
    used = p->used;
    p = next;
  }
  std::reverse(t.stages.begin(), t.stages.end());
  return t;
}

CAUSEWAY_DECL double template_cutter::stage_seconds(std::size_t from, std::size_t to, std::size_t accelerators) const {
  return sums_.of(&block_cost::seconds, from, to) / (1 + peers_.sharing * static_cast<double>(accelerators - 1));
}

CAUSEWAY_DECL void template_cutter::fill(std::size_t n) {
  width_ = n * peers_.accelerators + 1;
  points_.assign((blocks_ + 1) * width_, {});
  at(0, 0).push_back({});
  for (std::size_t u = 1; u < width_; ++u) {
    for (std::size_t b = 1; b <= blocks_; ++b) {
      for (std::size_t mine = 1; mine <= (u - 1) % peers_.accelerators + 1; ++mine) {
        for (std::size_t from = 0; from < b; ++from) add_stage(from, b, u - mine, mine);
      }
    }
  }
}

CAUSEWAY_DECL void template_cutter::add_stage(std::size_t from, std::size_t to, std::size_t used, std::size_t mine) {
  const std::vector<point>& before = at(from, used);
  if (before.empty()) return;
  // 1F1B keeps a micro-batch for its own and each later stage. How many come is open here: at most one per accelerator.
  const double memory = sums_.of(&block_cost::memory, from, to) +
                        sums_.of(&block_cost::activation, from, to) * static_cast<double>(width_ - 1 - used);
  if (memory > peers_.memory * static_cast<double>(mine)) return;
  const double seconds = stage_seconds(from, to, mine);
  const double hop = from == 0 ? 0 : peers_.hop;
  for (std::size_t i = 0; i < before.size(); ++i) {
    keep(at(to, used + mine), {before[i].sum + seconds + hop, std::max(before[i].most, seconds), from, used, i});
  }
}

CAUSEWAY_DECL void template_cutter::keep(std::vector<point>& front, const point& p) {
  for (const point& q : front) {
    if (q.sum <= p.sum && q.most <= p.most) return;
  }
  std::erase_if(front, [&](const point& q) { return p.sum <= q.sum && p.most <= q.most; });
  front.push_back(p);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double pipeline_template::seconds(std::size_t micro_batches) const noexcept {
  return micro_batches == 0 ? 0 : fill_drain + slowest * static_cast<double>(micro_batches - 1);
}

CAUSEWAY_DECL std::size_t pipeline_template::within(double limit, std::size_t most) const noexcept {
  if (limit < fill_drain) return 0;
  std::size_t n = most;
  if (slowest > 0) n = static_cast<std::size_t>(std::min((limit - fill_drain) / slowest + 1, static_cast<double>(most)));
  while (n < most && seconds(n + 1) <= limit) ++n;  // the division rounds
  while (n > 0 && seconds(n) > limit) --n;
  return n;
}

CAUSEWAY_DECL const pipeline_template& template_set::of(std::size_t peers) const {
  CAUSEWAY_EXPECT(has(peers));
  return templates[peers - smallest()];
}

CAUSEWAY_DECL bool covers(std::size_t smallest, std::size_t largest, std::size_t pipelines, std::size_t peers) {
  // x pipelines give every sum from x * smallest to x * largest, and no other.
  if (smallest == 0 || peers / smallest < pipelines) return false;
  const std::size_t x = std::max(pipelines, (peers + largest - 1) / largest);
  return x * smallest <= peers;
}

CAUSEWAY_DECL result<template_set> make_templates(const model_cost& model, const template_peers& kind, std::size_t peers,
                                                  std::size_t failures, std::size_t micro_batches) {
  if (model.blocks.empty() || kind.accelerators == 0 || micro_batches == 0 || !(kind.sharing >= 0 && kind.sharing <= 1))
    return fail(errc::invalid_argument, "templates", "need a block, an accelerator, a micro-batch, and sharing in [0, 1]");
  detail::template_cutter cutter{model, kind, micro_batches};
  template_set set{failures, {}};
  const std::size_t most = std::min(peers, model.blocks.size());  // a peer without a block has nothing to do
  for (std::size_t n = 1; n <= most; ++n) {
    if (!set.templates.empty() && n + failures * set.smallest() > peers) break;
    pipeline_template t = cutter.best(n);
    if (t.stages.empty() && !set.templates.empty()) break;
    if (!t.stages.empty()) set.templates.push_back(std::move(t));
  }
  if (set.templates.empty())
    return fail(errc::out_of_memory, "templates", "the model does not fit on " + std::to_string(most) + " peers");
  const std::size_t least = (failures + 1) * set.smallest();
  if (least > peers) {
    return fail(errc::out_of_memory, "templates",
                "to survive " + std::to_string(failures) + " failures takes " + std::to_string(least) + " peers, " +
                    std::to_string(set.smallest()) + " for each copy of the model; there are " + std::to_string(peers));
  }
  for (std::size_t n = least; n <= peers; ++n) {
    if (covers(set.smallest(), set.largest(), failures + 1, n)) continue;
    return fail(errc::invalid_argument, "templates",
                std::to_string(n) + " peers cannot be made of pipelines of " + std::to_string(set.smallest()) + " to " +
                    std::to_string(set.largest()) + "; the model has too few blocks for longer ones: give it more cuts");
  }
  return set;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TEMPLATES_IPP
#endif

// ---- causeway/plan/template_choice.hpp ----
#ifndef CAUSEWAY_PLAN_TEMPLATE_CHOICE_HPP
#define CAUSEWAY_PLAN_TEMPLATE_CHOICE_HPP

// Which pipelines to make of the peers there are, and how many micro-batches each gets: the online half of Oobleck's
// planning (SOSP 2023, section 4.2). Pipelines of different sizes work on one global batch, so an iteration takes as long
// as the last of them. The paper solves integer programmes; here both are exact without one: for a given time limit each
// template has a largest number of micro-batches, a knapsack finds the pipelines that do the most together, and the least
// limit at which that is enough is found by bisection. What averaging the gradients takes is not in it.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Pipelines and what each does in an iteration.
struct template_choice {
  std::vector<std::size_t> sizes;          ///< in peers, falling
  std::vector<std::size_t> micro_batches;  ///< of each pipeline
  double seconds = 0;                      ///< of the pipeline that ends last
};

/// Splits `micro_batches` over pipelines of `sizes` so that the last ends as early as can be. Exact.
CAUSEWAY_DECL template_choice split_batch(const template_set& set, std::vector<std::size_t> sizes,
                                          std::size_t micro_batches);

/// The pipelines, at least f + 1, that all of `peers` peers together make, so that `micro_batches` take the least time.
/// Exact. errc::out_of_memory: too few peers; save a checkpoint and wait.
CAUSEWAY_DECL result<template_choice> choose_templates(const template_set& set, std::size_t peers,
                                                       std::size_t micro_batches);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_TEMPLATE_CHOICE_HPP

// ---- causeway/plan/impl/template_choice.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_TEMPLATE_CHOICE_IPP
#define CAUSEWAY_PLAN_IMPL_TEMPLATE_CHOICE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// The least of the times at which something can end, for which `enough(time)`; infinite if none. `enough` is monotone.
template <class Enough>
  requires requires(Enough& f, double t) {
    { f(t) } -> ConvertibleTo<bool>;
  }
double least_time(std::span<const pipeline_template* const> kinds, std::size_t micro_batches, Enough enough) {
  std::vector<double> times;
  for (const pipeline_template* t : kinds) {
    for (std::size_t n = 1; n <= micro_batches; ++n) times.push_back(t->seconds(n));
  }
  std::sort(times.begin(), times.end());
  const auto found = std::partition_point(times.begin(), times.end(), [&](double t) { return !enough(t); });
  return found == times.end() ? std::numeric_limits<double>::infinity() : *found;
}

/// Which sizes add up to exactly `peers`, at least `least` of them, and do the most micro-batches within a limit.
class template_knapsack {
 public:
  CAUSEWAY_DECL template_knapsack(const template_set& set, std::size_t peers, std::size_t least)
      : set_{set}, peers_{peers}, least_{least}, best_((peers + 1) * (least + 1)), last_(best_.size()) {}

  /// The most micro-batches, or `none`.
  CAUSEWAY_DECL std::size_t solve(double limit, std::size_t most) {
    std::fill(best_.begin(), best_.end(), none);
    best_[0] = 0;
    for (std::size_t n = 1; n <= peers_; ++n) {
      for (std::size_t size = set_.smallest(); size <= std::min(n, set_.largest()); ++size) {
        const std::size_t gain = set_.of(size).within(limit, most);
        for (std::size_t k = 0; k <= least_; ++k) {
          const std::size_t before = best_[at(n - size, k)];
          if (before == none) continue;
          const std::size_t to = at(n, std::min(k + 1, least_));
          if (best_[to] != none && before + gain <= best_[to]) continue;
          best_[to] = before + gain;
          last_[to] = {size, k};
        }
      }
    }
    return best_[at(peers_, least_)];
  }

  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> all;
    for (std::size_t n = peers_, k = least_; n > 0;) {
      const auto [size, before] = last_[at(n, k)];
      all.push_back(size);
      n -= size;
      k = before;
    }
    std::sort(all.rbegin(), all.rend());
    return all;
  }

  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

 private:
  struct step {
    std::size_t size = 0, before = 0;
  };
  [[nodiscard]] std::size_t at(std::size_t n, std::size_t k) const { return n * (least_ + 1) + k; }

  const template_set& set_;
  std::size_t peers_, least_;
  std::vector<std::size_t> best_;  // [peers used][pipelines, up to `least`]
  std::vector<step> last_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL template_choice split_batch(const template_set& set, std::vector<std::size_t> sizes,
                                          std::size_t micro_batches) {
  std::vector<const pipeline_template*> kinds;
  for (const std::size_t s : sizes) kinds.push_back(&set.of(s));
  const auto total = [&](double limit) {
    std::size_t sum = 0;
    for (const auto* k : kinds) sum += k->within(limit, micro_batches);
    return sum;
  };
  const double limit = detail::least_time(kinds, micro_batches, [&](double t) { return total(t) >= micro_batches; });
  template_choice choice{std::move(sizes), {}, 0};
  std::size_t surplus = micro_batches == 0 ? 0 : total(limit) - micro_batches;
  for (const auto* k : kinds) choice.micro_batches.push_back(micro_batches == 0 ? 0 : k->within(limit, micro_batches));
  for (; surplus > 0; --surplus) {  // the pipeline that ends last gives one back
    std::size_t last = 0;
    for (std::size_t i = 1; i < kinds.size(); ++i) {
      if (kinds[i]->seconds(choice.micro_batches[i]) > kinds[last]->seconds(choice.micro_batches[last])) last = i;
    }
    --choice.micro_batches[last];
  }
  for (std::size_t i = 0; i < kinds.size(); ++i)
    choice.seconds = std::max(choice.seconds, kinds[i]->seconds(choice.micro_batches[i]));
  return choice;
}

CAUSEWAY_DECL result<template_choice> choose_templates(const template_set& set, std::size_t peers,
                                                       std::size_t micro_batches) {
  const std::size_t least = set.failures + 1;
  if (!covers(set.smallest(), set.largest(), least, peers)) {
    return fail(errc::out_of_memory, "templates",
                std::to_string(peers) + " peers make no " + std::to_string(least) + " pipelines of " +
                    std::to_string(set.smallest()) + " to " + std::to_string(set.largest()) +
                    " peers; save a checkpoint and go on when " + std::to_string(least * set.smallest()) + " are there");
  }
  std::vector<const pipeline_template*> kinds;
  for (const pipeline_template& t : set.templates) kinds.push_back(&t);
  detail::template_knapsack knapsack{set, peers, least};
  const double limit = detail::least_time(kinds, micro_batches, [&](double t) {
    const std::size_t most = knapsack.solve(t, micro_batches);
    return most != detail::template_knapsack::none && most >= micro_batches;
  });
  knapsack.solve(micro_batches == 0 ? 0 : limit, micro_batches);
  return split_batch(set, knapsack.sizes(), micro_batches);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TEMPLATE_CHOICE_IPP
#endif

// ---- causeway/plan/template_reaction.hpp ----
#ifndef CAUSEWAY_PLAN_TEMPLATE_REACTION_HPP
#define CAUSEWAY_PLAN_TEMPLATE_REACTION_HPP

// What Oobleck does when peers are gone (SOSP 2023, section 5): a pipeline with n peers left takes the template of size n;
// with too few it borrows from the largest pipeline that can spare one; where none can, it is merged with the smallest
// other. As long as (f + 1) n0 peers are there, f + 1 pipelines or more remain: if x of them cannot lend, there are fewer
// than x n0 peers, so x > f + 1 and one may go. Peers then copy the blocks that they did not hold from any that did.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// The peers of each pipeline, in the order of its template's peers.
using pipeline_peers = std::vector<std::vector<std::size_t>>;

/// `peer` fetches `block` from `from`, which held it before.
struct block_copy {
  std::size_t peer = 0;
  std::size_t block = 0;
  std::size_t from = 0;

  friend bool operator==(const block_copy&, const block_copy&) = default;
};

struct template_reaction {
  pipeline_peers pipelines;
  std::vector<block_copy> copies;
  std::size_t borrowed = 0;  ///< peers that changed their pipeline
  std::size_t merged = 0;    ///< pipelines that went into others
};

/// Which blocks each peer holds: (peer, block) for all.
CAUSEWAY_DECL std::vector<std::pair<std::size_t, std::size_t>> held_blocks(const template_set& set,
                                                                           const pipeline_peers& all);

namespace detail {

CAUSEWAY_DECL result<std::vector<block_copy>> copies_for(const template_set& set, const pipeline_peers& before,
                                                         const pipeline_peers& after, const std::vector<std::size_t>& lost);

}  // namespace detail

/// The pipelines without `lost`, and what must be copied for them. errc::out_of_memory: fewer than (f + 1) n0 peers are
/// left; errc::peer_lost: a block is gone with all its holders (more than f losses at once). In both cases: checkpoint.
CAUSEWAY_DECL result<template_reaction> react(const template_set& set, const pipeline_peers& pipelines,
                                              const std::vector<std::size_t>& lost);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_TEMPLATE_REACTION_HPP

// ---- causeway/plan/impl/template_reaction.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_TEMPLATE_REACTION_IPP
#define CAUSEWAY_PLAN_IMPL_TEMPLATE_REACTION_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// The pipeline of most (or fewest) peers but `but`; the first of equals. `all.size()`: there is none.
CAUSEWAY_DECL std::size_t extreme_pipeline(const pipeline_peers& all, std::size_t but, bool most) {
  std::size_t found = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == but) continue;
    if (found == all.size() || (most ? all[i].size() > all[found].size() : all[i].size() < all[found].size())) found = i;
  }
  return found;
}

/// Fills up or merges the pipelines that are too small.
CAUSEWAY_DECL void mend(const template_set& set, template_reaction& r) {
  for (std::size_t i = 0; i < r.pipelines.size();) {
    while (r.pipelines[i].size() < set.smallest()) {
      const std::size_t donor = extreme_pipeline(r.pipelines, i, true);
      if (donor == r.pipelines.size() || r.pipelines[donor].size() <= set.smallest()) break;
      r.pipelines[i].push_back(r.pipelines[donor].back());
      r.pipelines[donor].pop_back();
      ++r.borrowed;
    }
    const std::size_t other = extreme_pipeline(r.pipelines, i, false);
    if (r.pipelines[i].size() >= set.smallest() || other == r.pipelines.size()) {
      ++i;
      continue;
    }
    auto& into = r.pipelines[other];
    into.insert(into.end(), r.pipelines[i].begin(), r.pipelines[i].end());
    r.pipelines.erase(r.pipelines.begin() + static_cast<std::ptrdiff_t>(i));
    ++r.merged;
    i = 0;  // the merged one may lend to, or need, any other
  }
}

/// Pipelines beyond the largest template give what they cannot use to the smallest ones; what nobody can use stays spare.
CAUSEWAY_DECL void shorten(const template_set& set, pipeline_peers& all) {
  std::vector<std::size_t> spare;
  for (auto& p : all) {
    for (; p.size() > set.largest(); p.pop_back()) spare.push_back(p.back());
  }
  for (const std::size_t peer : spare) {
    const std::size_t smallest = extreme_pipeline(all, all.size(), false);
    if (all[smallest].size() < set.largest()) all[smallest].push_back(peer);
  }
}

CAUSEWAY_DECL result<std::vector<block_copy>> copies_for(const template_set& set, const pipeline_peers& before,
                                                         const pipeline_peers& after,
                                                         const std::vector<std::size_t>& lost) {
  const auto had = held_blocks(set, before);
  std::map<std::size_t, std::size_t> sends;  // how often a peer is a source: spread evenly
  std::vector<block_copy> copies;
  for (const auto& [peer, block] : held_blocks(set, after)) {
    if (std::binary_search(had.begin(), had.end(), std::pair{peer, block})) continue;
    const std::pair<std::size_t, std::size_t>* source = nullptr;
    for (const auto& h : had) {
      if (h.second != block || std::find(lost.begin(), lost.end(), h.first) != lost.end()) continue;
      if (source == nullptr || sends[h.first] < sends[source->first]) source = &h;
    }
    if (source == nullptr) {
      return fail(errc::peer_lost, "block " + std::to_string(block),
                  "every peer that held it is gone; go on from the last checkpoint");
    }
    ++sends[source->first];
    copies.push_back({peer, block, source->first});
  }
  return copies;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::vector<std::pair<std::size_t, std::size_t>> held_blocks(const template_set& set,
                                                                           const pipeline_peers& all) {
  std::vector<std::pair<std::size_t, std::size_t>> held;
  for (const auto& peers : all) {
    for (const template_stage& s : set.of(peers.size()).stages) {
      for (std::size_t b = s.first_block; b < s.end; ++b) held.emplace_back(peers[s.peer], b);
    }
  }
  std::sort(held.begin(), held.end());
  return held;
}

CAUSEWAY_DECL result<template_reaction> react(const template_set& set, const pipeline_peers& pipelines,
                                              const std::vector<std::size_t>& lost) {
  template_reaction r;
  std::size_t left = 0;
  for (const auto& peers : pipelines) {
    CAUSEWAY_EXPECT(set.has(peers.size()));
    r.pipelines.emplace_back();
    for (const std::size_t p : peers) {
      if (std::find(lost.begin(), lost.end(), p) == lost.end()) r.pipelines.back().push_back(p);
    }
    left += r.pipelines.back().size();
  }
  const std::size_t least = (set.failures + 1) * set.smallest();
  if (left < least) {
    return fail(errc::out_of_memory, "templates",
                std::to_string(left) + " peers are left, " + std::to_string(set.failures + 1) + " pipelines take " +
                    std::to_string(least) + "; save a checkpoint and wait for more");
  }
  detail::mend(set, r);
  detail::shorten(set, r.pipelines);
  CAUSEWAY_ASSIGN(r.copies, detail::copies_for(set, pipelines, r.pipelines, lost));
  return r;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TEMPLATE_REACTION_IPP
#endif

// ---- causeway/plan/recovery_templates.hpp ----
#ifndef CAUSEWAY_PLAN_RECOVERY_TEMPLATES_HPP
#define CAUSEWAY_PLAN_RECOVERY_TEMPLATES_HPP

// templates: Oobleck (Jang et al., SOSP 2023). A pipeline that lost peers takes a smaller template, borrows, or is merged
// (template_reaction.hpp); peers copy the blocks that they miss from replicas, all at once, and the step begins again.
// Peers that come wait for the step's end; then the best pipelines of all peers are chosen anew. If too few peers are left
// for f + 1 pipelines, or a block is gone with all its holders, training goes on from the last checkpoint once it can.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

class template_recovery {
 public:
  /// `set`: of the job's model.
  CAUSEWAY_DECL template_recovery(const recovery_job& job, template_set set);

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  CAUSEWAY_DECL recovery_action boundary();

  [[nodiscard]] double step_seconds() const { return step_; }
  [[nodiscard]] double checkpoint_bytes() const { return largest_stage(set_.of(set_.smallest())); }
  [[nodiscard]] const pipeline_peers& pipelines() const { return pipelines_; }

 private:
  CAUSEWAY_DECL [[nodiscard]] bool holds_any(const std::vector<std::size_t>& ids) const;

  CAUSEWAY_DECL [[nodiscard]] std::size_t peers() const;

  CAUSEWAY_DECL [[nodiscard]] double largest_stage(const pipeline_template& t) const;

  /// Peers of `pipelines_` that neither are lost nor in `after`.
  CAUSEWAY_DECL void keep_spares(const pipeline_peers& after, const std::vector<std::size_t>& gone);

  CAUSEWAY_DECL recovery_action break_down(const std::vector<std::size_t>& gone);

  CAUSEWAY_DECL recovery_action revive(double pause);

  /// Pipelines of these sizes of all peers. Each present pipeline goes on as the nearest size; what it has too many, and
  /// the spares, go where there are too few.
  CAUSEWAY_DECL [[nodiscard]] pipeline_peers arranged(const std::vector<std::size_t>& sizes) const;

  CAUSEWAY_DECL [[nodiscard]] template_choice choice_of(const pipeline_peers& pipelines) const;

  /// All copies at once; a peer sends or takes one after another.
  CAUSEWAY_DECL [[nodiscard]] double copy_seconds(const std::vector<block_copy>& copies) const;

  /// The slowest pipeline's timeline, each with its share of micro-batches, and the average of the gradients.
  CAUSEWAY_DECL void update();

  CAUSEWAY_DECL double pipeline_seconds(std::size_t size, std::size_t micro_batches);

  const recovery_job* job_;
  template_set set_;
  pipeline_peers pipelines_;
  std::vector<std::size_t> spare_;
  double step_ = no_step;
  std::map<std::pair<std::size_t, std::size_t>, double> seconds_;  // of (peers, micro-batches)
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RECOVERY_TEMPLATES_HPP

// ---- causeway/plan/impl/recovery_templates.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_TEMPLATES_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_TEMPLATES_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL template_recovery::template_recovery(const recovery_job& job, template_set set)
    : job_{&job}, set_{std::move(set)} {}

CAUSEWAY_DECL recovery_action template_recovery::changed(std::span<const std::uint32_t> lost,
                                                         std::span<const std::uint32_t> come) {
  const std::vector<std::size_t> gone(lost.begin(), lost.end());
  const bool broken = holds_any(gone);
  std::erase_if(spare_, [&](std::size_t id) { return std::binary_search(gone.begin(), gone.end(), id); });
  spare_.insert(spare_.end(), come.begin(), come.end());
  if (pipelines_.empty()) return revive(0);
  if (!broken) return {};
  const auto r = react(set_, pipelines_, gone);
  if (!r) return break_down(gone);
  keep_spares(r->pipelines, gone);
  pipelines_ = r->pipelines;
  update();
  return {job_->detection + job_->regroup + copy_seconds(r->copies), step_fate::begins_again};
}

CAUSEWAY_DECL recovery_action template_recovery::boundary() {
  if (spare_.empty() || pipelines_.empty()) return {};
  const auto choice = choose_templates(set_, peers(), job_->micro_batches);
  if (!choice) return {};  // as before: the spares do not help
  const pipeline_peers after = arranged(choice->sizes);
  if (choice_of(after).seconds >= choice_of(pipelines_).seconds) return {};
  const auto copies = detail::copies_for(set_, pipelines_, after, {});
  CAUSEWAY_EXPECT(copies.has_value());  // nobody is lost
  pipelines_ = after;
  spare_.clear();
  update();
  return {job_->regroup + copy_seconds(*copies)};
}

CAUSEWAY_DECL bool template_recovery::holds_any(const std::vector<std::size_t>& ids) const {
  for (const auto& p : pipelines_) {
    for (const std::size_t id : p) {
      if (std::binary_search(ids.begin(), ids.end(), id)) return true;
    }
  }
  return false;
}

CAUSEWAY_DECL std::size_t template_recovery::peers() const {
  std::size_t n = spare_.size();
  for (const auto& p : pipelines_) n += p.size();
  return n;
}

CAUSEWAY_DECL double template_recovery::largest_stage(const pipeline_template& t) const {
  double most = 0;
  for (const template_stage& s : t.stages) most = std::max(most, cost_of_stage(job_->model, s.first_block, s.end).memory);
  return most;
}

CAUSEWAY_DECL void template_recovery::keep_spares(const pipeline_peers& after, const std::vector<std::size_t>& gone) {
  for (const auto& p : pipelines_) {
    for (const std::size_t id : p) {
      const auto in = [&](const std::vector<std::size_t>& some) {
        return std::find(some.begin(), some.end(), id) != some.end();
      };
      if (!in(gone) && std::none_of(after.begin(), after.end(), in)) spare_.push_back(id);
    }
  }
}

CAUSEWAY_DECL recovery_action template_recovery::break_down(const std::vector<std::size_t>& gone) {
  keep_spares({}, gone);
  pipelines_.clear();
  step_ = no_step;
  return revive(job_->detection);
}

CAUSEWAY_DECL recovery_action template_recovery::revive(double pause) {
  const auto choice = choose_templates(set_, spare_.size(), job_->micro_batches);
  if (!choice) return {pause, step_fate::begins_again};
  pipelines_ = arranged(choice->sizes);
  spare_.clear();
  update();
  pause += job_->restart + checkpoint_bytes() / job_->read_bytes_per_second;
  return {pause, step_fate::from_checkpoint};
}

CAUSEWAY_DECL pipeline_peers template_recovery::arranged(const std::vector<std::size_t>& sizes) const {
  pipeline_peers old = pipelines_, all;
  std::stable_sort(old.begin(), old.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::vector<std::size_t> loose;
  for (std::size_t i = 0; i < std::max(old.size(), sizes.size()); ++i) {
    std::vector<std::size_t> p = i < old.size() ? old[i] : std::vector<std::size_t>{};
    for (; i >= sizes.size() ? !p.empty() : p.size() > sizes[i]; p.pop_back()) loose.push_back(p.back());
    if (i < sizes.size()) all.push_back(p);
  }
  loose.insert(loose.end(), spare_.begin(), spare_.end());
  for (std::size_t i = 0, next = 0; i < all.size(); ++i) {
    while (all[i].size() < sizes[i]) all[i].push_back(loose[next++]);
  }
  return all;
}

CAUSEWAY_DECL template_choice template_recovery::choice_of(const pipeline_peers& pipelines) const {
  std::vector<std::size_t> sizes;
  for (const auto& p : pipelines) sizes.push_back(p.size());
  return split_batch(set_, std::move(sizes), job_->micro_batches);
}

CAUSEWAY_DECL double template_recovery::copy_seconds(const std::vector<block_copy>& copies) const {
  std::map<std::size_t, double> sent, taken;
  double most = 0;
  const std::size_t blocks = job_->model.blocks.size();
  for (const block_copy& c : copies) {
    double bytes = job_->model.blocks[c.block].memory;
    if (c.block == 0) bytes += job_->model.embedding.memory;
    if (c.block + 1 == blocks) bytes += job_->model.head.memory;
    const double seconds = job_->link.seconds(bytes);
    most = std::max({most, sent[c.from] += seconds, taken[c.peer] += seconds});
  }
  return most;
}

CAUSEWAY_DECL void template_recovery::update() {
  const template_choice choice = choice_of(pipelines_);
  step_ = 0;
  double parameters = 0;
  for (std::size_t i = 0; i < choice.sizes.size(); ++i) {
    step_ = std::max(step_, pipeline_seconds(choice.sizes[i], choice.micro_batches[i]));
    for (const template_stage& s : set_.of(choice.sizes[i]).stages)
      parameters = std::max(parameters, cost_of_stage(job_->model, s.first_block, s.end).parameters);
  }
  const auto d = static_cast<double>(choice.sizes.size());
  if (d > 1) step_ += 2 * (d - 1) * job_->link.seconds(parameters * job_->gradient_bytes / d);
}

CAUSEWAY_DECL double template_recovery::pipeline_seconds(std::size_t size, std::size_t micro_batches) {
  if (micro_batches == 0) return 0;
  const auto [known, fresh] = seconds_.try_emplace({size, micro_batches});
  if (!fresh) return known->second;
  stage_costs costs;
  for (const template_stage& s : set_.of(size).stages) {
    const double forward = s.seconds * job_->forward_share, half = (s.seconds - forward) / 2;
    costs.stages.push_back({forward, half, half, forward});
  }
  const edge_cost edge{job_->link.delay, job_->boundary_bytes, job_->boundary_bytes, job_->link.bandwidth / 8};
  costs.edges.assign(costs.stages.size() - 1, edge);
  const auto routes = straight_routes(costs.stages.size(), micro_batches);
  return known->second = seconds_of({std::move(costs), routes, static_cast<std::uint32_t>(micro_batches)});
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_TEMPLATES_IPP
#endif

// ---- causeway/plan/resumed_order.hpp ----
#ifndef CAUSEWAY_PLAN_RESUMED_ORDER_HPP
#define CAUSEWAY_PLAN_RESUMED_ORDER_HPP

// What is left of a pipeline's step, as an order for each rank: of a step that nobody has begun, or of one in which a rank
// was lost and another took over its stage (Bamboo: Thorpe et al., NSDI 2023). List scheduling without links: whatever can
// begin first does, a backward before a forward. Where nothing is done and each stage has its own rank this is 1F1B.
//
// Each stage takes micro-batches in their order, forwards and backwards, so its gradients are added up in the order of the
// undisturbed step, whoever adds them. Among the micro-batches of which something is left, the lowest can always go on: so
// there is no deadlock.
//
// A rank may repeat another one's forwards besides, where the plan has it wait long enough for one: so they delay nobody as
// long as the plan holds.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// How far one stage is with one micro-batch.
enum class unit_state : std::uint8_t {
  untouched,
  forward,  ///< its activations are kept
  done,     ///< its weights' gradient is in the sum, its input's gradient is kept
};

struct step_progress {
  std::vector<std::uint32_t> owners;           ///< [stage]: the rank that does what is left of it; one may have several
  std::vector<std::vector<unit_state>> units;  ///< [stage][micro-batch], as the owner has it; equally long

  [[nodiscard]] std::size_t stages() const noexcept { return owners.size(); }
  [[nodiscard]] std::size_t micro_batches() const noexcept { return units.empty() ? 0 : units.front().size(); }

  /// Of a step that nobody has begun, with a rank for each stage.
  CAUSEWAY_DECL [[nodiscard]] static step_progress fresh(std::size_t stages, std::size_t micro_batches);
};

/// What one rank does, in which order; an operation's chunk is its stage.
struct rank_plan {
  std::vector<operation> order;
  std::vector<double> begins;  ///< of each: when it can, in forwards
  double end = 0;              ///< of all ranks: when the last operation ends
};

/// What each rank does. Time: what is left, times stages. errc::protocol where nothing that is left can go on, which honest
/// ranks never say.
CAUSEWAY_DECL [[nodiscard]] result<std::vector<rank_plan>> resumed_orders(const step_progress& p);

/// The order of `plan` with forwards of another rank's stage `repeated` in between, of `missing` micro-batches, rising: in
/// idle time, and, with `all`, the others at the end. The input of stage 0 is always there, that of another is what this
/// rank's stage before gives.
CAUSEWAY_DECL [[nodiscard]] std::vector<operation> with_repeats(const rank_plan& plan, std::size_t repeated,
                                                                std::span<const std::uint32_t> missing, bool all);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_RESUMED_ORDER_HPP

// ---- causeway/plan/impl/resumed_order.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_RESUMED_ORDER_IPP
#define CAUSEWAY_PLAN_IMPL_RESUMED_ORDER_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

inline constexpr double forward_takes = 1, backward_takes = 2;  // about

class resumed_clock {
 public:
  CAUSEWAY_DECL explicit resumed_clock(const step_progress& p)
      : p_{p}, left_{p}, row_(p.stages()), forward_at_(p.stages(), std::vector<double>(p.micro_batches())) {
    back_at_ = forward_at_;
    for (const std::uint32_t rank : p.owners) plans_.resize(std::max<std::size_t>(plans_.size(), rank + 1));
    free_at_.resize(plans_.size());
    for (std::size_t s = 0; s < p.stages(); ++s) {
      for (const unit_state u : p.units[s]) row_[s].in_flight += u == unit_state::forward ? 1 : 0;
      pass_by(s);
    }
  }

  CAUSEWAY_DECL [[nodiscard]] result<std::vector<rank_plan>> run() {
    for (;;) {
      std::optional<candidate> first;
      bool left = false;
      for (std::size_t s = 0; s < p_.stages(); ++s) {
        left = left || row_[s].next_back < p_.micro_batches();
        consider(back(s), first);
        consider(forward(s), first);
      }
      if (!first && left)
        return fail(errc::protocol, "step", "what peers say that they have done of it cannot come of one order");
      if (!first) return ended();
      take(*first);
    }
  }

 private:
  struct row {
    std::size_t next_forward = 0, next_back = 0, in_flight = 0;
  };
  struct candidate {
    double begin = 0;
    operation op{};
    // gradients first, then the micro-batch that came in first, then the stage nearer the loss
    [[nodiscard]] auto rank() const { return std::tuple{begin, op.kind == work::forward, op.micro_batch, ~op.chunk}; }
  };

  CAUSEWAY_DECL static void consider(const std::optional<candidate>& c, std::optional<candidate>& first) {
    if (c && (!first || c->rank() < first->rank())) first = c;
  }

  // Activations that fit: as in 1F1B.
  [[nodiscard]] std::size_t room(std::size_t s) const { return p_.stages() - s; }

  CAUSEWAY_DECL void pass_by(std::size_t s) {
    row& r = row_[s];
    while (r.next_forward < p_.micro_batches() && left_.units[s][r.next_forward] != unit_state::untouched) ++r.next_forward;
    while (r.next_back < p_.micro_batches() && left_.units[s][r.next_back] == unit_state::done) ++r.next_back;
  }

  CAUSEWAY_DECL [[nodiscard]] std::optional<candidate> forward(std::size_t s) const {
    const std::size_t m = row_[s].next_forward;
    if (m == p_.micro_batches() || row_[s].in_flight >= room(s)) return std::nullopt;
    if (s > 0 && left_.units[s - 1][m] == unit_state::untouched) return std::nullopt;
    const double input = s > 0 ? forward_at_[s - 1][m] : 0;
    return candidate{std::max(input, free_at_[p_.owners[s]]), named(work::forward, m, s)};
  }

  CAUSEWAY_DECL [[nodiscard]] std::optional<candidate> back(std::size_t s) const {
    const std::size_t m = row_[s].next_back;
    if (m == p_.micro_batches() || left_.units[s][m] != unit_state::forward) return std::nullopt;
    if (s + 1 < p_.stages() && left_.units[s + 1][m] != unit_state::done) return std::nullopt;
    const double input = std::max(forward_at_[s][m], s + 1 < p_.stages() ? back_at_[s + 1][m] : 0);
    return candidate{std::max(input, free_at_[p_.owners[s]]), named(work::backward, m, s)};
  }

  CAUSEWAY_DECL [[nodiscard]] std::vector<rank_plan> ended() {
    for (rank_plan& p : plans_) p.end = *std::max_element(free_at_.begin(), free_at_.end());
    return std::move(plans_);
  }

  CAUSEWAY_DECL [[nodiscard]] static operation named(work kind, std::size_t m, std::size_t s) {
    return {kind, static_cast<std::uint32_t>(m), static_cast<std::uint32_t>(s)};
  }

  CAUSEWAY_DECL void take(const candidate& c) {
    const std::size_t s = c.op.chunk, m = c.op.micro_batch;
    const bool goes_forward = c.op.kind == work::forward;
    const double end = c.begin + (goes_forward ? forward_takes : backward_takes);
    free_at_[p_.owners[s]] = end;
    plans_[p_.owners[s]].order.push_back(c.op);
    plans_[p_.owners[s]].begins.push_back(c.begin);
    (goes_forward ? forward_at_ : back_at_)[s][m] = end;
    left_.units[s][m] = goes_forward ? unit_state::forward : unit_state::done;
    goes_forward ? ++row_[s].in_flight : --row_[s].in_flight;
    pass_by(s);
  }

  const step_progress& p_;
  step_progress left_;
  std::vector<row> row_;
  std::vector<std::vector<double>> forward_at_, back_at_;  // [stage][micro-batch]: when; 0 for what is done
  std::vector<double> free_at_;
  std::vector<rank_plan> plans_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL step_progress step_progress::fresh(std::size_t stages, std::size_t micro_batches) {
  step_progress p;
  for (std::size_t s = 0; s < stages; ++s) p.owners.push_back(static_cast<std::uint32_t>(s));
  p.units.assign(stages, std::vector<unit_state>(micro_batches));
  return p;
}

CAUSEWAY_DECL result<std::vector<rank_plan>> resumed_orders(const step_progress& p) {
  for ([[maybe_unused]] const auto& row : p.units)
    CAUSEWAY_EXPECT(row.size() == p.micro_batches() && p.units.size() == p.stages());
  return detail::resumed_clock{p}.run();
}

CAUSEWAY_DECL std::vector<operation> with_repeats(const rank_plan& plan, std::size_t repeated,
                                                  std::span<const std::uint32_t> missing, bool all) {
  const auto stage = static_cast<std::uint32_t>(repeated);
  const auto ready = [&](std::uint32_t m) {
    for (std::size_t i = 0; i < plan.order.size() && stage > 0; ++i) {
      if (plan.order[i] == operation{work::forward, m, stage - 1}) return plan.begins[i] + detail::forward_takes;
    }
    return 0.0;  // done in an earlier attempt
  };
  std::vector<operation> order;
  double now = 0;
  const auto fill = [&](double until) {
    for (; !missing.empty(); missing = missing.subspan(1)) {
      const double end = std::max(now, ready(missing.front())) + detail::forward_takes;
      if (end > until) return;
      order.push_back({work::forward, missing.front(), stage});
      now = end;
    }
  };
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    fill(plan.begins[i]);
    order.push_back(plan.order[i]);
    const bool goes_forward = plan.order[i].kind == work::forward;
    now = plan.begins[i] + (goes_forward ? detail::forward_takes : detail::backward_takes);
  }
  fill(all ? std::numeric_limits<double>::infinity() : plan.end);
  return order;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RESUMED_ORDER_IPP
#endif

// ---- causeway/plan/roles.hpp ----
#ifndef CAUSEWAY_PLAN_ROLES_HPP
#define CAUSEWAY_PLAN_ROLES_HPP

// Who trains and who averages for others: DeDLOC (Diskin et al., NeurIPS 2021, arXiv 2106.10207, section 3.2). Peers have a
// speed, a download and an upload. A round takes as long as the slower of two things that overlap: the trainers gather the
// global batch, and everybody's gradients are averaged. With T trainers, a peer that averages the share w of the vector
// receives it from the other trainers and sends the result back, and a trainer also sends, and gets back, what others
// average. Both directions carry the same, so that the narrower one, b, decides:
//   a trainer:  1 + (T - 2) w <= b xi      no trainer:  T w <= b xi      sum of w = 1, w >= 0
// in units of the vector. For given trainers the least xi is exact: the shares that peers can take within xi grow with it,
// and are filled up by bisection. The paper gives the choice of trainers to a solver; here it is a local search that
// changes one peer's role or swaps two, from several starts. collective/shares.hpp is the case where all train.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct role_peer {
  double speed = 0;     ///< samples per second; 0: cannot train
  double download = 0;  ///< bytes per second
  double upload = 0;    ///< bytes per second; with 0 either way it can take no part
};

struct role_plan {
  std::vector<bool> trains;
  std::vector<double> shares;  ///< of the vector, that each peer averages; they add up to 1
  double gather_seconds = std::numeric_limits<double>::infinity();   ///< until the global batch is there
  double average_seconds = std::numeric_limits<double>::infinity();  ///< of an average

  /// Of a round; infinite: nobody can train, or nobody can average.
  [[nodiscard]] double seconds() const noexcept { return std::max(gather_seconds, average_seconds); }
};

namespace detail {

class role_search {
 public:
  CAUSEWAY_DECL role_search(std::span<const role_peer> peers, double batch, double bytes);

  /// With these trainers.
  CAUSEWAY_DECL [[nodiscard]] role_plan rated(std::vector<bool> trains) const;

  CAUSEWAY_DECL [[nodiscard]] role_plan best() const;

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  [[nodiscard]] double width(std::size_t i) const { return std::min(peers_[i].download, peers_[i].upload); }

  /// The share that peer i can average within xi.
  CAUSEWAY_DECL [[nodiscard]] double room(std::size_t i, bool trains, double trainers, double xi) const;

  CAUSEWAY_DECL [[nodiscard]] double least_time(const std::vector<bool>& trains, double trainers, double least) const;

  CAUSEWAY_DECL static bool keep(role_plan& best, role_plan next);

  CAUSEWAY_DECL bool change_roles(role_plan& best) const;

  std::vector<role_peer> peers_;
  double batch_;
  double bytes_;
};

}  // namespace detail

/// The roles with the shortest round that the search finds, for a global batch of `batch` samples and a vector of `bytes`
/// bytes. Deterministic. Each step of the search tries about n^2 / 2 changes of n peers.
CAUSEWAY_DECL role_plan assign_roles(std::span<const role_peer> peers, double batch, double bytes);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_ROLES_HPP

// ---- causeway/plan/impl/roles.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_ROLES_IPP
#define CAUSEWAY_PLAN_IMPL_ROLES_IPP

#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL role_search::role_search(std::span<const role_peer> peers, double batch, double bytes)
    : peers_{peers.begin(), peers.end()}, batch_{batch}, bytes_{bytes} {}

CAUSEWAY_DECL role_plan role_search::rated(std::vector<bool> trains) const {
  role_plan p{std::move(trains), std::vector<double>(peers_.size())};
  double speed = 0, least = 0, trainers = 0;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!p.trains[i]) continue;
    if (peers_[i].speed <= 0) return p;
    speed += peers_[i].speed;
    trainers += 1;
    least = std::max(least, 1 / width(i));  // it must at least send its own
  }
  if (trainers == 0) return p;
  p.gather_seconds = batch_ / speed;
  const double xi = trainers == 1 ? 0 : least_time(p.trains, trainers, least);
  p.average_seconds = xi * bytes_;
  double total = 0;
  for (std::size_t i = 0; i < peers_.size() && xi < infinite; ++i)
    total += p.shares[i] = room(i, p.trains[i], trainers, xi);
  for (double& w : p.shares) w = total > 0 ? w / total : 0;
  return p;
}

CAUSEWAY_DECL role_plan role_search::best() const {
  role_plan best;
  std::vector<std::size_t> order(peers_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const bool by_speed : {true, false}) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return by_speed ? peers_[a].speed > peers_[b].speed : width(a) > width(b);
    });
    std::vector<bool> trains(peers_.size(), false);
    for (const std::size_t i : order) {  // the first one, two, three, ...
      if (peers_[i].speed <= 0) continue;
      trains[i] = true;
      keep(best, rated(trains));
    }
  }
  while (change_roles(best)) {
  }
  return best;
}

CAUSEWAY_DECL double role_search::room(std::size_t i, bool trains, double trainers, double xi) const {
  if (!trains) return std::min(1.0, width(i) * xi / trainers);
  if (trainers <= 2) return 1;  // what it averages it need not send
  return std::clamp((width(i) * xi - 1) / (trainers - 2), 0.0, 1.0);
}

CAUSEWAY_DECL double role_search::least_time(const std::vector<bool>& trains, double trainers, double least) const {
  const auto fits = [&](double xi) {
    double sum = 0;
    for (std::size_t i = 0; i < peers_.size(); ++i) sum += room(i, trains[i], trainers, xi);
    return sum >= 1;
  };
  if (least == infinite || fits(least)) return least;
  double low = least, high = least;
  while (!fits(high)) low = high, high *= 2;  // a trainer's room grows without limit
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

CAUSEWAY_DECL bool role_search::keep(role_plan& best, role_plan next) {
  // Equal rounds: the one whose two parts are shorter together.
  const auto better = [](const role_plan& a, const role_plan& b) {
    if (a.seconds() != b.seconds()) return a.seconds() < b.seconds();
    return a.gather_seconds + a.average_seconds < b.gather_seconds + b.average_seconds;
  };
  if (!best.trains.empty() && !better(next, best)) return false;
  best = std::move(next);
  return true;
}

CAUSEWAY_DECL bool role_search::change_roles(role_plan& best) const {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    for (std::size_t j = 0; j <= i && i < best.trains.size(); ++j) {
      std::vector<bool> trains = best.trains;
      trains[i] = !trains[i];
      if (j != i) trains[j] = !trains[j];
      if (keep(best, rated(std::move(trains)))) return true;
    }
  }
  return false;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL role_plan assign_roles(std::span<const role_peer> peers, double batch, double bytes) {
  CAUSEWAY_EXPECT(batch > 0 && bytes >= 0);
  role_plan p = detail::role_search{peers, batch, bytes}.best();
  p.trains.resize(peers.size());
  p.shares.resize(peers.size());
  return p;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_ROLES_IPP
#endif

// ---- causeway/plan/routed_schedule.hpp ----
#ifndef CAUSEWAY_PLAN_ROUTED_SCHEDULE_HPP
#define CAUSEWAY_PLAN_ROUTED_SCHEDULE_HPP

// A schedule in which micro-batches go different ways, as data: who does what in which order. What several pipelines do
// together when the twins of a lost peer take its micro-batches (ReCycle). Written by the simulation of routed_time.hpp, or
// by anybody; checked here.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct routed_schedule {
  std::vector<std::vector<std::uint32_t>> routes;  ///< [micro-batch][stage]: peer
  std::vector<std::vector<operation>> orders;      ///< [peer]; an operation's chunk is its stage

  [[nodiscard]] std::size_t stages() const noexcept { return routes.empty() ? 0 : routes.front().size(); }
};

/// What the peers of that step do. See routed_time.hpp.
CAUSEWAY_DECL [[nodiscard]] routed_schedule schedule_of(const routed_step& step);

/// Of a pipeline whose first rank has embedding and output layer: micro-batches leave it, go through the other ranks and
/// come back to it, so there is a place more than ranks. [micro-batch][place]: rank.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> ring_routes(std::uint32_t ranks,
                                                                                std::uint32_t micro_batches);

/// The same where every other one, by their numbers in the batch, goes the other way round through the two ranks behind the
/// first, and through the last two (CheckFree+). `first`: the number of the first. At least five ranks.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::uint32_t>> swapped_routes(std::uint32_t ranks,
                                                                                   std::uint32_t micro_batches,
                                                                                   std::uint32_t first = 0);

/// What the ranks do in a step on such routes. Stages are thought alike, and each end half as long.
CAUSEWAY_DECL [[nodiscard]] routed_schedule ring_schedule(std::vector<std::vector<std::uint32_t>> routes);

/// Forwards only, those with the lowest sum of micro-batch and place first. `peers`: how many there are.
CAUSEWAY_DECL [[nodiscard]] routed_schedule routed_forwards(std::vector<std::vector<std::uint32_t>> routes,
                                                            std::size_t peers);

/// The most sets of activations that a peer holds at one time if it follows its order.
CAUSEWAY_DECL [[nodiscard]] std::int64_t peak_activations(const routed_schedule& s, std::size_t peer);

/// Whether a routed schedule can be run: every micro-batch goes forward once and backward once (whole or in halves) through
/// the peer of its route in each stage, no peers wait for each other in a circle, and none holds more sets of activations
/// than `bound` says for it; without bounds it may hold any number. Reads nothing that it has not checked.
CAUSEWAY_DECL [[nodiscard]] result<void> check(const routed_schedule& s, std::span<const std::int64_t> bound = {});

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_ROUTED_SCHEDULE_HPP

// ---- causeway/plan/impl/routed_schedule.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_ROUTED_SCHEDULE_IPP
#define CAUSEWAY_PLAN_IMPL_ROUTED_SCHEDULE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class routed_check {
 public:
  CAUSEWAY_DECL explicit routed_check(const routed_schedule& s)
      : s_{s}, stages_{s.stages()}, seen_(stages_ * s.routes.size()), next_(s.orders.size()) {}

  CAUSEWAY_DECL [[nodiscard]] result<void> run() {
    if (stages_ == 0) return fail(errc::invalid_argument, "routed schedule", "needs a micro-batch and a stage");
    for (const auto& route : s_.routes) {
      const bool known = std::all_of(route.begin(), route.end(), [&](std::uint32_t p) { return p < s_.orders.size(); });
      if (route.size() != stages_ || !known)
        return fail(errc::invalid_argument, "routed schedule", "a micro-batch has no peer for each stage");
    }
    for (std::size_t p = 0; p < s_.orders.size(); ++p) {
      for (std::size_t i = 0; i < s_.orders[p].size(); ++i) CAUSEWAY_TRY(take(p, i));
    }
    for (std::size_t unit = 0; unit < seen_.size(); ++unit) {
      if (seen_[unit] != all_of_it) return wrong(unit, "does not go forward and backward through it, once each");
    }
    return runs();
  }

 private:
  static constexpr unsigned went_forward = 1, went_back = 2, has_weights = 4, all_of_it = 7;

  CAUSEWAY_DECL [[nodiscard]] error wrong(std::size_t unit, const std::string& what) const {
    return fail(errc::invalid_argument,
                "micro-batch " + std::to_string(unit / stages_) + ", stage " + std::to_string(unit % stages_), what);
  }
  [[nodiscard]] std::size_t unit_of(const operation& op) const { return op.micro_batch * stages_ + op.chunk; }

  // Each operation once, on the peer of its route, in the order in which one needs the other.
  CAUSEWAY_DECL [[nodiscard]] result<void> take(std::size_t peer, std::size_t position) {
    const operation& op = s_.orders[peer][position];
    if (op.micro_batch >= s_.routes.size() || op.chunk >= stages_ || s_.routes[op.micro_batch][op.chunk] != peer) {
      return fail(errc::invalid_argument,
                  "peer " + std::to_string(peer) + ", position " + std::to_string(position) + ", " + to_string(op),
                  "is of no route through this peer");
    }
    unsigned& seen = seen_[unit_of(op)];
    unsigned adds = 0, needs = 0;
    switch (op.kind) {
      case work::forward: adds = went_forward; break;
      case work::backward: needs = went_forward, adds = went_back | has_weights; break;
      case work::input_gradient: needs = went_forward, adds = went_back; break;
      case work::weight_gradient: needs = went_forward | went_back, adds = has_weights; break;
      default: return wrong(unit_of(op), "recomputes; routed schedules do not");
    }
    if (seen != needs) return wrong(unit_of(op), to_string(op) + " stands too early, or twice");
    seen |= adds;
    return {};
  }

  // Without clocks: peers go on in turn as far as they can.
  CAUSEWAY_DECL [[nodiscard]] result<void> runs() {
    std::vector<char> forward_done(seen_.size()), back_done(seen_.size());
    std::size_t left = 0;
    for (const auto& order : s_.orders) left += order.size();
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t p = 0; p < s_.orders.size(); ++p) {
        for (; next_[p] < s_.orders[p].size(); ++next_[p], --left, moved = true) {
          const operation& op = s_.orders[p][next_[p]];
          const std::size_t unit = unit_of(op);
          if (op.kind == work::forward && op.chunk > 0 && forward_done[unit - 1] == 0) break;
          if (gives_input_gradient(op.kind) && op.chunk + 1 < stages_ && back_done[unit + 1] == 0) break;
          if (op.kind == work::forward) forward_done[unit] = 1;
          if (gives_input_gradient(op.kind)) back_done[unit] = 1;
        }
      }
    }
    if (left == 0) return {};
    std::size_t stuck = 0;
    while (next_[stuck] == s_.orders[stuck].size()) ++stuck;
    return fail(errc::invalid_argument, "peer " + std::to_string(stuck) + ", position " + std::to_string(next_[stuck]),
                "deadlock: waits for something that waits for what comes after it");
  }

  const routed_schedule& s_;
  std::size_t stages_;
  std::vector<unsigned> seen_;     // [micro-batch · stages + stage]
  std::vector<std::size_t> next_;  // of each peer's order
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL routed_schedule schedule_of(const routed_step& step) {
  CAUSEWAY_EXPECT(!step.costs.stages.empty() && step.costs.edges.size() + 1 == step.costs.stages.size() && step.share > 0);
  detail::route_clock clock{step};
  (void)clock.run();
  return {step.routes, clock.take_orders()};
}

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> ring_routes(std::uint32_t ranks, std::uint32_t micro_batches) {
  auto routes = straight_routes(ranks, micro_batches);
  for (auto& route : routes) route.push_back(0);
  return routes;
}

CAUSEWAY_DECL std::vector<std::vector<std::uint32_t>> swapped_routes(std::uint32_t ranks, std::uint32_t micro_batches,
                                                                     std::uint32_t first) {
  CAUSEWAY_EXPECT(ranks >= 5);
  auto routes = ring_routes(ranks, micro_batches);
  for (std::uint32_t m = 0; m < micro_batches; ++m) {
    if ((first + m) % 2 == 0) continue;
    std::swap(routes[m][1], routes[m][2]);
    std::swap(routes[m][ranks - 2], routes[m][ranks - 1]);
  }
  return routes;
}

CAUSEWAY_DECL routed_schedule ring_schedule(std::vector<std::vector<std::uint32_t>> routes) {
  CAUSEWAY_EXPECT(!routes.empty());
  const auto places = static_cast<std::uint32_t>(routes.front().size()), share = static_cast<std::uint32_t>(routes.size());
  routed_step step{equal_costs(places), std::move(routes), share};
  step.costs.stages.front() = step.costs.stages.back() = {0.5, 0.5, 0.5, 0.5};
  return schedule_of(step);
}

CAUSEWAY_DECL routed_schedule routed_forwards(std::vector<std::vector<std::uint32_t>> routes, std::size_t peers) {
  routed_schedule s{std::move(routes), std::vector<std::vector<operation>>(peers)};
  const std::size_t places = s.stages(), last = s.routes.size() + places;
  for (std::size_t sum = 0; sum < last; ++sum) {
    for (std::size_t m = sum < places ? 0 : sum - places + 1; m < s.routes.size() && m <= sum; ++m) {
      const std::size_t place = sum - m;
      s.orders[s.routes[m][place]].push_back(
          {work::forward, static_cast<std::uint32_t>(m), static_cast<std::uint32_t>(place)});
    }
  }
  return s;
}

CAUSEWAY_DECL std::int64_t peak_activations(const routed_schedule& s, std::size_t peer) {
  std::int64_t now = 0, peak = 0;
  for (const operation& op : s.orders[peer]) {
    if (op.kind == work::forward) peak = std::max(peak, ++now);
    if (gives_weight_gradient(op.kind)) --now;
  }
  return peak;
}

CAUSEWAY_DECL result<void> check(const routed_schedule& s, std::span<const std::int64_t> bound) {
  CAUSEWAY_TRY(detail::routed_check{s}.run());
  for (std::size_t p = 0; p < bound.size() && p < s.orders.size(); ++p) {
    if (const std::int64_t peak = peak_activations(s, p); peak > bound[p]) {
      return fail(errc::invalid_argument, "peer " + std::to_string(p),
                  "would hold " + std::to_string(peak) + " sets of activations, more than the bound of " +
                      std::to_string(bound[p]));
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_ROUTED_SCHEDULE_IPP
#endif

// ---- causeway/plan/schedule_greedy.hpp ----
#ifndef CAUSEWAY_PLAN_SCHEDULE_GREEDY_HPP
#define CAUSEWAY_PLAN_SCHEDULE_GREEDY_HPP

// Orders written for given costs of stages and links, by list scheduling: whenever a rank is free, a rule takes one of the
// operations that it could run. In the manner of CrossPipe (arXiv 2507.00217), whose model of delay and bandwidth this
// takes; its greedy algorithm is not known to us in detail, so the rules are ours. None of them is best on all links,
// and with little memory an order for quicker or slower links is at times the better one: all rules are tried on links of
// several speeds, a closed form besides, and the timeline on the given links says which order is kept.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What an order is to be written for.
struct greedy_options {
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 1;
  std::uint32_t micro_batches = 1;
  std::uint32_t activations = 1;  ///< sets that a rank has room for; at least `chunks`
  bool halves = false;            ///< split each backward into its two gradients
};

/// The shortest order that list scheduling finds on these costs, never longer than zero_bubble with `halves`, interleaved
/// with several chunks, or one_f_one_b, where these fit the room. Gradients keep the order of micro-batches. Errors: sizes
/// or costs that do not fit; room for fewer activations than chunks. Cost: one simulation and one timeline for each of 8
/// rules.
CAUSEWAY_DECL [[nodiscard]] result<schedule> greedy(const stage_costs& costs, const greedy_options& options);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SCHEDULE_GREEDY_HPP

// ---- causeway/plan/impl/schedule_greedy.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SCHEDULE_GREEDY_IPP
#define CAUSEWAY_PLAN_IMPL_SCHEDULE_GREEDY_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// How a rank chooses among operations that are ready.
struct list_rule {
  bool forwards_first = false;  ///< else gradients first
  bool patient = false;         ///< start nothing else when a gradient arrives before that ends
  bool deep_first = false;      ///< the last of the chunks first; else in groups of `ranks` micro-batches, as interleaved
};

/// One rank's progress, and its next operation by a rule.
class list_scheduler {
 public:
  CAUSEWAY_DECL list_scheduler(const greedy_options& options, const list_rule& rule, std::uint32_t rank)
      : options_{options}, rule_{rule}, rank_{rank}, done_(options.chunks) {}

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> choose(const pipeline_clock& clock) {
    const auto forward = best(clock, work::forward);
    const auto gradient = best(clock, options_.halves ? work::input_gradient : work::backward);
    const auto weight = options_.halves ? best(clock, work::weight_gradient) : std::nullopt;
    const bool first = rule_.forwards_first;
    for (const auto& candidate : {first ? forward : gradient, first ? gradient : forward, weight}) {
      if (candidate && (gives_input_gradient(candidate->kind) || !must_wait(clock, *candidate))) return take(*candidate);
    }
    return std::nullopt;
  }

 private:
  struct progress {  // of a chunk: how many micro-batches
    std::uint32_t forward = 0, input = 0, weight = 0;
  };

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> candidate(std::uint32_t chunk, work kind) const {
    const progress& p = done_[chunk];
    switch (kind) {
      case work::forward: return at(kind, chunk, p.forward, has_room(chunk) ? options_.micro_batches : 0);
      case work::weight_gradient: return at(kind, chunk, p.weight, p.input);
      default: return at(kind, chunk, p.input, p.forward);
    }
  }

  CAUSEWAY_DECL static std::optional<operation> at(work kind, std::uint32_t chunk, std::uint32_t next, std::uint32_t end) {
    return next < end ? std::optional{operation{kind, next, chunk}} : std::nullopt;
  }

  // Room for the chunks behind this one stays free, so that the oldest micro-batch always comes to its end.
  CAUSEWAY_DECL [[nodiscard]] bool has_room(std::uint32_t chunk) const {
    return held_ + (options_.chunks - chunk) <= options_.activations;
  }

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> best(const pipeline_clock& clock, work kind) const {
    std::optional<operation> found;
    for (std::uint32_t c = 0; c < options_.chunks; ++c) {
      const auto op = candidate(c, kind);
      if (op && clock.arrived(rank_, *op) && (!found || order_key(*op) < order_key(*found))) found = op;
    }
    return found;
  }

  CAUSEWAY_DECL [[nodiscard]] std::tuple<std::uint32_t, std::uint32_t, std::uint32_t> order_key(const operation& op) const {
    const std::uint32_t behind = options_.chunks - 1 - op.chunk;  // chunks that the forward has still to go through
    const std::uint32_t group = op.micro_batch / options_.ranks;
    if (op.kind == work::forward) return rule_.deep_first ? std::tuple{behind, 0U, 0U} : std::tuple{group, op.chunk, 0U};
    return rule_.deep_first ? std::tuple{op.chunk, 0U, 0U} : std::tuple{group, behind, 0U};
  }

  // Whether a gradient arrives while this would run.
  CAUSEWAY_DECL [[nodiscard]] bool must_wait(const pipeline_clock& clock, const operation& op) const {
    if (!rule_.patient) return false;
    const double end = clock.now() + clock.cost(rank_, op);
    for (std::uint32_t c = 0; c < options_.chunks; ++c) {
      const auto gradient = candidate(c, options_.halves ? work::input_gradient : work::backward);
      if (gradient && !clock.arrived(rank_, *gradient) && clock.expected(rank_, *gradient) < end) return true;
    }
    return false;
  }

  CAUSEWAY_DECL [[nodiscard]] operation take(const operation& op) {
    progress& p = done_[op.chunk];
    p.forward += op.kind == work::forward ? 1 : 0;
    p.input += gives_input_gradient(op.kind) ? 1 : 0;
    p.weight += gives_weight_gradient(op.kind) ? 1 : 0;
    if (op.kind == work::forward) ++held_;
    if (gives_weight_gradient(op.kind)) --held_;
    return op;
  }

  greedy_options options_;
  list_rule rule_;
  std::uint32_t rank_;
  std::vector<progress> done_;  // [chunk]
  std::uint32_t held_ = 0;      // sets of activations
};

CAUSEWAY_DECL schedule list_schedule(const schedule& shape, const stage_costs& costs, const greedy_options& options,
                                     const list_rule& rule) {
  schedule s = shape;
  std::vector<list_scheduler> ranks;
  for (std::uint32_t r = 0; r < s.ranks; ++r) ranks.emplace_back(options, rule, r);
  pipeline_clock clock{shape, costs, {}};
  clock.run([&](std::uint32_t rank) { return ranks[rank].choose(clock); },
            [&](std::uint32_t rank, const timed_operation& t) {
              s.orders[rank].push_back(t.op);
              // a patient rank may have waited for this one in vain, or must wait for it now
              if (const auto target = target_of(shape, rank, t.op)) clock.wake(target->rank);
            });
  return s;
}

/// The same stages, with links that take `factor` times as long.
CAUSEWAY_DECL stage_costs with_links(const stage_costs& costs, double factor) {
  stage_costs scaled = costs;
  for (edge_cost& e : scaled.edges) {
    e.latency *= factor;
    e.bytes_forward *= factor;
    e.bytes_backward *= factor;
  }
  return scaled;
}

/// The orders of all rules on links of all speeds; the first is for the links as they are.
CAUSEWAY_DECL std::vector<schedule> list_schedules(const schedule& shape, const stage_costs& costs,
                                                   const greedy_options& options) {
  std::vector<schedule> all;
  for (const double factor : {1.0, 0.0, 0.5, 2.0}) {
    const stage_costs scaled = with_links(costs, factor);
    for (unsigned bits = 0; bits < (options.chunks == 1 ? 4U : 8U); ++bits) {  // with one chunk none is deeper
      all.push_back(list_schedule(shape, scaled, options, {(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0}));
    }
  }
  return all;
}

/// The schedule with a closed form for such a pipeline, if there is one that fits its room.
CAUSEWAY_DECL std::optional<schedule> closed_form(const greedy_options& o) {
  if (o.halves && o.chunks > 1) return std::nullopt;
  auto s = o.halves       ? zero_bubble(o.ranks, o.micro_batches)
           : o.chunks > 1 ? interleaved(o.ranks, o.chunks, o.micro_batches)
                          : one_f_one_b(o.ranks, o.micro_batches);
  if (!s || !plan::check(*s, {o.activations, 0})) return std::nullopt;
  return *std::move(s);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<schedule> greedy(const stage_costs& costs, const greedy_options& options) {
  CAUSEWAY_ASSIGN(const schedule shape, detail::start_schedule(options.ranks, options.chunks, options.micro_batches));
  CAUSEWAY_TRY(plan::check(costs, virtual_stages(shape)));
  if (options.activations < options.chunks) {
    return fail(errc::invalid_argument, "greedy",
                "room for " + std::to_string(options.activations) + " sets of activations is less than the " +
                    std::to_string(options.chunks) + " chunks that one micro-batch goes through");
  }
  std::vector<schedule> all = detail::list_schedules(shape, costs, options);
  // last: of two as short, the one that uses the room stands jitter better
  if (auto closed = detail::closed_form(options)) all.push_back(*std::move(closed));
  std::optional<schedule> best;
  double shortest = 0;
  for (schedule& s : all) {
    CAUSEWAY_ASSIGN(const timeline t, timeline_of(s, costs));
    if (best && t.makespan >= shortest) continue;
    shortest = t.makespan;
    best = std::move(s);
  }
  return std::move(*best);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SCHEDULE_GREEDY_IPP
#endif

// ---- causeway/plan/skip_placement.hpp ----
#ifndef CAUSEWAY_PLAN_SKIP_PLACEMENT_HPP
#define CAUSEWAY_PLAN_SKIP_PLACEMENT_HPP

// Which devices serve which stage where micro-batches leave middle stages out: these have less to do than the first and the
// last stage, and need fewer peers. SkipPipe (Blagoev et al. 2025) searches genetically; here DTFM's search does it.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct skip_places {
  std::size_t stages = 3;    ///< of the model
  std::size_t passes = 3;    ///< of them that every micro-batch passes, the first and the last among them
  double stage_bytes = 0;    ///< of a stage's gradients
  double message_bytes = 0;  ///< of all activations between two stages in a step, of the peer of an end
  dtfm_options search{};
};

/// [stage]: devices of `links`, all of which get a place. With N of them a stage at an end has ⌊N / passes⌋, the middle
/// ones the rest, as evenly as can be: so all have about as much to do. DTFM places as many pipelines of `passes` stages as
/// an end has devices; the devices of their middle stages, pipeline by pipeline within each, are then cut into the model's.
/// errc::invalid_argument: too few devices, or passes that are not from 3 to `stages`.
CAUSEWAY_DECL result<std::vector<std::vector<std::size_t>>> place_for_skips(const link_matrix& links, const skip_places& o);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SKIP_PLACEMENT_HPP

// ---- causeway/plan/impl/skip_placement.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SKIP_PLACEMENT_IPP
#define CAUSEWAY_PLAN_IMPL_SKIP_PLACEMENT_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

namespace detail {

/// As even as can be.
inline std::vector<std::vector<std::size_t>> cut_evenly(const std::vector<std::size_t>& all, std::size_t parts) {
  std::vector<std::vector<std::size_t>> cut(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    const auto at = [&](std::size_t k) { return all.begin() + static_cast<std::ptrdiff_t>(all.size() * k / parts); };
    cut[i].assign(at(i), at(i + 1));
  }
  return cut;
}

}  // namespace detail

CAUSEWAY_DECL result<std::vector<std::vector<std::size_t>>> place_for_skips(const link_matrix& links,
                                                                            const skip_places& o) {
  if (o.passes < 3 || o.passes > o.stages) {
    return fail(errc::invalid_argument, "passes", "a path has 3 to " + std::to_string(o.stages) + " stages");
  }
  const std::size_t ends = links.size() / o.passes;
  if (ends == 0 || links.size() < 2 * ends + o.stages - 2) {
    return fail(errc::invalid_argument, "devices",
                std::to_string(links.size()) + " are too few for " + std::to_string(o.stages) + " stages");
  }
  CAUSEWAY_ASSIGN(const dtfm_plan plan, plan_dtfm(links, {ends, o.passes, o.stage_bytes, o.message_bytes}, o.search));
  std::vector<char> free(links.size(), 1);
  for (const std::size_t d : plan.where.devices) free[d] = 0;
  std::vector<std::size_t> middle;
  for (std::size_t s = 1; s + 1 < o.passes; ++s) {
    const auto group = plan.where.group(s);
    middle.insert(middle.end(), group.begin(), group.end());
  }
  for (std::size_t d = 0; d < free.size(); ++d) {
    if (free[d] != 0) middle.push_back(d);
  }
  auto stages = detail::cut_evenly(middle, o.stages - 2);
  const auto first = plan.where.group(0), last = plan.where.group(o.passes - 1);
  stages.insert(stages.begin(), std::vector<std::size_t>(first.begin(), first.end()));
  stages.emplace_back(last.begin(), last.end());
  return stages;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SKIP_PLACEMENT_IPP
#endif

// ---- causeway/plan/skip_route.hpp ----
#ifndef CAUSEWAY_PLAN_SKIP_ROUTE_HPP
#define CAUSEWAY_PLAN_SKIP_ROUTE_HPP

// The quickest way of one group of micro-batches through some of the stages and back, at measured times, around what others
// occupy: the inner search of SkipPipe (Blagoev et al. 2025, arXiv 2502.19913). A best-first search over ways begun (A*).
// What is still to come is bounded from below by the quickest rest without waiting, which a table has for every peer.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Who serves which stage, and what everything takes.
struct skip_task {
  std::vector<std::vector<std::uint32_t>> stages;  ///< [stage]: its peers; a peer serves one stage; at least three stages
  std::vector<stage_cost> peers;                   ///< [peer]: seconds of one group of micro-batches there
  std::vector<std::vector<double>> ways;           ///< [from][to]: seconds of a group's boundary tensor
  std::size_t passes = 3;                          ///< stages of a path, with the first and the last, which always run
  std::size_t groups_of_peer = 1;                  ///< that begin at each peer of the first stage, one after another
  std::size_t room = 1;                            ///< groups whose activations a peer can hold
  std::size_t most_in_stage = 0;                   ///< groups that may pass a middle stage; 0: as few as can be, evenly

  [[nodiscard]] std::size_t groups() const { return stages.front().size() * groups_of_peer; }
  /// Where a group begins.
  [[nodiscard]] std::uint32_t first_peer(std::size_t group) const { return stages.front()[group / groups_of_peer]; }
  /// Seconds: its peer does those before it first.
  CAUSEWAY_DECL [[nodiscard]] double begins(std::size_t group) const;
};

/// errc::invalid_argument says what does not go together.
CAUSEWAY_DECL result<void> check(const skip_task& task);

/// One pass of a group at a peer.
struct skip_visit {
  std::uint32_t peer = 0;
  double start = 0, end = 0;
};

struct skip_route {
  std::vector<std::uint32_t> peers;  ///< in the order of the stages
  std::vector<skip_visit> visits;    ///< forward through all, and back
  double seconds = 0;                ///< when the last pass ends
};

/// What a group must keep to.
struct skip_limits {
  std::vector<char> banned;          ///< [peer]: it may not go there
  std::vector<skip_visit> occupied;  ///< peers that do something else from `start` to `end`
};

/// The quickest of all ways of `group` within `limits`: at each peer it is computed as soon as it is there and the peer is
/// not occupied for a moment of it, forward and backward. None: there is no way. `task` is one that `check` has passed.
/// Costs O(passes · peers²), and then as many ways begun as waiting makes slower than the bound says.
CAUSEWAY_DECL [[nodiscard]] std::optional<skip_route> quickest_route(const skip_task& task, std::size_t group,
                                                                     const skip_limits& limits);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SKIP_ROUTE_HPP

// ---- causeway/plan/impl/skip_route.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SKIP_ROUTE_IPP
#define CAUSEWAY_PLAN_IMPL_SKIP_ROUTE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class skip_route_search {
 public:
  CAUSEWAY_DECL skip_route_search(const skip_task& task, const skip_limits& limits)
      : task_{task}, limits_{limits}, stage_of_(task.peers.size()), rest_(task.passes * task.peers.size(), never) {
    for (std::size_t s = 0; s < task.stages.size(); ++s) {
      for (const std::uint32_t p : task.stages[s]) stage_of_[p] = s;
    }
    fill_rest();
  }

  CAUSEWAY_DECL std::optional<skip_route> run(std::size_t group) {
    begun none;
    none.way.seconds = task_.begins(group);
    go_on(none, task_.first_peer(group));
    while (!open_.empty()) {
      begun b = open_.top();
      open_.pop();
      if (b.whole) return std::move(b.way);
      const std::size_t left = task_.passes - b.way.peers.size();
      if (left == 0)
        go_back(std::move(b));
      else
        for_next(stage_of(b.way.peers.back()), left, [&](std::uint32_t p) { go_on(b, p); });
    }
    return std::nullopt;
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  struct begun {
    double bound = 0;  // when it ends at the earliest
    std::uint64_t sequence = 0;
    double back = 0;  // seconds of what it has to do on its way back, but for waiting
    skip_route way;
    bool whole = false;
    friend bool operator>(const begun& a, const begun& b) {
      return a.bound != b.bound ? a.bound > b.bound : a.sequence > b.sequence;
    }
  };

  [[nodiscard]] double& rest(std::size_t left, std::uint32_t peer) { return rest_[left * task_.peers.size() + peer]; }
  [[nodiscard]] std::size_t stage_of(std::uint32_t peer) const { return stage_of_[peer]; }

  // Seconds from the end of a peer's forward, with so many stages to come, to the beginning of its backward, without waits.
  CAUSEWAY_DECL void fill_rest() {
    for (const std::uint32_t p : task_.stages.back()) rest(0, p) = 0;
    for (std::size_t left = 1; left < task_.passes; ++left) {
      for (std::size_t s = 0; s + 1 < task_.stages.size(); ++s) {
        for (const std::uint32_t p : task_.stages[s]) {
          for_next(s, left, [&](std::uint32_t q) {
            const double there = task_.ways[p][q] + task_.peers[q].forward;
            const double back = task_.peers[q].of(work::backward) + task_.ways[q][p];
            rest(left, p) = std::min(rest(left, p), there + rest(left - 1, q) + back);
          });
        }
      }
    }
  }

  // Peers of the stages that a way may go on to, with so many to come.
  template <class F>
  void for_next(std::size_t stage, std::size_t left, F&& f) const {
    const std::size_t last = task_.stages.size() - 1;
    for (std::size_t s = left == 1 ? last : stage + 1; s < (left == 1 ? last + 1 : last); ++s) {
      for (const std::uint32_t p : task_.stages[s]) {
        if (limits_.banned[p] == 0) f(p);
      }
    }
  }

  CAUSEWAY_DECL void visit(skip_route& way, std::uint32_t peer, double arrives, double seconds) const {
    const auto disturbs = [&](const skip_visit& o) {
      return o.peer == peer && arrives < o.end && arrives + seconds > o.start;
    };
    for (bool waits = true; waits;) {
      waits = false;
      for (const skip_visit& o : limits_.occupied) {
        if (!disturbs(o)) continue;
        arrives = o.end;
        waits = true;
      }
    }
    way.visits.push_back({peer, arrives, arrives + seconds});
    way.seconds = arrives + seconds;
  }

  CAUSEWAY_DECL void go_on(const begun& b, std::uint32_t peer) {
    begun next = b;
    const double way = next.way.peers.empty() ? 0 : task_.ways[next.way.peers.back()][peer];
    const double back = next.way.peers.empty() ? 0 : task_.ways[peer][next.way.peers.back()];
    next.way.peers.push_back(peer);
    visit(next.way, peer, next.way.seconds + way, task_.peers[peer].forward);
    next.back += back + task_.peers[peer].of(work::backward);
    const double rest_of_it = rest(task_.passes - next.way.peers.size(), peer);
    if (rest_of_it == never) return;
    next.bound = next.way.seconds + rest_of_it + next.back;
    next.sequence = sequence_++;
    open_.push(std::move(next));
  }

  CAUSEWAY_DECL void go_back(begun b) {
    for (std::size_t i = b.way.peers.size(); i-- > 0;) {
      const std::uint32_t peer = b.way.peers[i];
      const double way = i + 1 < b.way.peers.size() ? task_.ways[b.way.peers[i + 1]][peer] : 0;
      visit(b.way, peer, b.way.seconds + way, task_.peers[peer].of(work::backward));
    }
    b.bound = b.way.seconds;
    b.whole = true;
    b.sequence = sequence_++;
    open_.push(std::move(b));
  }

  const skip_task& task_;
  const skip_limits& limits_;
  std::vector<std::size_t> stage_of_;
  std::vector<double> rest_;
  std::priority_queue<begun, std::vector<begun>, std::greater<>> open_;
  std::uint64_t sequence_ = 0;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double skip_task::begins(std::size_t group) const {
  return static_cast<double>(group % groups_of_peer) * peers[first_peer(group)].forward;
}

CAUSEWAY_DECL result<void> check(const skip_task& task) {
  const auto wrong = [](const char* what, const std::string& why) { return fail(errc::invalid_argument, what, why); };
  if (task.stages.size() < 3) return wrong("stages", "paths that leave stages out need three or more");
  if (task.passes < 3 || task.passes > task.stages.size())
    return wrong("passes", "a path has 3 to " + std::to_string(task.stages.size()) + " stages");
  if (task.groups_of_peer == 0 || task.groups_of_peer > task.room)
    return wrong("groups_of_peer", "a peer begins at least one group, and at most as many as it has room for");
  std::vector<char> seen(task.peers.size(), 0);
  for (const auto& stage : task.stages) {
    if (stage.empty()) return wrong("stages", "each needs a peer");
    for (const std::uint32_t p : stage) {
      if (p >= seen.size() || std::exchange(seen[p], 1) != 0)
        return wrong("stages", "a peer serves one stage, and has times");
    }
  }
  for (const stage_cost& c : task.peers) {
    if (!(c.forward >= 0 && c.of(work::backward) >= 0 && c.forward + c.of(work::backward) < 1e300))
      return wrong("peers", "seconds are finite and not negative");
  }
  if (task.ways.size() != seen.size()) return wrong("ways", "every peer has a row");
  for (const auto& row : task.ways) {
    const auto good = [](double seconds) { return seconds >= 0 && seconds < 1e300; };
    if (row.size() != seen.size() || !std::all_of(row.begin(), row.end(), good))
      return wrong("ways", "every row has seconds for each peer, finite and not negative");
  }
  if (task.stages.back().size() * task.room < task.groups()) return wrong("room", "the last stage cannot hold all groups");
  return {};
}

CAUSEWAY_DECL std::optional<skip_route> quickest_route(const skip_task& task, std::size_t group,
                                                       const skip_limits& limits) {
  return detail::skip_route_search{task, limits}.run(group);
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SKIP_ROUTE_IPP
#endif

// ---- causeway/plan/skip_plan.hpp ----
#ifndef CAUSEWAY_PLAN_SKIP_PLAN_HPP
#define CAUSEWAY_PLAN_SKIP_PLAN_HPP

// Paths through some of the stages for all groups of micro-batches of a step: SkipPipe (Blagoev et al. 2025, arXiv
// 2502.19913; github.com/gensyn-ai/skippipe 1443624, schedulers/CBS.py). Conflict-based search: every group gets its
// quickest path; where paths do not go together, the first conflict is taken, and each of those in it is forbidden its part
// in turn, in a plan of its own, where it gets its quickest path of what it may still do. Conflicts are more groups in a
// stage than the others leave it, more at a peer than it has room for, and two at a peer at a time. Plans with the quickest
// slowest group are looked at first. Of those that go together the event simulation decides: routed_time.hpp.
//
// Here the groups in an overfull stage, or at an overfull peer, are forbidden it one by one, so that no plan is lost; the
// authors' code forbids it to several at once, and looks at no more than three such choices. Paths keep to the order of the
// stages; theirs may swap some. Half of the search goes to plans with few conflicts first, so that there is one in time.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct skip_plan_options {
  std::size_t micro_batches = 0;  ///< of the simulated step, group by group in turn; 0: one for each group
  std::size_t plans = 8;          ///< without conflicts, after which the search ends
  std::size_t looks = 2000;       ///< at plans with conflicts, at most
};

struct skip_plan {
  std::vector<std::vector<std::uint32_t>> paths;  ///< [group][stage]: peer, or left_out
  double seconds = 0;                             ///< of the simulated step
  double slowest = 0;                             ///< group's end as the search sees it, without what waits beyond it
  std::size_t free_of_conflicts = 0;              ///< plans found
  std::size_t looks = 0;                          ///< at plans
};

/// Seconds of a step whose micro-batch m takes path m modulo their number; as in `skip_plan`. Averages are not in it.
CAUSEWAY_DECL [[nodiscard]] double seconds_of(const skip_task& task, const std::vector<std::vector<std::uint32_t>>& paths,
                                              std::size_t micro_batches);

/// The plan with the shortest simulated step among those in which no stage and no peer has too many groups; where the
/// search finds eight that have no two groups at a peer at a time either, it ends. Deterministic.
/// errc::invalid_argument: a task that is none. errc::not_found: no plan in so many looks.
CAUSEWAY_DECL result<skip_plan> plan_skips(const skip_task& task, const skip_plan_options& options = {});

/// The quickest slowest group of all plans: those kinds of conflicts are minded, up to `minded`, in the order above. For
/// comparisons: not found in `looks` looks is errc::not_found.
enum class skip_conflicts : std::uint8_t { none, stages, peers, times };
CAUSEWAY_DECL result<skip_plan> least_slowest(const skip_task& task, skip_conflicts minded, std::size_t looks);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SKIP_PLAN_HPP

// ---- causeway/plan/impl/skip_plan.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SKIP_PLAN_IPP
#define CAUSEWAY_PLAN_IMPL_SKIP_PLAN_IPP

#include <bit>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class skip_search {
 public:
  CAUSEWAY_DECL skip_search(const skip_task& task, const skip_plan_options& options, skip_conflicts minded)
      : task_{task}, options_{options}, minded_{minded} {
    if (options_.micro_batches == 0) options_.micro_batches = task.groups();
  }

  /// The best by simulation; none where no plan was found.
  CAUSEWAY_DECL std::optional<skip_plan> run() {
    search<by_time>(options_.looks / 2, [&](const draft& n) { return take(n); });
    if (free_ < options_.plans)
      search<by_faults>(options_.looks - options_.looks / 2, [&](const draft& n) { return take(n); });
    if (best_) best_->free_of_conflicts = free_, best_->looks = looks_;
    return best_;
  }
  /// The first without conflicts.
  CAUSEWAY_DECL std::optional<skip_plan> first() {
    std::optional<skip_plan> found;
    search<by_time>(options_.looks, [&](const draft& n) {
      if (n.has == faults{}) found = plan_of(n);
      return !found;
    });
    if (found) found->looks = looks_;
    return found;
  }

 private:
  struct group_state {
    skip_limits limits;
    skip_route route;
  };
  using states = std::vector<std::shared_ptr<const group_state>>;

  struct faults {
    std::size_t crowded = 0;  // groups too many, over all stages and peers
    std::size_t meetings = 0;
    friend auto operator<=>(const faults&, const faults&) = default;
  };
  struct draft {
    double slowest = 0;
    faults has;
    std::uint64_t sequence = 0, key = 0;
    states groups;
  };
  struct by_time {
    bool operator()(const draft& a, const draft& b) const {
      return std::tie(a.slowest, a.has, a.sequence) < std::tie(b.slowest, b.has, b.sequence);
    }
  };
  struct by_faults {
    bool operator()(const draft& a, const draft& b) const {
      return std::tie(a.has, a.slowest, a.sequence) < std::tie(b.has, b.slowest, b.sequence);
    }
  };
  struct meeting {
    std::size_t a = 0, b = 0;
    skip_visit of_a, of_b;
    [[nodiscard]] auto rank() const { return std::tuple{std::max(of_a.start, of_b.start), of_a.peer, a, b}; }
  };

  [[nodiscard]] bool minds(skip_conflicts kind) const { return minded_ >= kind; }
  CAUSEWAY_DECL [[nodiscard]] std::size_t most_in_stage() const {
    if (task_.most_in_stage > 0) return task_.most_in_stage;
    const std::size_t middle = task_.stages.size() - 2;
    return (task_.groups() * (task_.passes - 2) + middle - 1) / middle;
  }

  // By stage or by peer: who is there.
  using visitors = std::vector<std::vector<std::size_t>>;
  CAUSEWAY_DECL [[nodiscard]] visitors at_stages(const states& all) const {
    const visitors peers = at_peers(all);
    visitors at(task_.stages.size());
    for (std::size_t s = 0; s < at.size(); ++s) {
      for (const std::uint32_t p : task_.stages[s]) at[s].insert(at[s].end(), peers[p].begin(), peers[p].end());
      std::sort(at[s].begin(), at[s].end());
    }
    return at;
  }
  CAUSEWAY_DECL [[nodiscard]] visitors at_peers(const states& all) const {
    visitors at(task_.peers.size());
    for (std::size_t g = 0; g < all.size(); ++g) {
      for (const std::uint32_t p : all[g]->route.peers) at[p].push_back(g);
    }
    return at;
  }

  /// `f(meeting)`: two groups at a peer at a time.
  template <class F>
  static void for_meetings(const states& all, F&& f) {
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = a + 1; b < all.size(); ++b) {
        for (const skip_visit& x : all[a]->route.visits) {
          for (const skip_visit& y : all[b]->route.visits) {
            if (x.peer == y.peer && x.start < y.end && y.start < x.end) f(meeting{a, b, x, y});
          }
        }
      }
    }
  }

  CAUSEWAY_DECL [[nodiscard]] faults faults_of(const states& all) const {
    faults has;
    const auto count = [&](const std::vector<std::size_t>& who, std::size_t most) {
      has.crowded += who.size() > most ? who.size() - most : 0;
    };
    if (minds(skip_conflicts::stages)) {
      const visitors at = at_stages(all);
      for (std::size_t s = 1; s + 1 < at.size(); ++s) count(at[s], most_in_stage());
    }
    if (minds(skip_conflicts::peers)) {
      for (const auto& who : at_peers(all)) count(who, task_.room);
    }
    if (minds(skip_conflicts::times)) for_meetings(all, [&](const meeting&) { ++has.meetings; });
    return has;
  }

  CAUSEWAY_DECL [[nodiscard]] draft assessed(states all, std::uint64_t key) {
    draft n{0, faults_of(all), sequence_++, key, std::move(all)};
    for (const auto& g : n.groups) n.slowest = std::max(n.slowest, g->route.seconds);
    return n;
  }

  CAUSEWAY_DECL [[nodiscard]] std::optional<draft> root() {
    states all;
    for (std::size_t g = 0; g < task_.groups(); ++g) {
      group_state state{{std::vector<char>(task_.peers.size(), 0), {}}, {}};
      auto route = quickest_route(task_, g, state.limits);
      if (!route) return std::nullopt;
      state.route = std::move(*route);
      all.push_back(std::make_shared<const group_state>(std::move(state)));
    }
    return assessed(std::move(all), 0);
  }

  // The plans in which one of those in the first conflict may not do its part.
  CAUSEWAY_DECL [[nodiscard]] std::vector<draft> children(const draft& n) {
    std::vector<draft> all;
    if (minds(skip_conflicts::stages)) {
      const visitors at = at_stages(n.groups);
      for (std::size_t s = 1; s + 1 < at.size(); ++s) {
        if (at[s].size() <= most_in_stage()) continue;
        for (const std::size_t g : at[s]) forbid_stage(all, n, g, s);
        return all;
      }
    }
    if (minds(skip_conflicts::peers)) {
      const visitors at = at_peers(n.groups);
      for (std::uint32_t p = 0; p < at.size(); ++p) {
        if (at[p].size() <= task_.room) continue;
        for (const std::size_t g : at[p]) forbid_peer(all, n, g, p);
        return all;
      }
    }
    if (!minds(skip_conflicts::times)) return all;
    std::optional<meeting> first;
    for_meetings(n.groups, [&](const meeting& m) {
      if (!first || m.rank() < first->rank()) first = m;
    });
    if (!first) return all;
    forbid_time(all, n, first->a, first->of_b);
    forbid_time(all, n, first->b, first->of_a);
    return all;
  }

  template <class Forbid>
  void add_child(std::vector<draft>& all, const draft& n, std::size_t group, std::uint64_t key, Forbid&& forbid) {
    if (!seen_.insert(n.key + key).second) return;
    auto changed = std::make_shared<group_state>(*n.groups[group]);
    forbid(changed->limits);
    auto route = quickest_route(task_, group, changed->limits);
    if (!route) return;
    changed->route = std::move(*route);
    states groups = n.groups;
    groups[group] = std::move(changed);
    all.push_back(assessed(std::move(groups), n.key + key));
  }

  CAUSEWAY_DECL void forbid_stage(std::vector<draft>& all, const draft& n, std::size_t group, std::size_t stage) {
    add_child(all, n, group, mix(1, group, stage), [&](skip_limits& l) {
      for (const std::uint32_t p : task_.stages[stage]) l.banned[p] = 1;
    });
  }
  CAUSEWAY_DECL void forbid_peer(std::vector<draft>& all, const draft& n, std::size_t group, std::uint32_t peer) {
    add_child(all, n, group, mix(2, group, peer), [&](skip_limits& l) { l.banned[peer] = 1; });
  }
  CAUSEWAY_DECL void forbid_time(std::vector<draft>& all, const draft& n, std::size_t group, const skip_visit& when) {
    const std::uint64_t interval = mix(std::bit_cast<std::uint64_t>(when.start), std::bit_cast<std::uint64_t>(when.end));
    add_child(all, n, group, mix(3 + group, when.peer, interval), [&](skip_limits& l) { l.occupied.push_back(when); });
  }

  template <class Order, class Look>
  void search(std::size_t looks, Look&& look) {
    std::set<draft, Order> open;
    seen_.clear();
    if (auto begin = root()) open.insert(std::move(*begin));
    for (std::size_t i = 0; i < looks && !open.empty(); ++i, ++looks_) {
      const auto n = open.extract(open.begin());
      if (!look(n.value())) return;
      for (draft& c : children(n.value())) open.insert(std::move(c));
    }
  }

  CAUSEWAY_DECL [[nodiscard]] skip_plan plan_of(const draft& n) const {
    skip_plan p;
    for (const auto& g : n.groups) {
      auto& path = p.paths.emplace_back(task_.stages.size(), left_out);
      for (std::size_t s = 0; s < path.size(); ++s) {
        for (const std::uint32_t peer : task_.stages[s]) {
          if (std::find(g->route.peers.begin(), g->route.peers.end(), peer) != g->route.peers.end()) path[s] = peer;
        }
      }
    }
    p.seconds = seconds_of(task_, p.paths, options_.micro_batches);
    p.slowest = n.slowest;
    return p;
  }

  // Whether the search is to go on.
  CAUSEWAY_DECL bool take(const draft& n) {
    if (n.has.crowded > 0) return true;
    skip_plan p = plan_of(n);
    if (!best_ || p.seconds < best_->seconds) best_ = std::move(p);
    free_ += n.has.meetings == 0 ? 1 : 0;
    return free_ < options_.plans;
  }

  const skip_task& task_;
  skip_plan_options options_;
  skip_conflicts minded_;
  std::set<std::uint64_t> seen_;  // sums of what was forbidden: the order does not matter
  std::uint64_t sequence_ = 0;
  std::size_t looks_ = 0, free_ = 0;
  std::optional<skip_plan> best_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double seconds_of(const skip_task& task, const std::vector<std::vector<std::uint32_t>>& paths,
                                std::size_t micro_batches) {
  routed_step step{equal_costs(static_cast<std::uint32_t>(task.stages.size())), {}};
  for (std::size_t m = 0; m < micro_batches; ++m) step.routes.push_back(paths[m % paths.size()]);
  step.room = static_cast<std::uint32_t>(task.room);
  step.peers = task.peers;
  step.ways = task.ways;
  return seconds_of(step);
}

CAUSEWAY_DECL result<skip_plan> plan_skips(const skip_task& task, const skip_plan_options& options) {
  CAUSEWAY_TRY(check(task));
  auto best = detail::skip_search{task, options, skip_conflicts::times}.run();
  if (best) return std::move(*best);
  return fail(errc::not_found, "paths",
              "no plan without too many groups in a stage or at a peer; look longer, or make room");
}

CAUSEWAY_DECL result<skip_plan> least_slowest(const skip_task& task, skip_conflicts minded, std::size_t looks) {
  CAUSEWAY_TRY(check(task));
  auto found = detail::skip_search{task, {.looks = looks}, minded}.first();
  if (found) return std::move(*found);
  return fail(errc::not_found, "paths", "no plan without these conflicts in so many looks");
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SKIP_PLAN_IPP
#endif

// ---- causeway/plan/square_cube.hpp ----
#ifndef CAUSEWAY_PLAN_SQUARE_CUBE_HPP
#define CAUSEWAY_PLAN_SQUARE_CUBE_HPP

// Whether a pipeline can hide its messages: the square-cube law of SWARM (Ryabinin et al., ICML 2023, arXiv 2301.11913,
// section 3.1). What a stage computes grows with the square of the model's width for each token, what it sends only with
// the width: larger models need less bandwidth for each device's speed.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Seconds of one micro-batch in a stage and on the link to the next.
struct square_cube {
  double compute = 0;   ///< forward and backward
  double transfer = 0;  ///< bytes / bandwidth
  double latency = 0;   ///< the link's delay over the micro-batches under way, among which it is shared

  /// t_compute >= bytes / bandwidth + latency / under way: the stage can be kept busy.
  [[nodiscard]] bool viable() const noexcept { return compute >= transfer + latency; }
  /// Above 1: messages are hidden, and by how much. Infinite: they cost nothing.
  CAUSEWAY_DECL [[nodiscard]] double ratio() const noexcept;
};

/// For a stage of `compute` seconds that sends `bytes` over `link`, with `under_way` micro-batches, at least 1.
CAUSEWAY_DECL square_cube check_square_cube(double compute, double bytes, const link_cost& link, std::size_t under_way);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_SQUARE_CUBE_HPP

// ---- causeway/plan/impl/square_cube.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_SQUARE_CUBE_IPP
#define CAUSEWAY_PLAN_IMPL_SQUARE_CUBE_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double square_cube::ratio() const noexcept {
  const double sent = transfer + latency;
  return sent > 0 ? compute / sent : std::numeric_limits<double>::infinity();
}

CAUSEWAY_DECL square_cube check_square_cube(double compute, double bytes, const link_cost& link, std::size_t under_way) {
  CAUSEWAY_EXPECT(under_way > 0);
  return {compute, 8 * bytes / link.bandwidth, link.delay / static_cast<double>(under_way)};
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_SQUARE_CUBE_IPP
#endif

// ---- causeway/plan/two_way_schedules.hpp ----
#ifndef CAUSEWAY_PLAN_TWO_WAY_SCHEDULES_HPP
#define CAUSEWAY_PLAN_TWO_WAY_SCHEDULES_HPP

// Schedules that send micro-batches into a pipeline from both of its ends at once (stage_path::two_ways), so that the waits
// of one way are filled with the work of the other. Price: every stage is on two ranks. As in schedules.hpp the backwards
// of a chunk run in the order of its micro-batches.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Chimera (Li and Hoefler, SC 2021, arXiv 2107.06925): units of p micro-batches, half of them each way; each way's
/// operations stand two slots apart, so that those of the two ways never meet. Units follow each other by direct
/// concatenation (section 3.5): the next one begins in the last waits of the one before. With equal stages and F = B each
/// rank waits p - 2 slots of a step, in (p - 2) / (2 m + p - 2) of its time; with B >= F a step of one unit (m = p) takes
/// p F + (2 p - 2) B, and further units wait in between. From p / 2 + 1 (at the ends) to p sets of activations (in the
/// middle), and two stages' parameters. `ranks` and `micro_batches` must be even. Forward doubling and backward halving,
/// the paper's other two ways to join units, change the size of micro-batches and are not here.
CAUSEWAY_DECL [[nodiscard]] result<schedule> chimera(std::uint32_t ranks, std::uint32_t micro_batches);

/// DualPipe (DeepSeek-AI 2024, arXiv 2412.19437; the order of the authors' program): a forward of one way is followed by a
/// backward of the other, and weight gradients that are put off fill the end. The authors compute such a pair at once, to
/// hide their communication, F&B seconds; a rank here runs one after the other, and what the first gives leaves before the
/// second. Equal stages: each rank waits (p / 2 - 1)(F + B - 2W) for F = B - W >= W; with pairs as one operation it is the
/// paper's (p / 2 - 1)(F&B + B - 3W). p + 1 sets of activations on every rank, and two stages' parameters. `ranks` must be
/// even, and `micro_batches` even and at least twice as many.
CAUSEWAY_DECL [[nodiscard]] result<schedule> dual_pipe(std::uint32_t ranks, std::uint32_t micro_batches);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_TWO_WAY_SCHEDULES_HPP

// ---- causeway/plan/impl/two_way_schedules.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_TWO_WAY_SCHEDULES_IPP
#define CAUSEWAY_PLAN_IMPL_TWO_WAY_SCHEDULES_IPP

#include <deque>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// An empty schedule of two ways, or why there is none: ranks and micro-batches must be even.
CAUSEWAY_DECL result<schedule> start_two_ways(const std::string& name, std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, start_schedule(ranks, 2, micro_batches));
  s.path = stage_path::two_ways;
  if (ranks % 2 == 0 && micro_batches % 2 == 0) return s;
  return fail(errc::invalid_argument, name,
              "goes both ways through an even number of ranks with an even number of micro-batches, not through " +
                  std::to_string(ranks) + " with " + std::to_string(micro_batches) + "; change them, or use one_f_one_b");
}

/// The order of one rank of Chimera, from the slots in which its operations stand where F = B = 1.
class chimera_order {
 public:
  chimera_order(const schedule& s, std::uint32_t rank) : s_{s}, rank_{rank} {}

  std::vector<operation> write() {
    for (std::uint32_t i = 0; i < first_back(s_); ++i) {
      const std::uint64_t begin = std::uint64_t{2} * s_.ranks * (i / half()) + std::uint64_t{2} * (i % half());
      add(begin, i, 0);
      add(begin, first_back(s_) + i, 1);
    }
    std::sort(slots_.begin(), slots_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<operation> order;
    for (const auto& [slot, op] : slots_) order.push_back(op);
    return order;
  }

 private:
  [[nodiscard]] std::uint32_t half() const noexcept { return s_.ranks / 2; }
  void add(std::uint64_t begin, std::uint32_t micro_batch, std::uint32_t chunk) {
    const std::uint32_t stage = virtual_stage(s_, {rank_, chunk});
    slots_.push_back({begin + stage, {work::forward, micro_batch, chunk}});
    slots_.push_back({begin + 2 * s_.ranks - 1 - stage, {work::backward, micro_batch, chunk}});
  }

  const schedule& s_;
  std::uint32_t rank_;
  std::vector<std::pair<std::uint64_t, operation>> slots_;
};

/// The order of one rank of DualPipe. A rank's near way is the one that has its shorter part behind it: 0 in the first half
/// of the ranks, 1 in the second.
class dual_pipe_order {
 public:
  dual_pipe_order(const schedule& s, std::uint32_t rank)
      : near_{rank < s.ranks / 2 ? 0U : 1U},
        inside_{std::min(rank, s.ranks - 1 - rank)},
        to_middle_{s.ranks / 2 - 1 - inside_},
        pairs_{s.micro_batches / 2 - s.ranks + inside_ + 1},
        next_forward_{0, first_back(s)},
        next_backward_{next_forward_} {}

  std::vector<operation> write() {
    const std::uint32_t far = 1 - near_;
    for (std::uint32_t i = 0; i < 2 * to_middle_; ++i) forward(near_);
    for (std::uint32_t i = 0; i <= inside_; ++i) forward(near_), forward(far);
    for (std::uint32_t i = 0; i < to_middle_; ++i) input(far), weight(), forward(far);
    for (std::uint32_t i = 0; i < pairs_; ++i) forward(near_), backward(far), forward(far), backward(near_);
    for (std::uint32_t i = 0; i < to_middle_; ++i) backward(far), forward(far), backward(near_);
    // of the 2 inside + 2 backwards that are left, the second half puts its weight gradients off
    for (std::uint32_t i = 0; i < 2 * inside_ + 2; ++i) {
      const std::uint32_t way = i % 2 == 0 ? far : near_;
      if (i <= inside_) backward(way);
      if (i > inside_) input(way);
    }
    for (std::uint32_t i = 0; i < to_middle_; ++i) weight(), input(near_);
    while (!put_off_.empty()) weight();
    return std::move(order_);
  }

 private:
  void forward(std::uint32_t chunk) { order_.push_back({work::forward, next_forward_[chunk]++, chunk}); }
  void backward(std::uint32_t chunk) { order_.push_back({work::backward, next_backward_[chunk]++, chunk}); }
  void input(std::uint32_t chunk) {
    put_off_.push_back({work::weight_gradient, next_backward_[chunk], chunk});
    order_.push_back({work::input_gradient, next_backward_[chunk]++, chunk});
  }
  void weight() {
    order_.push_back(put_off_.front());
    put_off_.pop_front();
  }

  std::uint32_t near_;
  std::uint32_t inside_;     // ranks between this one and the nearer end
  std::uint32_t to_middle_;  // and to the middle of the pipeline
  std::uint32_t pairs_;
  std::array<std::uint32_t, 2> next_forward_, next_backward_;
  std::deque<operation> put_off_;
  std::vector<operation> order_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL result<schedule> chimera(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_two_ways("chimera", ranks, micro_batches));
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::chimera_order{s, r}.write();
  return s;
}

CAUSEWAY_DECL result<schedule> dual_pipe(std::uint32_t ranks, std::uint32_t micro_batches) {
  CAUSEWAY_ASSIGN(schedule s, detail::start_two_ways("dual_pipe", ranks, micro_batches));
  if (micro_batches / 2 < ranks) {
    return fail(errc::invalid_argument, "dual_pipe",
                "needs twice as many micro-batches as ranks, which are " + std::to_string(ranks) + ", not " +
                    std::to_string(micro_batches) + "; change them, or use chimera");
  }
  for (std::uint32_t r = 0; r < ranks; ++r) s.orders[r] = detail::dual_pipe_order{s, r}.write();
  return s;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TWO_WAY_SCHEDULES_IPP
#endif

// ---- causeway/plan/utilisation.hpp ----
#ifndef CAUSEWAY_PLAN_UTILISATION_HPP
#define CAUSEWAY_PLAN_UTILISATION_HPP

// What part of its time a replica computes, given its step, its exchanges and its link: the simulator of Streaming DiLoCo
// (arXiv 2501.18512). A step is a graph of 4 L - 1 tasks for L layers: forward, gradient of the activations (not of the
// first layer's), gradient of the weights, and exchange of each layer. Two machines run it, each one task at a time and in
// order: the device the first three kinds, the link the exchanges. An exchange starts when the layer's gradient is there,
// and the layer's forward waits for it. All replicas are alike, so that one of them says all; latency is not in the model.

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

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

/// The part of its time that a replica computes, in (0, 1], once the run is in its stride. Exact but where the link is all
/// but full and results are waited for late: a backlog then takes long to grow, and up to 0.2 % can be missing. Takes some
/// 8 * layers * max(2 * period, 512 * (overlap + 1)) additions.
CAUSEWAY_DECL [[nodiscard]] double utilisation(const training_step& step, const exchange_pattern& pattern,
                                               double bits_per_second);

/// The least of the bandwidths `grid` (bits per second, rising) at which utilisation reaches `target`; infinity if none
/// does.
CAUSEWAY_DECL [[nodiscard]] double least_bandwidth(const training_step& step, const exchange_pattern& pattern,
                                                   double target, std::span<const double> grid);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_UTILISATION_HPP

// ---- causeway/plan/impl/utilisation.ipp ----
#if !defined(CAUSEWAY_COMPILED) || defined(CAUSEWAY_IMPLEMENTATION)
#ifndef CAUSEWAY_PLAN_IMPL_UTILISATION_IPP
#define CAUSEWAY_PLAN_IMPL_UTILISATION_IPP

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

/// Runs steps one after another and knows at each moment when the device and the link are free.
class step_timeline {
 public:
  CAUSEWAY_DECL step_timeline(const training_step& step, const exchange_pattern& pattern, double bits_per_second)
      : pattern_{pattern},
        task_seconds_{step.seconds / static_cast<double>(3 * step.layers - 1)},
        exchange_seconds_{pattern.bits * step.parameters / static_cast<double>(step.layers) / bits_per_second},
        exchanges_(step.layers) {
    if (pattern_.spacing == 0) pattern_.spacing = pattern_.period / pattern_.fragments;
  }

  /// Seconds at the end of the last step's backward pass.
  [[nodiscard]] double now() const noexcept { return device_; }

  CAUSEWAY_DECL void run(std::size_t steps) {
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

  CAUSEWAY_DECL void forward() {
    for (const exchange& e : exchanges_) {
      if (e.due <= step_) device_ = std::max(device_, e.arrives);
      device_ += task_seconds_;
    }
  }

  CAUSEWAY_DECL void backward() {
    for (std::size_t layer = exchanges_.size(); layer-- > 0;) {
      device_ += task_seconds_;  // of the weights: first, as the link can start with them
      if (is_sent(layer)) send(layer);
      if (layer > 0) device_ += task_seconds_;  // of the activations
    }
  }

  CAUSEWAY_DECL [[nodiscard]] bool is_sent(std::size_t layer) const noexcept {
    const std::size_t offset = layer % pattern_.fragments * pattern_.spacing;
    return (step_ + 1 + pattern_.period - offset) % pattern_.period == 0;
  }

  CAUSEWAY_DECL void send(std::size_t layer) {
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

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL double utilisation(const training_step& step, const exchange_pattern& pattern, double bits_per_second) {
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

CAUSEWAY_DECL double least_bandwidth(const training_step& step, const exchange_pattern& pattern, double target,
                                     std::span<const double> grid) {
  const auto found = std::partition_point(grid.begin(), grid.end(), [&](double b) {
    return utilisation(step, pattern, b) < target;  // rises with bandwidth
  });
  return found == grid.end() ? std::numeric_limits<double>::infinity() : *found;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_UTILISATION_IPP
#endif

// ---- causeway/plan.hpp ----
#ifndef CAUSEWAY_PLAN_HPP
#define CAUSEWAY_PLAN_HPP

// To compute what a run would take: planners, placements, replays of traces.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#endif  // CAUSEWAY_PLAN_HPP
