// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_BF16_LEVEL_HPP
#define CAUSEWAY_KERNELS_BF16_LEVEL_HPP

// Which instructions multiply bf16 soonest. A processor that has dot products of bf16 pairs need not be quick at them: Zen
// 4 and 5 do twice the multiply-adds of f32, Sapphire Rapids half of them, so that bf16 values are better widened while
// they are packed and multiplied as f32 there. Its tiles (AMX), which not every virtual machine shows, are quicker than
// both by far. All sum in f32; memory stays bf16.

#include <causeway/config/config.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/tensor/dtype.hpp>

#include <concepts>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Seconds that the same multiply-adds take; infinite where this machine cannot.
struct bf16_timing {
  double widened;  ///< FMAs of values widened to f32
  double pairs;    ///< dot products of pairs of bf16
  double tiles;    ///< products of tiles of bf16
};

/// The quickest of alternating runs of our tile kernels, one thread, panels in the nearest cache: about half a
/// millisecond. Needs a machine of level avx512_bf16.
CAUSEWAY_DECL bf16_timing time_bf16_tiles();

/// The levels for bf16 on a machine.
struct bf16_choice {
  simd_level products;  ///< of matrices
  simd_level vectors;   ///< of kernels that do not use AMX
};

/// Pairs are taken unless FMAs are clearly quicker, and AMX unless one of them is: they round differently, so a choice
/// must not change from run to run. (They differ by a factor of two wherever we have measured.) Pairs also take half the
/// memory of packed panels.
constexpr bf16_choice choose_bf16_levels(const bf16_timing& time) noexcept {
  const bool pairs = time.pairs < 1.2 * time.widened;
  const simd_level vectors = pairs ? simd_level::avx512_bf16 : simd_level::avx512;
  return {time.tiles < 1.2 * (pairs ? time.pairs : time.widened) ? simd_level::amx_bf16 : vectors, vectors};
}

/// The levels for bf16 on this machine: detect_simd_level(), or less where that loses. Measured once a process, when first
/// asked. Thread-safe.
CAUSEWAY_DECL const bf16_choice& bf16_levels();

/// What products of matrices of `Act` use when nobody names a level.
template <class Act>
simd_level product_level() {
  if constexpr (std::same_as<Act, bf16>) {
    return bf16_levels().products;
  } else {
    return detect_simd_level();
  }
}

/// What other kernels that multiply values of `Act` use when nobody names a level.
template <class Act>
simd_level vector_level() {
  if constexpr (std::same_as<Act, bf16>) {
    return bf16_levels().vectors;
  } else {
    return detect_simd_level();
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#ifndef CAUSEWAY_COMPILED
#include <causeway/kernels/impl/bf16_level.ipp>
#endif

#endif  // CAUSEWAY_KERNELS_BF16_LEVEL_HPP
