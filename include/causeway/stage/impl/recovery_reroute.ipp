// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_REROUTE_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_REROUTE_IPP

#include <causeway/stage/recovery_reroute.hpp>

#include <algorithm>
#include <map>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL reroute::reroute(std::int64_t stages, plan::stage_costs costs)
    : stages_{stages}, costs_{std::move(costs)}, even_{stages} {}

CAUSEWAY_DECL result<layout> reroute::arrange(const cluster_snapshot& g) {
  if (stages_ < 1 || stages_ > g.layers) return even_.arrange(g);  // says what is wrong
  const std::vector<nn::block_range> row = even_cut(g.layers, stages_);
  std::vector<const present_peer*> spare;
  grid assignments = last_assignments(g, row, spare);
  const std::size_t most = std::min<std::size_t>(g.peers.size() / row.size(), g.micro_batches);
  fill(assignments, row, spare);
  if (most > assignments.size() || !has_all_stages(assignments)) return even_.arrange(g);
  even_out(assignments);
  const auto shares = even_shares(g.micro_batches, assignments.size());
  layout made;
  for (std::size_t r = 0; r < assignments.size(); ++r) {
    replica& next = made.replicas.emplace_back();
    next.micro_batches = shares[r];
    for (std::size_t s = 0; s < row.size(); ++s) next.assignments.push_back({assignments[r][s], row[s]});
  }
  return made;
}

CAUSEWAY_DECL result<plan::routed_schedule> reroute::order(const layout& l) const {
  CAUSEWAY_ASSIGN(const plan::routed_step step, step_of(l));
  plan::routed_schedule s = plan::schedule_of(step);
  const std::vector<std::int64_t> room(s.orders.size(), static_cast<std::int64_t>(s.stages()));
  CAUSEWAY_TRY(plan::check(s, room));
  return s;
}

CAUSEWAY_DECL result<double> reroute::seconds(const layout& l) const {
  CAUSEWAY_ASSIGN(const plan::routed_step step, step_of(l));
  return plan::seconds_of(step);
}

CAUSEWAY_DECL auto reroute::last_assignments(const cluster_snapshot& g, const std::vector<nn::block_range>& row,
                                             std::vector<const present_peer*>& spare) -> grid {
  std::map<std::uint32_t, std::vector<std::uint64_t>> rows;
  for (const present_peer& p : g.peers) {
    const auto stage = static_cast<std::size_t>(std::find(row.begin(), row.end(), p.computes) - row.begin());
    const bool is_assigned = stage < row.size() && p.holds_all(p.computes);
    auto* const replica = is_assigned ? &rows.try_emplace(p.replica, row.size(), nobody).first->second : nullptr;
    if (replica != nullptr && (*replica)[stage] == nobody)
      (*replica)[stage] = p.id;
    else
      spare.push_back(&p);
  }
  grid assignments;
  for (auto& [number, peers] : rows) assignments.push_back(std::move(peers));
  return assignments;
}

CAUSEWAY_DECL void reroute::fill(grid& assignments, const std::vector<nn::block_range>& row,
                                 std::vector<const present_peer*>& spare) {
  for (auto& replica : assignments) {
    for (std::size_t s = 0; s < row.size(); ++s) {
      if (replica[s] != nobody || spare.empty()) continue;
      const auto best = std::max_element(spare.begin(), spare.end(), [&](const auto* a, const auto* b) {
        return a->overlap(row[s]) < b->overlap(row[s]);
      });
      replica[s] = (*best)->id;
      spare.erase(best);
    }
  }
}

CAUSEWAY_DECL std::size_t reroute::filled(const grid& assignments, std::size_t stage) {
  return static_cast<std::size_t>(
      std::count_if(assignments.begin(), assignments.end(), [&](const auto& replica) { return replica[stage] != nobody; }));
}

CAUSEWAY_DECL bool reroute::has_all_stages(const grid& assignments) const {
  for (std::size_t s = 0; s < static_cast<std::size_t>(stages_); ++s) {
    if (filled(assignments, s) == 0) return false;
  }
  return true;
}

CAUSEWAY_DECL void reroute::even_out(grid& assignments) const {
  for (;;) {
    std::size_t rich = 0, poor = 0;
    for (std::size_t s = 1; s < static_cast<std::size_t>(stages_); ++s) {
      if (filled(assignments, s) > filled(assignments, rich)) rich = s;
      if (filled(assignments, s) < filled(assignments, poor)) poor = s;
    }
    if (filled(assignments, rich) < filled(assignments, poor) + 2) return;
    std::size_t from = 0, to = 0;
    while (assignments[from][rich] == nobody) ++from;
    while (assignments[to][poor] != nobody) ++to;
    std::swap(assignments[from][rich], assignments[to][poor]);
  }
}

CAUSEWAY_DECL result<plan::routed_step> reroute::step_of(const layout& l) const {
  const auto stages = static_cast<std::uint32_t>(l.replicas.front().assignments.size());
  CAUSEWAY_ASSIGN(plan::stage_costs costs, stage::detail::costs_of(costs_, stages));
  CAUSEWAY_TRY(plan::check(costs, stages));
  plan::routed_step step{std::move(costs), l.routes(), l.replicas.front().micro_batches};
  step.halves = true;
  step.room = stages;
  return step;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_REROUTE_IPP
