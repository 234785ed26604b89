// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_FINISH_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_FINISH_HPP

// What a product does to its sums before they are C: earlier sums, bias, activation, residual, rounding. Done to a tile
// while it is in the first cache, or to whole rows after a library's product. The activation has the bits of gelu_forward.

#include <causeway/config/config.hpp>
#include <causeway/kernels/activation.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// Where finished sums go. All pointers are at the corner of the part of C that is finished.
template <class Out>
struct finish_args {
  const float* partial;  ///< sums of earlier blocks of k, or null
  std::int64_t ld_partial;
  const float* bias;
  const float* residual;
  std::int64_t ld_residual;
  activation act;
  bool accumulate;
  Out* pre_activation;
  Out* c;
  std::int64_t ldc;
};

/// The finish that `args` asks for, at row `i` and column `j`, without earlier sums.
template <class In, class Out>
finish_args<Out> finish_at(const gemm_args<In, Out>& args, std::int64_t i, std::int64_t j) noexcept {
  const std::int64_t offset = i * args.ldc + j;
  return {.partial = nullptr,
          .ld_partial = 0,
          .bias = args.bias == nullptr ? nullptr : args.bias + j,
          .residual = args.residual == nullptr ? nullptr : args.residual + i * args.ld_residual + j,
          .ld_residual = args.ld_residual,
          .act = args.act,
          .accumulate = args.accumulate,
          .pre_activation = args.pre_activation == nullptr ? nullptr : args.pre_activation + offset,
          .c = args.c + offset,
          .ldc = args.ldc};
}

/// Turns `height` x `width` sums, rows `ld` apart, into C, in vectors of `Floats`.
template <class Floats>
struct finish_kernel {
  static constexpr bool exact = false;

  template <class Out>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* sums, std::int64_t ld, std::int64_t height, std::int64_t width,
                                         const finish_args<Out>* to) {
    for (std::int64_t i = 0; i < height; ++i) {
      for_lanes<Floats>(
          width, [&](std::int64_t j, auto part) CAUSEWAY_INLINE_LAMBDA { finish(sums + i * ld + j, i, j, part, *to); });
    }
  }

 private:
  template <class Out, class Part>
  CAUSEWAY_ALWAYS_INLINE static void finish(const float* sums, std::int64_t i, std::int64_t j, Part part,
                                            const finish_args<Out>& to) {
    Floats value;
    load(value, sums, part);
    if (to.partial != nullptr) add(value, to.partial + i * to.ld_partial + j, part);
    if (to.accumulate) add(value, to.c + i * to.ldc + j, part);
    if (to.bias != nullptr) add(value, to.bias + j, part);
    if (to.pre_activation != nullptr) store(to.pre_activation + i * to.ldc + j, value, part);
    if (to.act == activation::gelu) {
      Floats gate;
      gelu_gate(gate, value);
      value = value * gate;
    }
    if (to.residual != nullptr) add(value, to.residual + i * to.ld_residual + j, part);
    store(to.c + i * to.ldc + j, value, part);
  }

  template <class T, class Part>
  CAUSEWAY_ALWAYS_INLINE static void add(Floats& value, const T* from, Part part) {
    Floats other;
    load(other, from, part);
    value = value + other;
  }
};

/// finish_kernel with registers as wide as the machine's: `value` comes out of one of two ways at each step.
template <class Out>
void finish_sums(simd_level level, const float* sums, std::int64_t ld, std::int64_t height, std::int64_t width,
                 const finish_args<Out>* to) {
#if CAUSEWAY_X86_SIMD
  if (level >= simd_level::avx512) return run_avx512<finish_kernel<f32x16>>(sums, ld, height, width, to);
  if (level == simd_level::avx2) return run_avx2<finish_kernel<f32x8>>(sums, ld, height, width, to);
#endif
  run_portable<finish_kernel<f32x8>>(sums, ld, height, width, to);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_FINISH_HPP
