// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_DION_HPP
#define CAUSEWAY_OPTIM_DION_HPP

// Dion (Ahn, Xu et al. 2025, arXiv 2504.05295, algorithm 1): momentum whose update is orthonormal in `rank` directions,
// found by one step of power iteration from those of the step before; what they leave out stays in the momentum. For the
// matrices of hidden layers; AdamW for embeddings, the output head and vectors. A segment is the one matrix it is stored
// as.

#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/low_rank.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

struct dion_options {
  std::uint32_t rank = 768;    ///< at most; a matrix has no more than its smaller side
  float momentum = 0.95F;      ///< mu
  float weight_decay = 0.01F;  ///< decoupled, for matrices
  float epsilon = 1e-8F;       ///< added to the length of a right vector
  float adamw_rate = 0.1F;     ///< AdamW's learning rate as a part of Dion's (the paper gives each kind of tensor its own)
  adamw_options adamw{};       ///< for all that is not a matrix
  bool given = false;          ///< gradients of matrices are P·Qᵀ already (axis::dion_mean): only scale and take them
};

/// One step for a matrix X [rows, columns]: B = M + g; P = orthonormal(B·Q); R = Bᵀ·P; M = B - (1-mu)·P·Rᵀ; Q = R, each
/// vector over its length; X -= lr·(sqrt(rows/columns)·P·Qᵀ + wd·X). As its authors' dion/dion_simple.py (microsoft/dion).
///
/// (1-mu)·P·Rᵀ is a projection of B, shrunk: with |R|² for what it has of |B|², |M|² = |B|² - (1-mu²)·|R|². So what is left
/// in M never grows by a step, and shrinks by a share 1-mu² of what the directions found. Costs about 8·rank·rows·columns
/// operations, and 4·rank²·rows on one thread. Keeps 4 bytes a matrix parameter and rank·columns more, 8 for others; the
/// working memory is the largest matrix. The sums' order is fixed: the same bits for any number of threads.
///
/// With comm::every_step gradients travel whole; with axis::dion_mean only factors do, and `given` makes this the rest of
/// the step. Parameters are the same but for rounding. Then gradients must not be clipped, and the state is AdamW's for all
/// values, with which peers can come and go; without, a newcomer is given not all of it, as with optim::muon.
class dion {
 public:
  static constexpr std::string_view name = "dion";

  explicit dion(dion_options options = {}) : options_{options} { CAUSEWAY_EXPECT(options_.rank >= 1); }

  [[nodiscard]] const dion_options& options() const noexcept { return options_; }

  void reset(std::int64_t length) {
    first_ = state_buffer{length};
    second_ = state_buffer{options_.given ? length : 0};
    right_.clear();
    clock_ = {};
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()));
    if (clock_.steps() == 0 && !options_.given) begin(view.segments);
    step_options adamw_step = step;
    adamw_step.learning_rate *= options_.adamw_rate;
    const kernels::adamw_coefficients decayed = clock_.advance(options_.adamw, adamw_step);
    kernels::adamw_coefficients plain = decayed;
    plain.weight_decay = 0.0F;
    float* second = second_.data();
    std::span<float> right{right_};
    for (const parameter_segment& s : view.segments) {
      if (options_.given) second = second_.data() + s.offset;
      if (s.kind != parameter_kind::matrix) {
        kernels::adamw_update(pool, view.values.data() + s.offset, view.gradients.data() + s.offset,
                              first_.data() + s.offset, second, s.size(), detail::decays(s.kind) ? decayed : plain);
        second += padded(s.size());
      } else if (options_.given) {
        take(pool, view, s, view.gradients.data() + s.offset, step);
      } else {
        const kernels::low_rank_shape shape = shape_of(s);
        step_matrix(pool, view, s, right.first(shape.right_size()), step);
        right = right.subspan(shape.right_size());
      }
    }
  }

  void serialize(auto& ar) { ar(first_, second_, right_, clock_); }

 private:
  static constexpr std::int64_t padded(std::int64_t count) noexcept { return (count + 15) / 16 * 16; }

  [[nodiscard]] kernels::low_rank_shape shape_of(const parameter_segment& s) const {
    const auto rows = static_cast<std::size_t>(s.rows), columns = static_cast<std::size_t>(s.columns);
    return {rows, columns, std::min({std::size_t{options_.rank}, rows, columns})};
  }

  /// The state of a first step: its size depends on the segments.
  void begin(std::span<const parameter_segment> segments) {
    std::int64_t others = 0;
    std::uint64_t number = 0;  // among the matrices
    for (const parameter_segment& s : segments) {
      if (s.kind != parameter_kind::matrix) {
        others += padded(s.size());
        continue;
      }
      const kernels::low_rank_shape shape = shape_of(s);
      const std::size_t at = right_.size();
      right_.resize(at + shape.right_size());
      kernels::low_rank_start(shape, number++, std::span{right_}.subspan(at));
    }
    second_ = state_buffer{others};
  }

  void step_matrix(thread_pool& pool, const parameter_view& view, const parameter_segment& s, std::span<float> right,
                   const step_options& step) {
    const kernels::low_rank_shape shape = shape_of(s);
    auto frame = memory_.open();
    const std::span<float> left{frame.take<float>(shape.left_size()), shape.left_size()};
    const std::span<float> x{frame.take<float>(shape.matrix_size()), shape.matrix_size()};
    float* const momentum = first_.data() + s.offset;
    const std::span<const float> b{momentum, shape.matrix_size()};
    kernels::axpy(pool, momentum, step.gradient_scale, view.gradients.data() + s.offset, s.size());
    kernels::low_rank_left(pool, shape, b, right, left);
    (void)kernels::low_rank_orthonormalise(left, shape.rows);  // fails for what is not finite, which shows in the values
    kernels::low_rank_right(pool, shape, b, left, right);
    kernels::low_rank_expand(pool, shape, left, right, x);
    kernels::axpy(pool, momentum, options_.momentum - 1.0F, x.data(), s.size());
    kernels::to_unit_length(right, shape.columns, options_.epsilon);
    kernels::low_rank_expand(pool, shape, left, right, x);
    take(pool, view, s, x.data(), step);
  }

  /// X -= lr·(sqrt(rows/columns)·update + wd·X).
  void take(thread_pool& pool, const parameter_view& view, const parameter_segment& s, const float* update,
            const step_options& step) {
    const float wide = std::sqrt(static_cast<float>(s.rows) / static_cast<float>(s.columns));
    kernels::sgd_update(pool, view.values.data() + s.offset, update, s.size(),
                        {step.learning_rate, 0.0F, options_.weight_decay, wide});
  }

  dion_options options_;
  scratch memory_;
  state_buffer first_;  ///< M of matrices, the first moment of others
  state_buffer second_;
  std::vector<float> right_;  ///< Q, matrix after matrix
  adam_clock clock_;
};

static_assert(Optimizer<dion>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_DION_HPP
