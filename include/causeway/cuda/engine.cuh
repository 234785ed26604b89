// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_ENGINE_CUH
#define CAUSEWAY_CUDA_ENGINE_CUH

// The engine of a GPU: a stream, its arena, cuBLASLt. One .cu file of a program includes this and gives the rest of it what
// `open_engine` returns (examples/train_on_gpu). Link causeway::cublaslt.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/device/graph.cuh>
#include <causeway/cuda/device/matmul.cuh>
#include <causeway/cuda/device/memory.cuh>
#include <causeway/cuda/device/product_queue.cuh>
#include <causeway/cuda/device/runtime.cuh>
#include <causeway/cuda/device/sort.cuh>
#include <causeway/cuda/engine.hpp>
#include <causeway/cuda/ops/compute.hpp>
#include <causeway/cuda/recording.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

struct engine_options {
  int device = 0;
  bool tf32 = false;  ///< products of f32 may use the tensor cores, with 10 bits of mantissa
  /// Training passes that repeat start as one CUDA graph each. For models so small that a step waits for its launches; a
  /// recorded shape keeps its activations' memory.
  bool graphs = false;
};

namespace detail {

/// A copy to the host that runs beside the work of another stream, by way of page-locked memory: `crossing` waits for what
/// is to be copied, and the host for it.
class outward_lane {
 public:
  [[nodiscard]] static result<outward_lane> create() {
    CAUSEWAY_ASSIGN(auto crossing, stream::create());
    CAUSEWAY_ASSIGN(auto made, event::create());
    return result<outward_lane>{outward_lane{std::move(crossing), std::move(made)}};
  }

  [[nodiscard]] result<void> begin(stream& work, const void* from, std::size_t bytes) {
    if (room_.values().size() < bytes) {
      CAUSEWAY_ASSIGN(room_, pinned_buffer<std::byte>::create(bytes));
    }
    CAUSEWAY_TRY(made_.record(work));
    CAUSEWAY_TRY(crossing_.wait(made_));
    return check(cudaMemcpyAsync(room_.values().data(), from, bytes, cudaMemcpyDeviceToHost, crossing_.handle()),
                 "copying from the device");
  }
  [[nodiscard]] result<const std::byte*> end() {
    CAUSEWAY_TRY(crossing_.synchronize());
    return static_cast<const std::byte*>(room_.values().data());
  }

 private:
  outward_lane(stream crossing, event made) noexcept : crossing_{std::move(crossing)}, made_{std::move(made)} {}

  stream crossing_;
  event made_;
  pinned_buffer<std::byte> room_;
};

// What a queue refers to, at an address that stays.
struct device_place {
  int device;
  stream work;
  arena memory;
  matmul products;
  outward_lane lanes[2];
  bool graphs;
  kept_arenas kept = {};
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
    CAUSEWAY_ASSIGN(auto even, detail::outward_lane::create());
    CAUSEWAY_ASSIGN(auto odd, detail::outward_lane::create());
    return result<engine_queue>{
        engine_queue{std::make_unique<detail::device_place>(detail::device_place{options.device,
                                                                                 std::move(work),
                                                                                 arena{options.device},
                                                                                 std::move(products),
                                                                                 {std::move(even), std::move(odd)},
                                                                                 options.graphs})}};
  }

