// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_OPTIM_BASIS_ROTATION_HPP
#define CAUSEWAY_OPTIM_BASIS_ROTATION_HPP

// Adam in the eigenbasis of each matrix's gradients (basis rotation: Jung, Shin and Lee 2026, arXiv 2602.03515, algorithms
// 1 and 2), for the matrices of hidden layers; AdamW for embeddings, the output head and vectors. Where coordinates are not
// the directions of curvature, steps of Adam swing to and fro, and gradients that are some steps late push the wrong way.
// The result depends on the Gemm, as with optim::muon.

#include <causeway/core/concepts.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/low_rank.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/kernels/singular_vectors.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/tensor/scratch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace optim {

/// Those of the authors' program.
struct basis_rotation_options {
  float beta1 = 0.9F;
  float beta2 = 0.999F;        ///< of second moments, and of the gradients' covariances
  float epsilon = 1e-8F;       ///< outside the square root
  float weight_decay = 0.01F;  ///< decoupled; not for vectors
  std::uint32_t period = 10;   ///< T: steps between two bases
  bool shorter_side = false;   ///< rotate the shorter side of each matrix alone, for less memory and computation
  bool first_order = false;    ///< bases of the momentum alone, without L and R; of both sides only
  /// Norm to which the gradients of the matrices of hidden layers are clipped, and those of all else, each by themselves;
  /// 0: not here. For it leave trainer_options::clip_norm at 0.
  float clip_norm = 0.0F;
};

/// One step for a matrix W [rows, columns]: L = b2·L + (1-b2)·G·Gᵀ and R = b2·R + (1-b2)·Gᵀ·G; in the first step U and V
/// are their eigenvectors; in every `period`-th one the columns of U are put in the order of the diagonal of Uᵀ·L·U, second
/// moments with them, and U = QR(L·U), and so with V and R; M = b1·M + (1-b1)·G; v = b2·v + (1-b2)·(UᵀGV)²; W = W·(1 -
/// lr·wd) - lr·sqrt(1-b2^t)/(1-b1^t)·U·((UᵀMV) / (sqrt(v) + epsilon))·Vᵀ. All else: AdamW with the same rates.
///
/// With `first_order` U and V are M's singular vectors in the first step, and in every `period`-th one the columns of V are
/// put in the order of the sizes of the columns of M·V, those of U in that of Mᵀ·U, second moments as V's columns and as
/// U's, and U = QR(M·V), V = QR(Mᵀ·U), both of the old ones. Its one-sided form is not here: in the authors' program it
/// reorders second moments of the side that it does not rotate. Where one side is longer, it has directions that no
/// gradient has had; they are random ones here.
///
/// Costs 5·rows·columns·(rows + columns) multiply-adds a step, and 4·(rows³ + columns³) operations every `period` steps, on
/// one thread; in the first step kernels::singular_vectors. Keeps 8 bytes a parameter and 8·(rows² + columns²) a matrix
/// (half of that with `first_order`); the working memory is three times the largest matrix and the square of its longer
/// side. With `shorter_side` the longer side's terms go.
template <kernels::Gemm Gemm = kernels::packed_gemm>
  requires DefaultInitializable<Gemm> && Movable<Gemm>
class basis_rotation {
 public:
  static constexpr std::string_view name = "basis_rotation";

  explicit basis_rotation(basis_rotation_options options = {}, Gemm gemm = Gemm{})
      : options_{options}, gemm_{std::move(gemm)} {
    CAUSEWAY_EXPECT(options_.period >= 1 && !(options_.first_order && options_.shorter_side));
  }

  [[nodiscard]] const basis_rotation_options& options() const noexcept { return options_; }
  [[nodiscard]] const Gemm& gemm() const noexcept { return gemm_; }
  [[nodiscard]] basis_rotation anew() const { return basis_rotation{options_, gemm_}; }

  void reset(std::int64_t length) {
    first_ = state_buffer{length};
    second_ = state_buffer{length};
    sides_.clear();
    clock_ = {};
  }

