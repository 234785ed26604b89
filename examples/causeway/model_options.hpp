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

/// Stages that step alone do not share a table.
inline bool ties_embeddings(const settings& s, bool by_itself) {
  if (shares_no_table(s)) return false;
  return s.model.tie == "auto" ? by_itself : s.model.tie == "true";
}

inline causeway::kernels::rotary_scaling rotary_scaling_of(const settings& s) {
  const auto& r = s.model.rope_scaling;
  if (r.size() != 4) return {};
  return {r[0], r[1], r[2], static_cast<std::int64_t>(r[3])};
}

inline std::int64_t rows_of_table(const settings& s, std::int64_t vocabulary) {
  return s.model.vocabulary == 0 ? vocabulary : s.model.vocabulary;
}

inline causeway::nn::gpt_options gpt_options_of(const settings& s, std::int64_t vocabulary) {
  return {.layers = s.model.layers,
          .heads = s.model.heads,
          .width = s.model.width,
          .context = s.model.context,
          .vocabulary = rows_of_table(s, vocabulary),
          .mlp_ratio = s.model.hidden == 0 ? 4 : s.model.hidden / s.model.width,
          .dropout = s.model.dropout,
          .epsilon = s.model.epsilon,
          .tie = ties_embeddings(s, true),
          .precision = precision_of(s),
          .recompute = s.model.recompute,
          .joined_ends = joins_ends(s)};
}

inline causeway::nn::llama_options llama_options_of(const settings& s, std::int64_t vocabulary) {
  const std::int64_t usual = (s.model.width * 8 / 3 + 63) / 64 * 64;  // Llama's rule: 2/3 of four widths, rounded up
  const std::int64_t hidden = s.model.hidden == 0 ? usual : s.model.hidden;
  return {.layers = s.model.layers,
          .heads = s.model.heads,
          .kv_heads = s.model.kv_heads == 0 ? s.model.heads : s.model.kv_heads,
          .width = s.model.width,
          .hidden = hidden,
          .context = s.model.context,
          .vocabulary = rows_of_table(s, vocabulary),
          .theta = s.model.theta,
          .scaling = rotary_scaling_of(s),
          .epsilon = s.model.epsilon,
          .tie = ties_embeddings(s, false),
          .precision = precision_of(s),
          .recompute = s.model.recompute,
          .joined_ends = joins_ends(s)};
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_MODEL_OPTIONS_HPP
