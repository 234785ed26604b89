// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_BATCH_BY_SPEED_IPP
#define CAUSEWAY_AXIS_IMPL_BATCH_BY_SPEED_IPP

#include <causeway/axis/batch_by_speed.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL result<void> batch_by_speed::check(std::size_t) const {
  if (options_.multiple > 0 && options_.sequences % options_.multiple == 0) {
    return detail::check_steps(options_.local_steps, "batch_by_speed");
  }
  return fail(errc::invalid_argument, "batch_by_speed", "`sequences` must be so many times `multiple`, which is not 0");
}

CAUSEWAY_DECL std::vector<std::size_t> batch_by_speed::sequences_for(std::vector<double> speeds) const {
  std::vector<std::size_t> all = parts_for(std::move(speeds));
  for (std::size_t& one : all) one *= options_.multiple;
  return all;
}

CAUSEWAY_DECL std::vector<std::size_t> batch_by_speed::parts_for(std::vector<double> speeds) const {
  double sum = 0, known = 0;
  for (const double s : speeds) {
    if (is_known(s)) sum += s, ++known;
  }
  for (double& s : speeds) s = is_known(s) ? s : known > 0 ? sum / known : 1.0;
  const std::size_t parts = options_.sequences / options_.multiple;
  const std::size_t rest = parts - std::min(parts, speeds.size());
  std::vector<std::size_t> all = collective::whole_parts(rest, speeds);
  for (std::size_t& one : all) ++one;
  return all;
}

CAUSEWAY_DECL void batch_by_speed::take(std::size_t self, std::vector<double> speeds) {
  const std::vector<std::size_t> all = sequences_for(std::move(speeds));
  const auto mine = all.begin() + static_cast<std::ptrdiff_t>(self);
  sequences_ = static_cast<std::uint32_t>(*mine);
  before_ = static_cast<std::uint32_t>(std::accumulate(all.begin(), mine, std::size_t{0}));
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_BATCH_BY_SPEED_IPP
