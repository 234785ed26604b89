// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_BACKEND_HPP
#define CAUSEWAY_KERNELS_BACKEND_HPP

// What computes a model: where its numbers lie and the operations on them, in one place. Ops and models are written over a
// backend; this one is the processor, cuda/backend.hpp a GPU. A model owns one backend.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/activation.hpp>
#include <causeway/kernels/attention.hpp>
#include <causeway/kernels/bf16_kernels.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/cross_entropy.hpp>
#include <causeway/kernels/dropout.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/embedding.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/norm.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/kernels/reduce.hpp>
#include <causeway/kernels/rotary.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/scratch.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Threads, scratch memory and a matrix product of a processor. For one calling thread at a time. The operations are those
/// of the headers of this folder, which say what they compute and what they cost.
template <class GemmType = packed_gemm>
  requires Gemm<GemmType>
class basic_cpu_backend {
 public:
  explicit basic_cpu_backend(unsigned threads = 1, GemmType gemm = GemmType{}) : pool_{threads}, gemm_{std::move(gemm)} {}

  [[nodiscard]] thread_pool& pool() noexcept { return pool_; }
  [[nodiscard]] scratch& memory() noexcept { return memory_; }
  [[nodiscard]] GemmType& gemm() noexcept { return gemm_; }

  /// One line for a person, such as "cpu: packed gemm (avx512, avx512_bf16), 2 threads".
  [[nodiscard]] std::string describe() const {
    const unsigned threads = pool_.size();
    return "cpu: " + gemm_.describe() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }

  /// What has the operations below, and `copy` and `copy_in`: here the backend itself.
  [[nodiscard]] basic_cpu_backend& ops() noexcept { return *this; }

  // ---- memory and order ---------------------------------------------------------------------------------------------

