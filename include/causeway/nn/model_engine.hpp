// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NN_MODEL_ENGINE_HPP
#define CAUSEWAY_NN_MODEL_ENGINE_HPP

// What a language model consists of: parameters and their bf16 copies, the family's declaration of them, and what passes
// need: activation memory, a tape, recordings. And how the part of a model that is here becomes another one.

#include <causeway/autograd/tape.hpp>
#include <causeway/config/config.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/options.hpp>
#include <causeway/nn/recorded_passes.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace nn { namespace detail {

/// In one place, which stays when the model moves: tapes point into it. Throws std::bad_alloc.
template <class Family, class Backend>
struct model_engine {
  model_engine(const typename Family::options_type& options, Backend b, model_part held)
      : backend{std::move(b)}, part{std::move(held)}, family{options, store, part} {
    store.allocate(backend.source());
    low = copies_of(store, options);
  }

  aligned_buffer<bf16> copies_of(const parameter_store& all, const typename Family::options_type& options) const {
    if (options.precision.type() != dtype::bf16) return {};  // without data: that is how a pass knows
    return aligned_buffer<bf16>{static_cast<std::size_t>(all.length()), backend.source()};
  }

  void hold(model_part wanted) {
    parameter_store fresh;
    Family declared{family.options(), fresh, wanted};
    fresh.allocate(backend.source());
    auto copies = copies_of(fresh, family.options());
    fill_initial(backend.pool(), fresh, declared.initial(), seed, store.segments());
    for_common_pieces(store.segments(), fresh.segments(), [&](const auto& old, const auto& now) {
      std::copy_n(store.values().data() + old.offset, now.size(), fresh.values().data() + now.offset);
    });
    recorded.forget();
    store = std::move(fresh);
    family = std::move(declared);
    part = std::move(wanted);
    low = std::move(copies);
    seen_version = 0;
  }

  Backend backend;
  model_part part;
  parameter_store store;
  Family family;
  std::uint64_t seed = 0;
  aligned_buffer<bf16> low;
  std::uint64_t seen_version = 0;
  buffer_pool memory{backend.source()};
  autograd::tape<Backend> tape{backend, memory};
  recorded_passes<Backend> recorded{backend};
};

}}}}  // namespace causeway::CAUSEWAY_ABI::nn::detail

#endif  // CAUSEWAY_NN_MODEL_ENGINE_HPP
