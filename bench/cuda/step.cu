// SPDX-License-Identifier: Apache-2.0
#include "cuda/step.hpp"

#include <causeway/cuda/engine.cuh>

namespace bench {

causeway::result<std::shared_ptr<causeway::cuda::engine>> open_engine() { return causeway::cuda::open_engine(); }

}  // namespace bench
