// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_NESTEROV_HPP
#define CAUSEWAY_CUDA_NESTEROV_HPP

// The outer optimizers of DiLoCo and local SGD beside a model on the device. Their steps have the bits of optim::nesterov
// and optim::sgd, and their states are the same, so a checkpoint of either goes on with the other: which of them a policy
// is given says where the outer step is made and where its 8 bytes a parameter lie.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

/// Calls `f(begin, count, coefficients)` for the pieces of a view that are decayed alike.
template <class F>
void for_momentum_pieces(const parameter_view& view, const optim::step_options& step, float momentum, float weight_decay,
                         F&& f) {
  const auto length = static_cast<std::int64_t>(view.values.size());
  const auto piece = [&](std::int64_t begin, std::int64_t count, bool decay) {
    f(begin, count,
      kernels::sgd_coefficients{step.learning_rate, momentum, decay ? weight_decay : 0.0F, step.gradient_scale});
  };
  if (view.segments.empty() || weight_decay == 0.0F) return piece(0, length, true);
  optim::detail::for_pieces(view.segments, {0, length}, piece);
}

}  // namespace detail

/// A momentum optimizer of the host, optim::nesterov or optim::sgd, on an engine. Values and gradients lie in the engine's
/// memory: where a policy keeps shared parameters for it, it keeps them in `memory()`. With momentum it moves 20 bytes a
/// parameter in the device's memory and keeps 4. It does not report its updates.
template <class Host>
class momentum_optimizer {
 public:
  using options_type = std::remove_cvref_t<decltype(std::declval<const Host&>().options())>;
  static constexpr std::string_view name = Host::name;

  momentum_optimizer() = default;  ///< a place for one: it can do nothing
  explicit momentum_optimizer(std::shared_ptr<engine> e, options_type options = {})
      : engine_{std::move(e)}, options_{options}, velocity_{0, memory()} {}

  [[nodiscard]] const options_type& options() const noexcept { return options_; }
  /// One with the same options and no state.
  [[nodiscard]] momentum_optimizer anew() const { return momentum_optimizer{engine_, options_}; }
  [[nodiscard]] memory_source memory() const noexcept { return engine_ ? memory_of(*engine_) : memory_source{}; }

  void reset(std::int64_t length) {
    CAUSEWAY_EXPECT(engine_ != nullptr);
    velocity_ = optim::state_buffer{has_velocity() ? length : 0, memory()};
  }

  void step(thread_pool&, parameter_view view, optim::step_options step) {
    CAUSEWAY_EXPECT(!has_velocity() || velocity_.size() == static_cast<std::int64_t>(view.values.size()));
    const auto update = [&](std::int64_t begin, std::int64_t count, const kernels::sgd_coefficients& c) {
      float* const values = view.values.data() + begin;
      const float* const gradients = view.gradients.data() + begin;
      if constexpr (is_nesterov) {
        engine_->nesterov_update(values, gradients, velocity_.data() + begin, count, c);
      } else {
        engine_->sgd_update(values, gradients, has_velocity() ? velocity_.data() + begin : nullptr, count, c);
      }
    };
    detail::for_momentum_pieces(view, step, options_.momentum, options_.weight_decay, update);
    engine_->wait();  // policies of the host may read the values next
  }

  void serialize(auto& ar) { ar(velocity_); }

 private:
  static constexpr bool is_nesterov = std::is_same_v<Host, optim::nesterov>;

  [[nodiscard]] bool has_velocity() const noexcept { return is_nesterov || options_.momentum != 0.0F; }

  std::shared_ptr<engine> engine_;
  options_type options_;
  optim::state_buffer velocity_;
};

using nesterov = momentum_optimizer<optim::nesterov>;
using sgd = momentum_optimizer<optim::sgd>;
static_assert(optim::Optimizer<nesterov>);
static_assert(optim::Optimizer<sgd>);

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_NESTEROV_HPP
