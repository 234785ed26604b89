// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_NORM_BODIES_HPP
#define CAUSEWAY_CUDA_BODIES_NORM_BODIES_HPP

// Layer normalisation and RMS normalisation, a group of threads to a row, with the sum of the residual stream in the same
// pass: the formulas of kernels/norm.hpp, which agree with the CPU's to rounding. A row is read from memory once and then
// from the caches; the variance is taken about the mean. The gradients of gain and bias go through one partial sum per
// block of rows, and the blocks depend on the number of rows alone, so the result does not depend on the device.

#include <causeway/config/config.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// y = (r - mean) / sqrt(variance + epsilon) · gain + bias, where r = x, or r = x + branch, which is then written to `sum`
/// (it may be x). Without `Centered` it is RMS normalisation: no mean, no bias. mean [rows] and rstd [rows] are for the
/// backward pass. x, sum [rows, columns] in f32; branch and y in Act.
template <bool Centered, class Act>
struct norm_forward_body {
  const float* x = nullptr;
  const Act* branch = nullptr;  ///< or null
  float* sum = nullptr;         ///< or null, without branch
  const float* gain = nullptr;
  const float* bias = nullptr;  ///< null where not Centered
  Act* y = nullptr;
  float* mean = nullptr;  ///< null where not Centered
  float* rstd = nullptr;
  std::int64_t columns = 1;
  float epsilon = 1e-5F;

  [[nodiscard]] bool aligned() const {
    return columns % pack_width == 0 && detail::on_packs(x, gain, bias) && detail::on_packs(sum) &&
           detail::on_packs(branch) && detail::on_packs(y);
  }

  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t row) const {
    const float* const from = branch == nullptr ? x + row * columns : add_branch<N>(g, row);
    const auto count = static_cast<float>(columns);
    const float center = Centered ? g.sum(total<N>(g, from)) / count : 0.0F;
    float spread = 0.0F;
    detail::for_packs<N>(g, columns, [&](std::int64_t i, auto width) {
      float v[width.value];
      detail::load(v, from + i);
      for (const float e : v) spread += (e - center) * (e - center);
    });
    const float scale = 1.0F / detail::root(g.sum(spread) / count + epsilon);
    if (g.rank() == 0) {
      if constexpr (Centered) mean[row] = center;
      rstd[row] = scale;
    }
    detail::for_packs<N>(g, columns, [&](std::int64_t i, auto width) {
      constexpr int n = width.value;
      float v[n], w[n], b[n] = {};
      detail::load(v, from + i);
      detail::load(w, gain + i);
      if constexpr (Centered) detail::load(b, bias + i);
      for (int k = 0; k < n; ++k) v[k] = (v[k] - center) * scale * w[k] + b[k];
      detail::store(y + row * columns + i, v);
    });
  }

 private:
  /// Each thread reads later what it writes here, so nobody need wait.
  template <int N, class G>
  CAUSEWAY_HD const float* add_branch(const G& g, std::int64_t row) const {
    float* const to = sum + row * columns;
    detail::for_packs<N>(g, columns, [&](std::int64_t i, auto width) {
      constexpr int n = width.value;
      float v[n], b[n];
      detail::load(v, x + row * columns + i);
      detail::load(b, branch + row * columns + i);
      for (int k = 0; k < n; ++k) v[k] += b[k];
      detail::store(to + i, v);
    });
    return to;
  }

  template <int N, class G>
  CAUSEWAY_HD float total(const G& g, const float* from) const {
    float sum_here = 0.0F;
    detail::for_packs<N>(g, columns, [&](std::int64_t i, auto width) {
      float v[width.value];
      detail::load(v, from + i);
      for (const float e : v) sum_here += e;
    });
    return sum_here;
  }
};

/// Blocks of rows whose gradients of gain and bias are summed apart: enough for every multiprocessor of a large device.
constexpr std::int64_t norm_blocks(std::int64_t rows) noexcept { return std::clamp<std::int64_t>(rows / 16, 1, 512); }

