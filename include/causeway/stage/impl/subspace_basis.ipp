// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_SUBSPACE_BASIS_IPP
#define CAUSEWAY_STAGE_IMPL_SUBSPACE_BASIS_IPP

#include <causeway/stage/subspace_basis.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL result<subspace_basis> subspace_basis::random(std::uint64_t seed, std::int64_t width, std::int64_t rank) {
  CAUSEWAY_TRY(validate(width, rank));
  std::vector<float> vectors(static_cast<std::size_t>(width * rank));
  rng draw{mix(seed, static_cast<std::uint64_t>(width), static_cast<std::uint64_t>(rank))};
  for (float& v : vectors) v = 2.0F * draw.uniform() - 1.0F;
  return spanned_by(std::move(vectors), width);
}

CAUSEWAY_DECL result<subspace_basis> subspace_basis::spanned_by(std::vector<float> vectors, std::int64_t width) {
  const auto length = static_cast<std::size_t>(width);
  CAUSEWAY_EXPECT(width > 0 && vectors.size() % length == 0);
  CAUSEWAY_TRY(validate(width, static_cast<std::int64_t>(vectors.size() / length)));
  CAUSEWAY_TRY(kernels::low_rank_orthonormalise(vectors, length));
  subspace_basis basis;
  basis.vectors_ = std::move(vectors);
  basis.width_ = length;
  return basis;
}

CAUSEWAY_DECL void subspace_basis::coordinates(thread_pool& pool, scratch& memory, std::size_t rows, const float* x,
                                               float* z) const {
  kernels::gemm_args<float, float> args = shape(rows, rank(), width_);
  args.transpose_b = true;
  args.a = x, args.lda = args.k, args.b = vectors_.data(), args.ldb = args.k, args.c = z, args.ldc = args.n;
  kernels::packed_gemm{}.multiply(pool, memory, args);
}

CAUSEWAY_DECL void subspace_basis::expand(thread_pool& pool, scratch& memory, std::size_t rows, const float* z,
                                          const float* base, float* x) const {
  kernels::gemm_args<float, float> args = shape(rows, width_, rank());
  args.a = z, args.lda = args.k, args.b = vectors_.data(), args.ldb = args.n, args.c = x, args.ldc = args.n;
  args.residual = base, args.ld_residual = args.n;
  kernels::packed_gemm{}.multiply(pool, memory, args);
}

CAUSEWAY_DECL void subspace_basis::project_rows(thread_pool& pool, std::span<float> matrix) const {
  CAUSEWAY_EXPECT(!empty() && matrix.size() % width_ == 0);
  const kernels::low_rank_shape shape{matrix.size() / width_, width_, rank()};
  std::vector<float> left(shape.left_size());
  kernels::low_rank_left(pool, shape, matrix, vectors_, left);
  kernels::low_rank_expand(pool, shape, left, vectors_, matrix);
}

CAUSEWAY_DECL void subspace_basis::project_columns(thread_pool& pool, std::span<float> matrix) const {
  CAUSEWAY_EXPECT(!empty() && matrix.size() % width_ == 0);
  const kernels::low_rank_shape shape{width_, matrix.size() / width_, rank()};
  std::vector<float> right(shape.right_size());
  kernels::low_rank_right(pool, shape, matrix, vectors_, right);
  kernels::low_rank_expand(pool, shape, vectors_, right, matrix);
}

CAUSEWAY_DECL result<void> subspace_basis::validate(std::int64_t width, std::int64_t rank) {
  if (rank >= 1 && rank <= width) return {};
  return fail(errc::invalid_argument, "subspace",
              std::to_string(rank) + " directions of a residual stream " + std::to_string(width) +
                  " wide; take 1 to its width, a hundredth to a tenth of it to gain much");
}

CAUSEWAY_DECL kernels::gemm_args<float, float> subspace_basis::shape(std::size_t m, std::size_t n, std::size_t k) {
  kernels::gemm_args<float, float> args;
  args.m = static_cast<std::int64_t>(m), args.n = static_cast<std::int64_t>(n), args.k = static_cast<std::int64_t>(k);
  return args;
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_SUBSPACE_BASIS_IPP
