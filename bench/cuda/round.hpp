// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_CUDA_ROUND_HPP
#define CAUSEWAY_BENCH_CUDA_ROUND_HPP

// What a peer's device does in a round of DiLoCo, without the network between. No word of CUDA.

#include <causeway/core/result.hpp>

#include <string>
#include <vector>

namespace bench {

struct round_figure {
  std::string part;
  double seconds = 0;   ///< the median
  double crossing = 0;  ///< bytes to or from the host
};

/// Of 124M parameters (a million in quick runs) with block_int8, in messages of 4 Mi values.
causeway::result<std::vector<round_figure>> measure_round(bool quick);

}  // namespace bench

#endif  // CAUSEWAY_BENCH_CUDA_ROUND_HPP
