// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_MUON_HPP
#define CAUSEWAY_CUDA_MUON_HPP

// Muon beside the parameters of a model on the device: optim::muon's step, and its state, so a checkpoint of either goes on
// with the other.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/optim/muon.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// optim::muon on an engine, for a model whose backend has the same one. Products of the orthogonalisation are in bf16, as
/// in Keller Jordan's Muon, or in f32; what is not a matrix takes AdamW's step to the bit. What goes wrong on the device
/// comes back from the model's next pass.
class muon {
 public:
  static constexpr std::string_view name = "muon";

  explicit muon(std::shared_ptr<engine> e, optim::muon_options options = {}, bool half = true) noexcept
      : engine_{std::move(e)}, options_{options}, half_{half} {}

  [[nodiscard]] const optim::muon_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) {
    first_ = optim::state_buffer{length, memory_of(*engine_)};
    second_ = optim::state_buffer{0, memory_of(*engine_)};
    clock_ = {};
  }

  void step(thread_pool&, parameter_view view, optim::step_options step) {
    CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()));
    if (second_.size() == 0) {
      second_ = optim::state_buffer{optim::detail::muon_second_moments(view.segments), memory_of(*engine_)};
    }
    optim::step_options adamw_step = step;
    adamw_step.learning_rate *= options_.adamw_rate;
    const kernels::adamw_coefficients decayed = clock_.advance(options_.adamw, adamw_step);
    kernels::adamw_coefficients plain = decayed;
    plain.weight_decay = 0.0F;
    const muon_coefficients c{step.learning_rate,  options_.momentum,   options_.weight_decay,
                              step.gradient_scale, options_.iterations, half_};
    float* second = second_.data();
    for (const parameter_segment& s : view.segments) {
      float* const p = view.values.data() + s.offset;
      const float* const g = view.gradients.data() + s.offset;
      float* const first = first_.data() + s.offset;
      if (s.kind == parameter_kind::matrix) {
        engine_->muon_update(p, g, first, s.rows, s.columns, c);
        continue;
      }
      engine_->adamw_update(p, g, first, second, s.size(), optim::detail::decays(s.kind) ? decayed : plain);
      second += optim::detail::muon_padded(s.size());
    }
    engine_->wait();  // policies of the host read the parameters next
  }

  void serialize(auto& ar) { ar(first_, second_, clock_); }

 private:
  std::shared_ptr<engine> engine_;
  optim::muon_options options_;
  bool half_;
  optim::state_buffer first_;
  optim::state_buffer second_;
  optim::adam_clock clock_;
};
static_assert(optim::Optimizer<muon>);

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_MUON_HPP
