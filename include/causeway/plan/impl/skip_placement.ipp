// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_SKIP_PLACEMENT_IPP
#define CAUSEWAY_PLAN_IMPL_SKIP_PLACEMENT_IPP

#include <causeway/plan/skip_placement.hpp>

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
