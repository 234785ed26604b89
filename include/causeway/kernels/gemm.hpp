// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_GEMM_HPP
#define CAUSEWAY_KERNELS_GEMM_HPP

// What a matrix product is asked to do, whoever does it. Row-major storage; sums are made in f32 whatever the operands are.
// Several products in a row share one scratch memory, so a product allocates nothing once the largest has been seen.

#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

enum class activation : std::uint8_t {
  none,
  gelu,  ///< the tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
};

/// C = act(op(A) op(B) + bias) + residual, with op(A) m x k and op(B) k x n. All memory is the caller's. C may be the
/// residual itself (in place) when there is no activation; it must overlap nothing else.
template <class In, class Out>
struct gemm_args {
  bool transpose_a = false;  ///< A is stored k x m
  bool transpose_b = false;  ///< B is stored n x k
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const In* a = nullptr;
  std::int64_t lda = 0;  ///< elements between the starts of two stored rows of A
  const In* b = nullptr;
  std::int64_t ldb = 0;
  Out* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = false;          ///< C += instead of C =; not together with `residual` or an activation
  const float* bias = nullptr;      ///< length n, added to every row
  const float* residual = nullptr;  ///< m x n, added last
  std::int64_t ld_residual = 0;
  activation act = activation::none;
  Out* pre_activation = nullptr;  ///< m x n with `ldc`: what `act` was applied to, for the backward pass
};

/// Something that multiplies matrices. The result is a function of the arguments and the number of threads alone.
template <class G>
concept Gemm = requires(G& g, const G& constant, thread_pool& pool, scratch& memory, const gemm_args<float, float>& f32,
                        const gemm_args<bf16, float>& mixed, const gemm_args<bf16, bf16>& half) {
  { g.multiply(pool, memory, f32) } -> std::same_as<void>;
  { g.multiply(pool, memory, mixed) } -> std::same_as<void>;
  { g.multiply(pool, memory, half) } -> std::same_as<void>;
  { constant.describe() } -> ConvertibleTo<std::string>;
  { G::name } -> ConvertibleTo<std::string_view>;
};

namespace detail {

/// The contract that every implementation starts from. Folds a residual that is C itself into `accumulate`.
template <class In, class Out>
gemm_args<In, Out> checked(gemm_args<In, Out> args) {
  CAUSEWAY_EXPECT(args.m >= 0 && args.n >= 0 && args.k >= 0);
  CAUSEWAY_EXPECT(args.m <= 1 || args.ldc >= args.n);
  CAUSEWAY_EXPECT(!args.accumulate || (args.residual == nullptr && args.act == activation::none));
  if constexpr (std::is_same_v<Out, float>) {
    if (args.residual != nullptr && args.residual == args.c) {
      CAUSEWAY_EXPECT(args.act == activation::none && args.ld_residual == args.ldc);
      args.residual = nullptr;
      args.accumulate = true;
    }
  }
  return args;
}

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_GEMM_HPP
