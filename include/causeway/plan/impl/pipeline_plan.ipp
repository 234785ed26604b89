// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_PIPELINE_PLAN_IPP
#define CAUSEWAY_PLAN_IMPL_PIPELINE_PLAN_IPP

#include <causeway/plan/pipeline_plan.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

class pipeline_planner {
 public:
  CAUSEWAY_DECL pipeline_planner(const transformer_shape& shape, const link_matrix& links,
                                 std::span<const compute_device> devices, const pipeline_plan_options& options)
      : shape_{shape}, links_{links}, devices_{devices.begin(), devices.end()}, options_{options} {
    tokens_ = static_cast<double>(options.micro_batch * shape.context);
    model_ = plan::cost_of(shape, tokens_, options.bytes);
    for (const compute_device& d : devices_) speeds_.push_back(d.speed);
  }

  [[nodiscard]] std::span<const double> speeds() const noexcept { return speeds_; }

  CAUSEWAY_DECL [[nodiscard]] pipeline_task task(std::size_t replicas, std::size_t stages) const {
    const double tokens = static_cast<double>(share(replicas) * shape_.context);
    return {replicas, stages, total_parameters(shape_) / static_cast<double>(stages) * options_.bytes.gradient,
            boundary_bytes(shape_, tokens, options_.bytes)};
  }

  /// The cut for these devices: each stage is as fast, and as large, as the least of its replicas.
  CAUSEWAY_DECL [[nodiscard]] result<pipeline_plan> cut(placement where) const {
    pipeline_plan p;
    p.work.micro_batches = (share(where.replicas) + options_.micro_batch - 1) / options_.micro_batch;
    std::vector<stage_device> holders;
    for (std::size_t s = 0; s < where.stages(); ++s) {
      stage_device h{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(),
                     static_cast<double>(p.work.micro_batches)};
      for (const std::size_t d : where.group(s)) {
        h.speed = std::min(h.speed, devices_[d].speed);
        h.memory = std::min(h.memory, devices_[d].memory - working_bytes(shape_, tokens_));
      }
      holders.push_back(h);
    }
    CAUSEWAY_ASSIGN(p.split, split_by_time(model_, holders));
    set_work(p);
    p.where = std::move(where);
    return p;
  }

  /// The best plan of this shape, with a search of `search`. DTFM is asked twice: as in the paper, where a replica's
  /// activations cross each hop as one message, and with messages that go on as micro-batches, so that the hops' times
  /// overlap: then a hop costs about 1 / (stages - 1) of that. The order of the list is tried too: it is often by site.
  CAUSEWAY_DECL [[nodiscard]] result<pipeline_plan> run(std::size_t replicas, std::size_t stages,
                                                        const dtfm_options& search) const {
    pipeline_task whole = task(replicas, stages), overlapped = whole;
    overlapped.activation_bytes /= static_cast<double>(std::max<std::size_t>(2, stages) - 1);
    result<pipeline_plan> best = fail(errc::out_of_memory, "plan", "nothing was tried");
    std::uint64_t evaluations = 0;
    const auto consider = [&](placement where) {
      auto p = arranged(std::move(where), search);
      if (!best || (p && p->step.total() < best->step.total())) best = std::move(p);
    };
    for (const pipeline_task& t : {whole, overlapped}) {
      CAUSEWAY_ASSIGN(dtfm_plan placed, plan_dtfm(links_, t, search));
      evaluations += placed.evaluations;
      consider(std::move(placed.where));
      if (stages <= 2) break;  // one hop: the same twice
    }
    if (options_.refine) consider(placed_by_stage(whole));
    if (options_.refine) consider(placed_by_replica(whole));
    if (!best) return best;
    best->evaluations = evaluations;
    best->dtfm = plan::cost_of(links_, best->where, whole);
    return best;
  }

 private:
  [[nodiscard]] std::size_t share(std::size_t replicas) const { return (options_.global_batch + replicas - 1) / replicas; }

  CAUSEWAY_DECL void set_work(pipeline_plan& p) const {
    for (std::size_t s = 0; s < p.split.stages(); ++s) {
      const block_cost c = cost_of_stage(model_, p.split.first_block[s], p.split.end(s));
      p.work.forward.push_back(c.seconds / 4);  // of forward, recomputed forward, and twice that
      p.work.backward.push_back(c.seconds * 3 / 4);
      p.work.gradient_bytes.push_back(c.parameters * options_.bytes.gradient);
    }
    p.work.message_bytes = boundary_bytes(shape_, tokens_, options_.bytes);
  }

  /// Cut, and refined where that is wanted and helps.
  CAUSEWAY_DECL [[nodiscard]] result<pipeline_plan> arranged(placement where, const dtfm_options& search) const {
    CAUSEWAY_ASSIGN(pipeline_plan p, cut(std::move(where)));
    p.step = estimate_step(links_, p.where, speeds_, p.work);
    if (!options_.refine) return p;
    placement swapped = p.where;
    refine_by_swaps(links_, swapped, speeds_, p.work, std::max<std::uint64_t>(4000, search.evaluations / 4));
    auto anew = cut(std::move(swapped));  // other devices, other cut; their memory may not do
    if (!anew) return p;
    anew->step = estimate_step(links_, anew->where, speeds_, anew->work);
    if (anew->step.total() < p.step.total()) return anew;
    return p;
  }

