// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ATTENTION_HPP
#define CAUSEWAY_KERNELS_ATTENTION_HPP

// Causal attention with grouped queries. Scores and probabilities exist only in strips and blocks: memory is linear in T.
// The forward pass keeps the logarithm of each row's softmax denominator, from which the backward pass makes the
// probabilities again. Sums are in f32 for both storage types.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/kernels/bf16_level.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#include <concepts>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// o = softmax(scale q kT, causal) v. Writes logsumexp [batch, heads, T] for the backward pass. Working memory is about
/// 2 T head_size values a thread. The result does not depend on the number of threads.
template <class Act>
  requires(std::same_as<Act, float> || std::same_as<Act, bf16>)
void attention_forward(thread_pool& pool, scratch& memory, const attention_shape& shape, const Act* q, const Act* k,
                       const Act* v, Act* o, float* logsumexp, simd_level level = vector_level<Act>());

/// Gradients of attention_forward. `d_o` has o's layout; dq, dk, dv have q's, k's, v's and are overwritten. Working memory
/// is about 5 T head_size values a thread. The result is a function of the arguments and the number of threads.
template <class Act>
  requires(std::same_as<Act, float> || std::same_as<Act, bf16>)
void attention_backward(thread_pool& pool, scratch& memory, const attention_shape& shape, const Act* q, const Act* k,
                        const Act* v, const Act* o, const Act* d_o, const float* logsumexp, Act* dq, Act* dk, Act* dv,
                        simd_level level = vector_level<Act>());

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#ifndef CAUSEWAY_COMPILED
#include <causeway/kernels/impl/attention.ipp>
#endif

#endif  // CAUSEWAY_KERNELS_ATTENTION_HPP
