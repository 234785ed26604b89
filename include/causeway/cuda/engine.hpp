// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_ENGINE_HPP
#define CAUSEWAY_CUDA_ENGINE_HPP

// What a device can do for a model, without a word of CUDA: the seam between what nvcc compiles and everything else. A
// program gets an engine from one .cu file (engine.cuh) and hands it to cuda::backend; its trainer, its networks and its
// command line are compiled as ever. A virtual call costs nothing beside the start of a kernel.

#include <causeway/compress/message.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/recording.hpp>
#include <causeway/cuda/wire_codec.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/rotary.hpp>
#include <causeway/kernels/rows.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Where values lie, and what they are: f32 or bf16.
struct const_values {
  const void* at = nullptr;
  dtype type = dtype::f32;

  const_values() = default;
  template <class T>
  const_values(const T* p) noexcept : at{p}, type{dtype_of<T>} {}  // NOLINT: a pointer is one
};
struct values {
  void* at = nullptr;
  dtype type = dtype::f32;

  values() = default;
  template <class T>
  values(T* p) noexcept : at{p}, type{dtype_of<T>} {}  // NOLINT: a pointer is one
};

/// kernels::gemm_args of any types.
struct product {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  const_values a;
  std::int64_t lda = 0;
  const_values b;
  std::int64_t ldb = 0;
  values c;
  std::int64_t ldc = 0;
  bool accumulate = false;
  const float* bias = nullptr;
  const float* residual = nullptr;
  std::int64_t ld_residual = 0;
  kernels::activation act = kernels::activation::none;
  values pre_activation;

  template <class In, class Out>
  product(const kernels::gemm_args<In, Out>& g) noexcept  // NOLINT: it is one
      : transpose_a{g.transpose_a},
        transpose_b{g.transpose_b},
        m{g.m},
        n{g.n},
        k{g.k},
        a{g.a},
        lda{g.lda},
        b{g.b},
        ldb{g.ldb},
        c{g.c},
        ldc{g.ldc},
        accumulate{g.accumulate},
        bias{g.bias},
        residual{g.residual},
        ld_residual{g.ld_residual},
        act{g.act},
        pre_activation{g.pre_activation} {}
};

/// One step of Muon for a matrix (optim::muon_options, optim::step_options).
struct muon_coefficients {
  float learning_rate = 0.0F;
  float momentum = 0.95F;
  float weight_decay = 0.0F;
  float gradient_scale = 1.0F;
  int iterations = 5;
  bool half = true;  ///< products in bf16, else in f32
};

/// Operations start in the order of the calls and return at once; the arguments are those of the functions of the same name
/// in kernels/, all in memory from `reserve`, but for what says "host". After the first error the others do nothing, until
/// `finish` has told it. One thread at a time.
class engine {
 public:
  virtual ~engine() = default;

  /// One line for a person, such as "cuda: NVIDIA H200 (9.0)".
  [[nodiscard]] virtual std::string describe() const = 0;

  /// Memory that the device and, while nothing is under way, the host read and write. Throws std::bad_alloc.
  [[nodiscard]] virtual void* reserve(std::size_t bytes) = 0;
  virtual void release(void* piece) noexcept = 0;
  /// Waits until all is done; `finish` tells what went wrong.
  virtual void wait() = 0;
  /// Waits until all is done. The first error since the last call.
  [[nodiscard]] virtual result<void> finish() = 0;