  transformer_shape shape_;
  const link_matrix& links_;
  std::vector<compute_device> devices_;
  pipeline_plan_options options_;
  double tokens_ = 0;
  model_cost model_;
  std::vector<double> speeds_;
};

CAUSEWAY_DECL result<void> check_pipeline_plan(const link_matrix& links, std::span<const compute_device> devices,
                                               const pipeline_plan_options& o) {
  const auto wrong = [](std::string what) { return fail(errc::invalid_argument, "plan", std::move(what)); };
  if (devices.empty() || devices.size() != links.size()) return wrong("needs a device for each row of the links");
  for (const compute_device& d : devices) {
    if (!(d.speed > 0) || !(d.memory > 0)) return wrong("each device needs a speed and a memory above 0");
  }
  if (o.global_batch == 0 || o.micro_batch == 0)
    return wrong("needs a global batch and a micro-batch of a sequence or more");
  return {};
}

/// Searches each shape a little, the better quarter of them six times as long, and so on (successive halving, Jamieson and
/// Talwalkar 2016): the last ones with the whole of `search`.
CAUSEWAY_DECL result<pipeline_plan> best_of_shapes(const pipeline_planner& planner,
                                                   const std::vector<std::pair<std::size_t, std::size_t>>& shapes,
                                                   const dtfm_options& search) {
  struct attempt {
    std::size_t replicas = 0, stages = 0;
    double seconds = 0;
  };
  std::vector<attempt> left;
  for (const auto& [replicas, stages] : shapes) left.push_back({replicas, stages});
  result<pipeline_plan> best = fail(errc::out_of_memory, "plan", "nothing was tried");
  for (std::uint64_t budget = shapes.size() == 1 ? search.evaluations : 1500;; budget *= 6) {
    dtfm_options some = search;
    some.evaluations = std::min(budget, search.evaluations);
    for (attempt& a : left) {
      result<pipeline_plan> p = planner.run(a.replicas, a.stages, some);
      a.seconds = p ? p->step.total() : std::numeric_limits<double>::infinity();
      if (!best || (p && p->step.total() < best->step.total())) best = std::move(p);
    }
    if (!best || budget >= search.evaluations) return best;
    std::stable_sort(left.begin(), left.end(), [](const attempt& a, const attempt& b) { return a.seconds < b.seconds; });
    left.resize(std::max<std::size_t>(1, left.size() / 4));
  }
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// The shapes (replicas, stages) that `options` leave open, for a model of `layers` blocks on `devices` devices.
CAUSEWAY_DECL std::vector<std::pair<std::size_t, std::size_t>> pipeline_shapes(std::size_t layers, std::size_t devices,
                                                                               const pipeline_plan_options& options) {
  std::vector<std::pair<std::size_t, std::size_t>> shapes;
  for (std::size_t s = 1; s <= std::min(layers, devices); ++s) {
    if (options.stages != 0 && s != options.stages) continue;
    const std::size_t most = std::min(devices / s, options.global_batch);
    if (options.replicas != 0 && options.replicas <= most) shapes.emplace_back(options.replicas, s);
    if (options.replicas != 0) continue;
    for (std::size_t r = most; r > 0; r /= 2) shapes.emplace_back(r, s);  // leaving far devices out can be quicker
  }
  return shapes;
}

CAUSEWAY_DECL result<pipeline_plan> plan_pipeline(const transformer_shape& shape, const link_matrix& links,
                                                  std::span<const compute_device> devices,
                                                  const pipeline_plan_options& options) {
  CAUSEWAY_TRY(detail::check_pipeline_plan(links, devices, options));
  const detail::pipeline_planner planner{shape, links, devices, options};
  const auto shapes = pipeline_shapes(shape.layers, devices.size(), options);
  if (shapes.empty()) {
    return fail(errc::invalid_argument, "plan",
                std::to_string(options.stages) + " stages of " + std::to_string(options.replicas) +
                    " replicas do not go with " + std::to_string(devices.size()) + " devices, " +
                    std::to_string(shape.layers) + " blocks and a batch of " + std::to_string(options.global_batch) +
                    "; 0 leaves a number open");
  }
  return detail::best_of_shapes(planner, shapes, options.search);
}

CAUSEWAY_DECL blind_steps estimate_blind(const transformer_shape& shape, const link_matrix& links,
                                         std::span<const compute_device> devices, const pipeline_plan_options& options,
                                         std::size_t replicas, std::size_t stages, std::size_t draws) {
  const detail::pipeline_planner planner{shape, links, devices, options};
  const pipeline_task task = planner.task(replicas, stages);
  const auto seconds = [&](placement where) {
    const auto p = planner.cut(std::move(where));
    return p ? estimate_step(links, p->where, planner.speeds(), p->work).total() : 0;
  };
  blind_steps blind{0, 0, seconds(placed_by_stage(task)), seconds(placed_by_replica(task)), 0};
  rng draw{options.search.seed, mix(0x626C696EU)};
  std::vector<double> all;
  for (std::size_t i = 0; i < draws; ++i) {
    placement where = placed_at_random(task, links.size(), draw);
    blind.dtfm += plan::cost_of(links, where, task).total() / static_cast<double>(draws);
    if (const double s = seconds(std::move(where)); s > 0) all.push_back(s);
  }
  if (all.empty()) return blind;
  std::sort(all.begin(), all.end());
  blind.median = all[all.size() / 2];
  for (const double s : all) blind.mean += s / static_cast<double>(all.size());
  return blind;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_PIPELINE_PLAN_IPP
