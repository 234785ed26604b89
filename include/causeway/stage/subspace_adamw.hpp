// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_SUBSPACE_ADAMW_HPP
#define CAUSEWAY_STAGE_SUBSPACE_ADAMW_HPP

// AdamW under which weights that lie in a subspace of the residual stream stay there (Protocol Models: Ramasinghe et al.,
// 2025). AdamW divides each value by its own second moment, which turns a vector out of the subspace; here a vector of the
// residual stream has one second moment, the mean of its values', so that it is scaled as a whole. Derived, where the paper
// is silent: gradients are projected first, because within a stage they need not lie in the subspace.

#include <causeway/compress/low_rank.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/stage/subspace_basis.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::stage {

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

  subspace_adamw(subspace_basis basis, std::vector<confined_pieces> pieces, optim::adamw_options options = {})
      : options_{options}, basis_{std::move(basis)}, pieces_{std::move(pieces)} {}

  void reset(std::int64_t length) {
    first_ = optim::state_buffer{length};
    second_ = optim::state_buffer{length};
    clock_ = {};
  }

  void step(thread_pool& pool, parameter_view view, optim::step_options step) {
    CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()) && !view.segments.empty());
    const kernels::adamw_coefficients decayed = clock_.advance(options_, step);
    for (std::size_t s = 0; s < view.segments.size(); ++s) {
      const parameter_segment& segment = view.segments[s];
      kernels::adamw_coefficients own = decayed;
      const std::int64_t at = segment.offset;
      const confined_pieces* const piece = find(segment.name);
      const bool keeps = piece != nullptr && piece->what == confined::row_changes;
      if (keeps || !optim::detail::decays(segment.kind)) own.weight_decay = 0.0F;
      if (piece != nullptr) {
        step_confined(pool, view, segment, piece->what, own);
      } else {
        kernels::adamw_update(pool, view.values.data() + at, view.gradients.data() + at, first_.data() + at,
                              second_.data() + at, segment.size(), own);
      }
    }
  }

  [[nodiscard]] const subspace_basis& basis() const noexcept { return basis_; }

  /// Takes another basis, between steps: projects the confined pieces and their first moments on it. Where there are
  /// row_changes, `initial` is what the parameters were before training, in the same layout; elsewhere it may be empty.
  void use(thread_pool& pool, parameter_view view, subspace_basis basis, std::span<const float> initial = {}) {
    basis_ = std::move(basis);
    for (const parameter_segment& segment : view.segments) {
      const confined_pieces* const piece = find(segment.name);
      if (piece == nullptr) continue;
      const auto offset = static_cast<std::size_t>(segment.offset), size = static_cast<std::size_t>(segment.size());
      const std::span<float> values = view.values.subspan(offset, size);
      const bool changes = piece->what == confined::row_changes;
      CAUSEWAY_EXPECT(!changes || initial.size() == view.values.size());
      if (changes) kernels::axpy(pool, values.data(), -1.0F, initial.data() + offset, segment.size());
      project(pool, piece->what, values);
      if (changes) kernels::axpy(pool, values.data(), 1.0F, initial.data() + offset, segment.size());
      project(pool, piece->what, {first_.data() + offset, size});
    }
  }

  void serialize(auto& ar) { ar(first_, second_, clock_, basis_); }

 private:
  [[nodiscard]] const confined_pieces* find(std::string_view segment) const {
    const auto fits = [&](const confined_pieces& p) { return segment.ends_with(p.suffix); };
    const auto at = std::find_if(pieces_.begin(), pieces_.end(), fits);
    return at == pieces_.end() ? nullptr : &*at;
  }

  void project(thread_pool& pool, confined what, std::span<float> matrix) const {
    if (what == confined::columns) return basis_.project_columns(pool, matrix);
    basis_.project_rows(pool, matrix);
  }

  void step_confined(thread_pool& pool, const parameter_view& view, const parameter_segment& segment, confined what,
                     const kernels::adamw_coefficients& coefficients) {
    const auto size = static_cast<std::size_t>(segment.size());
    const float* const from = view.gradients.data() + segment.offset;
    gradient_.resize(size);
    for (std::size_t i = 0; i < size; ++i) gradient_[i] = from[i] * coefficients.gradient_scale;
    project(pool, what, gradient_);
    const kernels::detail::adamw_factors c = kernels::detail::factors_of(coefficients);
    take_squares(pool, segment, what);
    rates_.resize(squares_.size());
    float* const second = second_.data() + segment.offset;  // one for each vector, at the start of the piece's place
    kernels::detail::dispatch<detail::confined_rates>(kernels::detect_simd_level(), squares_.data(), second, rates_.data(),
                                                      std::ssize(squares_),
                                                      what == confined::columns ? segment.rows : segment.columns, c);
    update(pool, view, segment, what, c);
  }

  void take_squares(thread_pool& pool, const parameter_segment& segment, confined what) {
    const auto level = kernels::detect_simd_level();
    const float* const g = gradient_.data();
    if (what == confined::columns) {
      squares_.resize(static_cast<std::size_t>(segment.columns));
      pool.for_range(segment.columns, 256, [&](index_range part) {
        kernels::detail::dispatch<detail::column_squares>(level, g, segment.rows, segment.columns, part, squares_.data());
      });
    } else {
      squares_.resize(static_cast<std::size_t>(segment.rows));
      kernels::detail::for_rows(pool, segment.rows, segment.columns, [&](index_range part) {
        for (std::int64_t r = part.begin; r < part.end; ++r) {
          const float* const row = g + r * segment.columns;
          squares_[static_cast<std::size_t>(r)] =
              kernels::detail::dispatch<compress::detail::dot_product>(level, row, row, segment.columns);
        }
      });
    }
  }

  void update(thread_pool& pool, const parameter_view& view, const parameter_segment& segment, confined what,
              const kernels::detail::adamw_factors& c) {
    const auto level = kernels::detect_simd_level();
    kernels::detail::for_rows(pool, segment.rows, segment.columns, [&](index_range part) {
      for (std::int64_t r = part.begin; r < part.end; ++r) {
        const std::int64_t at = segment.offset + r * segment.columns;
        float* const p = view.values.data() + at;
        float* const m = first_.data() + at;
        const float* const g = gradient_.data() + r * segment.columns;
        const float* const rates = rates_.data();
        if (what == confined::columns) {
          kernels::detail::dispatch<detail::confined_update<true>>(level, p, g, m, rates, segment.columns, c);
        } else {
          kernels::detail::dispatch<detail::confined_update<false>>(level, p, g, m, rates + r, segment.columns, c);
        }
      }
    });
  }

  optim::adamw_options options_;
  subspace_basis basis_;
  std::vector<confined_pieces> pieces_;
  optim::state_buffer first_;
  optim::state_buffer second_;
  optim::adam_clock clock_;
  std::vector<float> gradient_, squares_, rates_;
};
static_assert(optim::Optimizer<subspace_adamw>);

}  // namespace causeway::inline CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_SUBSPACE_ADAMW_HPP