  void step(thread_pool& pool, parameter_view view, step_options step) {
    CAUSEWAY_EXPECT(first_.size() == static_cast<std::int64_t>(view.values.size()));
    if (clock_.steps() == 0) sides_.resize(length_of_sides(view.segments));
    const adamw_options adamw{options_.beta1, options_.beta2, options_.epsilon, options_.weight_decay};
    kernels::adamw_coefficients of_matrices = clock_.advance(adamw, step), decayed = of_matrices;
    of_matrices.gradient_scale *= clip_of(pool, view, true, step.gradient_scale);
    decayed.gradient_scale *= clip_of(pool, view, false, step.gradient_scale);
    kernels::adamw_coefficients plain = decayed;
    plain.weight_decay = 0.0F;
    std::span<float> rest{sides_};
    for (const parameter_segment& s : view.segments) {
      if (s.kind == parameter_kind::matrix) {
        step_matrix(pool, view, s, sides_of(s, rest), of_matrices);
        rest = rest.subspan(length_of_sides({&s, 1}));
      } else {
        kernels::adamw_update(pool, view.values.data() + s.offset, view.gradients.data() + s.offset,
                              first_.data() + s.offset, second_.data() + s.offset, s.size(),
                              detail::decays(s.kind) ? decayed : plain);
      }
    }
  }

  void serialize(auto& ar) { ar(first_, second_, sides_, clock_); }

 private:
  /// What is kept of a side of `length`, empty where it is not rotated: L or R, and the columns of U or V one after
  /// another.
  struct side {
    std::size_t length = 0;
    std::span<float> covariance{}, basis{};
    [[nodiscard]] bool rotated() const noexcept { return !basis.empty(); }
  };
  struct both_sides {
    side left, right;
  };

  /// The factor for the gradients of the matrices, or of all else.
  [[nodiscard]] float clip_of(thread_pool& pool, const parameter_view& view, bool matrices, float scale) const {
    if (options_.clip_norm <= 0) return 1.0F;
    double squares = 0;
    for (const parameter_segment& s : view.segments) {
      if ((s.kind == parameter_kind::matrix) != matrices) continue;
      squares += kernels::sum_of_squares(pool, view.gradients.data() + s.offset, s.size());
    }
    return clip_scale(scale * static_cast<float>(std::sqrt(squares)), options_.clip_norm);
  }

  [[nodiscard]] bool rotates_left(const parameter_segment& s) const { return !options_.shorter_side || s.rows < s.columns; }
  [[nodiscard]] bool rotates_right(const parameter_segment& s) const {
    return !options_.shorter_side || s.rows >= s.columns;
  }

  [[nodiscard]] std::size_t length_of_sides(std::span<const parameter_segment> segments) const {
    std::size_t length = 0;
    for (const parameter_segment& s : segments) {
      if (s.kind != parameter_kind::matrix) continue;
      if (rotates_left(s)) length += static_cast<std::size_t>(s.rows * s.rows);
      if (rotates_right(s)) length += static_cast<std::size_t>(s.columns * s.columns);
    }
    return options_.first_order ? length : 2 * length;
  }

  [[nodiscard]] both_sides sides_of(const parameter_segment& s, std::span<float> from) const {
    const auto take = [&](std::int64_t length, bool rotated) {
      side one{static_cast<std::size_t>(length)};
      if (!rotated) return one;
      const std::size_t square = one.length * one.length;
      one.covariance = from.first(options_.first_order ? 0 : square);
      one.basis = from.subspan(one.covariance.size(), square);
      from = from.subspan(one.covariance.size() + square);
      return one;
    };
    const side left = take(s.rows, rotates_left(s));
    return {left, take(s.columns, rotates_right(s))};
  }

  void step_matrix(thread_pool& pool, const parameter_view& view, const parameter_segment& s, const both_sides& sides,
                   const kernels::adamw_coefficients& c) {
    auto frame = memory_.open();
    const auto count = static_cast<std::size_t>(s.size());
    float* const g = frame.template take<float>(count);
    float* const x = frame.template take<float>(count);
    float* const between = frame.template take<float>(count);
    float* const m = first_.data() + s.offset;
    kernels::fill(pool, g, 0.0F, s.size());
    kernels::axpy(pool, g, c.gradient_scale, view.gradients.data() + s.offset, s.size());
    kernels::lerp(pool, m, g, 1.0F - c.beta1, s.size());
    if (!options_.first_order) observe(pool, s, g, sides);
    if (clock_.steps() == 1) {
      begin(s, {g, count}, sides);
    } else if (clock_.steps() % options_.period == 0) {
      options_.first_order ? renew_by(pool, s, m, sides) : renew_both(pool, s, sides);
    }
    turn(pool, s, sides, g, between, x);
    turn(pool, s, sides, m, between, g);
    divide(pool, s.size(), g, x, second_.data() + s.offset, c);
    turn_back(pool, s, sides, g, between, x);
    const float bias = std::sqrt(c.bias_correction2) / c.bias_correction1;
    kernels::sgd_update(pool, view.values.data() + s.offset, x, s.size(), {c.learning_rate, 0.0F, c.weight_decay, bias});
  }

