// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_REROUTE_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_REROUTE_IPP

// Bodies of stage/recovery_reroute.hpp.

#include <causeway/stage/recovery_reroute.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL reroute::reroute(std::int64_t stages, plan::stage_costs costs)
    : stages_{stages}, costs_{std::move(costs)}, even_{stages} {}

CAUSEWAY_DECL result<layout> reroute::arrange(const cluster_snapshot& g) {
  if (stages_ < 1 || stages_ > g.layers) return even_.arrange(g);  // says what is wrong
  const std::vector<nn::block_range> row = even_cut(g.layers, stages_);
  std::vector<const present_peer*> spare;
  grid seats = last_seats(g, row, spare);
  const std::size_t most = std::min<std::size_t>(g.peers.size() / row.size(), g.micro_batches);
  fill(seats, row, spare);
  if (most > seats.size() || !has_all_stages(seats)) return even_.arrange(g);
  even_out(seats);
  const auto shares = even_shares(g.micro_batches, seats.size());
  layout made;
  for (std::size_t r = 0; r < seats.size(); ++r) {
    replica& next = made.replicas.emplace_back();
    next.micro_batches = shares[r];
    for (std::size_t s = 0; s < row.size(); ++s) next.seats.push_back({seats[r][s], row[s]});
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

CAUSEWAY_DECL auto reroute::last_seats(const cluster_snapshot& g, const std::vector<nn::block_range>& row,
                                       std::vector<const present_peer*>& spare) -> grid {
  std::map<std::uint32_t, std::vector<std::uint64_t>> rows;
  for (const present_peer& p : g.peers) {
    const auto stage = static_cast<std::size_t>(std::find(row.begin(), row.end(), p.computes) - row.begin());
    const bool sits = stage < row.size() && p.holds_all(p.computes);
    auto* const replica = sits ? &rows.try_emplace(p.replica, row.size(), nobody).first->second : nullptr;
    if (replica != nullptr && (*replica)[stage] == nobody)
      (*replica)[stage] = p.id;
    else
      spare.push_back(&p);
  }
  grid seats;
  for (auto& [number, peers] : rows) seats.push_back(std::move(peers));
  return seats;
}

CAUSEWAY_DECL void reroute::fill(grid& seats, const std::vector<nn::block_range>& row,
                                 std::vector<const present_peer*>& spare) {
  for (auto& replica : seats) {
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

CAUSEWAY_DECL std::size_t reroute::filled(const grid& seats, std::size_t stage) {
  return static_cast<std::size_t>(
      std::count_if(seats.begin(), seats.end(), [&](const auto& replica) { return replica[stage] != nobody; }));
}

CAUSEWAY_DECL bool reroute::has_all_stages(const grid& seats) const {
  for (std::size_t s = 0; s < static_cast<std::size_t>(stages_); ++s) {
    if (filled(seats, s) == 0) return false;
  }
  return true;
}

CAUSEWAY_DECL void reroute::even_out(grid& seats) const {
  for (;;) {
    std::size_t rich = 0, poor = 0;
    for (std::size_t s = 1; s < static_cast<std::size_t>(stages_); ++s) {
      if (filled(seats, s) > filled(seats, rich)) rich = s;
      if (filled(seats, s) < filled(seats, poor)) poor = s;
    }
    if (filled(seats, rich) < filled(seats, poor) + 2) return;
    std::size_t from = 0, to = 0;
    while (seats[from][rich] == nobody) ++from;
    while (seats[to][poor] != nobody) ++to;
    std::swap(seats[from][rich], seats[to][poor]);
  }
}

CAUSEWAY_DECL result<plan::routed_step> reroute::step_of(const layout& l) const {
  const auto stages = static_cast<std::uint32_t>(l.replicas.front().seats.size());
  CAUSEWAY_ASSIGN(plan::stage_costs costs, stage::detail::costs_of(costs_, stages));
  CAUSEWAY_TRY(plan::check(costs, stages));
  plan::routed_step step{std::move(costs), l.routes(), l.replicas.front().micro_batches};
  step.halves = true;
  step.room = stages;
  return step;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_REROUTE_IPP
