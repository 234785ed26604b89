// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_CUDA_STEP_HPP
#define CAUSEWAY_BENCH_CUDA_STEP_HPP

// Whole training steps on an engine: forward, backward, clipping, AdamW. No word of CUDA.

#include <causeway/core/result.hpp>
#include <causeway/cuda/engine.hpp>

#include <memory>
#include <string>
#include <vector>

namespace bench {

struct step_figure {
  std::string model;
  double tokens = 0;      ///< a step
  double seconds = 0;     ///< a step, the median
  double operations = 0;  ///< of the matrix products of a step, attention's causal half included
};

/// That of the first device (step.cu); with recorded passes or without.
causeway::result<std::shared_ptr<causeway::cuda::engine>> open_engine(bool graphs);

/// A GPT of 18M parameters with 2,048 tokens a step, GPT-2 124M with 65,536 and 1.5B with 16,384, in bf16 with f32 masters;
/// small ones in quick runs. The first two also with recorded passes.
causeway::result<std::vector<step_figure>> measure_steps(bool quick);

}  // namespace bench

#endif  // CAUSEWAY_BENCH_CUDA_STEP_HPP
