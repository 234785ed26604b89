// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/device/runtime.cuh>

#include "cuda/device_functions.hpp"

namespace causeway_test {

causeway::error error_of(int cuda_error) { return causeway::cuda::to_error(static_cast<cudaError_t>(cuda_error), "test"); }

causeway::result<std::vector<std::string>> devices() {
  CAUSEWAY_ASSIGN(const int count, causeway::cuda::device_count());
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    CAUSEWAY_ASSIGN(const auto p, causeway::cuda::describe_device(i));
    names.push_back(p.name + " (" + std::to_string(p.major) + "." + std::to_string(p.minor) + ")");
  }
  return names;
}

causeway::result<void> reserve_too_much() {
  CAUSEWAY_ASSIGN(auto buffer, causeway::cuda::device_buffer<float>::create(std::size_t{1} << 50U));
  return {};
}

}  // namespace causeway_test
