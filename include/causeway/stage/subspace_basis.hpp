// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_SUBSPACE_BASIS_HPP
#define CAUSEWAY_STAGE_SUBSPACE_BASIS_HPP

// The few directions of the residual stream that all stages of a pipeline share (Protocol Models: Ramasinghe et al., 2025),
// U with orthonormal columns, width x rank, and what is projected on them: boundary tensors, and the weights that write
// into the residual stream. Equal seeds give equal bits on every machine, and so do the projections of weights.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/low_rank.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/tensor/scratch.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

class subspace_basis {
 public:
  /// No directions: to be assigned or loaded.
  subspace_basis() = default;

  /// Random directions (uniform numbers made orthonormal; the paper does not say how U starts): 4 · rank² · width
  /// operations. errc::invalid_argument unless 1 <= rank <= width.
  CAUSEWAY_DECL static result<subspace_basis> random(std::uint64_t seed, std::int64_t width, std::int64_t rank);

  /// The span of `vectors`, one after another, `width` values each. errc::non_finite where one is not finite.
  CAUSEWAY_DECL static result<subspace_basis> spanned_by(std::vector<float> vectors, std::int64_t width);

  [[nodiscard]] bool empty() const noexcept { return vectors_.empty(); }
  [[nodiscard]] std::size_t width() const noexcept { return width_; }
  [[nodiscard]] std::size_t rank() const noexcept { return width_ == 0 ? 0 : vectors_.size() / width_; }
  /// The columns of U, one after another.
  [[nodiscard]] std::span<const float> vectors() const noexcept { return vectors_; }

  /// z = x·U: x is [rows, width], z [rows, rank].
  CAUSEWAY_DECL void coordinates(thread_pool& pool, scratch& memory, std::size_t rows, const float* x, float* z) const;

  /// x = base + z·Uᵀ; `base` is [rows, width], or null for zeros.
  CAUSEWAY_DECL void expand(thread_pool& pool, scratch& memory, std::size_t rows, const float* z, const float* base,
                            float* x) const;

  /// W = W·U·Uᵀ for W of `rows` rows of `width` values: embedding tables, biases. What is left of each row lies in the
  /// subspace. 4 · rank operations a value; bits do not depend on the machine.
  CAUSEWAY_DECL void project_rows(thread_pool& pool, std::span<float> matrix) const;

  /// W = U·Uᵀ·W for W of `width` rows: weights [outputs, inputs] of the layers that write into the residual stream, whose
  /// outputs then lie in the subspace.
  CAUSEWAY_DECL void project_columns(thread_pool& pool, std::span<float> matrix) const;

  void serialize(auto& ar) { ar(vectors_, width_); }

 private:
  CAUSEWAY_DECL static result<void> validate(std::int64_t width, std::int64_t rank);
  CAUSEWAY_DECL static kernels::gemm_args<float, float> shape(std::size_t m, std::size_t n, std::size_t k);

  std::vector<float> vectors_;
  std::uint64_t width_ = 0;
};

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/subspace_basis.ipp>
#endif

#endif  // CAUSEWAY_STAGE_SUBSPACE_BASIS_HPP
