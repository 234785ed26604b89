// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_STAGE_SPLIT_HPP
#define CAUSEWAY_PLAN_STAGE_SPLIT_HPP

// Where to cut a model into the stages of a pipeline: consecutive blocks, at least one for each stage, the embedding with
// the first and the head with the last. The slowest stage sets the pace, so it is made as quick as can be within what the
// devices can hold; among the splits that reach this pace the most balanced one is taken. Exact, by dynamic programming.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// What a part of a model costs whoever holds it.
struct block_cost {
  double parameters = 0;
  double seconds = 0;     ///< forward and backward of a micro-batch, on a device of speed 1
  double memory = 0;      ///< bytes of parameters, gradients and optimizer state
  double activation = 0;  ///< bytes kept for the backward pass, for each micro-batch under way

  CAUSEWAY_DECL block_cost& operator+=(const block_cost& o) noexcept;
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
  CAUSEWAY_DECL [[nodiscard]] std::size_t end(std::size_t stage) const;
  /// As parallel::pipeline takes them: the first block of each stage but the first.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::int64_t> cuts() const;
};

/// The blocks [from, to) of `model` as a stage, with the embedding and the head where it holds them.
CAUSEWAY_DECL block_cost cost_of_stage(const model_cost& model, std::size_t from, std::size_t to);

namespace detail {

/// Sums over runs of blocks in constant time.
class stage_sums {
 public:
  CAUSEWAY_DECL explicit stage_sums(const model_cost& model);

  CAUSEWAY_DECL [[nodiscard]] double of(double block_cost::*what, std::size_t from, std::size_t to) const;

  CAUSEWAY_DECL [[nodiscard]] double memory(const stage_device& d, std::size_t from, std::size_t to) const;

 private:
  const model_cost& model_;
  std::vector<block_cost> before_;
};

}  // namespace detail

/// As many blocks in each stage as in any other, or one more. errc::invalid_argument: fewer blocks than stages.
CAUSEWAY_DECL result<stage_split> split_evenly(std::size_t blocks, std::size_t stages);

/// The largest stage has as few parameters as can be. errc::invalid_argument: fewer blocks than stages.
CAUSEWAY_DECL result<stage_split> split_by_parameters(const model_cost& model, std::size_t stages);

/// Stage s on `devices[s]`: the slowest takes as little time as can be, and each fits its device's memory.
/// errc::invalid_argument: fewer blocks than devices; errc::out_of_memory: no split fits, with the least memory of every
/// device at which one would.
CAUSEWAY_DECL result<stage_split> split_by_time(const model_cost& model, std::span<const stage_device> devices);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/stage_split.ipp>
#endif

#endif  // CAUSEWAY_PLAN_STAGE_SPLIT_HPP
