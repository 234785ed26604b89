// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_PIPELINE_PLAN_HPP
#define CAUSEWAY_PLAN_PIPELINE_PLAN_HPP

// A whole plan for training a transformer on devices that are linked unequally: how many stages and replicas, which device
// holds which stage of which replica, where the model is cut, and what a step takes. For each shape DTFM places the stages
// (dtfm.hpp), the cut follows the devices' speed and memory (stage_split.hpp), and swaps against the predicted step follow
// (step_estimate.hpp). Shapes are tried with a small search each; the best ones get the full one.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/dtfm.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/placement.hpp>
#include <causeway/plan/stage_split.hpp>
#include <causeway/plan/step_estimate.hpp>
#include <causeway/plan/transformer_cost.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// A device: operations per second that training reaches on it (not those of the data sheet), and bytes.
struct compute_device {
  double speed = 1e12;
  double memory = std::numeric_limits<double>::infinity();
};

struct pipeline_plan_options {
  std::size_t global_batch = 1;  ///< sequences in a step
  std::size_t micro_batch = 1;   ///< sequences
  std::size_t stages = 0;        ///< 0: any
  std::size_t replicas = 0;      ///< 0: as many as go on the devices
  training_bytes bytes{};
  dtfm_options search{};
  bool refine = true;  ///< with swaps against the predicted step
};

struct pipeline_plan {
  placement where;
  stage_split split;
  step_work work;
  step_estimate step;
  placement_cost dtfm;  ///< of `where` in DTFM's model
  std::uint64_t evaluations = 0;

  [[nodiscard]] std::size_t stages() const noexcept { return where.stages(); }
};

namespace detail {

class pipeline_planner {
 public:
  pipeline_planner(const transformer_shape& shape, const link_matrix& links, std::span<const compute_device> devices,
                   const pipeline_plan_options& options)
      : shape_{shape}, links_{links}, devices_{devices.begin(), devices.end()}, options_{options} {
    tokens_ = static_cast<double>(options.micro_batch * shape.context);
    model_ = plan::cost_of(shape, tokens_, options.bytes);
    for (const compute_device& d : devices_) speeds_.push_back(d.speed);
  }

  [[nodiscard]] std::span<const double> speeds() const noexcept { return speeds_; }

  [[nodiscard]] pipeline_task task(std::size_t replicas, std::size_t stages) const {
    const double tokens = static_cast<double>(share(replicas) * shape_.context);
    return {replicas, stages, total_parameters(shape_) / static_cast<double>(stages) * options_.bytes.gradient,
            boundary_bytes(shape_, tokens, options_.bytes)};
  }

