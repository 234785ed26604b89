// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_BF16_KERNELS_HPP
#define CAUSEWAY_KERNELS_BF16_KERNELS_HPP

// A processor's operations on bf16 activations, behind pointers that are set when a program first asks for bf16. So a
// program that includes the headers and never does so doesn't compile them, a quarter of its time.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/kernels/rotary.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#include <atomic>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// The functions of this folder that have these names, with `Act` bf16; see there.
struct bf16_kernels {
  using size = std::int64_t;

  void (*multiply)(packed_gemm&, thread_pool&, scratch&, const gemm_args<bf16, bf16>&);
  void (*multiply_to_f32)(packed_gemm&, thread_pool&, scratch&, const gemm_args<bf16, float>&);
  void (*add)(thread_pool&, bf16* y, const bf16* a, const bf16* b, size count);
  void (*layer_norm_forward)(thread_pool&, const float* x, const float* gain, const float* bias, bf16* y, float* mean,
                             float* rstd, size rows, size columns, float epsilon);
  void (*layer_norm_backward)(thread_pool&, scratch&, const float* x, const float* gain, const float* mean,
                              const float* rstd, const bf16* dy, float* dx, bool accumulate, float* dgain, float* dbias,
                              size rows, size columns);
  void (*rms_norm_forward)(thread_pool&, const float* x, const float* gain, bf16* y, float* rstd, size rows, size columns,
                           float epsilon);
  void (*rms_norm_backward)(thread_pool&, scratch&, const float* x, const float* gain, const float* rstd, const bf16* dy,
                            float* dx, bool accumulate, float* dgain, size rows, size columns);
  void (*gelu_forward)(thread_pool&, const bf16* x, bf16* y, size count);
  void (*gelu_backward)(thread_pool&, const bf16* x, const bf16* dy, bf16* dx, size count);
  void (*swiglu_forward)(thread_pool&, const bf16* gate_up, bf16* y, size rows, size hidden);
  void (*swiglu_backward)(thread_pool&, const bf16* gate_up, const bf16* dy, bf16* dgate_up, size rows, size hidden);
  void (*bias_gradient)(thread_pool&, scratch&, const bf16* dy, float* dbias, size rows, size columns);
  void (*dropout_apply)(thread_pool&, bf16* x, size count, float rate, std::uint64_t seed, std::uint64_t stream);
  void (*rotary_apply)(thread_pool&, const rotary_table&, bf16* qkv, size batch, size T, size row_stride, size heads,
                       size head_size, bool inverse);
  void (*attention_forward)(thread_pool&, scratch&, const attention_shape&, const bf16* q, const bf16* k, const bf16* v,
                            bf16* o, float* logsumexp);
  void (*attention_backward)(thread_pool&, scratch&, const attention_shape&, const bf16* q, const bf16* k, const bf16* v,
                             const bf16* o, const bf16* d_o, const float* logsumexp, bf16* dq, bf16* dk, bf16* dv);
  /// On the calling thread: adamw_update, and `copy` becomes the new values.
  void (*adamw_update)(float* p, bf16* copy, const float* g, float* m, float* v, size count, const adamw_coefficients&);
  double (*cross_entropy)(packed_gemm&, thread_pool&, scratch&, const bf16* x, const bf16* w, const std::int32_t* targets,
                          size rows, size C, size V, float grad_scale, bf16* dx, float* dw);
};

namespace detail {
inline std::atomic<const bf16_kernels*> bf16_table{nullptr};
}  // namespace detail

/// From now on backends of this process compute in bf16. Asking a model for nn::precision::bf16 calls it; a model of one's
/// own with bf16 activations calls it before its first pass. Thread-safe, and nothing the second time.
CAUSEWAY_DECL void use_bf16();

/// What use_bf16 has set. Before that it ends the process with a message that names the remedy.
CAUSEWAY_DECL const bf16_kernels& bf16_in_use();

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#ifndef CAUSEWAY_COMPILED
#include <causeway/kernels/impl/bf16_kernels.ipp>
#endif

#endif  // CAUSEWAY_KERNELS_BF16_KERNELS_HPP
