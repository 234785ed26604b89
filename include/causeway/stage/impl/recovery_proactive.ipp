// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_RECOVERY_PROACTIVE_IPP
#define CAUSEWAY_STAGE_IMPL_RECOVERY_PROACTIVE_IPP

#include <causeway/stage/recovery_proactive.hpp>

#include <algorithm>
#include <set>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery { namespace detail {

/// What steps of a model take in different shapes. The job must outlive it.
class shape_speeds {
 public:
  CAUSEWAY_DECL shape_speeds(const plan::recovery_job& job, double device_memory)
      : job_{job}, device_memory_{device_memory} {}

  /// Seconds of a step; infinite where the model does not fit, or a pipeline would have no micro-batch.
  CAUSEWAY_DECL double seconds(const plan::pipeline_shape& s) {
    if (s.instances() == 0 || s.stages > job_.model.blocks.size() || s.replicas > job_.micro_batches) return plan::no_step;
    const auto [known, fresh] = seconds_.try_emplace({s.replicas, s.stages}, plan::no_step);
    if (!fresh) return known->second;
    const auto cut = plan::cut_job::make(job_, s.stages);
    if (cut && cut->state_bytes() <= device_memory_) known->second = cut->step_seconds(s.replicas);
    return known->second;
  }

  /// For at most so many peers; 0 x 0 if they are too few. Of several, the one with the fewest stages.
  CAUSEWAY_DECL plan::pipeline_shape quickest(std::size_t peers) {
    plan::pipeline_shape best;
    for (std::size_t p = 1; p <= std::min(peers, job_.model.blocks.size()); ++p) {
      for (std::size_t d = 1; d * p <= peers; ++d) {
        if (seconds({d, p}) < seconds(best)) best = {d, p};
      }
    }
    return best;
  }

  /// More than `there`, at most `most`, that are enough; one more than `there` where no such number is.
  CAUSEWAY_DECL std::int64_t fewest(std::size_t there, std::size_t most) {
    for (std::size_t n = there + 1; n <= most; ++n) {
      if (quickest(n).instances() > 0) return static_cast<std::int64_t>(n);
    }
    return static_cast<std::int64_t>(there) + 1;
  }

 private:
  const plan::recovery_job& job_;
  double device_memory_;
  std::map<std::pair<std::size_t, std::size_t>, double> seconds_;  // of (replicas, stages)
};

CAUSEWAY_DECL std::vector<nn::block_range> row_of(const plan::recovery_job& job, std::size_t stages) {
  std::vector<nn::block_range> row;
  if (stages == 0) return row;
  const auto split = plan::split_by_time(job.model, std::vector<plan::stage_device>(stages));
  CAUSEWAY_EXPECT(split.has_value());  // at most as many stages as blocks, and all the memory they want
  for (std::size_t s = 0; s < stages; ++s) {
    row.push_back({static_cast<std::int64_t>(split->first_block[s]), static_cast<std::int64_t>(split->end(s))});
  }
  return row;
}

/// Whether every stage of so many pipelines has its peer.
CAUSEWAY_DECL bool stands(const cluster_snapshot& g, const std::vector<nn::block_range>& row, std::size_t replicas) {
  std::set<std::pair<std::uint32_t, std::int64_t>> filled;
  for (const present_peer& p : g.peers) {
    const bool is_assigned = p.replica < replicas && std::find(row.begin(), row.end(), p.computes) != row.end();
    if (is_assigned && p.holds_all(p.computes)) filled.emplace(p.replica, p.computes.first);
  }
  return !row.empty() && replicas > 0 && filled.size() == row.size() * replicas;
}

}}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

CAUSEWAY_DECL proactive::proactive(proactive_options options) : options_{std::move(options)} {}

CAUSEWAY_DECL result<layout> proactive::arrange(const cluster_snapshot& g) {
  CAUSEWAY_ASSIGN(const plan::recovery_job job, job_for(g));
  plan::pipeline_shape shape = last_shape(g);
  if (g.step % options_.interval == 0 || !detail::stands(g, detail::row_of(job, shape.stages), shape.replicas)) {
    CAUSEWAY_ASSIGN(shape, planned(g, job, shape));
  }
  const std::vector rows(shape.replicas, detail::row_of(job, shape.stages));
  return assign_peers(rows, even_shares(g.micro_batches, shape.replicas), g);
}

CAUSEWAY_DECL result<plan::recovery_job> proactive::job_for(const cluster_snapshot& g) const {
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

CAUSEWAY_DECL plan::pipeline_shape proactive::last_shape(const cluster_snapshot& g) const {
  const plan::pipeline_shape s{g.history.replicas, g.history.stages};
  const bool known = s.instances() <= options_.most_peers && s.stages <= static_cast<std::size_t>(g.layers);
  return known ? s : plan::pipeline_shape{};
}

CAUSEWAY_DECL result<plan::pipeline_shape> proactive::planned(const cluster_snapshot& g, const plan::recovery_job& job,
                                                              const plan::pipeline_shape& now) const {
  detail::shape_speeds speeds{job, options_.device_memory};
  const std::size_t there = std::min(g.peers.size(), options_.most_peers);
  const plan::pipeline_shape quickest = speeds.quickest(there);
  if (quickest.instances() == 0) return too_few(g.peers.size(), speeds.fewest(there, options_.most_peers));
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

CAUSEWAY_DECL plan::migration_costs proactive::costs_of_change(const plan::recovery_job& job,
                                                               const plan::pipeline_shape& now) const {
  const auto cut = plan::cut_job::make(job, std::max<std::size_t>(1, now.stages));
  const double copy = cut ? cut->copy_seconds() : 0;
  return {job.regroup, job.regroup + copy, job.regroup + copy, options_.repeated_steps * job.samples()};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#endif  // CAUSEWAY_STAGE_IMPL_RECOVERY_PROACTIVE_IPP
