// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_PROACTIVE_HPP
#define CAUSEWAY_STAGE_RECOVERY_PROACTIVE_HPP

// The number of stages and pipelines that is best for the peers that are expected, not for those that are there: Parcae
// (Duan et al., NSDI 2024). What the run's history says of earlier intervals is all that the forecast knows, and it is
// voted on, so all peers plan alike. There is no server for the weights (ParcaePS): blocks come from other peers, and a
// stage that nobody has any more is gone back for, which the plan counts. Intervals are counted in steps; the paper's are
// a minute.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/plan/availability.hpp>
#include <causeway/plan/liveput.hpp>
#include <causeway/plan/recovery.hpp>
#include <causeway/plan/stage_split.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::stage::recovery {

/// Equal on all peers.
struct proactive_options {
  /// Costs of blocks, links and of a change of the layout; micro-batches are the run's. Without blocks: each takes a
  /// second and memory of 1, links cost nothing, and a change takes a second.
  plan::recovery_job job{};
  double device_memory = std::numeric_limits<double>::infinity();  ///< bytes of parameters, gradients, optimizer state
  std::size_t most_peers = 16;                                     ///< that the run may have; more are spare
  std::uint64_t interval = 10;                                     ///< steps between plans, at least 1
  std::size_t lookahead = 4;                                       ///< intervals that are forecast
  double repeated_steps = 50;                                      ///< that are lost when nobody has a stage any more
  std::size_t samples = 64;                                        ///< sets of lost peers that are tried
};

namespace detail {

/// What steps of a model take in different shapes. The job must outlive it.
class shape_speeds {
 public:
  shape_speeds(const plan::recovery_job& job, double device_memory) : job_{job}, device_memory_{device_memory} {}

  /// Seconds of a step; infinite where the model does not fit, or a pipeline would have no micro-batch.
  double seconds(const plan::pipeline_shape& s) {
    if (s.instances() == 0 || s.stages > job_.model.blocks.size() || s.replicas > job_.micro_batches) return plan::no_step;
    const auto [known, fresh] = seconds_.try_emplace({s.replicas, s.stages}, plan::no_step);
    if (!fresh) return known->second;
    const auto cut = plan::cut_job::make(job_, s.stages);
    if (cut && cut->state_bytes() <= device_memory_) known->second = cut->step_seconds(s.replicas);
    return known->second;
  }

  /// For at most so many peers; 0 x 0 if they are too few. Of several, the one with the fewest stages.
  plan::pipeline_shape quickest(std::size_t peers) {
    plan::pipeline_shape best;
    for (std::size_t p = 1; p <= std::min(peers, job_.model.blocks.size()); ++p) {
      for (std::size_t d = 1; d * p <= peers; ++d) {
        if (seconds({d, p}) < seconds(best)) best = {d, p};
      }
    }
    return best;
  }

 private:
  const plan::recovery_job& job_;
  double device_memory_;
  std::map<std::pair<std::size_t, std::size_t>, double> seconds_;  // of (replicas, stages)
};

}  // namespace detail

/// Every `interval` steps, and when a peer of a pipeline is lost, the shapes of the next intervals are chosen that are
/// expected to train most (plan::plan_liveput), for the number of peers that the history makes likely
/// (plan::forecast); the first of them is taken. Peers that come in between are spare until then. Which peers go is drawn,
/// from a seed that all have: the name of the run's state. The shape that is left is that of the last step that was taken;
/// what an attempt that failed since then has moved is not counted as done.
class proactive {
 public:
  static constexpr std::string_view name = "proactive";
  static constexpr recovery_traits traits{};

  explicit proactive(proactive_options options = {}) : options_{std::move(options)} {}

  [[nodiscard]] std::uint64_t interval() const noexcept { return options_.interval; }

  result<layout> arrange(const gathering& g) {
    CAUSEWAY_ASSIGN(const plan::recovery_job job, job_for(g));
    plan::pipeline_shape shape = last_shape(g);
    if (g.step % options_.interval == 0 || !stands(g, row_of(job, shape.stages), shape.replicas)) {
      CAUSEWAY_ASSIGN(shape, planned(g, job, shape));
    }
    const std::vector rows(shape.replicas, row_of(job, shape.stages));
    return seat_peers(rows, even_shares(g.micro_batches, shape.replicas), g);
  }

