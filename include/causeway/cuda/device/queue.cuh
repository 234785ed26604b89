// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_QUEUE_CUH
#define CAUSEWAY_CUDA_DEVICE_QUEUE_CUH

// A stream and its arena as a queue of bodies (queue.hpp).

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/device/elementwise.cuh>
#include <causeway/cuda/device/memory.cuh>
#include <causeway/cuda/device/row_kernels.cuh>
#include <causeway/cuda/device/runtime.cuh>
#include <causeway/cuda/device/tensor_cores.cuh>
#include <causeway/cuda/ops/queue.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Refers to both, which must outlive it.
class device_queue {
 public:
  device_queue(stream& s, arena& memory) noexcept : stream_{&s}, memory_{&memory} {}

  template <class Body>
  [[nodiscard]] result<void> elements(std::int64_t count, const Body& body) {
    return elementwise(*stream_, count, body);
  }
  template <class Body>
  [[nodiscard]] result<void> rows(std::int64_t items, std::int64_t columns, const Body& body) {
    return for_each_row(*stream_, items, columns, body);
  }
  template <class Body>
  [[nodiscard]] result<void> rows_with_memory(std::int64_t items, std::int64_t columns, const Body& body) {
    return for_each_row_with_memory(*stream_, items, columns, body);
  }
  template <class Body>
  [[nodiscard]] result<void> groups(std::int64_t items, const Body& body) {
    return for_each_block(*stream_, items, body);
  }
  template <int Blocks, class Body>
  [[nodiscard]] result<void> tiles(const Body& body) {
    return for_each_tile<Blocks>(*stream_, body);
  }
  /// CUDA has read pageable memory when the call returns.
  [[nodiscard]] result<void> copy_in(void* to, const void* host, std::size_t bytes) {
    return check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyDefault, stream_->handle()), "copying to the device");
  }
  template <class T>
  [[nodiscard]] result<arena::lease<T>> take(std::size_t count) {
    return memory_->template take<T>(count);
  }

 protected:
  stream* stream_;
  arena* memory_;
};
static_assert(InwardQueue<device_queue>);

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_QUEUE_CUH
