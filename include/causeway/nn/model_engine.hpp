// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_MODEL_ENGINE_HPP
#define CAUSEWAY_NN_MODEL_ENGINE_HPP

// What a language model consists of: parameters and their bf16 copies, the family's declaration of them, and what passes
// need: activation memory, a tape, recordings. And how the part of a model that is here becomes another one.

#include <causeway/autograd/tape.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/recorded_passes.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn { namespace detail {

/// In one place, which stays when the model moves: tapes point into it. Throws std::bad_alloc.
template <class Family, class Backend>
struct model_engine {
  model_engine(const typename Family::options_type& options, Backend b, model_part held)
      : backend{std::move(b)}, part{std::move(held)}, family{options, store, part} {
    store.allocate(backend.source());
    low = copies_of(store, options);
    keep_copies();
  }

  aligned_buffer<bf16> copies_of(const parameter_store& all, const typename Family::options_type& options) const {
    if (options.precision.type() != dtype::bf16) return {};  // without data: that is how a pass knows
    return aligned_buffer<bf16>{static_cast<std::size_t>(all.length()), backend.source()};
  }

  // A device's optimizers write no copies along.
  void keep_copies() {
    if constexpr (kernels::computes_on_host<Backend>) store.keep_copies(low.size() > 0 ? low.data() : nullptr);
  }

  /// What a run begins with, but for what `kept` names.
  void begin(parameter_store& values, const Family& declared, std::span<const parameter_segment> kept = {}) {
    fill_initial(backend.pool(), values, declared.initial(), seed, kept);
    if (adjust) adjust(backend.pool(), values);
  }

  [[nodiscard]] embedding_values initial_embedding() {
    parameter_store ends;
    const bool joined = family.options().joined_ends;
    const Family declared{family.options(), ends, joined ? model_part{block_range{0, 1}} : model_part::ends()};
    ends.allocate_values();
    begin(ends, declared);
    const auto table = [&ends](std::size_t segment) {
      if (segment == not_held) return std::vector<float>{};
      const float* const from = ends.value(segment);
      return std::vector<float>(from, from + ends.segments()[segment].size());
    };
    return {table(declared.embedding().tokens), table(declared.embedding().positions)};
  }

  void hold(model_part wanted) {
    parameter_store fresh;
    Family declared{family.options(), fresh, wanted};
    fresh.allocate(backend.source());
    auto copies = copies_of(fresh, family.options());
    begin(fresh, declared, store.segments());
    for_common_pieces(store.segments(), fresh.segments(), [&](const auto& old, const auto& now) {
      std::copy_n(store.values().data() + old.offset, now.size(), fresh.values().data() + now.offset);
    });
    recorded.forget();
    store = std::move(fresh);
    family = std::move(declared);
    part = std::move(wanted);
    low = std::move(copies);
    keep_copies();
    seen_version = 0;
  }

  /// What a change of the parameters asks for: that they are where they are needed, and their bf16 copies made anew.
  void refresh() {
    if (seen_version == store.version()) return;
    backend.ops().fetch(store.values().data(), store.values().size_bytes());
    if (low.size() > 0 && !store.has_copies()) refresh_low();
    seen_version = store.version();
  }
  void refresh_low() {
    for (std::size_t i = 0; i < store.segments().size(); ++i) {
      const auto& s = store.segments()[i];
      if (s.kind != parameter_kind::matrix && i != family.head()) continue;
      backend.ops().convert(store.value(i), low.data() + s.offset, s.size());
    }
  }

  Backend backend;
  model_part part;
  parameter_store store;
  Family family;
  std::uint64_t seed = 0;
  std::function<void(thread_pool&, parameter_store&)> adjust;
  aligned_buffer<bf16> low;
  std::uint64_t seen_version = 0;
  buffer_pool memory{backend.source()};
  autograd::tape<Backend> tape{backend, memory};
  recorded_passes<Backend> recorded{backend};
};

}}}}  // namespace causeway::CAUSEWAY_ABI::nn::detail

#endif  // CAUSEWAY_NN_MODEL_ENGINE_HPP
