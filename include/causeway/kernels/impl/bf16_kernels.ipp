// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_IMPL_BF16_KERNELS_IPP
#define CAUSEWAY_KERNELS_IMPL_BF16_KERNELS_IPP

#include <causeway/kernels/bf16_kernels.hpp>

#include <causeway/kernels/activation.hpp>
#include <causeway/kernels/adamw_kernel.hpp>
#include <causeway/kernels/attention.hpp>
#include <causeway/kernels/cross_entropy.hpp>
#include <causeway/kernels/dropout.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/norm.hpp>

#include <cstdio>
#include <cstdlib>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

CAUSEWAY_DECL void use_bf16() {
  using pool = thread_pool&;
  static const bf16_kernels all{
      .multiply = [](packed_gemm& g, pool p, scratch& m, const gemm_args<bf16, bf16>& a) { g.multiply(p, m, a); },
      .multiply_to_f32 = [](packed_gemm& g, pool p, scratch& m, const gemm_args<bf16, float>& a) { g.multiply(p, m, a); },
      .add = [](pool p, auto... a) { kernels::add(p, a...); },
      .layer_norm_forward = [](pool p, auto... a) { kernels::layer_norm_forward(p, a...); },
      .layer_norm_backward = [](pool p, scratch& m, auto... a) { kernels::layer_norm_backward(p, m, a...); },
      .rms_norm_forward = [](pool p, auto... a) { kernels::rms_norm_forward(p, a...); },
      .rms_norm_backward = [](pool p, scratch& m, auto... a) { kernels::rms_norm_backward(p, m, a...); },
      .gelu_forward = [](pool p, auto... a) { kernels::gelu_forward(p, a...); },
      .gelu_backward = [](pool p, auto... a) { kernels::gelu_backward(p, a...); },
      .swiglu_forward = [](pool p, auto... a) { kernels::swiglu_forward(p, a...); },
      .swiglu_backward = [](pool p, auto... a) { kernels::swiglu_backward(p, a...); },
      .bias_gradient = [](pool p, scratch& m, auto... a) { kernels::bias_gradient(p, m, a...); },
      .dropout_apply = [](pool p, auto... a) { kernels::dropout_apply(p, a...); },
      .rotary_apply = [](pool p, const rotary_table& t, auto... a) { kernels::rotary_apply(p, t, a...); },
      .attention_forward = [](pool p, scratch& m, const attention_shape& s,
                              auto... a) { kernels::attention_forward(p, m, s, a...); },
      .attention_backward = [](pool p, scratch& m, const attention_shape& s,
                               auto... a) { kernels::attention_backward(p, m, s, a...); },
      .adamw_update =
          [](float* p, bf16* copy, const float* g, float* m, float* v, bf16_kernels::size count,
             const adamw_coefficients& c) {
            detail::dispatch<detail::adamw_kernel>(detect_simd_level(), p, g, m, v, count, detail::factors_of(c), copy);
          },
      .cross_entropy = [](packed_gemm& g, pool p, scratch& m, auto... a) { return kernels::cross_entropy(p, m, g, a...); },
  };
  detail::bf16_table.store(&all, std::memory_order_release);
}

CAUSEWAY_DECL const bf16_kernels& bf16_in_use() {
  const bf16_kernels* const all = detail::bf16_table.load(std::memory_order_acquire);
  if (all == nullptr) {
    std::fputs("causeway: bf16 activations need causeway::kernels::use_bf16(); call it once, before the first pass\n",
               stderr);
    std::abort();
  }
  return *all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_BF16_KERNELS_IPP
