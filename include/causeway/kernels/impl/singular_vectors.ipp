// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_IMPL_SINGULAR_VECTORS_IPP
#define CAUSEWAY_KERNELS_IMPL_SINGULAR_VECTORS_IPP

#include <causeway/kernels/singular_vectors.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {
namespace detail {

/// Rows of some length, beside all rotations that they went through: turns · before = rows.
class turned_rows {
 public:
  turned_rows(std::vector<double> rows, std::size_t count)
      : count_{count}, length_{rows.size() / count}, rows_{std::move(rows)}, turns_(count * count) {
    for (std::size_t i = 0; i < count; ++i) turns_[i * count + i] = 1;
  }

  /// Until all rows are orthogonal; each sweep doubles how many digits are right, once some are.
  void make_orthogonal() {
    constexpr int most_sweeps = 40;
    for (int sweep = 0; sweep < most_sweeps && turn_all_pairs(); ++sweep) {
    }
  }

  [[nodiscard]] const double* row(std::size_t i) const { return rows_.data() + i * length_; }
  [[nodiscard]] const double* turn(std::size_t i) const { return turns_.data() + i * count_; }
  [[nodiscard]] double square(std::size_t i) const { return dot(row(i), row(i)); }

 private:
  /// Four sums, which a processor adds up side by side.
  [[nodiscard]] double dot(const double* a, const double* b) const {
    std::array<double, 4> sums{};
    std::size_t i = 0;
    for (; i + 4 <= length_; i += 4) {
      for (std::size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
    }
    for (; i < length_; ++i) sums[0] += a[i] * b[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  static void rotate(double* a, double* b, std::size_t length, double cosine, double sine) {
    for (std::size_t i = 0; i < length; ++i) {
      const double x = a[i], y = b[i];
      a[i] = cosine * x - sine * y;
      b[i] = sine * x + cosine * y;
    }
  }

  /// Whether any pair was not orthogonal.
  bool turn_all_pairs() {
    bool turned = false;
    for (std::size_t p = 0; p + 1 < count_; ++p) {
      for (std::size_t q = p + 1; q < count_; ++q) turned = turn(p, q) || turned;
    }
    return turned;
  }

  bool turn(std::size_t p, std::size_t q) {
    double* const a = rows_.data() + p * length_;
    double* const b = rows_.data() + q * length_;
    const double aa = dot(a, a), bb = dot(b, b), ab = dot(a, b);
    if (!(std::abs(ab) > 1e-15 * std::sqrt(aa * bb))) return false;
    const double zeta = (bb - aa) / (2 * ab);
    const double tangent = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
    const double cosine = 1 / std::sqrt(1 + tangent * tangent), sine = cosine * tangent;
    rotate(a, b, length_, cosine, sine);
    rotate(turns_.data() + p * count_, turns_.data() + q * count_, count_, cosine, sine);
    return true;
  }

  std::size_t count_, length_;
  std::vector<double> rows_, turns_;
};

}  // namespace detail

CAUSEWAY_DECL void singular_vectors(std::span<const float> matrix, std::size_t rows, std::size_t columns,
                                    std::span<float> left, std::span<float> right) {
  const bool tall = rows > columns;
  const std::size_t count = std::min(rows, columns), length = std::max(rows, columns);
  const std::span<float> near = tall ? right : left, far = tall ? left : right;
  CAUSEWAY_EXPECT(matrix.size() == rows * columns);
  CAUSEWAY_EXPECT((near.empty() || near.size() == count * count) && (far.empty() || far.size() == length * length));
  std::vector<double> values(matrix.begin(), matrix.end());
  for (std::size_t i = 0; tall && i < values.size(); ++i) {
    values[i % columns * rows + i / columns] = static_cast<double>(matrix[i]);
  }
  detail::turned_rows all{std::move(values), count};
  all.make_orthogonal();
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return all.square(a) > all.square(b); });
  std::fill(far.begin(), far.end(), 0.0F);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = order[i];
    for (std::size_t k = 0; !near.empty() && k < count; ++k) near[i * count + k] = static_cast<float>(all.turn(from)[k]);
    const double norm = std::sqrt(all.square(from));
    if (norm == 0 || far.empty()) continue;
    for (std::size_t k = 0; k < length; ++k) far[i * length + k] = static_cast<float>(all.row(from)[k] / norm);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_IMPL_SINGULAR_VECTORS_IPP
