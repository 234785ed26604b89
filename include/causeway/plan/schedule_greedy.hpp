// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SCHEDULE_GREEDY_HPP
#define CAUSEWAY_PLAN_SCHEDULE_GREEDY_HPP

// Orders written for given costs of stages and links, by list scheduling: whenever a rank is free, a rule takes one of the
// operations that it could run. In the manner of CrossPipe (arXiv 2507.00217), whose model of delay and bandwidth this
// takes; its greedy algorithm is not known to us in detail, so the rules are ours. None of them is best on all links,
// and with little memory an order for quicker or slower links is at times the better one: all rules are tried on links of
// several speeds, a closed form besides, and the timeline on the given links says which order is kept.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/pipeline_clock.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_check.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/plan/stage_costs.hpp>
#include <causeway/plan/timeline.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What an order is to be written for.
struct greedy_options {
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 1;
  std::uint32_t micro_batches = 1;
  std::uint32_t activations = 1;  ///< sets that a rank has room for; at least `chunks`
  bool halves = false;            ///< split each backward into its two gradients
};

namespace detail {

/// How a rank chooses among operations that are ready.
struct list_rule {
  bool forwards_first = false;  ///< else gradients first
  bool patient = false;         ///< start nothing else when a gradient arrives before that ends
  bool deep_first = false;      ///< the last of the chunks first; else in groups of `ranks` micro-batches, as interleaved
};

/// One rank's progress, and its next operation by a rule.
class list_scheduler {
 public:
  CAUSEWAY_DECL list_scheduler(const greedy_options& options, const list_rule& rule, std::uint32_t rank);

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> choose(const pipeline_clock& clock);

 private:
  struct progress {  // of a chunk: how many micro-batches
    std::uint32_t forward = 0, input = 0, weight = 0;
  };

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> candidate(std::uint32_t chunk, work kind) const;

  CAUSEWAY_DECL static std::optional<operation> at(work kind, std::uint32_t chunk, std::uint32_t next, std::uint32_t end);

  // Room for the chunks behind this one stays free, so that the oldest micro-batch always comes to its end.
  CAUSEWAY_DECL [[nodiscard]] bool has_room(std::uint32_t chunk) const;

  CAUSEWAY_DECL [[nodiscard]] std::optional<operation> best(const pipeline_clock& clock, work kind) const;

  CAUSEWAY_DECL [[nodiscard]] std::tuple<std::uint32_t, std::uint32_t, std::uint32_t> order_key(const operation& op) const;

  // Whether a gradient arrives while this would run.
  CAUSEWAY_DECL [[nodiscard]] bool must_wait(const pipeline_clock& clock, const operation& op) const;

  CAUSEWAY_DECL [[nodiscard]] operation take(const operation& op);

  greedy_options options_;
  list_rule rule_;
  std::uint32_t rank_;
  std::vector<progress> done_;  // [chunk]
  std::uint32_t held_ = 0;      // sets of activations
};

CAUSEWAY_DECL [[nodiscard]] schedule list_schedule(const schedule& shape, const stage_costs& costs,
                                                   const greedy_options& options, const list_rule& rule);

/// The same stages, with links that take `factor` times as long.
CAUSEWAY_DECL [[nodiscard]] stage_costs with_links(const stage_costs& costs, double factor);

/// The orders of all rules on links of all speeds; the first is for the links as they are.
CAUSEWAY_DECL [[nodiscard]] std::vector<schedule> list_schedules(const schedule& shape, const stage_costs& costs,
                                                                 const greedy_options& options);

/// The schedule with a closed form for such a pipeline, if there is one that fits its room.
CAUSEWAY_DECL [[nodiscard]] std::optional<schedule> closed_form(const greedy_options& o);

}  // namespace detail

/// The shortest order that list scheduling finds on these costs, never longer than zero_bubble with `halves`, interleaved
/// with several chunks, or one_f_one_b, where these fit the room. Gradients keep the order of micro-batches. Errors: sizes
/// or costs that do not fit; room for fewer activations than chunks. Cost: one simulation and one timeline for each of 8
/// rules.
CAUSEWAY_DECL [[nodiscard]] result<schedule> greedy(const stage_costs& costs, const greedy_options& options);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/schedule_greedy.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SCHEDULE_GREEDY_HPP