  /// The cut for these devices: each stage is as fast, and as large, as the least of its replicas.
  [[nodiscard]] result<pipeline_plan> cut(placement where) const {
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

  /// The best plan of this shape, with a search of `search`.
  [[nodiscard]] result<pipeline_plan> run(std::size_t replicas, std::size_t stages, const dtfm_options& search) const {
    CAUSEWAY_ASSIGN(dtfm_plan placed, plan_dtfm(links_, task(replicas, stages), search));
    CAUSEWAY_ASSIGN(pipeline_plan p, cut(std::move(placed.where)));
    p.evaluations = placed.evaluations;
    p.step = estimate_step(links_, p.where, speeds_, p.work);
    if (options_.refine) refine(p, search.evaluations / 4);
    p.dtfm = plan::cost_of(links_, p.where, task(replicas, stages));
    return p;
  }

 private:
  [[nodiscard]] std::size_t share(std::size_t replicas) const { return (options_.global_batch + replicas - 1) / replicas; }

  void set_work(pipeline_plan& p) const {
    for (std::size_t s = 0; s < p.split.stages(); ++s) {
      const block_cost c = cost_of_stage(model_, p.split.first_block[s], p.split.end(s));
      p.work.forward.push_back(c.seconds / 4);  // of forward, recomputed forward, and twice that
      p.work.backward.push_back(c.seconds * 3 / 4);
      p.work.gradient_bytes.push_back(c.parameters * options_.bytes.gradient);
    }
    p.work.message_bytes = boundary_bytes(shape_, tokens_, options_.bytes);
  }

  void refine(pipeline_plan& p, std::uint64_t evaluations) const {
    placement swapped = p.where;
    refine_by_swaps(links_, swapped, speeds_, p.work, evaluations);
    auto anew = cut(std::move(swapped));  // other devices, other cut; their memory may not do
    if (!anew) return;
    anew->step = estimate_step(links_, anew->where, speeds_, anew->work);
    anew->evaluations = p.evaluations + evaluations;
    if (anew->step.total() < p.step.total()) p = std::move(*anew);
  }

  transformer_shape shape_;
  const link_matrix& links_;
  std::vector<compute_device> devices_;
  pipeline_plan_options options_;
  double tokens_ = 0;
  model_cost model_;
  std::vector<double> speeds_;
};

inline result<void> check_pipeline_plan(const link_matrix& links, std::span<const compute_device> devices,
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

}  // namespace detail

/// The shapes (replicas, stages) that `options` leave open, for a model of `layers` blocks on `devices` devices.
inline std::vector<std::pair<std::size_t, std::size_t>> pipeline_shapes(std::size_t layers, std::size_t devices,
                                                                        const pipeline_plan_options& options) {
  std::vector<std::pair<std::size_t, std::size_t>> shapes;
  for (std::size_t s = 1; s <= std::min(layers, devices); ++s) {
    if (options.stages != 0 && s != options.stages) continue;
    const std::size_t most = std::min(devices / s, options.global_batch);
    const std::size_t r = options.replicas == 0 ? most : options.replicas;
    if (r >= 1 && r <= most) shapes.emplace_back(r, s);
  }
  return shapes;
}

/// The plan with the shortest step that the search finds. errc::out_of_memory: the model fits in no shape;
/// errc::invalid_argument: sizes that do not go together. The same input and seed give the same plan.
inline result<pipeline_plan> plan_pipeline(const transformer_shape& shape, const link_matrix& links,
                                           std::span<const compute_device> devices, const pipeline_plan_options& options) {
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
  dtfm_options quick = options.search;
  if (shapes.size() > 1) quick.evaluations = std::min<std::uint64_t>(quick.evaluations, 6000);
  struct attempt {
    double seconds;
    std::size_t replicas, stages;
  };
  std::vector<attempt> tried;
  result<pipeline_plan> best = fail(errc::out_of_memory, "plan", "nothing was tried");
  for (const auto& [replicas, stages] : shapes) {
    result<pipeline_plan> p = planner.run(replicas, stages, quick);
    if (p) tried.push_back({p->step.total(), replicas, stages});
    if (!best || (p && p->step.total() < best->step.total())) best = std::move(p);
  }
  if (shapes.size() == 1) return best;
  std::sort(tried.begin(), tried.end(), [](const attempt& a, const attempt& b) { return a.seconds < b.seconds; });
  for (std::size_t i = 0; i < std::min<std::size_t>(3, tried.size()); ++i) {
    result<pipeline_plan> p = planner.run(tried[i].replicas, tried[i].stages, options.search);
    if (p && p->step.total() < best->step.total()) best = std::move(p);
  }
  return best;
}

/// What placements take that know nothing of the links, with the shape of `like` and the devices' own cut.
struct blind_steps {
  double mean = 0;        ///< of `draws` random placements
  double median = 0;      ///<
  double by_stage = 0;    ///< the devices in the order of their list, stage by stage
  double by_replica = 0;  ///< replica by replica: round robin over the stages
};

/// Placements whose devices cannot hold what they get are left out; 0 where none can.
inline blind_steps estimate_blind(const transformer_shape& shape, const link_matrix& links,
                                  std::span<const compute_device> devices, const pipeline_plan_options& options,
                                  std::size_t replicas, std::size_t stages, std::size_t draws = 200) {
  const detail::pipeline_planner planner{shape, links, devices, options};
  const pipeline_task task{replicas, stages};
  const auto seconds = [&](placement where) {
    const auto p = planner.cut(std::move(where));
    return p ? estimate_step(links, p->where, planner.speeds(), p->work).total() : 0;
  };
  blind_steps blind{0, 0, seconds(placed_by_stage(task)), seconds(placed_by_replica(task))};
  rng draw{options.search.seed, mix(0x626C696EU)};
  std::vector<double> all;
  for (std::size_t i = 0; i < draws; ++i) {
    const double s = seconds(placed_at_random(task, links.size(), draw));
    if (s > 0) all.push_back(s);
  }
  if (all.empty()) return blind;
  std::sort(all.begin(), all.end());
  blind.median = all[all.size() / 2];
  for (const double s : all) blind.mean += s / static_cast<double>(all.size());
  return blind;
}

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_PIPELINE_PLAN_HPP
