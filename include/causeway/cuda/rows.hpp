// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_ROWS_HPP
#define CAUSEWAY_CUDA_ROWS_HPP

// kernels::host_rows beside a model on a device: the arithmetic of communication policies where their rows lie.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/kernels/rows.hpp>

#include <cstddef>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// An operation is the engine's where all its rows lie in the engine's memory, else the host's; the bits are the same. It
/// waits until the device is done, so that the host may read the rows next. Errors are the device's, told once: also what
/// went wrong there before.
class rows {
 public:
  rows(engine& e, thread_pool& pool) noexcept : engine_{&e}, host_{pool} {}

  /// Whether all rows of a call lie in the engine's memory.
  [[nodiscard]] bool there(auto... of_call) const noexcept {
    return (engine_->holds(of_call.data(), of_call.size_bytes()) && ...);
  }

  result<void> copy(std::span<float> y, std::span<const float> x) const {
    if (!there(y, x)) return host_.copy(y, x);
    engine_->copy(y.data(), x.data(), x.size_bytes());
    return engine_->finish();
  }
  result<void> zero(std::span<float> y) const {
    if (!there(y)) return host_.zero(y);
    engine_->zero(y.data(), std::ssize(y));
    return engine_->finish();
  }
  result<void> subtract(std::span<float> y, std::span<const float> a, std::span<const float> b) const {
    if (!there(y, a, b)) return host_.subtract(y, a, b);
    engine_->subtract(y.data(), a.data(), b.data(), std::ssize(y));
    return engine_->finish();
  }
  result<void> scale(std::span<float> y, float alpha) const {
    if (!there(y)) return host_.scale(y, alpha);
    engine_->scale(y.data(), alpha, std::ssize(y));
    return engine_->finish();
  }
  result<void> add(std::span<float> y, float alpha, std::span<const float> x) const {
    if (!there(y, x)) return host_.add(y, alpha, x);
    engine_->blend(y.data(), 1.0F, x.data(), alpha, std::ssize(y));
    return engine_->finish();
  }
  result<void> blend(std::span<float> y, float alpha, std::span<const float> x, float beta) const {
    if (!there(y, x)) return host_.blend(y, alpha, x, beta);
    engine_->blend(y.data(), alpha, x.data(), beta, std::ssize(y));
    return engine_->finish();
  }
  result<void> compensate(std::span<float> y, std::span<const float> shared, std::span<const float> at_send,
                          const kernels::compensation& c) const {
    if (!there(y, shared, at_send)) return host_.compensate(y, shared, at_send, c);
    engine_->compensate(y.data(), shared.data(), at_send.data(), std::ssize(y), c);
    return engine_->finish();
  }
  result<void> gossip(std::span<float> shared, std::span<float> velocity, std::span<const float> mean,
                      std::span<const float> mean_shared, const kernels::gossip_coefficients& c) const {
    if (!there(shared, velocity, mean, mean_shared)) return host_.gossip(shared, velocity, mean, mean_shared, c);
    engine_->gossip_update(shared.data(), velocity.data(), mean.data(), mean_shared.data(), std::ssize(shared), c);
    return engine_->finish();
  }
  /// Beside RowArithmetic, of rows that are all `there`: y = x where counts are not 0.
  result<void> take_over(std::span<float> y, std::span<const float> x, std::span<const float> counts) const {
    engine_->take_over(y.data(), x.data(), counts.data(), std::ssize(y));
    return engine_->finish();
  }
  /// A copy for each range.
  result<void> gather(std::span<const index_range> ranges, std::span<const float> all, std::span<float> row) const {
    if (!there(all, row)) return host_.gather(ranges, all, row);
    float* to = row.data();
    for (const index_range r : ranges) {
      engine_->copy(to, all.data() + r.begin, bytes(r));
      to += r.size();
    }
    return engine_->finish();
  }
  result<void> scatter(std::span<const index_range> ranges, std::span<const float> row, std::span<float> all) const {
    if (!there(all, row)) return host_.scatter(ranges, row, all);
    const float* from = row.data();
    for (const index_range r : ranges) {
      engine_->copy(all.data() + r.begin, from, bytes(r));
      from += r.size();
    }
    return engine_->finish();
  }

 private:
  [[nodiscard]] static std::size_t bytes(index_range r) noexcept {
    return static_cast<std::size_t>(r.size()) * sizeof(float);
  }

  engine* engine_;
  kernels::host_rows host_;
};
static_assert(kernels::RowArithmetic<rows>);

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_ROWS_HPP
