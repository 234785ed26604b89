// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_LATE_MODEL_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_LATE_MODEL_HPP

// What an asynchronous pipeline of two stages does, with a whole model.

#include <causeway/nn/gpt.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

namespace support {

/// One replica's steps of a round written down a second time. Both stages compute with what they have at a step's begin.
/// The second moves by all micro-batches of the step; the first by those but for the last, with that of the step before.
/// In the last step of a round the last one counts, too: for itself where the stage stood still in the first step.
class late_model {
 public:
  late_model(const elastic_world_options& o, std::int64_t pieces)
      : pieces_{pieces}, model_{*causeway::nn::gpt::create(small_gpt(o.layers), causeway::kernels::cpu_backend{1})} {
    auto first =
        causeway::nn::gpt::create(small_gpt(o.layers), causeway::kernels::cpu_backend{1}, causeway::nn::model_part{{0, 2}});
    for (const auto& s : first->parameters().segments()) ++of_first_[s.name];
    now.assign(store().values().begin(), store().values().end());
    for (auto& one : inner_) one.reset(store().length());
  }

  void step(const causeway::batch& b, bool is_last) {
    std::vector<float> first = std::exchange(late_, {}), second(now.size(), 0.0F);
    std::int64_t came = first.empty() ? 0 : 1;
    first.resize(now.size(), 0.0F);
    for (std::int64_t i = 0; i < pieces_; ++i) {
      const auto g = gradient(b.slice(i, 1));
      add(second, g);
      if (i + 1 == pieces_) late_ = g;
      if (i + 1 == pieces_ && (!is_last || pieces_ == 1)) break;
      add(first, g);
      ++came;
    }
    if (came > 0) move(true, first, came);
    move(false, second, pieces_);
    if (is_last && pieces_ == 1) move(true, late_, 1);
    if (is_last) late_.clear();
  }

  [[nodiscard]] parameters named() {
    std::copy(now.begin(), now.end(), store().values().begin());
    parameters all;
    detail::collect(store(), all);
    return all;
  }

  std::vector<float> now;

 private:
  causeway::parameter_store& store() { return model_.parameters(); }
  static void add(std::vector<float>& to, const std::vector<float>& g) {
    for (std::size_t i = 0; i < g.size(); ++i) to[i] += g[i];
  }

  std::vector<float> gradient(const causeway::batch& b) {
    auto& p = store();
    std::copy(now.begin(), now.end(), p.values().begin());
    p.touch();
    std::fill(p.gradients().begin(), p.gradients().end(), 0.0F);
    REQUIRE(model_.forward_backward(b.inputs, b.targets, b.sequences, 1 / static_cast<float>(b.tokens()), 0));
    return {p.gradients().begin(), p.gradients().end()};
  }

  // One of the stages, by the mean of `count` gradients. The other one's optimizer does not notice.
  void move(bool of_first, const std::vector<float>& sum, std::int64_t count) {
    auto& p = store();
    std::copy(now.begin(), now.end(), p.values().begin());
    for (std::size_t i = 0; i < sum.size(); ++i) p.gradients()[i] = sum[i] / static_cast<float>(count);
    inner_[of_first ? 0 : 1].step(model_.backend().pool(), p.view(), {.learning_rate = 0.01F, .gradient_scale = 1.0F});
    for (const auto& s : p.segments()) {
      if (of_first_.contains(s.name) == of_first)
        std::copy_n(p.values().begin() + s.offset, s.size(), now.begin() + s.offset);
    }
  }

  std::int64_t pieces_;
  causeway::nn::gpt model_;
  std::array<causeway::optim::adamw, 2> inner_;
  std::map<std::string, int> of_first_;
  std::vector<float> late_;  // the last micro-batch's gradient, which is not back at the first stage
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_LATE_MODEL_HPP
