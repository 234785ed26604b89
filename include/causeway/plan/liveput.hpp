// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_LIVEPUT_HPP
#define CAUSEWAY_PLAN_LIVEPUT_HPP

// How to train on instances that will be taken away: Parcae (Duan et al., NSDI 2024, arXiv 2403.14097). Not the throughput
// counts but the liveput, what is expected of it when some instances, nobody knows which, are preempted; and what it costs
// to change. For a forecast of available instances the best sequence of (D, P) is found by dynamic programming over
// intervals. Which instances are lost is sampled: each set of them is as likely as any other of its size.
//
// Moving from one interval to the next costs, in seconds in which nothing is trained:
//   nothing        if no instance of a pipeline was lost and D and P stay (or D shrinks);
//   intra_stage    if what was lost is made good by instances that hold the same stage;
//   inter_stage    if instances must load another stage, or join;
//   pipeline       if the number of stages changes: everybody loads.
// Where weights are on no server, samples are trained again besides when all instances of a stage are lost.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// D pipelines of P stages; 0 x 0: nothing is trained.
struct pipeline_shape {
  std::size_t replicas = 0;
  std::size_t stages = 0;

  [[nodiscard]] std::size_t instances() const noexcept { return replicas * stages; }
  friend bool operator==(const pipeline_shape&, const pipeline_shape&) = default;
};

struct migration_costs {
  double intra_stage = 0;  ///< seconds
  double inter_stage = 0;
  double pipeline = 0;
  double repeated_samples = 0;  ///< when no instance has a stage any more; with a server for the weights 0
};

/// Samples per second of a shape, 0 where it cannot train: what a planner or a measurement says.
template <class F>
concept ShapeThroughput = requires(const F& f, const pipeline_shape& s) {
  { f(s) } -> ConvertibleTo<double>;
};

struct liveput_options {
  std::size_t samples = 256;  ///< preemptions that are tried, at least 1
  std::uint64_t seed = 1;
};

namespace detail {

/// How many instances of each stage survive, over and over.
class preemption_draws {
 public:
  /// `lost` of `available` instances, of which `shape` uses the first ones and the others are spare.
  CAUSEWAY_DECL preemption_draws(const pipeline_shape& shape, std::size_t available, std::size_t lost,
                                 const liveput_options& o);

  /// The mean of `f(alive instances of each stage)`.
  template <class F>
    requires requires(F& f, const std::vector<std::size_t>& alive) {
      { f(alive) } -> ConvertibleTo<double>;
    }
  [[nodiscard]] double mean(F f) const {
    double sum = 0;
    for (const auto& alive : draws_) sum += f(alive);
    return sum / static_cast<double>(draws_.size());
  }

  /// Seconds to go on as `next`.
  CAUSEWAY_DECL [[nodiscard]] double migration(const pipeline_shape& next, const migration_costs& costs) const;

  /// The part of the draws in which nothing is left of some stage.
  CAUSEWAY_DECL [[nodiscard]] double lost_share() const;

 private:
  pipeline_shape shape_;
  std::vector<std::vector<std::size_t>> draws_;
};

}  // namespace detail

/// What is expected of `shape` when `lost` of `available` instances are preempted and the pipelines that can be completed
/// from instances of the same stages go on: samples per second.
template <ShapeThroughput Throughput>
double liveput(const pipeline_shape& shape, std::size_t available, std::size_t lost, const Throughput& throughput,
               const liveput_options& options = {}) {
  CAUSEWAY_EXPECT(shape.instances() <= available);
  if (shape.instances() == 0) return 0;
  const detail::preemption_draws draws{shape, available, lost, options};
  return draws.mean([&](const std::vector<std::size_t>& alive) -> double {
    return throughput(pipeline_shape{*std::min_element(alive.begin(), alive.end()), shape.stages});
  });
}

/// Seconds that going from `now`, with `before` instances, to `next`, with `after`, is expected to take.
CAUSEWAY_DECL double expected_migration(const pipeline_shape& now, std::size_t before, const pipeline_shape& next,
                                        std::size_t after, const migration_costs& costs,
                                        const liveput_options& options = {});

/// A shape for each interval.
struct liveput_plan {
  std::vector<pipeline_shape> shapes;
  double samples = 0;  ///< expected in all intervals
};

/// The sequence of shapes, for `available` instances in each interval, that is expected to train the most samples, from
/// `now` with `instances` instances on. Preemptions come between intervals. Shapes have at most `most_stages` stages.
/// Costs about (n ln n)^2 steps for each interval and n ln n draws, n the instances.
template <ShapeThroughput Throughput>
liveput_plan plan_liveput(const pipeline_shape& now, std::size_t instances, std::span<const std::size_t> available,
                          double interval_seconds, std::size_t most_stages, const migration_costs& costs,
                          const Throughput& throughput, const liveput_options& options = {}) {
  CAUSEWAY_EXPECT(now.instances() <= instances);
  struct state {
    pipeline_shape shape;
    double samples = 0;
    std::size_t before = 0;
  };
  std::vector<std::vector<state>> table{{{now, 0, 0}}};
  std::size_t count = instances;
  for (const std::size_t n : available) {
    std::vector<state> next{{{0, 0}, -std::numeric_limits<double>::infinity(), 0}};
    for (std::size_t p = 1; p <= std::min(most_stages, n); ++p) {
      for (std::size_t d = 1; d * p <= n; ++d) next.push_back({{d, p}, -std::numeric_limits<double>::infinity(), 0});
    }
    std::vector<double> rates;
    for (const state& s : next) rates.push_back(s.shape.instances() == 0 ? 0 : static_cast<double>(throughput(s.shape)));
    const auto& last = table.back();
    for (std::size_t i = 0; i < last.size(); ++i) {
      const detail::preemption_draws draws{last[i].shape, count, count > n ? count - n : 0, options};
      const double repeated = costs.repeated_samples > 0 ? costs.repeated_samples * draws.lost_share() : 0;
      for (std::size_t j = 0; j < next.size(); ++j) {
        const double pause = draws.migration(next[j].shape, costs);
        const double samples = last[i].samples - repeated + rates[j] * std::max(0.0, interval_seconds - pause);
        if (samples > next[j].samples) next[j].samples = samples, next[j].before = i;
      }
    }
    table.push_back(std::move(next));
    count = n;
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < table.back().size(); ++i) {
    if (table.back()[i].samples > table.back()[best].samples) best = i;
  }
  liveput_plan plan{{}, table.back()[best].samples};
  for (std::size_t t = table.size() - 1; t > 0; --t) {
    plan.shapes.push_back(table[t][best].shape);
    best = table[t][best].before;
  }
  std::reverse(plan.shapes.begin(), plan.shapes.end());
  return plan;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/liveput.ipp>
#endif

#endif  // CAUSEWAY_PLAN_LIVEPUT_HPP
