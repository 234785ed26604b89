// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_SHARES_IPP
#define CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_SHARES_IPP

#include <causeway/parallel/swarm/swarm_shares.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Where rows are exchanged: whether a peer sent one in the attempt that somebody has the result of.
CAUSEWAY_DECL bool is_in_result(std::span<const swarm_holding> all, const swarm_plan& plan, std::size_t peer) {
  const auto at = std::find(plan.parts.begin(), plan.parts.end(), swarm_part::sum);
  if (at == plan.parts.end() || all[peer].step != plan.step) return false;
  return all[peer].row_of != 0 && all[peer].row_of == all[static_cast<std::size_t>(at - plan.parts.begin())].sum_of;
}

CAUSEWAY_DECL swarm_plan plan_shares(std::span<const swarm_holding> all, std::uint64_t step,
                                     const swarm_wire::batch_set& wanted, bool needs_part, bool late) {
  swarm_plan plan{.parts = std::vector(all.size(), swarm_part::nothing), .step = step, .late = late};
  swarm_wire::batch_set covered{wanted.size()};
  const auto has_sum = [step](const swarm_holding& h) { return h.sum && h.step == step; };
  if (const auto with = std::find_if(all.begin(), all.end(), has_sum); with != all.end()) {
    plan.parts[static_cast<std::size_t>(with - all.begin())] = swarm_part::sum;
    plan.complete = true;
    if (!late) return plan;
    if (with->done.size() == wanted.size()) covered = with->done;
  }
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (plan.parts[p] == swarm_part::sum) continue;
    if (all[p].step != step || all[p].done.size() != wanted.size() || all[p].done.count() == 0) continue;
    const bool doubled = all[p].done.meets(covered);
    plan.parts[p] = doubled ? swarm_part::dropped : swarm_part::own;
    if (!doubled) covered.unite(all[p].done);
  }
  for (const swarm_holding& h : all) {
    if (h.step == step && h.left_out.size() == wanted.size()) covered.unite(h.left_out);
  }
  const auto lets_go = [step](const swarm_holding& h) { return h.released && h.step == step; };
  plan.complete = plan.complete || covered == wanted || std::any_of(all.begin(), all.end(), lets_go);
  if (!needs_part) return plan;
  const auto has_part = [step](const swarm_holding& h) { return h.part && h.step == step; };
  const auto first = std::find_if(all.begin(), all.end(), has_part);
  if (first != all.end()) plan.adds_part = static_cast<std::size_t>(first - all.begin());
  plan.complete = plan.complete && first != all.end();
  return plan;
}

CAUSEWAY_DECL bool is_superfluous(std::span<const swarm_holding> all, const swarm_plan& plan, std::size_t self) {
  if (plan.parts[self] == swarm_part::dropped || plan.late) return plan.parts[self] == swarm_part::dropped;
  const bool known = std::find(plan.parts.begin(), plan.parts.end(), swarm_part::sum) != plan.parts.end();
  return known && all[self].done.count() > 0 && plan.parts[self] != swarm_part::sum && !is_in_result(all, plan, self);
}

CAUSEWAY_DECL bool has_doubles(std::span<const swarm_holding> all, const swarm_plan& plan, std::size_t self) {
  if (plan.parts[self] == swarm_part::dropped) return true;
  if (plan.parts[self] == swarm_part::sum || is_in_result(all, plan, self)) return false;
  const swarm_holding& own = all[self];
  for (std::size_t p = 0; p < all.size(); ++p) {
    const bool keeps = p < self || plan.parts[p] == swarm_part::sum || is_in_result(all, plan, p);
    const bool same_round = all[p].step == own.step && all[p].done.size() == own.done.size();
    if (p == self || !keeps || !same_round || plan.parts[p] == swarm_part::dropped) continue;
    if (own.done.meets(all[p].done)) return true;
  }
  return false;
}

CAUSEWAY_DECL std::vector<std::uint32_t> paths_of(std::span<const swarm_holding> all, const swarm_plan& plan,
                                                  std::span<const double> weights) {
  const auto with = std::find(plan.parts.begin(), plan.parts.end(), swarm_part::sum);
  if (with != plan.parts.end()) return all[static_cast<std::size_t>(with - plan.parts.begin())].sum_paths;
  std::vector<std::uint32_t> paths;
  for (std::size_t p = 0; p < all.size(); ++p)
    paths.push_back(weights[p] > 0 ? all[p].module_path : swarm_wire::no_module_path);
  return paths;
}

