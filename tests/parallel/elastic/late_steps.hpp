// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_LATE_STEPS_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_LATE_STEPS_HPP

// What plain SGD comes to in elastic pipelines where rows of gradients are a step late, by the layouts of a run.

#include <causeway/nn/gpt.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/parallel/elastic/block_segments.hpp>
#include <causeway/stage/layout.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_world.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

namespace support {

/// Of a global batch what each assigned peer computes.
inline std::map<std::uint64_t, std::vector<std::size_t>> micro_batches_of(const causeway::stage::layout& l) {
  std::map<std::uint64_t, std::vector<std::size_t>> all;
  if (l.has_unassigned()) {
    const auto peers = l.assigned();
    const auto routes = l.routes();
    for (std::size_t m = 0; m < routes.size(); ++m) {
      for (const std::uint32_t at : routes[m]) all[peers[at]].push_back(m);
    }
    return all;
  }
  for (std::size_t r = 0; r < l.replicas.size(); ++r) {
    for (const causeway::stage::assignment& s : l.replicas[r].assignments) {
      for (std::uint32_t m = 0; m < l.replicas[r].micro_batches; ++m) all[s.peer].push_back(l.first_micro_batch(r) + m);
    }
  }
  return all;
}

/// Each step is made of the rows of the step before, of those peers that are there still and exchange the same blocks,
/// weighted by the micro-batches behind them; of no rows at all if some blocks have none.
class late_steps {
 public:
  /// `ahead`: gradients are taken where a peer's own rows of the step before would bring its blocks.
  late_steps(const elastic_world_options& o, bool ahead)
      : o_{o}, ahead_{ahead}, model_{*causeway::nn::gpt::create(small_gpt(o.layers), causeway::kernels::cpu_backend{1})} {}

  void step(const causeway::stage::layout& l, std::uint64_t number) {
    const auto segments = causeway::parallel::segments_of(l, o_.layers);
    const auto computed = micro_batches_of(l);
    const auto gradients = gradients_of(computed, segments, number);
    sum_.assign(values().size(), 0.0F);
    weights_.assign(static_cast<std::size_t>(o_.layers), 0.0);
    std::map<std::uint64_t, rows> now;
    for (const auto& [peer, micro_batches] : computed) {
      rows& made = now[peer];
      made.weight = static_cast<double>(micro_batches.size());
      made.mean.assign(sum_.size(), 0.0F);
      for (const std::size_t m : micro_batches) {
        for (std::size_t i = 0; i < sum_.size(); ++i) made.mean[i] += gradients[m][i] / static_cast<float>(made.weight);
      }
      for (const auto& s : segments) {
        if (s.is_computed_by(peer)) made.of.push_back(s.blocks);
      }
      add_rows_of(peer, made.of);
    }
    before_ = std::move(now);
    if (std::find(weights_.begin(), weights_.end(), 0.0) == weights_.end()) move();
  }

  [[nodiscard]] parameters reached() {
    parameters all;
    detail::collect(model_.parameters(), all);
    return all;
  }

 private:
  using block_range = causeway::nn::block_range;
  struct rows {
    std::vector<block_range> of;
    double weight = 0;
    std::vector<float> mean;  // of the whole model
  };

  [[nodiscard]] std::span<float> values() { return model_.parameters().values(); }
  [[nodiscard]] std::span<float> place(std::span<float> all, const block_range& r) {
    return causeway::parallel::blocks_in(all, model_.parameters().segments(), r, o_.layers);
  }

  [[nodiscard]] bool has_row(std::uint64_t peer, const block_range& blocks) const {
    const auto had = before_.find(peer);
    if (had == before_.end()) return false;
    return std::find(had->second.of.begin(), had->second.of.end(), blocks) != had->second.of.end();
  }
  void add_rows_of(std::uint64_t peer, const std::vector<block_range>& wanted) {
    if (!std::all_of(wanted.begin(), wanted.end(), [&](const auto& r) { return has_row(peer, r); })) return;
    rows& had = before_.at(peer);
    for (const block_range& r : wanted) {
      const auto from = place(had.mean, r), to = place(sum_, r);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += static_cast<float>(had.weight) * from[i];
      for (std::int64_t k = r.first; k < r.last; ++k) weights_[static_cast<std::size_t>(k)] += had.weight;
    }
  }

  // [micro-batch]: of the whole model, each taken through the peers that compute it.
  [[nodiscard]] std::vector<std::vector<float>> gradients_of(
      const std::map<std::uint64_t, std::vector<std::size_t>>& computed,
      const std::vector<causeway::parallel::block_segment>& segments, std::uint64_t number) {
    const token_batch b{0, number - 1, o_.micro_batches};
    auto& store = model_.parameters();
    const std::vector<float> live{values().begin(), values().end()};
    std::vector<std::vector<float>> all;
    for (std::int64_t m = 0; m < o_.micro_batches; ++m) {
      for (const auto& [peer, micro_batches] : computed) {
        const bool passes = std::find(micro_batches.begin(), micro_batches.end(), m) != micro_batches.end();
        if (ahead_ && passes) look_ahead(peer, segments);
      }
      store.touch();
      const causeway::batch one = b.view().slice(m, 1);
      std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
      REQUIRE(model_.forward_backward(one.inputs, one.targets, one.sequences, 1.0F / static_cast<float>(one.tokens()), 0));
      all.emplace_back(store.gradients().begin(), store.gradients().end());
      std::copy(live.begin(), live.end(), values().begin());
      store.touch();
    }
    return all;
  }
  void look_ahead(std::uint64_t peer, const std::vector<causeway::parallel::block_segment>& segments) {
    for (const auto& s : segments) {
      if (!s.is_computed_by(peer) || !has_row(peer, s.blocks)) continue;
      const auto row = place(before_.at(peer).mean, s.blocks), to = place(values(), s.blocks);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] -= row[i] > 0 ? rate : row[i] < 0 ? -rate : 0.0F;
    }
  }

  void move() {
    double squares = 0;
    for (std::int64_t k = 0; k < o_.layers; ++k) {
      for (float& v : place(sum_, {k, k + 1})) {
        v /= static_cast<float>(weights_[static_cast<std::size_t>(k)]);
        squares += double{v} * v;
      }
    }
    const float by = rate * causeway::optim::clip_scale(static_cast<float>(std::sqrt(squares)), o_.clip_norm);
    for (std::size_t i = 0; i < sum_.size(); ++i) values()[i] -= by * sum_[i];
    model_.parameters().touch();
  }

  static constexpr float rate = 0.01F;

  elastic_world_options o_;
  bool ahead_;
  causeway::nn::gpt model_;
  std::map<std::uint64_t, rows> before_;
  std::vector<float> sum_;
  std::vector<double> weights_;  // [block]
};

/// `taken`: the layout of each step.
inline parameters late_steps_by_hand(const elastic_world_options& o,
                                     const std::map<std::uint64_t, causeway::stage::layout>& taken, bool ahead = false) {
  late_steps all{o, ahead};
  for (std::uint64_t step = 1; step <= o.steps; ++step) all.step(taken.at(step), step);
  return all.reached();
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_LATE_STEPS_HPP
