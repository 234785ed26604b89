// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_DROPOUT_BODY_HPP
#define CAUSEWAY_CUDA_BODIES_DROPOUT_BODY_HPP

// Dropout with the bits of kernels/dropout.hpp: a replica on a GPU drops what one on a CPU drops.

#include <causeway/config/config.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/kernels/dropout.hpp>

#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// x[i] *= keeps(i) / (1 - rate), over `counters()` items: one Philox counter makes the masks of four elements, which lie
/// as far apart as items of a warp are, so that neighbours in a warp touch neighbours in memory.
template <class T>
struct dropout_body {
  T* x = nullptr;
  std::int64_t count = 0;
  std::uint32_t threshold = 0;
  float scale = 1.0F;
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  const std::uint64_t* changing = nullptr;  ///< where the seed lies, if it is another one at every replay

  dropout_body(T* values, std::int64_t n, float rate, std::uint64_t with_seed, std::uint64_t of_stream)
      : x{values},
        count{n},
        threshold{kernels::detail::dropout_threshold(rate)},
        scale{1.0F / (1.0F - rate)},
        seed{with_seed},
        stream{of_stream} {}

  [[nodiscard]] std::int64_t counters() const {
    constexpr std::int64_t block = kernels::detail::dropout_block;
    return (count + block - 1) / block * kernels::detail::dropout_counters;
  }

  CAUSEWAY_HD void operator()(std::int64_t i) const {
    constexpr std::int64_t apart = kernels::detail::dropout_counters;
    const auto counter = static_cast<std::uint64_t>(i);
    const auto words = philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U),
                               static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32U)},
                              changing == nullptr ? seed : *changing);
    const std::int64_t first = i / apart * kernels::detail::dropout_block + i % apart;
    for (int k = 0; k < 4; ++k) {
      const std::int64_t at = first + k * apart;
      if (at >= count) return;
      const float factor = words[static_cast<std::size_t>(k)] >= threshold ? scale : 0.0F;
      x[at] = T(detail::times(static_cast<float>(x[at]), factor));
    }
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_DROPOUT_BODY_HPP
