// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_TRANSFORMER_COST_IPP
#define CAUSEWAY_PLAN_IMPL_TRANSFORMER_COST_IPP

#include <causeway/plan/transformer_cost.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan { namespace detail {

CAUSEWAY_DECL double matrix_parameters(const transformer_shape& t) {
  const auto w = static_cast<double>(t.width), h = static_cast<double>(t.hidden), kv = static_cast<double>(t.kv_width);
  return 2 * w * w + 2 * w * kv + (t.gated ? 3 : 2) * w * h;
}

/// Forward; the backward pass takes twice as much.
CAUSEWAY_DECL double block_operations(const transformer_shape& t) {
  return 2 * matrix_parameters(t) + 2 * static_cast<double>(t.context) * static_cast<double>(t.width);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::plan::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Of one block, with norms and biases.
CAUSEWAY_DECL double block_parameters(const transformer_shape& t) {
  const auto w = static_cast<double>(t.width), h = static_cast<double>(t.hidden), kv = static_cast<double>(t.kv_width);
  return detail::matrix_parameters(t) + (t.gated ? 2 * w : 4 * w + 2 * w + 2 * kv + h + w);
}

CAUSEWAY_DECL const transformer_shape* find_transformer(std::string_view name) {
  for (const transformer_shape& t : transformer_presets) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

CAUSEWAY_DECL double total_parameters(const transformer_shape& t) {
  const auto w = static_cast<double>(t.width), v = static_cast<double>(t.vocabulary);
  const double tables = v * w * (t.tied ? 1 : 2) + (t.gated ? 0 : static_cast<double>(t.context) * w);
  return static_cast<double>(t.layers) * block_parameters(t) + tables + (t.gated ? w : 2 * w);
}

CAUSEWAY_DECL double boundary_bytes(const transformer_shape& t, double tokens, const training_bytes& bytes) {
  return tokens * static_cast<double>(t.width) * bytes.activation;
}

CAUSEWAY_DECL double working_bytes(const transformer_shape& t, double tokens) {
  return 34 * tokens * static_cast<double>(t.width);
}

CAUSEWAY_DECL model_cost cost_of(const transformer_shape& t, double tokens, const training_bytes& bytes) {
  constexpr double passes = 4;  // forward, forward again, and twice that for the backward pass
  const auto w = static_cast<double>(t.width), v = static_cast<double>(t.vocabulary);
  model_cost m;
  const double block = block_parameters(t);
  m.blocks.assign(t.layers, {block, passes * tokens * detail::block_operations(t), block * bytes.state,
                             boundary_bytes(t, tokens, bytes)});
  m.embedding.parameters = v * w + (t.gated ? 0 : static_cast<double>(t.context) * w);
  m.embedding.memory = m.embedding.parameters * bytes.state;
  m.head.parameters = t.tied ? 0 : v * w;  // a tied table is counted once, but both ends hold it
  m.head.seconds = 3 * tokens * 2 * v * w;
  m.head.memory = v * w * bytes.state + 4 * tokens * v;  // and the logits
  return m;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_TRANSFORMER_COST_IPP
