// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_IMPL_BF16_LEVEL_IPP
#define CAUSEWAY_KERNELS_IMPL_BF16_LEVEL_IPP

#include <causeway/kernels/bf16_level.hpp>
#include <causeway/kernels/packed_gemm_amx.hpp>
#include <causeway/kernels/packed_gemm_avx512.hpp>
#include <causeway/kernels/packed_gemm_avx512_bf16.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

#if CAUSEWAY_X86_SIMD
namespace detail {

/// Repeats one tile of `depth` values of k, and returns the seconds for each of its sums.
template <class Tile>
double time_tile(std::int64_t depth, int repeats, const std::vector<float>& panels, std::vector<float>& sums) {
  const auto* a = reinterpret_cast<const typename Tile::packed*>(panels.data());  // zeros are zeros in all
  const std::int64_t steps = depth / Tile::depth_step;
  Tile::open();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    Tile::multiply(Tile::rows, steps, a, a + Tile::rows * steps, sums.data(), Tile::columns, true);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Tile::close();
  return seconds.count() / (Tile::rows * Tile::columns);
}

}  // namespace detail
#endif

CAUSEWAY_DECL bf16_timing time_bf16_tiles() {
  constexpr double never = std::numeric_limits<double>::infinity();
  bf16_timing best{never, never, never};
#if CAUSEWAY_X86_SIMD
  constexpr std::int64_t depth = 128;
  constexpr int repeats = 64;
  using tile = detail::amx_tile;  // the largest
  const std::vector<float> panels(static_cast<std::size_t>((tile::rows + tile::columns) * depth) +
                                  1024);  // prefetched ahead
  std::vector<float> sums(static_cast<std::size_t>(tile::rows * tile::columns));
  const bool amx = detect_simd_level() >= simd_level::amx_bf16;
  for (int round = 0; round < 5; ++round) {
    best.widened = std::min(best.widened, detail::time_tile<detail::avx512_tile>(depth, repeats, panels, sums));
    best.pairs = std::min(best.pairs, detail::time_tile<detail::avx512_bf16_tile>(depth, repeats, panels, sums));
    if (amx) best.tiles = std::min(best.tiles, detail::time_tile<tile>(depth, repeats, panels, sums));
  }
#endif
  return best;
}

CAUSEWAY_DECL const bf16_choice& bf16_levels() {
  static const bf16_choice choice = [] {
    const simd_level best = detect_simd_level();
    return best < simd_level::avx512_bf16 ? bf16_choice{best, best} : choose_bf16_levels(time_bf16_tiles());
  }();
  return choice;
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_BF16_LEVEL_IPP
