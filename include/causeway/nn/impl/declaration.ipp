// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_IMPL_DECLARATION_IPP
#define CAUSEWAY_NN_IMPL_DECLARATION_IPP

#include <causeway/nn/declaration.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn {

CAUSEWAY_DECL float residual_deviation(std::int64_t layers) noexcept {
  return initial_deviation / std::sqrt(2.0F * static_cast<float>(layers));
}

CAUSEWAY_DECL declaration::declaration(parameter_store& store, const model_part& part, std::int64_t layers,
                                       bool joined_ends)
    : store_{store}, part_{part}, layers_{layers}, joined_ends_{joined_ends} {
  in_block(-1);
}

CAUSEWAY_DECL void declaration::in_block(std::int64_t layer) noexcept {
  const bool end = layer < 0 || layer >= layers_;
  block_ = !joined_ends_ ? layer : end ? 0 : layer + 1;
}

CAUSEWAY_DECL std::size_t declaration::token_table(std::string name, std::int64_t rows, std::int64_t columns, bool tied) {
  return add(std::move(name), parameter_kind::embedding, rows, columns, {0.0F, initial_deviation},
             tied && !joined_ends_ && part_.holds_parameters(layers_, layers_));
}

CAUSEWAY_DECL std::size_t declaration::table(std::string name, std::int64_t rows, std::int64_t columns) {
  return add(std::move(name), parameter_kind::embedding, rows, columns, {0.0F, initial_deviation});
}

CAUSEWAY_DECL std::size_t declaration::matrix(std::string name, std::int64_t outputs, std::int64_t inputs,
                                              float deviation) {
  return add(std::move(name), parameter_kind::matrix, outputs, inputs, {0.0F, deviation});
}

CAUSEWAY_DECL std::size_t declaration::vector(std::string name, std::int64_t size, float value) {
  return add(std::move(name), parameter_kind::vector, 1, size, {value, 0.0F});
}

CAUSEWAY_DECL std::size_t declaration::add(std::string name, parameter_kind kind, std::int64_t rows, std::int64_t columns,
                                           initial_distribution d, bool also_here) {
  d.number = declared_++;
  if (!also_here && !part_.holds_parameters(block_, layers_ + (joined_ends_ ? 1 : 0))) return not_held;
  initial_.push_back(d);
  return store_.add(std::move(name), kind, rows, columns, static_cast<int>(block_));
}

CAUSEWAY_DECL void fill_initial(thread_pool& pool, parameter_store& store, std::span<const initial_distribution> initial,
                                std::uint64_t seed, std::span<const parameter_segment> kept) {
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const auto& s = store.segments()[i];
    if (std::any_of(kept.begin(), kept.end(), [&](const auto& k) { return k.name == s.name; })) continue;
    float* values = store.value(i);
    pool.for_range(s.rows, 1, [&, d = initial[i]](index_range part) {
      for (std::int64_t row = part.begin; row < part.end; ++row) {
        rng random{seed, mix(d.number, static_cast<std::uint64_t>(row), 0x696E6974U)};
        for (std::int64_t j = 0; j < s.columns; ++j) {
          values[row * s.columns + j] = d.deviation == 0.0F ? d.mean : d.mean + d.deviation * random.normal();
        }
      }
    });
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::nn

#endif  // CAUSEWAY_NN_IMPL_DECLARATION_IPP
