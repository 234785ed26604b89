// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/nccl.cuh>

#include "cuda/device_functions.hpp"

namespace causeway_test {

causeway::result<std::shared_ptr<causeway::collective::site>> site_of_devices(
    causeway::net::any_transport& over, const std::vector<causeway::net::peer_index>& members, int device) {
  return causeway::cuda::open_site(over, members, {.device = device, .patience = std::chrono::minutes{2}});
}

causeway::error error_of_nccl(int code) {
  return causeway::cuda::to_error(static_cast<ncclResult_t>(code), nullptr, "test");
}

causeway::result<int> count_devices() { return causeway::cuda::device_count(); }

}  // namespace causeway_test
