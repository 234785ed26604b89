// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_TIMELINE_IPP
#define CAUSEWAY_PLAN_IMPL_TIMELINE_IPP

#include <causeway/plan/timeline.hpp>

#include <algorithm>

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
