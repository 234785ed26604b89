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

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/low_rank.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/stage/subspace_basis.hpp>
#include <causeway/tensor/scratch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// S = the sum of gᵀ·g over boundary gradients before they are projected: at the last stage, or wherever they are at hand.
/// width² values. Its bits depend on the machine: one peer's S, or the mean of all, has to be the one that all use.
class subspace_statistics {
 public:
  CAUSEWAY_DECL explicit subspace_statistics(std::int64_t width = 0);

  /// `gradient` is [rows, width]: 2 · width operations a value.
  CAUSEWAY_DECL void add(thread_pool& pool, scratch& memory, std::span<const float> gradient);

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
CAUSEWAY_DECL std::vector<float> times_basis(thread_pool& pool, const subspace_basis& basis, std::span<const float> sums);

CAUSEWAY_DECL double dot(std::span<const float> a, std::span<const float> b);

}  // namespace detail

/// f(U) / tr(S): the share of the gradients' squares that the subspace cuts off, 0 to 1. 0 for S = 0.
CAUSEWAY_DECL double share_outside(thread_pool& pool, const subspace_basis& basis, std::span<const float> sums);

/// One step: U + step · (I - U·Uᵀ)·S·U / |S| (Frobenius), made orthonormal. A step of up to 1 lowers f, for |S| bounds the
/// curvature; larger ones come near S·U, a step of subspace iteration. Equal S and U give
/// equal bits on every machine. errc::non_finite for sums that are not finite. 2 · rank · width · (width + 3 · rank)
/// operations.
///
/// Afterwards project the weights and the optimizer's first moments on the new basis, and give it to every peer's codec.
CAUSEWAY_DECL result<subspace_basis> refreshed(thread_pool& pool, const subspace_basis& basis, std::span<const float> sums,
                                               float step = 1.0F);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/subspace_refresh.ipp>
#endif

#endif  // CAUSEWAY_STAGE_SUBSPACE_REFRESH_HPP
