// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_STAGE_SPLIT_HPP
#define CAUSEWAY_PLAN_STAGE_SPLIT_HPP

// Where to cut a model into the stages of a pipeline: consecutive blocks, at least one for each stage, the embedding with
// the first and the head with the last. The slowest stage sets the pace, so it is made as quick as can be within what the
// devices can hold; among the splits that reach this pace the most balanced one is taken. Exact, by dynamic programming.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// What a part of a model costs whoever holds it.
struct block_cost {
  double parameters = 0;
  double seconds = 0;     ///< forward and backward of a micro-batch, on a device of speed 1
  double memory = 0;      ///< bytes of parameters, gradients and optimizer state
  double activation = 0;  ///< bytes kept for the backward pass, for each micro-batch under way

  block_cost& operator+=(const block_cost& o) noexcept {
    parameters += o.parameters;
    seconds += o.seconds;
    memory += o.memory;
    activation += o.activation;
    return *this;
  }
};

/// A model as it can be cut.
struct model_cost {
  std::vector<block_cost> blocks;
  block_cost embedding;  ///< always in the first stage
  block_cost head;       ///< always in the last stage; of a tied table what the second copy costs
};

/// Who takes a stage.
struct stage_device {
  double speed = 1;                                         ///< > 0
  double memory = std::numeric_limits<double>::infinity();  ///< bytes, >= 0
  double under_way = 1;                                     ///< micro-batches whose activations it keeps: 1F1B: P - stage
};

/// Where stages begin.
struct stage_split {
  std::vector<std::size_t> first_block;  ///< of each stage; the first is 0
  std::size_t blocks = 0;
  double slowest = 0;  ///< of the stages: seconds, or parameters, or blocks, as the split was made

  [[nodiscard]] std::size_t stages() const noexcept { return first_block.size(); }
  [[nodiscard]] std::size_t end(std::size_t stage) const {
    return stage + 1 < first_block.size() ? first_block[stage + 1] : blocks;
  }
  /// As parallel::pipeline takes them: the first block of each stage but the first.
  [[nodiscard]] std::vector<std::int64_t> cuts() const {
    std::vector<std::int64_t> some;
    for (std::size_t s = 1; s < first_block.size(); ++s) some.push_back(static_cast<std::int64_t>(first_block[s]));
    return some;
  }
};

/// The blocks [from, to) of `model` as a stage, with the embedding and the head where it holds them.
inline block_cost cost_of_stage(const model_cost& model, std::size_t from, std::size_t to) {
  block_cost sum;
  if (from == 0) sum += model.embedding;
  for (std::size_t b = from; b < to; ++b) sum += model.blocks[b];
  if (to == model.blocks.size()) sum += model.head;
  return sum;
}

namespace detail {

/// Splits `blocks` into `stages` runs of at least one so that the largest `load(stage, from, to)` is least, and then the
/// sum of its squares. Infinite loads are not allowed; an infinite optimum: nothing fits. O(stages blocks^2) loads.
template <class Load>
  requires requires(Load& f, std::size_t i) {
    { f(i, i, i) } -> std::convertible_to<double>;
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

/// Sums over runs of blocks in constant time.
class stage_sums {
 public:
  explicit stage_sums(const model_cost& model) : model_{model}, before_(model.blocks.size() + 1) {
    for (std::size_t b = 0; b < model.blocks.size(); ++b) {
      before_[b + 1] = before_[b];
      before_[b + 1] += model.blocks[b];
    }
  }

  [[nodiscard]] double of(double block_cost::*what, std::size_t from, std::size_t to) const {
    double sum = before_[to].*what - before_[from].*what;
    if (from == 0) sum += model_.embedding.*what;
    if (to + 1 == before_.size()) sum += model_.head.*what;
    return sum;
  }

  [[nodiscard]] double memory(const stage_device& d, std::size_t from, std::size_t to) const {
    return of(&block_cost::memory, from, to) + d.under_way * of(&block_cost::activation, from, to);
  }

 private:
  const model_cost& model_;
  std::vector<block_cost> before_;
};

inline result<void> check_stages(std::size_t blocks, std::size_t stages) {
  if (stages > 0 && stages <= blocks) return {};
  return fail(errc::invalid_argument, "stages",
              std::to_string(blocks) + " blocks do not go into " + std::to_string(stages) +
                  " stages; each stage needs a block: take 1 to " + std::to_string(blocks));
}

inline std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", std::ceil(bytes * 1e-7) * 1e-2);
  return text;
}

}  // namespace detail

/// As many blocks in each stage as in any other, or one more. errc::invalid_argument: fewer blocks than stages.
inline result<stage_split> split_evenly(std::size_t blocks, std::size_t stages) {
  CAUSEWAY_TRY(detail::check_stages(blocks, stages));
  stage_split split{std::vector<std::size_t>(stages), blocks, static_cast<double>((blocks + stages - 1) / stages)};
  for (std::size_t s = 0; s < stages; ++s) split.first_block[s] = s * blocks / stages;
  return split;
}

/// The largest stage has as few parameters as can be. errc::invalid_argument: fewer blocks than stages.
inline result<stage_split> split_by_parameters(const model_cost& model, std::size_t stages) {
  CAUSEWAY_TRY(detail::check_stages(model.blocks.size(), stages));
  const detail::stage_sums sums{model};
  return detail::least_largest(model.blocks.size(), stages, [&](std::size_t, std::size_t from, std::size_t to) {
    return sums.of(&block_cost::parameters, from, to);
  });
}

/// Stage s on `devices[s]`: the slowest takes as little time as can be, and each fits its device's memory.
/// errc::invalid_argument: fewer blocks than devices; errc::out_of_memory: no split fits, with the least memory of every
/// device at which one would.
inline result<stage_split> split_by_time(const model_cost& model, std::span<const stage_device> devices) {
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

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_STAGE_SPLIT_HPP
