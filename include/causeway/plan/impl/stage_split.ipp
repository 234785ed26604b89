// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_STAGE_SPLIT_IPP
#define CAUSEWAY_PLAN_IMPL_STAGE_SPLIT_IPP

#include <causeway/plan/stage_split.hpp>

#include <cmath>
#include <cstdio>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL result<void> check_stages(std::size_t blocks, std::size_t stages) {
  if (stages > 0 && stages <= blocks) return {};
  return fail(errc::invalid_argument, "stages",
              std::to_string(blocks) + " blocks do not go into " + std::to_string(stages) +
                  " stages; each stage needs a block: take 1 to " + std::to_string(blocks));
}

/// Splits `blocks` into `stages` runs of at least one so that the largest `load(stage, from, to)` is least, and then the
/// sum of its squares. Infinite loads are not allowed; an infinite optimum: nothing fits. O(stages blocks^2) loads.
template <class Load>
  requires requires(Load& f, std::size_t i) {
    { f(i, i, i) } -> ConvertibleTo<double>;
  }
stage_split least_largest(std::size_t blocks, std::size_t stages, Load load) {
  constexpr double none = std::numeric_limits<double>::infinity();
  const std::size_t width = blocks + 1;
  // best[s * width + b]: blocks [0, b) in s stages. First for the largest load, then for the squares under that limit.
  std::vector<double> best;
  std::vector<std::size_t> cut((stages + 1) * width);
  const auto fill = [&](auto joined) {
    best.assign((stages + 1) * width, none);
    best[0] = 0;
    for (std::size_t s = 1; s <= stages; ++s) {
      for (std::size_t b = s; b <= blocks - (stages - s); ++b) {
        for (std::size_t c = s - 1; c < b; ++c) {
          const double before = best[(s - 1) * width + c];
          const double cost = before == none ? none : joined(before, load(s - 1, c, b));
          if (cost >= best[s * width + b]) continue;
          best[s * width + b] = cost;
          cut[s * width + b] = c;
        }
      }
    }
    return best.back();
  };
  const double limit = fill([](double before, double stage) { return std::max(before, stage); });
  stage_split split{std::vector<std::size_t>(stages), blocks, limit};
  if (limit == none) return split;
  fill([&](double before, double stage) { return stage <= limit ? before + stage * stage : none; });
  for (std::size_t s = stages, b = blocks; s > 0; b = split.first_block[--s]) split.first_block[s - 1] = cut[s * width + b];
  return split;
}

CAUSEWAY_DECL std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", std::ceil(bytes * 1e-7) * 1e-2);
  return text;
}

CAUSEWAY_DECL stage_sums::stage_sums(const model_cost& model) : model_{model}, before_(model.blocks.size() + 1) {
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    before_[b + 1] = before_[b];
    before_[b + 1] += model.blocks[b];
  }
}

CAUSEWAY_DECL double stage_sums::of(double block_cost::*what, std::size_t from, std::size_t to) const {
  double sum = before_[to].*what - before_[from].*what;
  if (from == 0) sum += model_.embedding.*what;
  if (to + 1 == before_.size()) sum += model_.head.*what;
  return sum;
}

CAUSEWAY_DECL double stage_sums::memory(const stage_device& d, std::size_t from, std::size_t to) const {
  return of(&block_cost::memory, from, to) + d.under_way * of(&block_cost::activation, from, to);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL block_cost& block_cost::operator+=(const block_cost& o) noexcept {
  parameters += o.parameters;
  seconds += o.seconds;
  memory += o.memory;
  activation += o.activation;
  return *this;
}

CAUSEWAY_DECL std::size_t stage_split::end(std::size_t stage) const {
  return stage + 1 < first_block.size() ? first_block[stage + 1] : blocks;
}

CAUSEWAY_DECL std::vector<std::int64_t> stage_split::cuts() const {
  std::vector<std::int64_t> some;
  for (std::size_t s = 1; s < first_block.size(); ++s) some.push_back(static_cast<std::int64_t>(first_block[s]));
  return some;
}

CAUSEWAY_DECL block_cost cost_of_stage(const model_cost& model, std::size_t from, std::size_t to) {
  block_cost sum;
  if (from == 0) sum += model.embedding;
  for (std::size_t b = from; b < to; ++b) sum += model.blocks[b];
  if (to == model.blocks.size()) sum += model.head;
  return sum;
}

CAUSEWAY_DECL result<stage_split> split_evenly(std::size_t blocks, std::size_t stages) {
  CAUSEWAY_TRY(detail::check_stages(blocks, stages));
  stage_split split{std::vector<std::size_t>(stages), blocks, static_cast<double>((blocks + stages - 1) / stages)};
  for (std::size_t s = 0; s < stages; ++s) split.first_block[s] = s * blocks / stages;
  return split;
}

CAUSEWAY_DECL result<stage_split> split_by_parameters(const model_cost& model, std::size_t stages) {
  CAUSEWAY_TRY(detail::check_stages(model.blocks.size(), stages));
  const detail::stage_sums sums{model};
  return detail::least_largest(model.blocks.size(), stages, [&](std::size_t, std::size_t from, std::size_t to) {
    return sums.of(&block_cost::parameters, from, to);
  });
}

CAUSEWAY_DECL result<stage_split> split_by_time(const model_cost& model, std::span<const stage_device> devices) {
  const std::size_t blocks = model.blocks.size();
  CAUSEWAY_TRY(detail::check_stages(blocks, devices.size()));
  const detail::stage_sums sums{model};
  const stage_split split = detail::least_largest(blocks, devices.size(), [&](auto s, auto from, auto to) {
    CAUSEWAY_EXPECT(devices[s].speed > 0);
    if (sums.memory(devices[s], from, to) > devices[s].memory) return std::numeric_limits<double>::infinity();
    return sums.of(&block_cost::seconds, from, to) / devices[s].speed;
  });
  if (split.slowest < std::numeric_limits<double>::infinity()) return split;
  const double enough = detail::least_largest(blocks, devices.size(), [&](auto s, auto from, auto to) {
                          return sums.memory(devices[s], from, to);
                        }).slowest;
  return fail(errc::out_of_memory, "stages",
              "no cut into " + std::to_string(devices.size()) + " stages fits the devices' memory; " +
                  detail::gigabytes(enough) + " on each would do, or take more stages or fewer micro-batches under way");
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_STAGE_SPLIT_IPP