 private:
  [[nodiscard]] result<plan::recovery_job> job_for(const gathering& g) const {
    plan::recovery_job job = options_.job;
    if (job.model.blocks.empty()) {
      job.model.blocks.assign(static_cast<std::size_t>(g.layers), plan::block_cost{1, 1, 1, 0});
      job.forward_share = 1.0 / 3;
      job.regroup = 1;
    }
    if (job.model.blocks.size() != static_cast<std::size_t>(g.layers) || options_.interval == 0) {
      return fail(errc::invalid_argument, "proactive",
                  "it needs the cost of every block of the model, and an interval of at least one step");
    }
    job.micro_batches = g.micro_batches;
    job.micro_batch = 1;  // counted in micro-batches
    return job;
  }

  // Of the last step; none before the first, and where the history is of another run.
  [[nodiscard]] plan::pipeline_shape last_shape(const gathering& g) const {
    const plan::pipeline_shape s{g.history.replicas, g.history.stages};
    const bool known = s.instances() <= options_.most_peers && s.stages <= static_cast<std::size_t>(g.layers);
    return known ? s : plan::pipeline_shape{};
  }

  static std::vector<nn::block_range> row_of(const plan::recovery_job& job, std::size_t stages) {
    std::vector<nn::block_range> row;
    if (stages == 0) return row;
    const auto split = plan::split_by_time(job.model, std::vector<plan::stage_device>(stages));
    CAUSEWAY_EXPECT(split.has_value());  // at most as many stages as blocks, and all the memory they want
    for (std::size_t s = 0; s < stages; ++s) {
      row.push_back({static_cast<std::int64_t>(split->first_block[s]), static_cast<std::int64_t>(split->end(s))});
    }
    return row;
  }

  // Whether every seat of so many pipelines has its peer.
  static bool stands(const gathering& g, const std::vector<nn::block_range>& row, std::size_t replicas) {
    std::set<std::pair<std::uint32_t, std::int64_t>> filled;
    for (const present_peer& p : g.peers) {
      const bool sits = p.replica < replicas && std::find(row.begin(), row.end(), p.computes) != row.end();
      if (sits && p.holds_all(p.computes)) filled.emplace(p.replica, p.computes.first);
    }
    return !row.empty() && replicas > 0 && filled.size() == row.size() * replicas;
  }

  [[nodiscard]] result<plan::pipeline_shape> planned(const gathering& g, const plan::recovery_job& job,
                                                     const plan::pipeline_shape& now) const {
    detail::shape_speeds speeds{job, options_.device_memory};
    const std::size_t there = std::min(g.peers.size(), options_.most_peers);
    const plan::pipeline_shape quickest = speeds.quickest(there);
    if (quickest.instances() == 0) return too_few(g.peers.size(), fewest_peers(speeds, there));
    std::vector<std::size_t> history = g.history.counts(), available{there};
    for (std::size_t& n : history) n = std::min(n, options_.most_peers);
    for (const std::size_t n : plan::forecast(plan::fit_availability(history), there, options_.lookahead))
      available.push_back(n);
    const std::size_t had = std::max({now.instances(), there, history.empty() ? 0 : history.back()});
    const double step = speeds.seconds(quickest), interval = static_cast<double>(options_.interval) * step;
    const auto rate = [&](const plan::pipeline_shape& s) { return job.samples() / speeds.seconds(s); };
    const plan::liveput_plan plan =
        plan::plan_liveput(now, had, available, interval, job.model.blocks.size(), costs_of_change(job, now), rate,
                           {options_.samples, mix(g.state, liveput_stream)});
    // An interval that is shorter than any change of the layout trains nothing in any plan.
    return plan.shapes.front().instances() > 0 ? plan.shapes.front() : quickest;
  }

  [[nodiscard]] plan::migration_costs costs_of_change(const plan::recovery_job& job,
                                                      const plan::pipeline_shape& now) const {
    const auto cut = plan::cut_job::make(job, std::max<std::size_t>(1, now.stages));
    const double copy = cut ? cut->copy_seconds() : 0;
    return {job.regroup, job.regroup + copy, job.regroup + copy, options_.repeated_steps * job.samples()};
  }

  // That more than `there` peers are needed for; one more where no number would do.
  [[nodiscard]] std::int64_t fewest_peers(detail::shape_speeds& speeds, std::size_t there) const {
    for (std::size_t n = there + 1; n <= options_.most_peers; ++n) {
      if (speeds.quickest(n).instances() > 0) return static_cast<std::int64_t>(n);
    }
    return static_cast<std::int64_t>(there) + 1;
  }

  static constexpr std::uint64_t liveput_stream = 0x6C697665;

  proactive_options options_;
};
static_assert(Recovery<proactive>);

}  // namespace causeway::inline CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_RECOVERY_PROACTIVE_HPP