  /// L = b2·L + (1-b2)·G·Gᵀ, and so R.
  void observe(thread_pool& pool, const parameter_segment& s, const float* g, const both_sides& sides) {
    const auto add = [&](const side& one, bool left) {
      if (!one.rotated()) return;
      auto frame = memory_.open();
      float* const square = frame.template take<float>(one.covariance.size());
      const auto n = static_cast<std::int64_t>(one.length);
      gemm_.multiply(pool, memory_,
                     kernels::gemm_args<float, float>{.transpose_a = !left,
                                                      .transpose_b = left,
                                                      .m = n,
                                                      .n = n,
                                                      .k = left ? s.columns : s.rows,
                                                      .a = g,
                                                      .lda = s.columns,
                                                      .b = g,
                                                      .ldb = s.columns,
                                                      .c = square,
                                                      .ldc = n});
      kernels::lerp(pool, one.covariance.data(), square, 1.0F - options_.beta2, n * n);
    };
    add(sides.left, true);
    add(sides.right, false);
  }

  /// In the first step L, R and M are those of the gradient alone, whose singular vectors are their eigenvectors.
  void begin(const parameter_segment& s, std::span<const float> g, const both_sides& sides) {
    kernels::singular_vectors(g, static_cast<std::size_t>(s.rows), static_cast<std::size_t>(s.columns), sides.left.basis,
                              sides.right.basis);
    orthonormalise(sides.left);
    orthonormalise(sides.right);
  }

  static void orthonormalise(const side& one) {
    if (!one.rotated()) return;
    // It fails for what is not finite, which shows in the parameters.
    (void)kernels::low_rank_orthonormalise(one.basis, one.length);
  }

  void renew_both(thread_pool& pool, const parameter_segment& s, const both_sides& sides) {
    renew(pool, s, sides.left, true);
    renew(pool, s, sides.right, false);
  }

  /// A step of power iteration, largest first.
  void renew(thread_pool& pool, const parameter_segment& s, const side& one, bool left) {
    if (!one.rotated()) return;
    auto frame = memory_.open();
    float* const images = frame.template take<float>(one.basis.size());
    const auto n = static_cast<std::int64_t>(one.length);
    gemm_.multiply(pool, memory_,
                   kernels::gemm_args<float, float>{.m = n,
                                                    .n = n,
                                                    .k = n,
                                                    .a = one.basis.data(),
                                                    .lda = n,
                                                    .b = one.covariance.data(),
                                                    .ldb = n,
                                                    .c = images,
                                                    .ldc = n});
    const auto order = largest_first(one.basis, images, one.length);
    become(one, images, order);
    reorder(s, order, left);
  }

  /// U = QR(M·V) and V = QR(Mᵀ·U) of the old U and V.
  void renew_by(thread_pool& pool, const parameter_segment& s, const float* m, const both_sides& sides) {
    auto frame = memory_.open();
    const auto count = static_cast<std::size_t>(s.size());
    float* const of_right = frame.template take<float>(count);  // M·v, one after another
    float* const of_left = frame.template take<float>(count);   // Mᵀ·u
    kernels::gemm_args<float, float> args{.b = m, .ldb = s.columns};
    args.transpose_b = true;
    args.m = args.k = args.lda = s.columns, args.n = args.ldc = s.rows;
    args.a = sides.right.basis.data(), args.c = of_right;
    gemm_.multiply(pool, memory_, args);
    args.transpose_b = false;
    args.m = args.k = args.lda = s.rows, args.n = args.ldc = s.columns;
    args.a = sides.left.basis.data(), args.c = of_left;
    gemm_.multiply(pool, memory_, args);
    const auto columns = largest_first({of_right, count}, of_right, sides.left.length);
    const auto rows = largest_first({of_left, count}, of_left, sides.right.length);
    become(sides.left, of_right, columns);
    become(sides.right, of_left, rows);
    reorder(s, columns, false);
    reorder(s, rows, true);
  }

