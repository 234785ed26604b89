// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_SUBSPACE_REFRESH_IPP
#define CAUSEWAY_STAGE_IMPL_SUBSPACE_REFRESH_IPP

// Bodies of stage/subspace_refresh.hpp.

#include <causeway/stage/subspace_refresh.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL subspace_statistics::subspace_statistics(std::int64_t width)
    : width_{width}, sums_(static_cast<std::size_t>(width) * static_cast<std::size_t>(width)) {}

CAUSEWAY_DECL void subspace_statistics::add(thread_pool& pool, scratch& memory, std::span<const float> gradient) {
  CAUSEWAY_EXPECT(width_ > 0 && gradient.size() % static_cast<std::size_t>(width_) == 0);
  kernels::gemm_args<float, float> args;
  args.transpose_a = true, args.accumulate = true;
  args.m = width_, args.n = width_, args.k = static_cast<std::int64_t>(gradient.size()) / width_;
  args.a = gradient.data(), args.lda = width_, args.b = gradient.data(), args.ldb = width_;
  args.c = sums_.data(), args.ldc = width_;
  if (args.k > 0) kernels::packed_gemm{}.multiply(pool, memory, args);
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace detail {

CAUSEWAY_DECL std::vector<float> times_basis(thread_pool& pool, const subspace_basis& basis, std::span<const float> sums) {
  CAUSEWAY_EXPECT(!basis.empty() && sums.size() == basis.width() * basis.width());
  const kernels::low_rank_shape shape{basis.width(), basis.width(), basis.rank()};
  std::vector<float> product(shape.left_size());
  kernels::low_rank_left(pool, shape, sums, basis.vectors(), product);
  return product;
}

CAUSEWAY_DECL double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL double share_outside(thread_pool& pool, const subspace_basis& basis, std::span<const float> sums) {
  const std::vector<float> product = detail::times_basis(pool, basis, sums);
  double all = 0;
  for (std::size_t i = 0; i < basis.width(); ++i) all += static_cast<double>(sums[i * basis.width() + i]);
  return all > 0 ? 1.0 - detail::dot(product, basis.vectors()) / all : 0.0;
}

CAUSEWAY_DECL result<subspace_basis> refreshed(thread_pool& pool, const subspace_basis& basis, std::span<const float> sums,
                                               float step) {
  std::vector<float> next = detail::times_basis(pool, basis, sums);
  const double size = std::sqrt(detail::dot(sums, sums));
  if (!std::isfinite(size)) {
    return fail(errc::non_finite, "subspace", "the gradients' statistics have NaN or infinity; gather them anew");
  }
  if (size == 0) return basis;
  const std::size_t width = basis.width(), rank = basis.rank();
  const auto count = static_cast<std::int64_t>(next.size());
  // Vectors as the rows of a matrix: what each has along the basis leaves it.
  const kernels::low_rank_shape shape{rank, width, rank};
  std::vector<float> along(shape.left_size()), inside(shape.matrix_size());
  kernels::low_rank_left(pool, shape, next, basis.vectors(), along);
  kernels::low_rank_expand(pool, shape, along, basis.vectors(), inside);
  kernels::axpy(pool, next.data(), -1.0F, inside.data(), count);
  kernels::scale(pool, next.data(), static_cast<float>(static_cast<double>(step) / size), count);
  kernels::add(pool, next.data(), next.data(), basis.vectors().data(), count);
  return subspace_basis::spanned_by(std::move(next), static_cast<std::int64_t>(width));
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_SUBSPACE_REFRESH_IPP
