// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_RECOVERY_TEMPLATES_IPP
#define CAUSEWAY_PLAN_IMPL_RECOVERY_TEMPLATES_IPP

#include <causeway/plan/recovery_templates.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL template_recovery::template_recovery(const recovery_job& job, template_set set)
    : job_{&job}, set_{std::move(set)} {}

CAUSEWAY_DECL recovery_action template_recovery::changed(std::span<const std::uint32_t> lost,
                                                         std::span<const std::uint32_t> come) {
  const std::vector<std::size_t> gone(lost.begin(), lost.end());
  const bool broken = holds_any(gone);
  std::erase_if(spare_, [&](std::size_t id) { return std::binary_search(gone.begin(), gone.end(), id); });
  spare_.insert(spare_.end(), come.begin(), come.end());
  if (pipelines_.empty()) return revive(0);
  if (!broken) return {};
  const auto r = react(set_, pipelines_, gone);
  if (!r) return break_down(gone);
  keep_spares(r->pipelines, gone);
  pipelines_ = r->pipelines;
  update();
  return {job_->detection + job_->regroup + copy_seconds(r->copies), step_fate::begins_again};
}

CAUSEWAY_DECL recovery_action template_recovery::boundary() {
  if (spare_.empty() || pipelines_.empty()) return {};
  const auto choice = choose_templates(set_, peers(), job_->micro_batches);
  if (!choice) return {};  // as before: the spares do not help
  const pipeline_peers after = arranged(choice->sizes);
  if (choice_of(after).seconds >= choice_of(pipelines_).seconds) return {};
  const auto copies = detail::copies_for(set_, pipelines_, after, {});
  CAUSEWAY_EXPECT(copies.has_value());  // nobody is lost
  pipelines_ = after;
  spare_.clear();
  update();
  return {job_->regroup + copy_seconds(*copies)};
}

CAUSEWAY_DECL bool template_recovery::holds_any(const std::vector<std::size_t>& ids) const {
  for (const auto& p : pipelines_) {
    for (const std::size_t id : p) {
      if (std::binary_search(ids.begin(), ids.end(), id)) return true;
    }
  }
  return false;
}

CAUSEWAY_DECL std::size_t template_recovery::peers() const {
  std::size_t n = spare_.size();
  for (const auto& p : pipelines_) n += p.size();
  return n;
}

CAUSEWAY_DECL double template_recovery::largest_stage(const pipeline_template& t) const {
  double most = 0;
  for (const template_stage& s : t.stages) most = std::max(most, cost_of_stage(job_->model, s.first_block, s.end).memory);
  return most;
}

CAUSEWAY_DECL void template_recovery::keep_spares(const pipeline_peers& after, const std::vector<std::size_t>& gone) {
  for (const auto& p : pipelines_) {
    for (const std::size_t id : p) {
      const auto in = [&](const std::vector<std::size_t>& some) {
        return std::find(some.begin(), some.end(), id) != some.end();
      };
      if (!in(gone) && std::none_of(after.begin(), after.end(), in)) spare_.push_back(id);
    }
  }
}

CAUSEWAY_DECL recovery_action template_recovery::break_down(const std::vector<std::size_t>& gone) {
  keep_spares({}, gone);
  pipelines_.clear();
  step_ = no_step;
  return revive(job_->detection);
}

CAUSEWAY_DECL recovery_action template_recovery::revive(double pause) {
  const auto choice = choose_templates(set_, spare_.size(), job_->micro_batches);
  if (!choice) return {pause, step_fate::begins_again};
  pipelines_ = arranged(choice->sizes);
  spare_.clear();
  update();
  pause += job_->restart + checkpoint_bytes() / job_->read_bytes_per_second;
  return {pause, step_fate::from_checkpoint};
}

CAUSEWAY_DECL pipeline_peers template_recovery::arranged(const std::vector<std::size_t>& sizes) const {
  pipeline_peers old = pipelines_, all;
  std::stable_sort(old.begin(), old.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::vector<std::size_t> loose;
  for (std::size_t i = 0; i < std::max(old.size(), sizes.size()); ++i) {
    std::vector<std::size_t> p = i < old.size() ? old[i] : std::vector<std::size_t>{};
    for (; i >= sizes.size() ? !p.empty() : p.size() > sizes[i]; p.pop_back()) loose.push_back(p.back());
    if (i < sizes.size()) all.push_back(p);
  }
  loose.insert(loose.end(), spare_.begin(), spare_.end());
  for (std::size_t i = 0, next = 0; i < all.size(); ++i) {
    while (all[i].size() < sizes[i]) all[i].push_back(loose[next++]);
  }
  return all;
}

CAUSEWAY_DECL template_choice template_recovery::choice_of(const pipeline_peers& pipelines) const {
  std::vector<std::size_t> sizes;
  for (const auto& p : pipelines) sizes.push_back(p.size());
  return split_batch(set_, std::move(sizes), job_->micro_batches);
}

CAUSEWAY_DECL double template_recovery::copy_seconds(const std::vector<block_copy>& copies) const {
  std::map<std::size_t, double> sent, taken;
  double most = 0;
  const std::size_t blocks = job_->model.blocks.size();
  for (const block_copy& c : copies) {
    double bytes = job_->model.blocks[c.block].memory;
    if (c.block == 0) bytes += job_->model.embedding.memory;
    if (c.block + 1 == blocks) bytes += job_->model.head.memory;
    const double seconds = job_->link.seconds(bytes);
    most = std::max({most, sent[c.from] += seconds, taken[c.peer] += seconds});
  }
  return most;
}

CAUSEWAY_DECL void template_recovery::update() {
  const template_choice choice = choice_of(pipelines_);
  step_ = 0;
  double parameters = 0;
  for (std::size_t i = 0; i < choice.sizes.size(); ++i) {
    step_ = std::max(step_, pipeline_seconds(choice.sizes[i], choice.micro_batches[i]));
    for (const template_stage& s : set_.of(choice.sizes[i]).stages)
      parameters = std::max(parameters, cost_of_stage(job_->model, s.first_block, s.end).parameters);
  }
  const auto d = static_cast<double>(choice.sizes.size());
  if (d > 1) step_ += 2 * (d - 1) * job_->link.seconds(parameters * job_->gradient_bytes / d);
}

CAUSEWAY_DECL double template_recovery::pipeline_seconds(std::size_t size, std::size_t micro_batches) {
  if (micro_batches == 0) return 0;
  const auto [known, fresh] = seconds_.try_emplace({size, micro_batches});
  if (!fresh) return known->second;
  stage_costs costs;
  for (const template_stage& s : set_.of(size).stages) {
    const double forward = s.seconds * job_->forward_share, half = (s.seconds - forward) / 2;
    costs.stages.push_back({forward, half, half, forward});
  }
  const edge_cost edge{job_->link.delay, job_->boundary_bytes, job_->boundary_bytes, job_->link.bandwidth / 8};
  costs.edges.assign(costs.stages.size() - 1, edge);
  const auto routes = straight_routes(costs.stages.size(), micro_batches);
  return known->second = seconds_of({std::move(costs), routes, static_cast<std::uint32_t>(micro_batches)});
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_RECOVERY_TEMPLATES_IPP