/// The gradient of norm_forward_body, a block of rows to a group. dx is overwritten, or added to with `accumulate` (the
/// residual stream). partials [norm_blocks(rows), 2 or 1, columns] receives the sums over the block of dy·xhat and, where
/// Centered, of dy; `column_total_body` adds them up. Working memory: as much as one block's partials.
template <bool Centered, class Act>
struct norm_backward_body {
  const float* x = nullptr;  ///< what was normalised: the sum, where there was a branch
  const float* gain = nullptr;
  const float* mean = nullptr;  ///< null where not Centered
  const float* rstd = nullptr;
  const Act* dy = nullptr;
  float* dx = nullptr;
  bool accumulate = false;
  float* partials = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 1;

  static constexpr int arrays = Centered ? 2 : 1;
  [[nodiscard]] std::size_t working_bytes() const { return static_cast<std::size_t>(columns) * arrays * sizeof(float); }
  [[nodiscard]] bool aligned() const {
    return columns % pack_width == 0 && detail::on_packs(x, gain) && detail::on_packs(dx, partials) && detail::on_packs(dy);
  }

  /// Each thread has columns of its own, in `memory` too.
  template <int N, Group G>
  CAUSEWAY_HD void run(G& g, std::int64_t block, float* memory) const {
    const std::int64_t blocks = norm_blocks(rows);
    detail::for_packs<N>(g, columns, [&](std::int64_t i, auto width) {
      const float zeros[width.value] = {};
      for (int a = 0; a < arrays; ++a) detail::store(memory + a * columns + i, zeros);
    });
    const std::int64_t end = rows * (block + 1) / blocks;
    for (std::int64_t row = rows * block / blocks; row < end; ++row) run_row<N>(g, row, memory);
    detail::for_packs<N>(g, columns, [&](std::int64_t i, auto width) {
      float v[width.value];
      for (int a = 0; a < arrays; ++a) {
        detail::load(v, memory + a * columns + i);
        detail::store(partials + (block * arrays + a) * columns + i, v);
      }
    });
  }

 private:
  template <int N, class G>
  CAUSEWAY_HD void run_row(G& g, std::int64_t row, float* dgain) const {
    const float center = Centered ? mean[row] : 0.0F, scale = rstd[row];
    const float inverse = 1.0F / static_cast<float>(columns);
    float sum = 0.0F, sum_xhat = 0.0F;  // of dy·gain and dy·gain·xhat
    detail::for_packs<N>(g, columns, [&](std::int64_t i, auto width) {
      constexpr int n = width.value;
      float v[n], w[n], d[n], dg[n];
      [[maybe_unused]] float db[n];
      detail::load(v, x + row * columns + i);
      detail::load(w, gain + i);
      detail::load(d, dy + row * columns + i);
      detail::load(dg, dgain + i);
      if constexpr (Centered) detail::load(db, dgain + columns + i);
      for (int k = 0; k < n; ++k) {
        const float xhat = (v[k] - center) * scale;
        dg[k] += d[k] * xhat;
        if constexpr (Centered) db[k] += d[k];
        if constexpr (Centered) sum += d[k] * w[k];
        sum_xhat += d[k] * w[k] * xhat;
      }
      detail::store(dgain + i, dg);
      if constexpr (Centered) detail::store(dgain + columns + i, db);
    });
    sum = Centered ? g.sum(sum) * inverse : 0.0F;
    sum_xhat = g.sum(sum_xhat) * inverse;
    detail::for_packs<N>(g, columns, [&](std::int64_t i, auto width) {
      constexpr int n = width.value;
      float v[n], w[n], d[n], to[n] = {};
      detail::load(v, x + row * columns + i);
      detail::load(w, gain + i);
      detail::load(d, dy + row * columns + i);
      if (accumulate) detail::load(to, dx + row * columns + i);
      for (int k = 0; k < n; ++k) {
        const float xhat = (v[k] - center) * scale;
        to[k] += scale * (d[k] * w[k] - sum - xhat * sum_xhat);
      }
      detail::store(dx + row * columns + i, to);
    });
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_NORM_BODIES_HPP
