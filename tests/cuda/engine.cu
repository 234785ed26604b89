// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/engine.cuh>

#include "cuda/device_functions.hpp"

namespace causeway_test {

causeway::result<std::shared_ptr<causeway::cuda::engine>> engine_of_device(int device, bool graphs) {
  return causeway::cuda::open_engine({.device = device, .graphs = graphs});
}

}  // namespace causeway_test
