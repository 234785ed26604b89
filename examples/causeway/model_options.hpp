// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_MODEL_OPTIONS_HPP
#define CAUSEWAY_EXAMPLES_MODEL_OPTIONS_HPP

// From settings to the shapes of models.

#include <causeway/nn/gpt.hpp>
#include <causeway/nn/llama.hpp>

#include <cstdint>

#include "settings.hpp"

// Compiled once, in models.cpp: four files train them.
extern template class causeway::nn::language_model<causeway::nn::gpt_family>;
extern template class causeway::nn::language_model<causeway::nn::llama_family>;

namespace app {

inline causeway::nn::precision precision_of(const settings& s) {
  return s.model.precision == "bf16" ? causeway::nn::precision::bf16 : causeway::nn::precision::f32;
}

/// Peers of a swarm that step alone do not share a table with another stage.
inline bool ties_embeddings(const settings& s) { return !is_swarm(s) || s.comm.policy == "every_step"; }

inline causeway::nn::gpt_options gpt_options_of(const settings& s, std::int64_t vocabulary) {
  return {.layers = s.model.layers,
          .heads = s.model.heads,
          .width = s.model.width,
          .context = s.model.context,
          .vocabulary = vocabulary,
          .dropout = s.model.dropout,
          .tie = ties_embeddings(s),
          .precision = precision_of(s),
          .recompute = s.model.recompute};
}

inline causeway::nn::llama_options llama_options_of(const settings& s, std::int64_t vocabulary) {
  return {.layers = s.model.layers,
          .heads = s.model.heads,
          .kv_heads = s.model.kv_heads == 0 ? s.model.heads : s.model.kv_heads,
          .width = s.model.width,
          .hidden = (s.model.width * 8 / 3 + 63) / 64 * 64,  // Llama's rule: two thirds of four times the width, rounded up
          .context = s.model.context,
          .vocabulary = vocabulary,
          .precision = precision_of(s),
          .recompute = s.model.recompute};
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_MODEL_OPTIONS_HPP
