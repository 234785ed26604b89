// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_AVAILABILITY_HPP
#define CAUSEWAY_PLAN_AVAILABILITY_HPP

// How many instances there will be, from how many there were: what Parcae (Duan et al., NSDI 2024, arXiv 2403.14097) plans
// on. The paper fits ARIMA; here it is its simplest member, one autoregressive step around a mean, fitted by least squares:
//   x(t+1) - mean = phi (x(t) - mean) + noise.
// It knows no hours of the day and no trend: a forecast only leads from the last number back to the mean.

#include <causeway/config/config.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

struct availability_model {
  double mean = 0;
  double phi = 0;    ///< in [0, 1]
  double sigma = 0;  ///< of the noise
};

/// From instances per interval, in order. With fewer than three intervals, or without change: the last number stays.
inline availability_model fit_availability(std::span<const std::size_t> history) {
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

/// The expected number of instances in each of the next `intervals`, rounded, after an interval with `now`.
inline std::vector<std::size_t> forecast(const availability_model& m, std::size_t now, std::size_t intervals) {
  std::vector<std::size_t> next(intervals);
  double away = static_cast<double>(now) - m.mean;
  for (std::size_t& n : next) {
    away *= m.phi;
    n = static_cast<std::size_t>(std::llround(std::max(0.0, m.mean + away)));
  }
  return next;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_AVAILABILITY_HPP
