// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_CODEC_CASE_HPP
#define CAUSEWAY_TESTS_CUDA_CODEC_CASE_HPP

// What codecs.cu encodes on the device and codecs.cpp on the host.

#include <causeway/compress/bits.hpp>
#include <causeway/core/result.hpp>

#include "cuda/body_support.hpp"

#include <cstddef>
#include <vector>

namespace causeway_test {

namespace codec_case {
inline constexpr std::size_t n = 300'007;
inline constexpr float gain = 0.9F, decay = 0.8F, weight = -0.5F;
inline constexpr causeway::compress::bits_options by_mean{.bucket = 64, .scale = causeway::compress::bucket_scale::rms};
inline constexpr causeway::compress::bits_options stochastic{.stochastic = true, .seed = 8};
}  // namespace codec_case

/// From `numbers(n, 1)`: the message, the error that is left of `numbers(n, 2)`, and `numbers(n, 3)` with weight times the
/// decoded message added.
struct codec_result {
  std::vector<std::byte> bytes;
  std::vector<float> error = numbers(codec_case::n, 2), sum = numbers(codec_case::n, 3);
};

/// bf16, fp16, block_int8, e3m0, bits<1>, bits<2> by mean, stochastic bits<4>.
causeway::result<std::vector<codec_result>> codecs_on_device();

/// Whether the CPU's codecs work where nvcc compiled them: a user's trainer may stand in a .cu file.
bool codecs_of_cpu_work();

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_CODEC_CASE_HPP