  /// The order of the products of pairs of vectors of `length` in `a` and `b`.
  [[nodiscard]] static std::vector<std::size_t> largest_first(std::span<const float> a, const float* b,
                                                              std::size_t length) {
    std::vector<double> sizes(a.size() / length);
    for (std::size_t i = 0; i < a.size(); ++i) sizes[i / length] += double{a[i]} * double{b[i]};
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return sizes[x] > sizes[y]; });
    return order;
  }

  /// As many of `images`, in that order, as the side is long; what is missing is filled up.
  static void become(const side& one, const float* images, const std::vector<std::size_t>& order) {
    std::fill(one.basis.begin(), one.basis.end(), 0.0F);
    for (std::size_t k = 0; k < std::min(order.size(), one.length); ++k) {
      std::copy_n(images + order[k] * one.length, one.length,
                  one.basis.begin() + static_cast<std::ptrdiff_t>(k * one.length));
    }
    orthonormalise(one);
  }

  /// Second moments stay with their direction.
  void reorder(const parameter_segment& s, const std::vector<std::size_t>& order, bool left) {
    float* const v = second_.data() + s.offset;
    const std::vector<float> before(v, v + s.size());
    const auto rows = static_cast<std::size_t>(s.rows), columns = static_cast<std::size_t>(s.columns);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        v[i * columns + j] = left ? before[order[i] * columns + j] : before[i * columns + order[j]];
      }
    }
  }

  /// to = Uᵀ·from·V. `between` is as large; none of the three overlap.
  void turn(thread_pool& pool, const parameter_segment& s, const both_sides& sides, const float* from, float* between,
            float* to) {
    rotate(pool, s, sides.left, from, sides.right.rotated() ? between : to, true, false);
    rotate(pool, s, sides.right, sides.left.rotated() ? between : from, to, false, true);
  }

  /// to = U·from·Vᵀ.
  void turn_back(thread_pool& pool, const parameter_segment& s, const both_sides& sides, const float* from, float* between,
                 float* to) {
    rotate(pool, s, sides.right, from, sides.left.rotated() ? between : to, false, false);
    rotate(pool, s, sides.left, sides.right.rotated() ? between : from, to, true, true);
  }

  /// From the left basis·from, from the right from·basis; or with the basis transposed. Nothing for a side that is not
  /// rotated.
  void rotate(thread_pool& pool, const parameter_segment& s, const side& one, const float* from, float* to, bool left,
              bool transposed) {
    if (!one.rotated()) return;
    const auto n = static_cast<std::int64_t>(one.length);
    kernels::gemm_args<float, float> args{.m = s.rows,
                                          .n = s.columns,
                                          .k = n,
                                          .a = from,
                                          .lda = s.columns,
                                          .b = from,
                                          .ldb = s.columns,
                                          .c = to,
                                          .ldc = s.columns};
    (left ? args.transpose_a : args.transpose_b) = transposed;
    (left ? args.a : args.b) = one.basis.data();
    (left ? args.lda : args.ldb) = n;
    gemm_.multiply(pool, memory_, args);
  }

  /// v = b2·v + (1-b2)·g²; m = m / (sqrt(v) + epsilon).
  static void divide(thread_pool& pool, std::int64_t count, float* m, const float* g, float* v,
                     const kernels::adamw_coefficients& c) {
    pool.for_range(count, 4096, [&](index_range part) {
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        v[i] = c.beta2 * v[i] + (1.0F - c.beta2) * g[i] * g[i];
        m[i] /= std::sqrt(v[i]) + c.epsilon;
      }
    });
  }

  basis_rotation_options options_;
  Gemm gemm_;
  scratch memory_;
  state_buffer first_;
  state_buffer second_;       ///< of matrices in the basis
  std::vector<float> sides_;  ///< of matrix after matrix
  adam_clock clock_;
};

static_assert(Optimizer<basis_rotation<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::optim

#endif  // CAUSEWAY_OPTIM_BASIS_ROTATION_HPP
