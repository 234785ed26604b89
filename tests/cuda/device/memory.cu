// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/device/memory.cuh>

#include "cuda/device_functions.hpp"

#include <algorithm>

namespace causeway_test {

namespace cuda = causeway::cuda;

causeway::result<std::size_t> reservations_of_second_step() {
  CAUSEWAY_ASSIGN(auto stream, cuda::stream::create());
  cuda::arena memory{0};
  std::size_t after_first = 0;
  for (int step = 0; step < 2; ++step) {
    CAUSEWAY_ASSIGN(const auto activations, memory.take<float>(1'000'000));
    for (int layer = 0; layer < 4; ++layer) {
      CAUSEWAY_ASSIGN(const auto working, memory.take<float>(50'000));
      CAUSEWAY_TRY(
          cuda::check(cudaMemsetAsync(working.data(), 1, working.size() * sizeof(float), stream.handle()), "test"));
    }
    if (step == 0) after_first = memory.reservations();
  }
  CAUSEWAY_TRY(stream.synchronize());
  return memory.reservations() - after_first;
}

causeway::result<std::vector<int>> through_two_streams(const std::vector<int>& values) {
  CAUSEWAY_ASSIGN(auto first, cuda::stream::create());
  CAUSEWAY_ASSIGN(auto second, cuda::stream::create());
  CAUSEWAY_ASSIGN(auto written, cuda::event::create());
  CAUSEWAY_ASSIGN(auto device, cuda::device_buffer<int>::create(values.size()));
  CAUSEWAY_ASSIGN(auto there, cuda::pinned_buffer<int>::create(values.size()));
  CAUSEWAY_ASSIGN(auto back, cuda::pinned_buffer<int>::create(values.size()));
  std::copy(values.begin(), values.end(), there.values().begin());
  CAUSEWAY_TRY(device.write(first, there.values()));
  CAUSEWAY_TRY(written.record(first));
  CAUSEWAY_TRY(second.wait(written));
  CAUSEWAY_TRY(device.read(second, back.values()));
  CAUSEWAY_TRY(second.synchronize());
  CAUSEWAY_ASSIGN(const bool happened, written.happened());
  if (!happened)
    return causeway::fail(causeway::errc::device_lost, "test", "an event that was waited for has not happened");
  return std::vector<int>(back.values().begin(), back.values().end());
}

}  // namespace causeway_test
