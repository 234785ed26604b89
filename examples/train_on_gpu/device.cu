// SPDX-License-Identifier: Apache-2.0
// All that nvcc compiles of this program.
#include <causeway/cuda/engine.cuh>

causeway::result<std::shared_ptr<causeway::cuda::engine>> open_device() { return causeway::cuda::open_engine(); }
