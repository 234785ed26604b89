// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_FLAT_MODEL_IPP
#define CAUSEWAY_TRAIN_IMPL_FLAT_MODEL_IPP

#include <causeway/train/flat_model.hpp>

#include <algorithm>
#include <cstddef>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

// visit(piece, its first value in the dense buffers, how many it has)
template <class F>
void for_dense_pieces(const parameter_store& store, F&& visit) {
  std::size_t at = 0;
  for (std::size_t piece = 0; piece < store.segments().size(); ++piece) {
    const auto size = static_cast<std::size_t>(store.segments()[piece].size());
    visit(piece, at, size);
    at += size;
  }
}

}  // namespace detail

CAUSEWAY_DECL flat_model::flat_model(std::span<float> values, std::span<float> gradients, flat_step step,
                                     flat_model_options options)
    : flat_model{values, gradients, step, step, std::move(options)} {}

CAUSEWAY_DECL flat_model::flat_model(std::span<float> values, std::span<float> gradients, flat_step step,
                                     flat_step evaluate, flat_model_options options)
    : values_{values},
      gradients_{gradients},
      step_{std::move(step)},
      evaluate_{std::move(evaluate)},
      host_{std::make_unique<host>(options.threads)} {
  const auto length = static_cast<std::int64_t>(values.size());
  if (options.pieces.empty()) options.pieces.push_back({"values", parameter_kind::embedding, 1, length});
  [[maybe_unused]] std::int64_t count = 0;  // preconditions may be unchecked
  for (flat_piece& p : options.pieces) {
    count += p.rows * p.columns;
    store_.add(std::move(p.name), p.kind, p.rows, p.columns);
  }
  CAUSEWAY_EXPECT(gradients.size() == values.size() && count == length);
  store_.allocate();
  detail::for_dense_pieces(store_, [&](std::size_t piece, std::size_t at, std::size_t size) {
    std::copy_n(values_.data() + at, size, store_.value(piece));
  });
}

CAUSEWAY_DECL void flat_model::write_back() {
  detail::for_dense_pieces(store_, [&](std::size_t piece, std::size_t at, std::size_t size) {
    std::copy_n(store_.value(piece), size, values_.data() + at);
  });
}

CAUSEWAY_DECL result<double> flat_model::forward_backward(tokens inputs, tokens targets, std::int64_t sequences,
                                                          float scale, std::uint64_t) {
  write_back();
  CAUSEWAY_ASSIGN(const double mean, step_(inputs, targets, sequences));
  const float factor = scale * static_cast<float>(inputs.size());
  detail::for_dense_pieces(store_, [&](std::size_t piece, std::size_t at, std::size_t size) {
    float* const sum = store_.gradient(piece);
    for (std::size_t i = 0; i < size; ++i) sum[i] += factor * gradients_[at + i];
  });
  return mean * static_cast<double>(inputs.size());
}

CAUSEWAY_DECL result<double> flat_model::evaluate(tokens inputs, tokens targets, std::int64_t sequences) {
  write_back();
  CAUSEWAY_ASSIGN(const double mean, evaluate_(inputs, targets, sequences));
  return mean * static_cast<double>(inputs.size());
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_FLAT_MODEL_IPP
