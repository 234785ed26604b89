// SPDX-License-Identifier: Apache-2.0
#include "cuda/step.hpp"

#include <causeway/cuda/engine.cuh>

namespace bench {

causeway::result<std::shared_ptr<causeway::cuda::engine>> open_engine(bool graphs) {
  return causeway::cuda::open_engine({.graphs = graphs});
}

}  // namespace bench
