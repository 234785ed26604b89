// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERT_LAYER_HPP
#define CAUSEWAY_PARALLEL_EXPERT_LAYER_HPP

// A layer whose parameters lie on other peers (the decentralised mixture of experts of Learning@home: Ryabinin and Gusev,
// NeurIPS 2020). A gate chooses a few experts for each row among those that have announced themselves, the rows travel to
// their hosts, and y = Σ w·f(x) over the experts that answered in time. A backward brings each expert its rows again; who
// does not answer then is not trained this time, and its part of the gradient is missing.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/parallel/expert_client.hpp>
#include <causeway/parallel/expert_host.hpp>
#include <causeway/stage/expert_directory.hpp>
#include <causeway/stage/product_key_gate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// The experts of one layer among those of all. Refers to `all`.
class layer_directory {
 public:
  layer_directory(const stage::expert_directory& all, const stage::expert_grid& grid, std::uint32_t layer)
      : all_{all}, grid_{grid}, layer_{layer} {}
  [[nodiscard]] const stage::expert_grid& grid() const noexcept { return grid_; }
  void extensions(stage::expert_id prefix, std::size_t axis, std::vector<std::uint32_t>& out) const {
    const std::uint64_t prefixes = grid_.places() / grid_.below(axis) / grid_.sides()[axis];
    all_.extensions(layer_ * prefixes + prefix, axis + 1, out);
  }

 private:
  const stage::expert_directory& all_;
  const stage::expert_grid& grid_;
  std::uint64_t layer_;
};
static_assert(stage::ExpertDirectory<layer_directory>);

/// A micro-batch between its forward and its backward.
struct expert_pass {
  std::vector<float> x;
  stage::expert_choices choices;         ///< numbers within the layer
  std::vector<stage::expert_id> expert;  ///< of each choice, in the whole mixture
  std::vector<std::size_t> row;          ///< of each choice
  std::vector<std::uint8_t> answered;    ///< of each choice
  std::vector<float> weights;            ///< of each choice
  std::vector<float> outputs;            ///< of each choice, `width` values; zeros where it did not answer
};

/// One thread. Bytes for each row and expert: 4 · width there and back in a forward, twice as many there in a backward.
class expert_layer {
 public:
  /// `client` outlives the layer. errc::invalid_argument for a gate that cannot work or a layer that is none.
  static result<expert_layer> create(expert_client& client, const stage::product_key_options& gate = {},
                                     std::uint32_t layer = 0) {
    const expert_mixture_options& m = client.mixture();
    if (layer >= m.layers) {
      return fail(errc::invalid_argument, "expert_layer",
                  "layer " + std::to_string(layer) + " of a mixture with " + std::to_string(m.layers));
    }
    const stage::expert_grid grid{m.sides};
    CAUSEWAY_ASSIGN(auto made, stage::product_key_gate::create(m.width, grid, gate));
    return expert_layer{client, grid, layer, std::move(made)};
  }

  /// y = Σ w·f(x) for x [rows, width]; zero for rows of which no expert answered. errc::timeout where that is all of them:
  /// nobody is there to be trained.
  result<expert_pass> forward(thread_pool& pool, std::span<const float> x, std::span<float> y) {
    CAUSEWAY_EXPECT(y.size() == x.size() && x.size() % width() == 0);
    expert_pass pass{
        .x = {x.begin(), x.end()}, .choices = {}, .expert = {}, .row = {}, .answered = {}, .weights = {}, .outputs = {}};
    CAUSEWAY_TRY(choose(pool, pass));
    pass.outputs.assign(pass.row.size() * width(), 0.0F);
    CAUSEWAY_ASSIGN(pass.answered, client_->ask({pass.expert, pass.row, pass.x}, pass.outputs));
    pass.weights.assign(pass.row.size(), 0.0F);
    stage::weigh_experts(pass.choices, pass.answered, pass.weights);
    std::fill(y.begin(), y.end(), 0.0F);
    for (std::size_t c = 0; c < pass.row.size(); ++c) {
      for (std::size_t i = 0; i < width(); ++i)
        y[pass.row[c] * width() + i] += pass.weights[c] * pass.outputs[c * width() + i];
    }
    if (x.empty() || std::any_of(pass.answered.begin(), pass.answered.end(), [](auto a) { return a != 0; })) return pass;
    return fail(errc::timeout, "expert_layer",
                "no expert has answered; are their hosts running, and reachable at the addresses to dial?");
  }

  /// dx ← the gradient by x where dy is that by y; adds to the gate's gradients. Experts move by themselves.
  result<void> backward(thread_pool& pool, const expert_pass& pass, std::span<const float> dy, std::span<float> dx) {
    CAUSEWAY_EXPECT(dy.size() == pass.x.size() && dx.size() == dy.size());
    const std::size_t count = pass.row.size();
    std::vector<float> d_weights(count), d_outputs(count * width()), d_inputs(count * width());
    for (std::size_t c = 0; c < count; ++c) {
      for (std::size_t i = 0; i < width(); ++i) {
        const float d = dy[pass.row[c] * width() + i];
        d_weights[c] += d * pass.outputs[c * width() + i];
        d_outputs[c * width() + i] = pass.weights[c] * d;
      }
    }
    CAUSEWAY_ASSIGN(const auto answered, client_->ask({pass.expert, pass.row, pass.x, d_outputs, pass.answered}, d_inputs));
    std::fill(dx.begin(), dx.end(), 0.0F);
    for (std::size_t c = 0; c < count; ++c) {
      lost_ += pass.answered[c] != answered[c] ? 1U : 0U;
      for (std::size_t i = 0; i < width(); ++i) dx[pass.row[c] * width() + i] += d_inputs[c * width() + i];
    }
    stage::weigh_experts_backward(pass.choices, pass.weights, d_weights);
    gate_.backward(pool, pass.x, pass.choices, d_weights, dx);
    return {};
  }

  [[nodiscard]] stage::product_key_gate& gate() noexcept { return gate_; }
  /// Rows whose backward an expert did not answer.
  [[nodiscard]] std::uint64_t lost_backwards() const noexcept { return lost_; }

 private:
  expert_layer(expert_client& client, const stage::expert_grid& grid, std::uint32_t layer, stage::product_key_gate gate)
      : client_{&client}, grid_{grid}, layer_{layer}, gate_{std::move(gate)} {}

  [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(client_->mixture().width); }

  result<void> choose(thread_pool& pool, expert_pass& pass) {
    const stage::expert_directory all = client_->alive();
    CAUSEWAY_ASSIGN(pass.choices,
                    gate_.choose(pool, pass.x, layer_directory{all, grid_, static_cast<std::uint32_t>(layer_)}));
    for (std::size_t r = 0; r < pass.choices.rows(); ++r) {
      for (std::size_t c = pass.choices.first[r]; c < pass.choices.first[r + 1]; ++c) {
        pass.row.push_back(r);
        pass.expert.push_back(layer_ * grid_.places() + pass.choices.all[c].expert);
      }
    }
    return {};
  }

  expert_client* client_;
  stage::expert_grid grid_;
  std::uint64_t layer_;
  stage::product_key_gate gate_;
  std::uint64_t lost_ = 0;
};

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_EXPERT_LAYER_HPP
