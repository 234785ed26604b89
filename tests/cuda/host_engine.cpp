// SPDX-License-Identifier: Apache-2.0
#include "cuda/host_engine.hpp"

#include "cuda/host_queue.hpp"

#include <utility>

namespace causeway_test {

std::shared_ptr<causeway::cuda::engine> engine_on_host(std::shared_ptr<queue_report> report) {
  return host_engine(std::move(report));
}

}  // namespace causeway_test
