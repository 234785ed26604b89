// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_ENGINE_CUH
#define CAUSEWAY_CUDA_ENGINE_CUH

// The engine of a GPU: a stream, its arena, cuBLASLt. One .cu file of a program includes this and gives the rest of it what
// `open_engine` returns (examples/train_gpt_cuda). Link causeway::cublaslt.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/compute.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/cuda/matmul.cuh>
#include <causeway/cuda/memory.cuh>
#include <causeway/cuda/product_queue.cuh>
#include <causeway/cuda/runtime.cuh>
#include <causeway/cuda/sort.cuh>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::cuda {

struct engine_options {
  int device = 0;
  bool tf32 = false;  ///< products of f32 may use the tensor cores, with 10 bits of mantissa
};

namespace detail {

// What a queue refers to, at an address that stays.
struct device_place {
  int device;
  stream work;
  arena memory;
  matmul products;
};

}  // namespace detail

/// Buffers lie in managed memory: the device keeps the pages that it uses, and the host reads and writes the same addresses
/// when nothing is under way. Pages that the host touched come back when a kernel needs them, at the rate of the bus; in
/// steps that the host does not look into none move.
class engine_queue : public product_queue<sorting_queue> {
 public:
  [[nodiscard]] static result<engine_queue> create(const engine_options& options) {
    CAUSEWAY_ASSIGN(const int devices, device_count());
    if (options.device < 0 || options.device >= devices) {
      return fail(errc::invalid_argument, "device " + std::to_string(options.device),
                  "there are " + std::to_string(devices) + " devices, counted from 0");
    }
    CAUSEWAY_TRY(check(cudaSetDevice(options.device), "choosing a CUDA device"));
    CAUSEWAY_ASSIGN(auto work, stream::create());
    CAUSEWAY_ASSIGN(auto products, matmul::create(options.tf32));
    return result<engine_queue>{engine_queue{std::make_unique<detail::device_place>(
        detail::device_place{options.device, std::move(work), arena{options.device}, std::move(products)})}};
  }

  /// Streams and memory belong to a device, so the calling thread must be on it: nothing where it is.
  [[nodiscard]] result<void> enter() { return check(cudaSetDevice(place_->device), "choosing a CUDA device"); }
  /// Moves pages at the rate of the bus, which faults of a kernel do not reach. Where it cannot, they come by faults.
  [[nodiscard]] result<void> fetch(const void* p, std::size_t bytes) {
#if CUDART_VERSION >= 13000
    const cudaMemLocation here{cudaMemLocationTypeDevice, place_->device};
    const cudaError_t hint = cudaMemPrefetchAsync(p, bytes, here, 0, handle());
#else
    const cudaError_t hint = cudaMemPrefetchAsync(p, bytes, place_->device, handle());
#endif
    if (hint != cudaSuccess) (void)cudaGetLastError();  // a launch would report it as its own
    return {};
  }
  [[nodiscard]] result<void> copy(void* to, const void* from, std::size_t bytes) {
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle()), "copying on the device");
  }
  /// CUDA has read pageable memory when the call returns.
  [[nodiscard]] result<void> copy_in(void* to, const void* host, std::size_t bytes) {
    return check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyDefault, handle()), "copying to the device");
  }
  [[nodiscard]] result<void> copy_out(void* host, const void* from, std::size_t bytes) {
    CAUSEWAY_TRY(check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDefault, handle()), "copying from the device"));
    return wait();
  }
  [[nodiscard]] result<void> wait() { return place_->work.synchronize(); }

  [[nodiscard]] void* reserve(std::size_t bytes) {
    void* piece = nullptr;
    if (!enter() || cudaMallocManaged(&piece, std::max<std::size_t>(bytes, 1)) != cudaSuccess) throw std::bad_alloc{};
    return piece;
  }
  void release(void* piece) noexcept { (void)cudaFree(piece); }

  [[nodiscard]] std::string describe() const {
    const auto what = describe_device(place_->device);
    if (!what) return "cuda: device " + std::to_string(place_->device);
    return "cuda: " + what->name + " (" + std::to_string(what->major) + "." + std::to_string(what->minor) + ")";
  }

 private:
  explicit engine_queue(std::unique_ptr<detail::device_place> place)
      : product_queue<sorting_queue>{place->work, place->memory, place->products}, place_{std::move(place)} {}

  [[nodiscard]] cudaStream_t handle() const noexcept { return place_->work.handle(); }

  std::unique_ptr<detail::device_place> place_;
};

/// An engine of a device, or why there is none: errc::unsupported without a driver, a device or code for its architecture.
[[nodiscard]] inline result<std::shared_ptr<engine>> open_engine(const engine_options& options = {}) {
  CAUSEWAY_ASSIGN(auto queue, engine_queue::create(options));
  return std::shared_ptr<engine>{std::make_shared<compute<engine_queue>>(std::move(queue))};
}

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_ENGINE_CUH
