// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_GRAPH_CUH
#define CAUSEWAY_CUDA_DEVICE_GRAPH_CUH

// A pass as a CUDA graph, with the working memory that its kernels use.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/device/memory.cuh>
#include <causeway/cuda/device/runtime.cuh>
#include <causeway/cuda/recording.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Arenas of recordings that are gone, from which somebody still has memory: a table that is made once.
using kept_arenas = std::vector<std::unique_ptr<arena>>;

/// What engine_queue keeps of a pass. `kept` and the device must outlive it. Movable, not copyable.
class pass_graph {
 public:
  pass_graph(int device, kept_arenas& kept) : memory_{std::make_unique<cuda::arena>(device)}, kept_{&kept} {}

  pass_graph(pass_graph&& other) noexcept
      : memory_{std::move(other.memory_)},
        kept_{other.kept_},
        lent_{std::exchange(other.lent_, std::nullopt)},
        room_{other.room_},
        has_number_{other.has_number_},
        runs_{std::exchange(other.runs_, nullptr)} {}
  pass_graph& operator=(pass_graph&&) = delete;
  ~pass_graph() {
    if (runs_ != nullptr) (void)cudaGraphExecDestroy(runs_);
    lent_.reset();
    if (memory_ == nullptr) return;
    memory_->trim();
    if (memory_->taken() > 0) kept_->push_back(std::move(memory_));
  }

  [[nodiscard]] cuda::arena& memory() noexcept { return *memory_; }
  [[nodiscard]] const recording_room& room() const noexcept { return room_; }

  /// From here on what `s` is given is not started. The room is reserved before, since a stream that is captured must not
  /// ask for memory. Other threads may use CUDA meanwhile.
  [[nodiscard]] result<void> begin(stream& s, const pass_inputs& in) {
    CAUSEWAY_ASSIGN(auto lent, memory_->take<std::byte>(recording_room::bytes_for(in)));
    room_ = recording_room{lent.data(), in};
    lent_.emplace(std::move(lent));
    return check(cudaStreamBeginCapture(s.handle(), cudaStreamCaptureModeThreadLocal), "recording a pass");
  }
  /// Whether this is the first number that the pass gives to the host.
  [[nodiscard]] bool takes_number() noexcept { return !std::exchange(has_number_, true); }

  /// Ends it, also where something in it failed.
  [[nodiscard]] result<void> end(stream& s) {
    cudaGraph_t graph = nullptr;
    cudaError_t outcome = cudaStreamEndCapture(s.handle(), &graph);
    if (outcome == cudaSuccess) outcome = cudaGraphInstantiateWithFlags(&runs_, graph, 0);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    if (outcome != cudaSuccess) (void)cudaGetLastError();  // a launch would report it as its own
    return check(outcome, "recording a pass");
  }

  [[nodiscard]] result<void> launch(stream& s) {
    return check(cudaGraphLaunch(runs_, s.handle()), "starting a recorded pass");
  }

 private:
  std::unique_ptr<cuda::arena> memory_;
  kept_arenas* kept_;
  std::optional<cuda::arena::lease<std::byte>> lent_;
  recording_room room_;
  bool has_number_ = false;
  cudaGraphExec_t runs_ = nullptr;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_GRAPH_CUH
