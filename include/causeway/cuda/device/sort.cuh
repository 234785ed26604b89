// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_SORT_CUH
#define CAUSEWAY_CUDA_DEVICE_SORT_CUH

// A queue that sorts, by CUB. Apart from queue.cuh because CUB takes the compiler ten seconds.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/device/memory.cuh>
#include <causeway/cuda/device/queue.cuh>
#include <causeway/cuda/device/runtime.cuh>
#include <causeway/cuda/ops/queue.hpp>

#include <cub/device/device_radix_sort.cuh>

#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Refers to stream and arena, which must outlive it.
class sorting_queue : public device_queue {
 public:
  using device_queue::device_queue;

  /// By CUB's radix sort. At most 2^31 - 1 pairs.
  [[nodiscard]] result<void> sort_pairs(const std::int32_t* keys, const std::int32_t* values, std::int32_t* sorted_keys,
                                        std::int32_t* sorted_values, std::int64_t count, int bits) {
    std::size_t bytes = 0;
    const auto sort = [&](void* room) {
      return cub::DeviceRadixSort::SortPairs(room, bytes, keys, sorted_keys, values, sorted_values, static_cast<int>(count),
                                             0, bits, stream_->handle());
    };
    CAUSEWAY_TRY(check(sort(nullptr), "asking for the memory of a sort"));
    CAUSEWAY_ASSIGN(const auto room, memory_->take<std::byte>(bytes));
    return check(sort(room.data()), "sorting");
  }
};
static_assert(SortingQueue<sorting_queue>);

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_SORT_CUH
