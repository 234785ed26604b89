// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_PRODUCT_QUEUE_CUH
#define CAUSEWAY_CUDA_DEVICE_PRODUCT_QUEUE_CUH

// A queue that multiplies, by cuBLASLt.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/device/matmul.cuh>
#include <causeway/cuda/device/memory.cuh>
#include <causeway/cuda/device/queue.cuh>
#include <causeway/cuda/device/runtime.cuh>
#include <causeway/cuda/ops/products.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Refers to all three, which must outlive it. `Base` is what the rest is done by.
template <class Base = device_queue>
class product_queue : public Base {
 public:
  product_queue(stream& s, arena& memory, matmul& products) noexcept : Base{s, memory}, products_{&products} {}

  template <class In, class Out>
  [[nodiscard]] result<void> multiply(const matmul_args<In, Out>& args) {
    return products_->multiply(*this->stream_, args);
  }

 private:
  matmul* products_;
};
static_assert(ProductQueue<product_queue<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_PRODUCT_QUEUE_CUH
