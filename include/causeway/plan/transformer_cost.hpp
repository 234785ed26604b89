// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_TRANSFORMER_COST_HPP
#define CAUSEWAY_PLAN_TRANSFORMER_COST_HPP

// What a decoder-only transformer costs to train, from its sizes: parameters, operations, memory and what crosses a cut.
// Operations are those of the matrix products (2 per parameter and token) and of causal attention, which meets half of the
// context on average. Activations are recomputed block by block: of each micro-batch under way only the blocks' inputs are
// kept, and one block's 34 width bytes per token (Korthikanti et al. 2022, arXiv 2205.05198, table 2, without the scores,
// which a fused attention does not store).

#include <causeway/config/config.hpp>
#include <causeway/plan/stage_split.hpp>

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::plan {

/// The sizes of a model.
struct transformer_shape {
  std::string_view name;
  std::size_t layers = 1;
  std::size_t width = 1;
  std::size_t hidden = 4;    ///< of the feed-forward part
  std::size_t kv_width = 1;  ///< of keys and of values: width, or less with grouped queries
  std::size_t vocabulary = 1;
  std::size_t context = 1;  ///< tokens in a sequence
  bool gated = false;       ///< three feed-forward matrices, no biases and no table of positions: Llama; else GPT
  bool tied = true;         ///< the head is the embedding's table
};

inline constexpr std::array<transformer_shape, 14> transformer_presets{{
    {"gpt2", 12, 768, 3072, 768, 50257, 1024, false, true},
    {"gpt2-medium", 24, 1024, 4096, 1024, 50257, 1024, false, true},
    {"gpt2-large", 36, 1280, 5120, 1280, 50257, 1024, false, true},
    {"gpt2-xl", 48, 1600, 6400, 1600, 50257, 1024, false, true},
    {"gpt3-xl", 24, 2048, 8192, 2048, 50257, 2048, false, true},
    {"gpt3-6.7b", 32, 4096, 16384, 4096, 50257, 2048, false, true},
    {"gpt3-13b", 40, 5120, 20480, 5120, 50257, 2048, false, true},
    {"gpt3-175b", 96, 12288, 49152, 12288, 50257, 2048, false, true},
    {"llama-7b", 32, 4096, 11008, 4096, 32000, 2048, true, false},
    {"llama-13b", 40, 5120, 13824, 5120, 32000, 2048, true, false},
    {"llama-30b", 60, 6656, 17920, 6656, 32000, 2048, true, false},
    {"llama-65b", 80, 8192, 22016, 8192, 32000, 2048, true, false},
    {"llama3-8b", 32, 4096, 14336, 1024, 128256, 8192, true, false},
    {"llama3-70b", 80, 8192, 28672, 1024, 128256, 8192, true, false},
}};

/// The preset called `name`, or nullptr.
inline const transformer_shape* find_transformer(std::string_view name) {
  for (const transformer_shape& t : transformer_presets) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

/// How numbers are kept.
struct training_bytes {
  double state = 16;      ///< per parameter: weight, gradient and Adam's moments in f32, or f16 with an f32 copy
  double gradient = 4;    ///< per parameter, when replicas average
  double activation = 2;  ///< per value that crosses a cut
};

namespace detail {

inline double matrix_parameters(const transformer_shape& t) {
  const auto w = static_cast<double>(t.width), h = static_cast<double>(t.hidden), kv = static_cast<double>(t.kv_width);
  return 2 * w * w + 2 * w * kv + (t.gated ? 3 : 2) * w * h;
}

/// Forward; the backward pass takes twice as much.
inline double block_operations(const transformer_shape& t) {
  return 2 * matrix_parameters(t) + 2 * static_cast<double>(t.context) * static_cast<double>(t.width);
}

}  // namespace detail

/// Of one block, with norms and biases.
inline double block_parameters(const transformer_shape& t) {
  const auto w = static_cast<double>(t.width), h = static_cast<double>(t.hidden), kv = static_cast<double>(t.kv_width);
  return detail::matrix_parameters(t) + (t.gated ? 2 * w : 4 * w + 2 * w + 2 * kv + h + w);
}

/// Of the whole model.
inline double total_parameters(const transformer_shape& t) {
  const auto w = static_cast<double>(t.width), v = static_cast<double>(t.vocabulary);
  const double tables = v * w * (t.tied ? 1 : 2) + (t.gated ? 0 : static_cast<double>(t.context) * w);
  return static_cast<double>(t.layers) * block_parameters(t) + tables + (t.gated ? w : 2 * w);
}

/// Bytes from one stage to the next, for `tokens` tokens; their gradients are as many.
inline double boundary_bytes(const transformer_shape& t, double tokens, const training_bytes& bytes) {
  return tokens * static_cast<double>(t.width) * bytes.activation;
}

/// Bytes that a stage needs while it works on one block, once.
inline double working_bytes(const transformer_shape& t, double tokens) {
  return 34 * tokens * static_cast<double>(t.width);
}

/// Each block with micro-batches of `tokens` tokens. `seconds` are operations of forward, recomputed forward and backward,
/// and so seconds on a device of `speed` operations per second.
inline model_cost cost_of(const transformer_shape& t, double tokens, const training_bytes& bytes) {
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

}  // namespace causeway::inline CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_TRANSFORMER_COST_HPP