  /// Streams and memory belong to a device, so the calling thread must be on it: nothing where it is.
  [[nodiscard]] result<void> enter() { return check(cudaSetDevice(place_->device), "choosing a CUDA device"); }
  /// Moves pages at the rate of the bus, which faults of a kernel do not reach. Where it cannot, they come by faults.
  [[nodiscard]] result<void> fetch(const void* p, std::size_t bytes) {
    if (recorded_ != nullptr) return not_recorded("fetching pages");
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
  [[nodiscard]] result<void> copy_in(void* to, const void* host, std::size_t bytes) {
    const void* from = host;
    if (recorded_ != nullptr) {
      CAUSEWAY_ASSIGN(from, recorded_->room().find(host, bytes));
    }
    return product_queue::copy_in(to, from, bytes);
  }
  [[nodiscard]] result<void> copy_out(void* host, const void* from, std::size_t bytes) {
    if (recorded_ != nullptr) return copy_number(from, bytes);
    CAUSEWAY_TRY(check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDefault, handle()), "copying from the device"));
    return wait();
  }
  [[nodiscard]] result<void> begin_copy_out(int lane, const void* from, std::size_t bytes) {
    if (recorded_ != nullptr) return not_recorded("sending to the host");
    return place_->lanes[lane].begin(place_->work, from, bytes);
  }
  [[nodiscard]] result<const std::byte*> end_copy_out(int lane) { return place_->lanes[lane].end(); }
  [[nodiscard]] result<void> wait() {
    if (recorded_ != nullptr) return {};  // nothing is under way
    return place_->work.synchronize();
  }

  [[nodiscard]] void* reserve(std::size_t bytes) {
    void* piece = nullptr;
    if (!enter() || cudaMallocManaged(&piece, std::max<std::size_t>(bytes, 1)) != cudaSuccess) throw std::bad_alloc{};
    return piece;
  }
  void release(void* piece) noexcept { (void)cudaFree(piece); }

  // ---- recordings (queue_recording.hpp) -----------------------------------------------------------------------------

  using recording = pass_graph;
  [[nodiscard]] bool records() const noexcept { return place_->graphs; }
  [[nodiscard]] result<recording> make_recording() { return result<recording>{pass_graph{place_->device, place_->kept}}; }
  [[nodiscard]] result<void> rehearse(recording& r) {
    memory_ = &r.memory();
    return {};
  }
  [[nodiscard]] result<void> record(recording& r, const pass_inputs& in) {
    memory_ = &r.memory();
    CAUSEWAY_TRY(r.begin(place_->work, in));
    recorded_ = &r;
    seed_ = in.seed;
    return {};
  }
  [[nodiscard]] result<void> end_recording() {
    memory_ = &place_->memory;
    if (recorded_ == nullptr) return {};
    return std::exchange(recorded_, nullptr)->end(place_->work);
  }
  [[nodiscard]] result<void> replay(recording& r, const pass_inputs& in, double* found) {
    CAUSEWAY_TRY(r.room().fill(in, [this](void* to, const void* host, std::size_t n) { return copy_in(to, host, n); }));
    CAUSEWAY_TRY(r.launch(place_->work));
    return copy_out(found, r.room().number(), sizeof *found);
  }
  [[nodiscard]] const std::uint64_t* changing_seed(std::uint64_t seed) const noexcept {
    return recorded_ != nullptr && seed == seed_ ? recorded_->room().seed() : nullptr;
  }

  [[nodiscard]] std::string describe() const {
    const auto what = describe_device(place_->device);
    if (!what) return "cuda: device " + std::to_string(place_->device);
    return "cuda: " + what->name + " (" + std::to_string(what->major) + "." + std::to_string(what->minor) + ")";
  }

 private:
  explicit engine_queue(std::unique_ptr<detail::device_place> place)
      : product_queue<sorting_queue>{place->work, place->memory, place->products}, place_{std::move(place)} {}

  [[nodiscard]] cudaStream_t handle() const noexcept { return place_->work.handle(); }

  [[nodiscard]] static error not_recorded(const char* what) {
    return fail(errc::unsupported, what, "it cannot be part of a recorded pass");
  }
  [[nodiscard]] result<void> copy_number(const void* from, std::size_t bytes) {
    if (bytes != sizeof(double) || !recorded_->takes_number()) return not_recorded("copying from the device");
    return copy(recorded_->room().number(), from, bytes);
  }

  std::unique_ptr<detail::device_place> place_;
  pass_graph* recorded_ = nullptr;  ///< what the stream is captured for
  std::uint64_t seed_ = 0;          ///< of the pass that is recorded
};

static_assert(RecordingQueue<engine_queue>);

/// An engine of a device, or why there is none: errc::unsupported without a driver, a device or code for its architecture.
[[nodiscard]] inline result<std::shared_ptr<engine>> open_engine(const engine_options& options = {}) {
  CAUSEWAY_ASSIGN(auto queue, engine_queue::create(options));
  return std::shared_ptr<engine>{std::make_shared<compute<engine_queue>>(std::move(queue))};
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_ENGINE_CUH
