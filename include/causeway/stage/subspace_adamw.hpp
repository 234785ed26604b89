// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_SUBSPACE_ADAMW_HPP
#define CAUSEWAY_STAGE_SUBSPACE_ADAMW_HPP

// AdamW under which weights that lie in a subspace of the residual stream stay there (Protocol Models: Ramasinghe et al.,
// 2025). AdamW divides each value by its own second moment, which turns a vector out of the subspace; here a vector of the
// residual stream has one second moment, the mean of its values', so that it is scaled as a whole. Derived, where the paper
// is silent: gradients are projected first, because within a stage they need not lie in the subspace.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/low_rank.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/divisible.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/stage/subspace_basis.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// Which vectors of a piece of the parameters lie in the subspace.
enum class confined : std::uint8_t {
  columns,      ///< weights [width, inputs] of a layer that writes into the residual stream
  rows,         ///< biases of such layers; tables [entries, width]
  row_changes,  ///< of tables: only what training has added to each row. Not decayed, for that would change the rest
};

/// All pieces whose names end so.
struct confined_pieces {
  std::string suffix;
  confined what = confined::columns;
};

namespace detail {

/// The sum of squares of each column, for a range of columns.
struct column_squares {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* matrix, std::int64_t rows, std::int64_t columns, index_range part,
                                         float* sums) {
    std::fill(sums + part.begin, sums + part.end, 0.0F);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* const row = matrix + r * columns + part.begin;
      kernels::detail::for_lanes(part.size(), [&](std::int64_t i, auto lanes) CAUSEWAY_INLINE_LAMBDA {
        CAUSEWAY_EXACT_BODY
        kernels::detail::f32x16 x, sum;
        kernels::detail::load(x, row + i, lanes);
        kernels::detail::load(sum, sums + part.begin + i, lanes);
        kernels::detail::store(sums + part.begin + i, sum + x * x, lanes);
      });
    }
  }
};

/// v = b2·v + (1-b2)·squares/length; rate = lr / bias correction / (sqrt(vhat) + epsilon).
struct confined_rates {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(const float* squares, float* v, float* rates, std::int64_t count,
                                         std::int64_t length, kernels::detail::adamw_factors c) {
    const auto values = static_cast<float>(length);
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto lanes) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      kernels::detail::f32x16 square, second;
      kernels::detail::load(square, squares + i, lanes);
      kernels::detail::load(second, v + i, lanes);
      second = c.beta2 * second + c.rest2 * (square / values);
      kernels::detail::store(v + i, second, lanes);
      kernels::detail::square_root(second);
      kernels::detail::store(rates + i, c.step / (second * c.root_scale + c.epsilon), lanes);
    });
  }
};

/// m = b1·m + (1-b1)·g; p = p·decay - rate·m, with a rate for each place or one for all.
template <bool RateEach>
struct confined_update {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* p, const float* g, float* m, const float* rates, std::int64_t count,
                                         kernels::detail::adamw_factors c) {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto lanes) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      kernels::detail::f32x16 value, gradient, first, rate;
      kernels::detail::load(value, p + i, lanes);
      kernels::detail::load(gradient, g + i, lanes);
      kernels::detail::load(first, m + i, lanes);
      if constexpr (RateEach) {
        kernels::detail::load(rate, rates + i, lanes);
      } else {
        kernels::detail::broadcast(rate, *rates);
      }
      first = c.beta1 * first + c.rest1 * gradient;
      kernels::detail::store(m + i, first, lanes);
      kernels::detail::store(p + i, value * c.decay - rate * first, lanes);
    });
  }
};

}  // namespace detail

/// Models optim::Optimizer. Of the confined pieces: g = g projected; m as AdamW; v = b2·v + (1-b2)·mean(g²), one for each
/// vector of the residual stream; p -= lr·(mhat / (sqrt(vhat) + epsilon) + wd·p). All others: AdamW. Weights must start in
/// the subspace (subspace_basis::project_columns, project_rows), except row_changes. Rounding takes them out of it by some
/// 1e-7 of their size a step, not always the same way. Costs 4 · rank operations a confined value more than AdamW, and the
/// memory of a copy of the largest such piece. The view needs segments.
class subspace_adamw {
 public:
  static constexpr std::string_view name = "subspace_adamw";

  CAUSEWAY_DECL subspace_adamw(subspace_basis basis, std::vector<confined_pieces> pieces,
                               optim::adamw_options options = {});

  CAUSEWAY_DECL void reset(std::int64_t length);
  /// As after `steps` steps whose moments are all zero.
  CAUSEWAY_DECL void resume(std::int64_t length, std::uint64_t steps);

  /// First and second moments, in the layout of the parameters. The second of a confined piece are at the start of its
  /// place, one for each vector: they move with whole pieces.
  [[nodiscard]] std::array<std::span<float>, 2> moments() noexcept {
    const auto length = static_cast<std::size_t>(first_.size());
    return {std::span{first_.data(), length}, std::span{second_.data(), length}};
  }

  CAUSEWAY_DECL void step(thread_pool& pool, parameter_view view, optim::step_options step);

  [[nodiscard]] const subspace_basis& basis() const noexcept { return basis_; }

  /// Takes another basis, between steps: projects the confined pieces and their first moments on it. Where there are
  /// row_changes, `initial` is what the parameters were before training, in the same layout; elsewhere it may be empty.
  CAUSEWAY_DECL void use(thread_pool& pool, parameter_view view, subspace_basis basis, std::span<const float> initial = {});

  void serialize(auto& ar) { ar(first_, second_, clock_, basis_); }

 private:
  CAUSEWAY_DECL [[nodiscard]] const confined_pieces* find(std::string_view segment) const;

  CAUSEWAY_DECL void project(thread_pool& pool, confined what, std::span<float> matrix) const;

  CAUSEWAY_DECL void step_confined(thread_pool& pool, const parameter_view& view, const parameter_segment& segment,
                                   confined what, const kernels::adamw_coefficients& coefficients);

  CAUSEWAY_DECL void take_squares(thread_pool& pool, const parameter_segment& segment, confined what);

  CAUSEWAY_DECL void update(thread_pool& pool, const parameter_view& view, const parameter_segment& segment, confined what,
                            const kernels::detail::adamw_factors& c);

  optim::adamw_options options_;
  subspace_basis basis_;
  std::vector<confined_pieces> pieces_;
  optim::state_buffer first_;
  optim::state_buffer second_;
  optim::adam_clock clock_;
  std::vector<float> gradient_, squares_, rates_;
};
static_assert(optim::Divisible<subspace_adamw>);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/subspace_adamw.ipp>
#endif

#endif  // CAUSEWAY_STAGE_SUBSPACE_ADAMW_HPP
