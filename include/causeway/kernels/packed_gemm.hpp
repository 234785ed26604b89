// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_PACKED_GEMM_HPP
#define CAUSEWAY_KERNELS_PACKED_GEMM_HPP

// Our own matrix product. It needs no library and no compiler flags: the instruction set is chosen at run time. Operands
// are copied into panels that the tile kernels read in order (the way of Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", 2008). Every element of C is one sum in one order, whatever the number of
// threads.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/bf16_level.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// What our products take: sums are in f32.
template <class In, class Out>
concept gemm_types = (std::same_as<In, float> && std::same_as<Out, float>) ||
                     (std::same_as<In, bf16> && (std::same_as<Out, float> || std::same_as<Out, bf16>));

/// The packed product. Reaches about nine tenths of the multiply-add peak on the shapes of training; works on any machine.
class packed_gemm {
 public:
  static constexpr std::string_view name = "packed";

  /// Uses what is quickest here.
  packed_gemm() = default;
  /// Uses `level`, or less where the machine has less.
  explicit packed_gemm(simd_level level) : asked_{std::min(level, detect_simd_level())} {}

  template <class In, class Out>
    requires gemm_types<In, Out>
  void multiply(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& arguments);

  /// The level for operands of `In`.
  template <class In = float>
  [[nodiscard]] simd_level level() const {
    return asked_ ? *asked_ : product_level<In>();
  }
  /// One line for a person, with what the machine has, such as "packed gemm (avx512, avx512_bf16)".
  [[nodiscard]] std::string describe() const { return "packed gemm (" + std::string{to_string(level())} + ")"; }

 private:
  template <class In, class Out>
  void dispatch(thread_pool& pool, scratch& memory, const gemm_args<In, Out>& args, unsigned shares);

  std::optional<simd_level> asked_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#ifndef CAUSEWAY_COMPILED
#include <causeway/kernels/impl/packed_gemm.ipp>
#endif

#endif  // CAUSEWAY_KERNELS_PACKED_GEMM_HPP
