// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_SUBSPACE_REFRESH_HPP
#define CAUSEWAY_STAGE_SUBSPACE_REFRESH_HPP

// Turns the subspace towards the gradients, rarely (Protocol Models refreshes U on the Grassmann manifold). Derived here,
// from what the paper minimises, the part of the gradients that the subspace cuts off: with G the boundary gradients, one
// row a token, and S = GᵀG,
//
//   f(U) = |G - G·U·Uᵀ|² = tr(S) - tr(Uᵀ·S·U),   its gradient on the manifold: -2·(I - U·Uᵀ)·S·U,
//
// a step goes against it and is made orthonormal again (retraction by QR), from which f depends on the span alone.

#include <causeway/compress/low_rank.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/stage/subspace_basis.hpp>
#include <causeway/tensor/scratch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::stage {

/// S = the sum of gᵀ·g over boundary gradients before they are projected: at the last stage, or wherever they are at hand.
/// width² values. Its bits depend on the machine: one peer's S, or the mean of all, has to be the one that all use.
class subspace_statistics {
 public:
  explicit subspace_statistics(std::int64_t width = 0)
      : width_{width}, sums_(static_cast<std::size_t>(width) * static_cast<std::size_t>(width)) {}

  /// `gradient` is [rows, width]: 2 · width operations a value.
  void add(thread_pool& pool, scratch& memory, std::span<const float> gradient) {
    CAUSEWAY_EXPECT(width_ > 0 && gradient.size() % static_cast<std::size_t>(width_) == 0);
    kernels::gemm_args<float, float> args;
    args.transpose_a = true, args.accumulate = true;
    args.m = width_, args.n = width_, args.k = static_cast<std::int64_t>(gradient.size()) / width_;
    args.a = gradient.data(), args.lda = width_, args.b = gradient.data(), args.ldb = width_;
    args.c = sums_.data(), args.ldc = width_;
    if (args.k > 0) kernels::packed_gemm{}.multiply(pool, memory, args);
  }

  [[nodiscard]] std::size_t width() const noexcept { return static_cast<std::size_t>(width_); }
  [[nodiscard]] std::span<float> sums() noexcept { return sums_; }
  [[nodiscard]] std::span<const float> sums() const noexcept { return sums_; }

  void serialize(auto& ar) { ar(width_, sums_); }

 private:
  std::int64_t width_;
  std::vector<float> sums_;
};

namespace detail {

/// S·U, vectors one after another. S is symmetric.
inline std::vector<float> times_basis(thread_pool& pool, const subspace_basis& basis, std::span<const float> sums) {
  CAUSEWAY_EXPECT(!basis.empty() && sums.size() == basis.width() * basis.width());
  const compress::low_rank_shape shape{basis.width(), basis.width(), basis.rank()};
  std::vector<float> product(shape.left_size());
  compress::low_rank_left(pool, shape, sums, basis.vectors(), product);
  return product;
}

inline double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace detail

/// f(U) / tr(S): the share of the gradients' squares that the subspace cuts off, 0 to 1. 0 for S = 0.
inline double share_outside(thread_pool& pool, const subspace_basis& basis, std::span<const float> sums) {
  const std::vector<float> product = detail::times_basis(pool, basis, sums);
  double all = 0;
  for (std::size_t i = 0; i < basis.width(); ++i) all += static_cast<double>(sums[i * basis.width() + i]);
  return all > 0 ? 1.0 - detail::dot(product, basis.vectors()) / all : 0.0;
}

/// One step: U + step · (I - U·Uᵀ)·S·U / |S| (Frobenius), made orthonormal. A step of up to 1 lowers f, for |S| bounds the
/// curvature; larger ones come near S·U, a step of subspace iteration. Equal S and U give
/// equal bits on every machine. errc::non_finite for sums that are not finite. 2 · rank · width · (width + 3 · rank)
/// operations.
///
/// Afterwards project the weights and the optimizer's first moments on the new basis, and give it to every peer's codec.
inline result<subspace_basis> refreshed(thread_pool& pool, const subspace_basis& basis, std::span<const float> sums,
                                        float step = 1.0F) {
  std::vector<float> next = detail::times_basis(pool, basis, sums);
  const double size = std::sqrt(detail::dot(sums, sums));
  if (!std::isfinite(size)) {
    return fail(errc::non_finite, "subspace", "the gradients' statistics have NaN or infinity; gather them anew");
  }
  if (size == 0) return basis;
  const std::size_t width = basis.width(), rank = basis.rank();
  const auto count = static_cast<std::int64_t>(next.size());
  // Vectors as the rows of a matrix: what each has along the basis leaves it.
  const compress::low_rank_shape shape{rank, width, rank};
  std::vector<float> along(shape.left_size()), inside(shape.matrix_size());
  compress::low_rank_left(pool, shape, next, basis.vectors(), along);
  compress::low_rank_expand(pool, shape, along, basis.vectors(), inside);
  kernels::axpy(pool, next.data(), -1.0F, inside.data(), count);
  kernels::scale(pool, next.data(), static_cast<float>(static_cast<double>(step) / size), count);
  kernels::add(pool, next.data(), next.data(), basis.vectors().data(), count);
  return subspace_basis::spanned_by(std::move(next), static_cast<std::int64_t>(width));
}

}  // namespace causeway::inline CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_SUBSPACE_REFRESH_HPP
