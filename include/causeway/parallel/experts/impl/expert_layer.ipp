// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_LAYER_IPP
#define CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_LAYER_IPP

#include <causeway/parallel/experts/expert_layer.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL void layer_directory::extensions(stage::expert_id prefix, std::size_t axis,
                                               std::vector<std::uint32_t>& out) const {
  const std::uint64_t prefixes = grid_.places() / grid_.below(axis) / grid_.sides()[axis];
  all_.extensions(layer_ * prefixes + prefix, axis + 1, out);
}

CAUSEWAY_DECL expert_layer::expert_layer(expert_client& client, const stage::expert_grid& grid, std::uint32_t layer,
                                         stage::product_key_gate gate)
    : client_{&client}, grid_{grid}, layer_{layer}, gate_{std::move(gate)} {}

CAUSEWAY_DECL result<expert_layer> expert_layer::create(expert_client& client, const stage::product_key_options& gate,
                                                        std::uint32_t layer) {
  const expert_mixture_options& m = client.mixture();
  if (layer >= m.layers) {
    return fail(errc::invalid_argument, "expert_layer",
                "layer " + std::to_string(layer) + " of a mixture with " + std::to_string(m.layers));
  }
  const stage::expert_grid grid{m.sides};
  CAUSEWAY_ASSIGN(auto made, stage::product_key_gate::create(m.width, grid, gate));
  return expert_layer{client, grid, layer, std::move(made)};
}

CAUSEWAY_DECL result<expert_pass> expert_layer::forward(thread_pool& pool, std::span<const float> x, std::span<float> y) {
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

CAUSEWAY_DECL result<void> expert_layer::backward(thread_pool& pool, const expert_pass& pass, std::span<const float> dy,
                                                  std::span<float> dx) {
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

CAUSEWAY_DECL result<void> expert_layer::choose(thread_pool& pool, expert_pass& pass) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_EXPERTS_IMPL_EXPERT_LAYER_IPP
