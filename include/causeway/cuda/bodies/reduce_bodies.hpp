// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_REDUCE_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_REDUCE_BODIES_HPP

// Sums in two stages, whose blocks depend on the number of elements alone: the same bits on every device and in every run,
// without atomics. Sums over columns have the CPU's blocks and order, hence its bits; sums of everything run in f64 and
// agree with kernels/reduce.hpp to f64 rounding.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/kernels/column_sum.hpp>

#include <cmath>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Blocks of rows that columns are summed over apart: the CPU's.
constexpr std::int64_t column_blocks(std::int64_t rows) noexcept { return kernels::detail::row_blocks(rows); }

/// partials [column_blocks(rows), columns] = the sums over each block of rows of x [rows, columns]; over the partials'
/// elements.
template <class T>
struct column_partial_body {
  const T* x = nullptr;
  float* partials = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 1;

  [[nodiscard]] bool aligned() const {
    return columns % pack_width == 0 && detail::on_packs(x) && detail::on_packs(partials);
  }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    const auto blocks = static_cast<unsigned>(column_blocks(rows));
    const index_range part = share_of(rows, static_cast<unsigned>(i / columns), blocks);
    const T* from = x + part.begin * columns + i % columns;
    float sum[N] = {}, v[N];
    for (std::int64_t row = part.begin; row < part.end; ++row, from += columns) {
      detail::load(v, from);
      for (int k = 0; k < N; ++k) sum[k] += v[k];
    }
    detail::store(partials + i, sum);
  }
};

/// sums [columns] += the sum of `blocks` partial sums, `stride` values apart, in their order. Over the columns.
struct column_total_body {
  const float* partials = nullptr;
  float* sums = nullptr;
  std::int64_t blocks = 0;
  std::int64_t stride = 0;

  [[nodiscard]] bool aligned() const {
    return stride % pack_width == 0 && detail::on_packs(partials) && detail::on_packs(sums);
  }
  template <int N>
  CAUSEWAY_HD void run(std::int64_t i) const {
    float sum[N], v[N];
    detail::load(sum, sums + i);
    for (std::int64_t block = 0; block < blocks; ++block) {
      detail::load(v, partials + block * stride + i);
      for (int k = 0; k < N; ++k) sum[k] += v[k];
    }
    detail::store(sums + i, sum);
  }
};

/// Blocks that a sum over everything is cut into.
inline constexpr std::int64_t total_blocks = 1024;

enum class summand : bool { value, square };

/// partials [total_blocks] = the f64 sums of x or of x², a block of elements to a group.
template <summand What>
struct total_partial_body {
  const float* x = nullptr;
  double* partials = nullptr;
  std::int64_t count = 0;

  [[nodiscard]] bool aligned() const { return detail::on_packs(x); }
  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t block) const {
    const std::int64_t length = (count + total_blocks * pack_width - 1) / (total_blocks * pack_width) * pack_width;
    const std::int64_t begin = block * length < count ? block * length : count;
    const std::int64_t here = count - begin < length ? count - begin : length;
    double sum = 0.0;
    detail::for_packs<N>(g, here, [&](std::int64_t i, auto width) {
      float v[width.value];
      detail::load(v, x + begin + i);
      for (const float e : v) {
        const auto d = static_cast<double>(e);
        sum += What == summand::square ? d * d : d;  // the product of two f32 is exact in f64, fused or not
      }
    });
    sum = g.sum(sum);
    if (g.rank() == 0) partials[block] = sum;
  }
};

/// Its second stage, one item for one group: *total = the sum of the partials.
struct total_body {
  const double* partials = nullptr;
  double* total = nullptr;

  [[nodiscard]] static bool aligned() { return false; }
  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t) const {
    double sum = 0.0;
    for (std::int64_t i = g.rank(); i < total_blocks; i += g.size()) sum += partials[i];
    sum = g.sum(sum);
    if (g.rank() == 0) *total = sum;
  }
};

/// norm[0] = the square root of *squares, and norm[1] = what brings it down to `most`: at most 1, and 1 where most <= 0, as
/// optim::clip_scale. A norm that is not finite makes the factor NaN, so that nobody takes the step for a good one. One
/// element.
struct clip_body {
  const double* squares = nullptr;
  float* norm = nullptr;
  float most = 0.0F;

  CAUSEWAY_HD void operator()(std::int64_t) const {
    const auto found = static_cast<float>(std::sqrt(*squares));
    norm[0] = found;
    const bool finite = found - found == 0.0F;
    norm[1] = !finite ? found - found : most > 0.0F && found > most ? detail::over(most, found) : 1.0F;
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_REDUCE_BODIES_HPP
