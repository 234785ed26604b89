// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_MUON_HPP
#define CAUSEWAY_OPTIM_MUON_HPP

// Muon (Jordan et al. 2024): Nesterov momentum whose update is orthogonalised, for the matrices of hidden layers; AdamW for
// embeddings, the output head and vectors. A segment is orthogonalised as the one matrix it is stored as. The result
// depends on the Gemm, so replicas that step on their own stay equal only with equal processors and thread counts.

#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/newton_schulz.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/kernels/reduce.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct muon_options {
  float momentum = 0.95F;
  float weight_decay = 0.0F;  ///< decoupled, for matrices
  int iterations = 5;         ///< of Newton-Schulz
  float adamw_rate = 0.015F;  ///< AdamW's learning rate as a part of Muon's (0.02 and 3e-4 are the usual pair)
  adamw_options adamw{};      ///< for all that is not a matrix
};

namespace detail {

constexpr std::int64_t muon_padded(std::int64_t count) noexcept { return (count + 15) / 16 * 16; }

/// Matrices need no second moment, so the others' are stored one after another.
inline std::int64_t muon_second_moments(std::span<const parameter_segment> segments) noexcept {
  std::int64_t length = 0;
  for (const auto& s : segments) length += s.kind == parameter_kind::matrix ? 0 : muon_padded(s.size());
  return length;
}

}  // namespace detail

/// One step for a matrix W [rows, columns]: u = mu·u + g; X = g + mu·u; X = X / |X|; then `iterations` times
/// A = X·Xt, X = 3.4445·X + (-4.7750·A + 2.0315·A²)·X, on the smaller side; W -= lr·(sqrt(max(1, rows/columns))·X + wd·W),
/// Keller Jordan's scaling, in f32. Costs about 4·iterations·rows·columns·min(rows, columns) multiply-adds a step and
/// keeps 4 bytes a matrix parameter, 8 for others; the working memory is twice the largest matrix and twice its square.
template <kernels::Gemm Gemm = kernels::packed_gemm>
  requires DefaultInitializable<Gemm> && Movable<Gemm>
class muon {
 public:
  static constexpr std::string_view name = "muon";

  explicit muon(muon_options options = {}, Gemm gemm = Gemm{}) : options_{options}, gemm_{std::move(gemm)} {}

  [[nodiscard]] const muon_options& options() const noexcept { return options_; }
  [[nodiscard]] const Gemm& gemm() const noexcept { return gemm_; }
  [[nodiscard]] muon anew() const { return muon{options_, gemm_}; }

  void reset(std::int64_t length) {
    first_ = state_buffer{length};
    second_ = {};
    clock_ = {};
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()));
    if (second_.size() == 0) second_ = state_buffer{detail::muon_second_moments(view.segments)};
    step_options adamw_step = step;
    adamw_step.learning_rate *= options_.adamw_rate;
    const kernels::adamw_coefficients decayed = clock_.advance(options_.adamw, adamw_step);
    kernels::adamw_coefficients plain = decayed;
    plain.weight_decay = 0.0F;
    float* second = second_.data();
    for (const parameter_segment& s : view.segments) {
      if (s.kind == parameter_kind::matrix) {
        step_matrix(pool, view, s, step);
        continue;
      }
      kernels::adamw_update(pool, view.values.data() + s.offset, view.gradients.data() + s.offset, first_.data() + s.offset,
                            second, s.size(), detail::decays(s.kind) ? decayed : plain);
      second += detail::muon_padded(s.size());
    }
  }

  void serialize(auto& ar) { ar(first_, second_, clock_); }

 private:
  void step_matrix(thread_pool& pool, const parameter_view& view, const parameter_segment& s, const step_options& step) {
    auto frame = memory_.open();
    const auto count = static_cast<std::size_t>(s.size());
    float* x = frame.template take<float>(count);
    float* next = frame.template take<float>(count);
    kernels::muon_momentum(pool, x, view.gradients.data() + s.offset, first_.data() + s.offset, s.size(), options_.momentum,
                           step.gradient_scale);
    x = orthogonalise(pool, x, next, s.rows, s.columns);
    const float tall = std::sqrt(std::max(1.0F, static_cast<float>(s.rows) / static_cast<float>(s.columns)));
    kernels::sgd_update(pool, view.values.data() + s.offset, x, s.size(),
                        {step.learning_rate, 0.0F, options_.weight_decay, tall});
  }

  /// The steps of kernels::newton_schulz on the pool.
  struct steps {
    thread_pool& pool;
    Gemm& gemm;
    scratch& memory;

    result<void> multiply(const kernels::gemm_args<float, float>& args) {
      gemm.multiply(pool, memory, args);
      return {};
    }
    result<void> combine(float* a, const float* aa, std::int64_t side) {
      constexpr kernels::newton_schulz_coefficients c{};
      kernels::scale(pool, a, c.cubic, side * side);
      kernels::axpy(pool, a, c.quintic, aa, side * side);
      for (std::int64_t i = 0; i < side; ++i) a[i * side + i] += c.linear;
      return {};
    }
  };

  /// `x` and `next` [rows, columns] take turns, and the one with the result is returned.
  float* orthogonalise(thread_pool& pool, float* x, float* next, std::int64_t rows, std::int64_t columns) {
    const std::int64_t side = std::min(rows, columns);
    auto frame = memory_.open();
    float* a = frame.template take<float>(static_cast<std::size_t>(side * side));
    float* aa = frame.template take<float>(static_cast<std::size_t>(side * side));
    const auto norm = static_cast<float>(std::sqrt(kernels::sum_of_squares(pool, x, rows * columns)));
    kernels::scale(pool, x, 1.0F / (norm + kernels::newton_schulz_coefficients{}.floor), rows * columns);
    steps here{pool, gemm_, memory_};
    return kernels::newton_schulz(here, x, next, a, aa, rows, columns, options_.iterations).value();  // these never fail
  }

  muon_options options_;
  Gemm gemm_;
  scratch memory_;
  state_buffer first_;
  state_buffer second_;
  adam_clock clock_;
};

static_assert(Optimizer<muon<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_MUON_HPP
