// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_RUNTIME_CUH
#define CAUSEWAY_CUDA_DEVICE_RUNTIME_CUH

// Device, stream, memory, and CUDA's errors as ours. A machine without a driver or device is an ordinary error, found in a
// fraction of a millisecond; nothing here throws or prints. An error after a kernel fault stays with the process (CUDA
// calls it sticky): it is errc::device_lost, and trying again is useless.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

// Kernels are templates with hidden visibility: two shared objects with the same kernel do not meet.
#define CAUSEWAY_KERNEL __attribute__((visibility("hidden"))) __global__

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Our error for one of CUDA's; `where` is the operation that reported it. `code` must not be cudaSuccess.
[[nodiscard]] inline error to_error(cudaError_t code, std::string where) {
  const std::string said = cudaGetErrorString(code);
  switch (code) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
      return fail(errc::unsupported, std::move(where),
                  "no usable CUDA device (" + said + "); install an NVIDIA driver, or run on the CPU");
    case cudaErrorNoKernelImageForDevice:
      return fail(errc::unsupported, std::move(where),
                  "the program holds no code for this device (" + said + "); add it to CMAKE_CUDA_ARCHITECTURES");
    case cudaErrorMemoryAllocation:
      return fail(errc::out_of_memory, std::move(where),
                  "device memory is full (" + said + "); use a smaller batch or model");
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidConfiguration: return fail(errc::invalid_argument, std::move(where), said);
    default: return fail(errc::device_lost, std::move(where), "the device failed (" + said + "); restart the process");
  }
}

/// Success, or the error of a CUDA call.
[[nodiscard]] inline result<void> check(cudaError_t code, const char* where) {
  if (code == cudaSuccess) return {};
  return to_error(code, where);
}

/// How many devices there are: at least one, or errc::unsupported with what is missing.
[[nodiscard]] inline result<int> device_count() {
  int count = 0;  // CUDA leaves it alone when there is no driver
  CAUSEWAY_TRY(check(cudaGetDeviceCount(&count), "counting CUDA devices"));
  if (count == 0) return to_error(cudaErrorNoDevice, "counting CUDA devices");
  return count;
}

/// What a device is and can do.
struct device_properties {
  std::string name;
  int major = 0;  ///< compute capability: 9.0 is major 9, minor 0
  int minor = 0;
  int multiprocessors = 0;
  std::size_t memory = 0;         ///< bytes
  std::size_t shared_memory = 0;  ///< bytes, the most that one block can ask for
  bool integrated = false;        ///< shares the memory of the host
};

[[nodiscard]] inline result<device_properties> describe_device(int device = 0) {
  cudaDeviceProp p{};
  CAUSEWAY_TRY(check(cudaGetDeviceProperties(&p, device), "describing a CUDA device"));
  return device_properties{.name = p.name,
                           .major = p.major,
                           .minor = p.minor,
                           .multiprocessors = p.multiProcessorCount,
                           .memory = p.totalGlobalMem,
                           .shared_memory = p.sharedMemPerBlockOptin,
                           .integrated = p.integrated != 0};
}

/// Bytes that a device has and that nobody has reserved, at this moment.
struct memory_state {
  std::size_t free = 0;
  std::size_t total = 0;
};

/// Makes a device the calling thread's current one for as long as it lives. Streams, events and memory belong to the device
/// that is current when they are made; a process with several devices makes each one's in a scope of its own.
class device_scope {
 public:
  [[nodiscard]] static result<device_scope> enter(int device) {
    int before = 0;
    CAUSEWAY_TRY(check(cudaGetDevice(&before), "asking for the current CUDA device"));
    if (before != device) CAUSEWAY_TRY(check(cudaSetDevice(device), "choosing a CUDA device"));
    return device_scope{before == device ? -1 : before};
  }

  device_scope(device_scope&& other) noexcept : before_{std::exchange(other.before_, -1)} {}
  device_scope& operator=(device_scope&&) = delete;
  ~device_scope() {
    if (before_ >= 0) (void)cudaSetDevice(before_);
  }

 private:
  explicit device_scope(int before) noexcept : before_{before} {}

  int before_;  // -1: nothing to restore
};

[[nodiscard]] inline result<memory_state> memory_of(int device) {
  CAUSEWAY_ASSIGN(const device_scope scope, device_scope::enter(device));
  memory_state state;
  CAUSEWAY_TRY(check(cudaMemGetInfo(&state.free, &state.total), "asking for free device memory"));
  return state;
}

namespace detail {

template <auto Destroy>
struct destroy_with {
  template <class T>
  void operator()(T* p) const noexcept {
    (void)Destroy(p);
  }
};

}  // namespace detail