  /// Where parameters, gradients and activations lie. Whoever uses it lets the backend outlive them.
  [[nodiscard]] memory_source source() const noexcept { return {}; }
  /// Until this returns, the host must not touch what operations read or write; it gives the first error of any of them
  /// since the last call. A processor is done at once.
  [[nodiscard]] result<void> finish() const noexcept { return {}; }
  /// A hint that operations will use these next and that the host may have had them: nothing here.
  void fetch(const void*, std::size_t) const noexcept {}
  /// From memory of the host, which may change as soon as this returns.
  void copy_in(void* to, const void* host, std::size_t bytes) const noexcept { std::memcpy(to, host, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) const noexcept { std::memcpy(to, from, bytes); }

  // ---- operations ---------------------------------------------------------------------------------------------------

  template <class In, class Out>
  void multiply(const gemm_args<In, Out>& args) {
    if constexpr (std::same_as<In, bf16> && std::same_as<GemmType, packed_gemm>) {
      if constexpr (std::same_as<Out, bf16>) {
        bf16_in_use().multiply(gemm_, pool_, memory_, args);
      } else {
        bf16_in_use().multiply_to_f32(gemm_, pool_, memory_, args);
      }
    } else {
      gemm_.multiply(pool_, memory_, args);
    }
  }
  /// C = op(A) op(B) times the slope of GELU at x [m, n]: the way back through a product whose operand GELU made. No bias,
  /// residual or activation; the rows of C are contiguous.
  template <class T>
  void multiply_gelu_gradient(const gemm_args<T, T>& args, const T* x) {
    multiply(args);
    gelu_backward(x, args.c, args.c, args.m * args.n);
  }
  void zero(float* y, std::int64_t count) { kernels::zero(pool_, y, count); }
  [[nodiscard]] double sum_of_squares(const float* x, std::int64_t count) {
    return kernels::sum_of_squares(pool_, x, count);
  }
  template <class T>
  void add(T* y, const T* a, const T* b, std::int64_t count) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().add(pool_, y, a, b, count);
    } else {
      kernels::add(pool_, y, a, b, count);
    }
  }
  void convert(const float* from, bf16* to, std::int64_t count) { kernels::convert(pool_, from, to, count); }

  void embedding_forward(const std::int32_t* tokens, const float* table, const float* positions, float* x,
                         std::int64_t batch, std::int64_t T, std::int64_t C) {
    kernels::embedding_forward(pool_, tokens, table, positions, x, batch, T, C);
  }
  void embedding_backward(const std::int32_t* tokens, const float* dx, float* dtable, float* dpositions, std::int64_t batch,
                          std::int64_t T, std::int64_t C, std::int64_t vocabulary) {
    kernels::embedding_backward(pool_, memory_, tokens, dx, dtable, dpositions, batch, T, C, vocabulary);
  }

  template <class Out>
  void layer_norm_forward(const float* x, const float* gain, const float* bias, Out* y, float* mean, float* rstd,
                          std::int64_t rows, std::int64_t columns, float epsilon) {
    if constexpr (std::same_as<Out, bf16>) {
      bf16_in_use().layer_norm_forward(pool_, x, gain, bias, y, mean, rstd, rows, columns, epsilon);
    } else {
      kernels::layer_norm_forward(pool_, x, gain, bias, y, mean, rstd, rows, columns, epsilon);
    }
  }
  template <class In>
  void layer_norm_backward(const float* x, const float* gain, const float* mean, const float* rstd, const In* dy, float* dx,
                           bool accumulate, float* dgain, float* dbias, std::int64_t rows, std::int64_t columns) {
    if constexpr (std::same_as<In, bf16>) {
      bf16_in_use().layer_norm_backward(pool_, memory_, x, gain, mean, rstd, dy, dx, accumulate, dgain, dbias, rows,
                                        columns);
    } else {
      kernels::layer_norm_backward(pool_, memory_, x, gain, mean, rstd, dy, dx, accumulate, dgain, dbias, rows, columns);
    }
  }
  template <class Out>
  void rms_norm_forward(const float* x, const float* gain, Out* y, float* rstd, std::int64_t rows, std::int64_t columns,
                        float epsilon) {
    if constexpr (std::same_as<Out, bf16>) {
      bf16_in_use().rms_norm_forward(pool_, x, gain, y, rstd, rows, columns, epsilon);
    } else {
      kernels::rms_norm_forward(pool_, x, gain, y, rstd, rows, columns, epsilon);
    }
  }
  template <class In>
  void rms_norm_backward(const float* x, const float* gain, const float* rstd, const In* dy, float* dx, bool accumulate,
                         float* dgain, std::int64_t rows, std::int64_t columns) {
    if constexpr (std::same_as<In, bf16>) {
      bf16_in_use().rms_norm_backward(pool_, memory_, x, gain, rstd, dy, dx, accumulate, dgain, rows, columns);
    } else {
      kernels::rms_norm_backward(pool_, memory_, x, gain, rstd, dy, dx, accumulate, dgain, rows, columns);
    }
  }

  template <class T>
  void gelu_forward(const T* x, T* y, std::int64_t count) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().gelu_forward(pool_, x, y, count);
    } else {
      kernels::gelu_forward(pool_, x, y, count);
    }
  }
  template <class T>
  void gelu_backward(const T* x, const T* dy, T* dx, std::int64_t count) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().gelu_backward(pool_, x, dy, dx, count);
    } else {
      kernels::gelu_backward(pool_, x, dy, dx, count);
    }
  }
  template <class T>
  void swiglu_forward(const T* gate_up, T* y, std::int64_t rows, std::int64_t hidden) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().swiglu_forward(pool_, gate_up, y, rows, hidden);
    } else {
      kernels::swiglu_forward(pool_, gate_up, y, rows, hidden);
    }
  }
  template <class T>
  void swiglu_backward(const T* gate_up, const T* dy, T* dgate_up, std::int64_t rows, std::int64_t hidden) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().swiglu_backward(pool_, gate_up, dy, dgate_up, rows, hidden);
    } else {
      kernels::swiglu_backward(pool_, gate_up, dy, dgate_up, rows, hidden);
    }
  }
  template <class T>
  void bias_gradient(const T* dy, float* dbias, std::int64_t rows, std::int64_t columns) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().bias_gradient(pool_, memory_, dy, dbias, rows, columns);
    } else {
      kernels::bias_gradient(pool_, memory_, dy, dbias, rows, columns);
    }
  }
  template <class T>
  void dropout(T* x, std::int64_t count, float rate, std::uint64_t seed, std::uint64_t stream) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().dropout_apply(pool_, x, count, rate, seed, stream);
    } else {
      kernels::dropout_apply(pool_, x, count, rate, seed, stream);
    }
  }
  template <class T>
  void rotary(const rotary_table& table, T* qkv, std::int64_t batch, std::int64_t T_, std::int64_t row_stride,
              std::int64_t heads, std::int64_t head_size, bool inverse) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().rotary_apply(pool_, table, qkv, batch, T_, row_stride, heads, head_size, inverse);
    } else {
      kernels::rotary_apply(pool_, table, qkv, batch, T_, row_stride, heads, head_size, inverse);
    }
  }

  template <class T>
  void attention_forward(const attention_shape& shape, const T* q, const T* k, const T* v, T* o, float* logsumexp) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().attention_forward(pool_, memory_, shape, q, k, v, o, logsumexp);
    } else {
      kernels::attention_forward(pool_, memory_, shape, q, k, v, o, logsumexp);
    }
  }
  template <class T>
  void attention_backward(const attention_shape& shape, const T* q, const T* k, const T* v, const T* o, const T* d_o,
                          const float* logsumexp, T* dq, T* dk, T* dv) {
    if constexpr (std::same_as<T, bf16>) {
      bf16_in_use().attention_backward(pool_, memory_, shape, q, k, v, o, d_o, logsumexp, dq, dk, dv);
    } else {
      kernels::attention_backward(pool_, memory_, shape, q, k, v, o, d_o, logsumexp, dq, dk, dv);
    }
  }
  /// The targets are in memory of the host.
  template <class T>
  [[nodiscard]] double cross_entropy(const T* x, const T* w, const std::int32_t* targets, std::int64_t rows, std::int64_t C,
                                     std::int64_t V, float grad_scale, T* dx, float* dw) {
    if constexpr (std::same_as<T, bf16> && std::same_as<GemmType, packed_gemm>) {
      return bf16_in_use().cross_entropy(gemm_, pool_, memory_, x, w, targets, rows, C, V, grad_scale, dx, dw);
    } else {
      return kernels::cross_entropy(pool_, memory_, gemm_, x, w, targets, rows, C, V, grad_scale, dx, dw);
    }
  }

 private:
  thread_pool pool_;
  scratch memory_;
  GemmType gemm_;
};

using cpu_backend = basic_cpu_backend<>;

/// Whether what a backend computes is in memory that the host reads at once.
template <class B>
inline constexpr bool computes_on_host = false;
template <class GemmType>
inline constexpr bool computes_on_host<basic_cpu_backend<GemmType>> = true;

/// What models and trainers ask of a backend. `ops()` has the operations of basic_cpu_backend; `pool()` are threads of the
/// host, for what is done there.
template <class B>
concept Backend = std::move_constructible<B> &&
    requires(B& b, const B& constant, float* values, const gemm_args<float, float>& f32,
             const gemm_args<bf16, float>& mixed) {
  { b.pool() } -> std::same_as<thread_pool&>;
  { b.source() } -> std::same_as<memory_source>;
  { b.finish() } -> std::same_as<result<void>>;
  { b.sum_of_squares(values, std::int64_t{}) } -> std::same_as<double>;
  b.zero(values, std::int64_t{});
  b.ops().multiply(f32);
  b.ops().multiply(mixed);
  { constant.describe() } -> ConvertibleTo<std::string>;
};

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_BACKEND_HPP
