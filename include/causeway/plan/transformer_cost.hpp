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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

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
CAUSEWAY_DECL const transformer_shape* find_transformer(std::string_view name);

/// How numbers are kept.
struct training_bytes {
  double state = 16;      ///< per parameter: weight, gradient and Adam's moments in f32, or f16 with an f32 copy
  double gradient = 4;    ///< per parameter, when replicas average
  double activation = 2;  ///< per value that crosses a cut
};

/// Of the whole model.
CAUSEWAY_DECL double total_parameters(const transformer_shape& t);

/// Bytes from one stage to the next, for `tokens` tokens; their gradients are as many.
CAUSEWAY_DECL double boundary_bytes(const transformer_shape& t, double tokens, const training_bytes& bytes);

/// Bytes that a stage needs while it works on one block, once.
CAUSEWAY_DECL double working_bytes(const transformer_shape& t, double tokens);

/// Each block with micro-batches of `tokens` tokens. `seconds` are operations of forward, recomputed forward and backward,
/// and so seconds on a device of `speed` operations per second.
CAUSEWAY_DECL model_cost cost_of(const transformer_shape& t, double tokens, const training_bytes& bytes);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/transformer_cost.ipp>
#endif

#endif  // CAUSEWAY_PLAN_TRANSFORMER_COST_HPP
