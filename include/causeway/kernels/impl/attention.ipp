// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_IMPL_ATTENTION_IPP
#define CAUSEWAY_KERNELS_IMPL_ATTENTION_IPP

#include <causeway/kernels/attention.hpp>
#include <causeway/kernels/attention_backward.hpp>
#include <causeway/kernels/attention_forward.hpp>
#include <causeway/kernels/attention_tiles.hpp>
#include <causeway/kernels/attention_tiles_avx2.hpp>
#include <causeway/kernels/attention_tiles_avx512.hpp>
#include <causeway/kernels/attention_tiles_bf16.hpp>

#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// Calls `f` with the steps for `level`, which this machine must support.
template <class Act, class F>
void with_tiles(simd_level level, F&& f) {
#if CAUSEWAY_X86_SIMD
  if constexpr (std::is_same_v<Act, bf16>) {
    if (level >= simd_level::avx512_bf16) return f(std::type_identity<avx512_bf16_tiles>{});
  }
  if (level >= simd_level::avx512) return f(std::type_identity<avx512_tiles<Act>>{});
  if (level >= simd_level::avx2) return f(std::type_identity<avx2_tiles<Act>>{});
#endif
  (void)level;
  f(std::type_identity<portable_tiles<Act>>{});
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

template <class Act>
  requires(std::same_as<Act, float> || std::same_as<Act, bf16>)
void attention_forward(thread_pool& pool, scratch& memory, const attention_shape& shape, const Act* q, const Act* k,
                       const Act* v, Act* o, float* logsumexp, simd_level level) {
  expect_valid(shape);
  detail::with_tiles<Act>(level, [&](auto tiles) {
    detail::attention_forward_with<typename decltype(tiles)::type>(pool, memory, shape, q, k, v, o, logsumexp);
  });
}

template <class Act>
  requires(std::same_as<Act, float> || std::same_as<Act, bf16>)
void attention_backward(thread_pool& pool, scratch& memory, const attention_shape& shape, const Act* q, const Act* k,
                        const Act* v, const Act* o, const Act* d_o, const float* logsumexp, Act* dq, Act* dk, Act* dv,
                        simd_level level) {
  expect_valid(shape);
  const detail::backward_operands<Act> operands{q, k, v, o, d_o, logsumexp, dq, dk, dv};
  detail::with_tiles<Act>(level, [&](auto tiles) {
    detail::attention_backward_with<typename decltype(tiles)::type>(pool, memory, shape, operands);
  });
}

#ifdef CAUSEWAY_COMPILED
template void attention_forward(thread_pool&, scratch&, const attention_shape&, const float*, const float*, const float*,
                                float*, float*, simd_level);
template void attention_forward(thread_pool&, scratch&, const attention_shape&, const bf16*, const bf16*, const bf16*,
                                bf16*, float*, simd_level);
template void attention_backward(thread_pool&, scratch&, const attention_shape&, const float*, const float*, const float*,
                                 const float*, const float*, const float*, float*, float*, float*, simd_level);
template void attention_backward(thread_pool&, scratch&, const attention_shape&, const bf16*, const bf16*, const bf16*,
                                 const bf16*, const bf16*, const float*, bf16*, bf16*, bf16*, simd_level);
#endif

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_ATTENTION_IPP
