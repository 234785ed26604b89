// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_ATTENTION_DEVICE_HPP
#define CAUSEWAY_TESTS_CUDA_ATTENTION_DEVICE_HPP

// What attention.cu offers to attention.cpp.

#include <causeway/core/result.hpp>
#include <causeway/kernels/attention_shape.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstdint>
#include <vector>

namespace causeway_test {

/// What attention reads and writes, in packed rows [q | k | v].
template <class Act>
struct attention_rows {
  std::vector<Act> qkv, o, d_o, d_qkv;
  std::vector<float> logsumexp, correction;
};

/// The forward and the backward pass on the device.
causeway::result<void> attention_on_device(const causeway::kernels::attention_shape& shape,
                                           attention_rows<causeway::bf16>& rows);
causeway::result<void> attention_on_device(const causeway::kernels::attention_shape& shape, attention_rows<float>& rows);

/// Whether bf16 rows so far apart, of heads of that size, are taken.
causeway::result<void> check_attention_arguments(std::int64_t head_size, std::int64_t stride);

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_ATTENTION_DEVICE_HPP
