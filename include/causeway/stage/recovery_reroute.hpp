// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_REROUTE_HPP
#define CAUSEWAY_STAGE_RECOVERY_REROUTE_HPP

// A lost peer's micro-batches go to the peers of the same stage in other pipelines, while its own pipeline goes on with its
// other stages: ReCycle (Gandhi et al., SOSP 2024). No block moves. Backwards are split then, so that weight gradients
// fill what would be bubbles, and a good part of the additional work costs no time. Not here is the staggered optimizer
// step, which lets a stage begin the next step before the others have ended this one: no parameter moves before all
// gradients are complete and the run has taken the step.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/plan/routed_schedule.hpp>
#include <causeway/plan/routed_time.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/schedules.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::stage::recovery {

/// Pipelines of `stages` even stages. Spare peers fill empty seats; where losses leave one stage two peers more than
/// another, a peer changes over (the paper's failure normalization). A stage that no pipeline has any more, or peers enough
/// for another pipeline: all are laid out anew as by `regroup`.
///
/// Memory: a peer keeps the activations of at most `stages` micro-batches, as many as one of the first stage does in 1F1B.
class reroute {
 public:
  static constexpr std::string_view name = "reroute";
  static constexpr recovery_traits traits{};

  /// `costs`: of the stages and the links between them, equal on all peers; none: stages are alike, links cost nothing.
  explicit reroute(std::int64_t stages = 2, plan::stage_costs costs = {})
      : stages_{stages}, costs_{std::move(costs)}, even_{stages} {}

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }

  result<layout> arrange(const gathering& g) {
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

  /// What all peers of a layout with empty seats do: their places are those of layout::seated.
  [[nodiscard]] result<plan::routed_schedule> order(const layout& l) const {
    CAUSEWAY_ASSIGN(const plan::routed_step step, step_of(l));
    plan::routed_schedule s = plan::schedule_of(step);
    const std::vector<std::int64_t> room(s.orders.size(), static_cast<std::int64_t>(s.stages()));
    CAUSEWAY_TRY(plan::check(s, room));
    return s;
  }

  /// What its forwards and backwards take, by the costs.
  [[nodiscard]] result<double> seconds(const layout& l) const {
    CAUSEWAY_ASSIGN(const plan::routed_step step, step_of(l));
    return plan::seconds_of(step);
  }

 private:
  using grid = std::vector<std::vector<std::uint64_t>>;  // [replica][stage]: peer

  // Pipelines of which somebody is left, with those who sat there and have what they compute. Others are spare.
  static grid last_seats(const gathering& g, const std::vector<nn::block_range>& row,
                         std::vector<const present_peer*>& spare) {
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

  // Who holds most of what is missing goes first.
  static void fill(grid& seats, const std::vector<nn::block_range>& row, std::vector<const present_peer*>& spare) {
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

  static std::size_t filled(const grid& seats, std::size_t stage) {
    return static_cast<std::size_t>(
        std::count_if(seats.begin(), seats.end(), [&](const auto& replica) { return replica[stage] != nobody; }));
  }
  [[nodiscard]] bool has_all_stages(const grid& seats) const {
    for (std::size_t s = 0; s < static_cast<std::size_t>(stages_); ++s) {
      if (filled(seats, s) == 0) return false;
    }
    return true;
  }

  // Until no stage has two peers more than another.
  void even_out(grid& seats) const {
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

  [[nodiscard]] result<plan::routed_step> step_of(const layout& l) const {
    const auto stages = static_cast<std::uint32_t>(l.replicas.front().seats.size());
    CAUSEWAY_ASSIGN(plan::stage_costs costs, stage::detail::costs_of(costs_, stages));
    CAUSEWAY_TRY(plan::check(costs, stages));
    plan::routed_step step{std::move(costs), l.routes(), l.replicas.front().micro_batches};
    step.halves = true;
    step.room = stages;
    return step;
  }

  std::int64_t stages_;
  plan::stage_costs costs_;
  regroup even_;
};
static_assert(Rerouting<reroute>);

}  // namespace causeway::inline CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_RECOVERY_REROUTE_HPP
