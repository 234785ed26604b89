// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_ORTHOGONALISE_CASE_HPP
#define CAUSEWAY_TESTS_CUDA_ORTHOGONALISE_CASE_HPP

#include <causeway/core/result.hpp>

#include <cstdint>
#include <vector>

namespace causeway_test {

/// x orthogonalised by the device with operands of f32, or of bf16.
causeway::result<std::vector<float>> orthogonalise_on_device(const std::vector<float>& x, std::int64_t rows,
                                                             std::int64_t columns, bool in_bf16);

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_ORTHOGONALISE_CASE_HPP
