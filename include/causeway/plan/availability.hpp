// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_AVAILABILITY_HPP
#define CAUSEWAY_PLAN_AVAILABILITY_HPP

// How many instances there will be, from how many there were: what Parcae (Duan et al., NSDI 2024, arXiv 2403.14097) plans
// on. The paper fits ARIMA; here it is its simplest member, one autoregressive step around a mean, fitted by least squares:
//   x(t+1) - mean = phi (x(t) - mean) + noise.
// It knows no hours of the day and no trend: a forecast only leads from the last number back to the mean.

#include <causeway/config/config.hpp>

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

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/availability.ipp>
#endif

#endif  // CAUSEWAY_PLAN_AVAILABILITY_HPP
