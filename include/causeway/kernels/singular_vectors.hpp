// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_SINGULAR_VECTORS_HPP
#define CAUSEWAY_KERNELS_SINGULAR_VECTORS_HPP

// The singular vectors of a matrix, by one-sided Jacobi rotations (Hestenes 1958): pairs of rows are turned until all rows
// are orthogonal. Slow and accurate, for what is computed once.

#include <causeway/config/config.hpp>

#include <cstddef>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Of `matrix` [rows, columns], the largest singular value first, one vector after another: `left` has room for `rows`
/// vectors of `rows` values, `right` for `columns` of `columns`; either may be empty. The side that is shorter
/// gets all of its vectors. The other gets as many, and zeros for those after them, and for those whose singular value is
/// zero: low_rank_orthonormalise finds some. Signs are arbitrary. In double precision on one thread, some 10 sweeps of
/// 6·short²·(short + long) operations; memory: 8 bytes a value of the matrix and of the shorter side's square. The order of
/// sums is fixed. NaN where the matrix has such.
CAUSEWAY_DECL void singular_vectors(std::span<const float> matrix, std::size_t rows, std::size_t columns,
                                    std::span<float> left, std::span<float> right);

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#ifndef CAUSEWAY_COMPILED
#include <causeway/kernels/impl/singular_vectors.ipp>
#endif

#endif  // CAUSEWAY_KERNELS_SINGULAR_VECTORS_HPP