CAUSEWAY_DECL std::vector<double> weights_of(std::span<const swarm_holding> all, const swarm_plan& plan) {
  const bool known = std::find(plan.parts.begin(), plan.parts.end(), swarm_part::sum) != plan.parts.end();
  std::vector<double> weights(all.size(), 0.0);
  double together = 0;
  for (std::size_t p = 0; p < all.size(); ++p) {
    const bool counts = all[p].step == plan.step && plan.parts[p] != swarm_part::dropped;
    if (known) weights[p] = is_in_result(all, plan, p) ? 1 : 0;
    if (!known && counts) weights[p] = static_cast<double>(all[p].samples);
    together += weights[p];
  }
  if (!known && together == 0 && !plan.late) {  // nobody has anything new to say
    const bool any = std::any_of(all.begin(), all.end(), [](const swarm_holding& h) { return !h.lacks_values; });
    for (std::size_t p = 0; p < all.size(); ++p) together += weights[p] = any && all[p].lacks_values ? 0 : 1;
  }
  for (double& w : weights) w = together > 0 ? w / together : 0;
  return weights;
}

CAUSEWAY_DECL void swarm_gradients::begin(std::uint64_t step) {
  own_.clear();
  own_table_.clear();
  if (step_ == step) return;
  sum_.clear();
  has_sum_ = false;
}

CAUSEWAY_DECL void swarm_gradients::keep_sum(std::uint64_t step, std::vector<float> sum) {
  sum_ = std::move(sum);
  has_sum_ = true;
  step_ = step;
  ++version_;
}

CAUSEWAY_DECL void swarm_gradients::put_in(swarm_part part, std::span<float> gradients) {
  if (part == swarm_part::own) return;
  if (part != swarm_part::dropped) own_.assign(gradients.begin(), gradients.end());
  if (part == swarm_part::sum) {
    std::copy(sum_.begin(), sum_.end(), gradients.begin());
  } else {
    std::fill(gradients.begin(), gradients.end(), 0.0F);
  }
}

CAUSEWAY_DECL void swarm_gradients::put_in_mean(float factor, std::span<float> gradients) {
  own_.assign(gradients.begin(), gradients.end());
  for (float& v : gradients) v *= factor;
}

CAUSEWAY_DECL void swarm_gradients::add_part(std::span<const float> part, std::span<float> table) {
  own_table_.assign(table.begin(), table.end());
  for (std::size_t i = 0; i < table.size(); ++i) table[i] += part[i];
}

CAUSEWAY_DECL void swarm_gradients::restore(std::span<float> gradients, std::span<float> table) {
  if (!own_table_.empty()) std::copy(own_table_.begin(), own_table_.end(), table.begin());
  if (!own_.empty()) std::copy(own_.begin(), own_.end(), gradients.begin());
  own_.clear();
  own_table_.clear();
}

CAUSEWAY_DECL std::vector<std::byte> encode(const swarm_holding& h) {
  net::byte_writer out;
  out.put(h.step).put(
      static_cast<std::uint8_t>((h.sum ? 1 : 0) | (h.released ? 2 : 0) | (h.part ? 4 : 0) | (h.lacks_values ? 8 : 0)));
  out.put(h.samples).put(h.row_of).put(h.sum_of);
  h.done.put(out);
  out.put(h.module_path).put(static_cast<std::uint32_t>(h.sum_paths.size()));
  for (const std::uint32_t p : h.sum_paths) out.put(p);
  h.left_out.put(out);
  return std::move(out).take();
}

CAUSEWAY_DECL result<swarm_holding> decode_holding(std::span<const std::byte> bytes) {
  net::byte_reader in{bytes};
  swarm_holding h;
  h.step = in.get<std::uint64_t>();
  const auto flags = in.get<std::uint8_t>();
  if (flags > 15) in.refuse();
  h.sum = (flags & 1U) != 0;
  h.released = (flags & 2U) != 0;
  h.part = (flags & 4U) != 0;
  h.lacks_values = (flags & 8U) != 0;
  h.samples = in.get<std::uint64_t>();
  h.row_of = in.get<std::uint32_t>();
  h.sum_of = in.get<std::uint32_t>();
  h.done.get(in);
  h.module_path = in.get<std::uint32_t>();
  const auto paths = in.get<std::uint32_t>();
  if (paths > in.remaining() / 4) in.refuse();
  for (std::uint32_t p = 0; p < paths && in.ok(); ++p) h.sum_paths.push_back(in.get<std::uint32_t>());
  h.left_out.get(in);
  CAUSEWAY_TRY(in.finish("swarm holding"));
  return h;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SWARM_IMPL_SWARM_SHARES_IPP