  /// A hint: operations will use these next, and the host may have had them.
  virtual void fetch(const void* p, std::size_t bytes) = 0;
  virtual void copy_in(void* to, const void* host, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;

  virtual void multiply(const product& p) = 0;
  virtual void multiply_gelu_gradient(const product& p, const_values x) = 0;
  virtual void zero(float* y, std::int64_t count) = 0;
  /// Waits for the result. NaN after an error.
  [[nodiscard]] virtual double sum_of_squares(const float* x, std::int64_t count) = 0;
  virtual void add(values y, const_values a, const_values b, std::int64_t count) = 0;
  virtual void convert(const float* from, bf16* to, std::int64_t count) = 0;

  virtual void embedding_forward(const std::int32_t* tokens, const float* table, const float* positions, float* x,
                                 std::int64_t batch, std::int64_t T, std::int64_t C) = 0;
  virtual void embedding_backward(const std::int32_t* tokens, const float* dx, float* dtable, float* dpositions,
                                  std::int64_t batch, std::int64_t T, std::int64_t C, std::int64_t vocabulary) = 0;
  virtual void layer_norm_forward(const float* x, const float* gain, const float* bias, values y, float* mean, float* rstd,
                                  std::int64_t rows, std::int64_t columns, float epsilon) = 0;
  virtual void layer_norm_backward(const float* x, const float* gain, const float* mean, const float* rstd, const_values dy,
                                   float* dx, bool accumulate, float* dgain, float* dbias, std::int64_t rows,
                                   std::int64_t columns) = 0;
  virtual void rms_norm_forward(const float* x, const float* gain, values y, float* rstd, std::int64_t rows,
                                std::int64_t columns, float epsilon) = 0;
  virtual void rms_norm_backward(const float* x, const float* gain, const float* rstd, const_values dy, float* dx,
                                 bool accumulate, float* dgain, std::int64_t rows, std::int64_t columns) = 0;
  virtual void gelu_forward(const_values x, values y, std::int64_t count) = 0;
  virtual void gelu_backward(const_values x, const_values dy, values dx, std::int64_t count) = 0;
  virtual void swiglu_forward(const_values gate_up, values y, std::int64_t rows, std::int64_t hidden) = 0;
  virtual void swiglu_backward(const_values gate_up, const_values dy, values dgate_up, std::int64_t rows,
                               std::int64_t hidden) = 0;
  virtual void bias_gradient(const_values dy, float* dbias, std::int64_t rows, std::int64_t columns) = 0;
  virtual void dropout(values x, std::int64_t count, float rate, std::uint64_t seed, std::uint64_t stream) = 0;
  /// The table is the host's; its numbers are copied when it is seen for the first time.
  virtual void rotary(const kernels::rotary_table& table, values qkv, std::int64_t batch, std::int64_t T,
                      std::int64_t row_stride, std::int64_t heads, std::int64_t head_size, bool inverse) = 0;
  virtual void attention_forward(const kernels::attention_shape& shape, const_values q, const_values k, const_values v,
                                 values o, float* logsumexp) = 0;
  virtual void attention_backward(const kernels::attention_shape& shape, const_values q, const_values k, const_values v,
                                  const_values o, const_values d_o, const float* logsumexp, values dq, values dk,
                                  values dv) = 0;
  /// Waits for the loss. The targets are the host's. NaN after an error.
  [[nodiscard]] virtual double cross_entropy(const_values x, const_values w, const std::int32_t* targets, std::int64_t rows,
                                             std::int64_t C, std::int64_t V, float grad_scale, values dx, float* dw) = 0;

  /// The bits of kernels::adamw_update. `turns`: where weight decay ends and starts again, in order, multiples of 4; all is
  /// decayed without any.
  virtual void adamw_update(float* p, const float* g, float* m, float* v, std::int64_t count,
                            const kernels::adamw_coefficients& c, std::span<const std::int64_t> turns = {}) = 0;
  /// p, g and the momentum u are [rows, columns].
  virtual void muon_update(float* p, const float* g, float* u, std::int64_t rows, std::int64_t columns,
                           const muon_coefficients& c) = 0;

  /// For a training pass; null where the engine does not record. The engine must outlive it.
  [[nodiscard]] virtual std::unique_ptr<recording> make_recording() = 0;

  // ---- rounds: the bits of kernels/ and compress/ -------------------------------------------------------------------

  /// Whether `bytes` bytes from p on lie in one piece from `reserve`.
  [[nodiscard]] virtual bool holds(const void* p, std::size_t bytes) const noexcept = 0;
  /// y = a - b.
  virtual void subtract(float* y, const float* a, const float* b, std::int64_t count) = 0;
  virtual void scale(float* y, float alpha, std::int64_t count) = 0;
  /// y = alpha·y + beta·x.
  virtual void blend(float* y, float alpha, const float* x, float beta, std::int64_t count) = 0;
  virtual void compensate(float* y, const float* shared, const float* at_send, std::int64_t count,
                          const kernels::compensation& c) = 0;
  virtual void gossip_update(float* shared, float* velocity, const float* mean, const float* mean_shared,
                             std::int64_t count, const kernels::gossip_coefficients& c) = 0;
  /// y = x where counts are not 0.
  virtual void take_over(float* y, const float* x, const float* counts, std::int64_t count) = 0;
  /// With momentum u, or without one where it is null.
  virtual void sgd_update(float* p, const float* g, float* u, std::int64_t count, const kernels::sgd_coefficients& c) = 0;
  virtual void nesterov_update(float* p, const float* g, float* u, std::int64_t count,
                               const kernels::sgd_coefficients& c) = 0;
  /// kernels::row_hash. Waits.
  [[nodiscard]] virtual std::uint64_t row_hash(const float* x, std::size_t n) = 0;
  /// The message of x to memory of the host. Waits for it; an error is told now and by `finish`.
  [[nodiscard]] virtual result<void> encode(const wire_codec& how, const float* x, std::size_t n, std::byte* host) = 0;
  /// to = what a message on the host decodes to, or to + weight · that. Waits. For bytes that are refused, an error of the
  /// codec's, which `finish` does not tell: `to` is unchanged.
  [[nodiscard]] virtual result<void> decode(const wire_codec& how, std::span<const std::byte> host, float* to,
                                            std::size_t n, bool is_added, float weight) = 0;

  // Sparse messages (sparse.hpp), of rows of 1 to 2^31 - 1 values. The context is the host's.

  /// The message of x to memory of the host, and, unless null, residual = x - what it decodes to (unspecified for values
  /// that are not finite). Waits; an error is told now and by `finish`.
  [[nodiscard]] virtual result<void> encode_sparse(const wire_message& how, const compress::message_context& ctx,
                                                   const float* x, std::size_t n, std::byte* host, float* residual) = 0;
  /// sum += weight · what a message decodes to; counts, unless null, += weight where it has values. As many bytes as such
  /// messages have. Waits. For bytes that are refused, an error of the codec's, as above.
  [[nodiscard]] virtual result<void> decode_sparse(const wire_message& how, const compress::message_context& ctx,
                                                   std::span<const std::byte> host, float* sum, std::size_t n, float weight,
                                                   float* counts) = 0;
  /// y = y / counts where there are counts and theirs is above 0, then factor · y. Waits. errc::non_finite, which `finish`
  /// does not tell, when one of them is not finite.
  [[nodiscard]] virtual result<void> divide(float* y, const float* counts, float factor, std::int64_t count) = 0;
  /// y = -1, 0 or 1; 0 for NaN.
  virtual void to_signs(float* y, std::int64_t count) = 0;
  /// Coefficients to values, in place.
  virtual void invert(const wire_message& how, const compress::message_context& ctx, float* row, std::size_t n) = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_ENGINE_HPP
