// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_AVAILABILITY_IPP
#define CAUSEWAY_PLAN_IMPL_AVAILABILITY_IPP

#include <causeway/plan/availability.hpp>

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
