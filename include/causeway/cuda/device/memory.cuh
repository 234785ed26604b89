// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_MEMORY_CUH
#define CAUSEWAY_CUDA_DEVICE_MEMORY_CUH

// Memory that is reserved once: an arena of device memory in the order of a stream, and page-locked host memory, which
// copies need to overlap with kernels. cudaMalloc and cudaFree wait for the device, so a steady step calls neither.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/device/caching_pool.hpp>
#include <causeway/cuda/device/runtime.cuh>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Memory of one device. Reserving and releasing wait for the work that the device has.
class device_memory_source {
 public:
  explicit device_memory_source(int device) noexcept : device_{device} {}

  [[nodiscard]] result<void*> reserve(std::size_t bytes) const {
    CAUSEWAY_ASSIGN(const device_scope scope, device_scope::enter(device_));
    void* piece = nullptr;
    CAUSEWAY_TRY(check(cudaMalloc(&piece, bytes), "reserving device memory"));
    return piece;
  }
  void release(void* piece) const noexcept {
    if (const auto scope = device_scope::enter(device_)) (void)cudaFree(piece);
  }

 private:
  int device_;
};

/// Working memory of the kernels of one stream. A piece may be taken again as soon as its lease ends, although the kernels
/// that use it may still wait in the stream: whoever takes it next comes after them there. So a lease may be used in no
/// other stream, unless that one waits for an event of this stream first, and this one for an event of that one before the
/// lease ends. One thread at a time. The arena must outlive its leases.
class arena {
 public:
  explicit arena(int device) : pool_{std::make_unique<pool>(device_memory_source{device})} {}

  /// `size` values in device memory, not initialised.
  template <class T>
  class lease {
    static_assert(std::is_trivially_copyable_v<T>);

   public:
    lease(lease&& other) noexcept
        : pool_{std::exchange(other.pool_, nullptr)},
          data_{std::exchange(other.data_, nullptr)},
          size_{std::exchange(other.size_, 0)} {}
    lease& operator=(lease&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(data_, other.data_);
      std::swap(size_, other.size_);
      return *this;
    }
    ~lease() {
      if (pool_ != nullptr) pool_->give(data_, size_ * sizeof(T));
    }

    [[nodiscard]] T* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

   private:
    friend arena;
    lease(caching_pool<device_memory_source>* pool, T* data, std::size_t size) noexcept
        : pool_{pool}, data_{data}, size_{size} {}

    caching_pool<device_memory_source>* pool_;
    T* data_;
    std::size_t size_;
  };

  template <class T>
  [[nodiscard]] result<lease<T>> take(std::size_t count) {
    CAUSEWAY_ASSIGN(void* const piece, pool_->take(count * sizeof(T)));
    return lease<T>{pool_.get(), static_cast<T*>(piece), count};
  }

  /// Gives back to the device what no lease holds; waits for the device.
  void trim() { pool_->trim(); }

  [[nodiscard]] std::size_t held() const noexcept { return pool_->held(); }
  [[nodiscard]] std::size_t taken() const noexcept { return pool_->taken(); }
  [[nodiscard]] std::size_t reservations() const noexcept { return pool_->reservations(); }

 private:
  using pool = caching_pool<device_memory_source>;
  std::unique_ptr<pool> pool_;  // leases point at it
};

/// Page-locked host memory, not initialised: copies between it and a device run beside kernels, and at the full rate of
/// the bus. Movable, not copyable.
template <class T>
class pinned_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  pinned_buffer() = default;

  [[nodiscard]] static result<pinned_buffer> create(std::size_t count) {
    void* data = nullptr;
    if (count > 0) {
      CAUSEWAY_TRY(check(cudaHostAlloc(&data, count * sizeof(T), cudaHostAllocPortable), "reserving page-locked memory"));
    }
    return pinned_buffer{static_cast<T*>(data), count};
  }

  pinned_buffer(pinned_buffer&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  pinned_buffer& operator=(pinned_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~pinned_buffer() {
    if (data_ != nullptr) (void)cudaFreeHost(data_);
  }

  [[nodiscard]] std::span<T> values() noexcept { return {data_, size_}; }
  [[nodiscard]] std::span<const T> values() const noexcept { return {data_, size_}; }

 private:
  pinned_buffer(T* data, std::size_t count) noexcept : data_{data}, size_{count} {}

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_MEMORY_CUH
