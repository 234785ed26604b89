// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_ADAMW_HPP
#define CAUSEWAY_CUDA_ADAMW_HPP

// AdamW beside the parameters of a model on the device: no byte of a step crosses to the host. The bits of optim::adamw, in
// the same state, so a checkpoint of either goes on with the other.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// optim::adamw on an engine, for a model whose backend has the same one. Moves 28 bytes a parameter in the device's
/// memory in one launch, keeps 8. What goes wrong on the device comes back from the model's next pass.
class adamw {
 public:
  static constexpr std::string_view name = "adamw";

  explicit adamw(std::shared_ptr<engine> e, optim::adamw_options options = {}) noexcept
      : engine_{std::move(e)}, options_{options} {}

  [[nodiscard]] const optim::adamw_options& options() const noexcept { return options_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return clock_.steps(); }
  /// First and second moments, in the layout of the parameters. The host may read them once the device is done.
  [[nodiscard]] std::array<std::span<float>, 2> moments() noexcept {
    const auto length = static_cast<std::size_t>(first_.size());
    return {std::span{first_.data(), length}, std::span{second_.data(), length}};
  }

  void reset(std::int64_t length) {
    first_ = optim::state_buffer{length, memory_of(*engine_)};
    second_ = optim::state_buffer{length, memory_of(*engine_)};
    clock_ = {};
  }
  /// As after `steps` steps whose moments are all zero.
  void resume(std::int64_t length, std::uint64_t steps) {
    reset(length);
    clock_.resume(options_, steps);
  }

  void step(thread_pool&, parameter_view view, optim::step_options step) {
    CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()));
    turns_.clear();
    const auto length = static_cast<std::int64_t>(view.values.size());
    if (!view.segments.empty()) {
      bool decayed = true;
      optim::detail::for_pieces(view.segments, {0, length}, [&](std::int64_t begin, std::int64_t, bool decay) {
        if (decay != decayed) turns_.push_back(begin);
        decayed = decay;
      });
    }
    engine_->adamw_update(view.values.data(), view.gradients.data(), first_.data(), second_.data(), length,
                          clock_.advance(options_, step), turns_);
    engine_->wait();  // policies of the host read the parameters next
  }

  void serialize(auto& ar) { ar(first_, second_, clock_); }

 private:
  std::shared_ptr<engine> engine_;
  optim::adamw_options options_;
  optim::state_buffer first_;
  optim::state_buffer second_;
  optim::adam_clock clock_;
  std::vector<std::int64_t> turns_;  // where weight decay ends and starts again
};
static_assert(optim::Optimizer<adamw>);

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_ADAMW_HPP