class event;

/// A queue of work on the current device; owns it. Work of one stream runs in order. Movable, not copyable; one thread at a
/// time.
class stream {
 public:
  [[nodiscard]] static result<stream> create() {
    cudaStream_t handle = nullptr;
    CAUSEWAY_TRY(check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "creating a CUDA stream"));
    return stream{handle};
  }

  /// Blocks until all work given so far is done; a fault of any of it comes back here.
  [[nodiscard]] result<void> synchronize() { return check(cudaStreamSynchronize(handle()), "waiting for a CUDA stream"); }

  /// What is given to this stream from now on starts only when the event has happened. Does not block the host.
  [[nodiscard]] result<void> wait(const event& e);

  [[nodiscard]] cudaStream_t handle() const noexcept { return handle_.get(); }

 private:
  explicit stream(cudaStream_t handle) noexcept : handle_{handle} {}

  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, detail::destroy_with<cudaStreamDestroy>> handle_;
};

enum class event_timing : bool { off, on };

/// A point in a stream that other streams and the host can wait for. Recording it again moves it. Movable, not copyable.
class event {
 public:
  [[nodiscard]] static result<event> create(event_timing timing = event_timing::off) {
    cudaEvent_t handle = nullptr;
    const unsigned flags = timing == event_timing::on ? cudaEventDefault : cudaEventDisableTiming;
    CAUSEWAY_TRY(check(cudaEventCreateWithFlags(&handle, flags), "creating a CUDA event"));
    return event{handle};
  }

  /// Happens when all work that `s` has by now is done.
  [[nodiscard]] result<void> record(stream& s) {
    return check(cudaEventRecord(handle(), s.handle()), "recording a CUDA event");
  }

  /// Blocks until it has happened; at once if it was never recorded.
  [[nodiscard]] result<void> synchronize() const {
    return check(cudaEventSynchronize(handle()), "waiting for a CUDA event");
  }

  /// Whether it has happened; does not block.
  [[nodiscard]] result<bool> happened() const {
    const cudaError_t code = cudaEventQuery(handle());
    if (code == cudaErrorNotReady) return false;
    CAUSEWAY_TRY(check(code, "asking for a CUDA event"));
    return true;
  }

  /// Milliseconds between two events that have happened, both made with event_timing::on.
  [[nodiscard]] result<float> milliseconds_since(const event& begin) const {
    float elapsed = 0;
    CAUSEWAY_TRY(check(cudaEventElapsedTime(&elapsed, begin.handle(), handle()), "timing between CUDA events"));
    return elapsed;
  }

  [[nodiscard]] cudaEvent_t handle() const noexcept { return handle_.get(); }

 private:
  explicit event(cudaEvent_t handle) noexcept : handle_{handle} {}

  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, detail::destroy_with<cudaEventDestroy>> handle_;
};

inline result<void> stream::wait(const event& e) {
  return check(cudaStreamWaitEvent(handle(), e.handle(), 0), "letting a CUDA stream wait");
}

/// A fixed number of values of a trivially copyable type in device memory, not initialised. Movable, not copyable.
template <class T>
class device_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  [[nodiscard]] static result<device_buffer> create(std::size_t count) {
    void* data = nullptr;
    if (count > 0) CAUSEWAY_TRY(check(cudaMalloc(&data, count * sizeof(T)), "reserving device memory"));
    return device_buffer{static_cast<T*>(data), count};
  }

  device_buffer(device_buffer&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  device_buffer& operator=(device_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~device_buffer() {
    if (data_ != nullptr) (void)cudaFree(data_);
  }

  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Starts copying `host` into the buffer; `host` must have its size and stay unchanged until the stream is synchronized.
  [[nodiscard]] result<void> write(stream& s, std::span<const T> host) {
    CAUSEWAY_EXPECT(host.size() == size_);
    return check(cudaMemcpyAsync(data_, host.data(), host.size_bytes(), cudaMemcpyHostToDevice, s.handle()),
                 "copying to the device");
  }

  /// Starts copying the buffer into `host`, which has its size; the values are there once the stream is synchronized.
  [[nodiscard]] result<void> read(stream& s, std::span<T> host) const {
    CAUSEWAY_EXPECT(host.size() == size_);
    return check(cudaMemcpyAsync(host.data(), data_, host.size_bytes(), cudaMemcpyDeviceToHost, s.handle()),
                 "copying from the device");
  }

 private:
  device_buffer(T* data, std::size_t count) noexcept : data_{data}, size_{count} {}

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_RUNTIME_CUH
