// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_MODEL_HPP
#define CAUSEWAY_TRAIN_MODEL_HPP

// What a trainer needs of a model. nn::gpt and nn::llama have it; so may yours.

#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/parameters.hpp>

#include <concepts>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// - `parameters()`: the store that owns values and gradients.
/// - `forward_backward(inputs, targets, sequences, scale, dropout_stream)`: adds scale × the gradient of the summed token
///   losses to the store's gradients; gives the sum. Equal inputs give equal bits for a given number of threads.
/// - `evaluate(inputs, targets, sequences)`: the summed token losses, without gradients and dropout.
/// - `config_hash()`: equal on models that can share a run.
/// - Optional: `complete_gradients(loss)`, for a model that others compute with: called once a step, after its last
///   micro-batch. Adds to the gradients what the others have, and gives the sum of their losses and `loss`.
/// - `backend().pool()`: the threads of the host. A backend that is a kernels::Backend also clears and measures gradients,
///   wherever they lie.
template <class M>
concept Model = Movable<M> &&
    requires(M& m, std::span<const std::int32_t> tokens, std::int64_t sequences, float scale, std::uint64_t stream) {
  { m.parameters() } -> std::same_as<parameter_store&>;
  { m.forward_backward(tokens, tokens, sequences, scale, stream) } -> std::same_as<result<double>>;
  { m.evaluate(tokens, tokens, sequences) } -> std::same_as<result<double>>;
  { m.config_hash() } -> ConvertibleTo<std::uint64_t>;
  { m.backend().pool() } -> std::same_as<thread_pool&>;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_MODEL_HPP
