// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_LOW_RANK_HPP
#define CAUSEWAY_KERNELS_LOW_RANK_HPP

// The arithmetic of PowerSGD (Vogels et al., 2019, algorithm 1): a matrix M of rows times columns becomes a product P·Qᵀ of
// two thin factors by one step of subspace iteration. Peers that average matrices do, each from the same Q:
//
//   P = M·Q;  P <- mean of all peers' P;  orthonormalise P;  Q = Mᵀ·P;  Q <- mean of all peers' Q;  M' = P·Qᵀ
//
// and start the next round from this Q. Sums run in an order of their own: peers whose inputs are equal get equal bits.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// A matrix of `rows` times `columns`, row after row, and two factors of `rank` vectors each, one vector after another:
/// left (P) vectors of `rows` values, right (Q) vectors of `columns` values.
struct low_rank_shape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 1;

  [[nodiscard]] constexpr std::size_t matrix_size() const noexcept { return rows * columns; }
  [[nodiscard]] constexpr std::size_t left_size() const noexcept { return rank * rows; }
  [[nodiscard]] constexpr std::size_t right_size() const noexcept { return rank * columns; }
};

/// errc::invalid_argument when no such factors exist.
inline result<void> validate(const low_rank_shape& s) {
  if (s.rank >= 1 && s.rank <= std::min(s.rows, s.columns)) return {};
  return fail(errc::invalid_argument, "low_rank",
              "rank " + std::to_string(s.rank) + " of a matrix of " + std::to_string(s.rows) + " by " +
                  std::to_string(s.columns) + "; take 1 to the smaller of the two");
}

namespace detail {

struct dot_product {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static float run(const float* a, const float* b, std::int64_t count) {
    CAUSEWAY_EXACT_BODY
    return sum_lanes(
        count,
        [&](f32x8& v, std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
          CAUSEWAY_EXACT_BODY
          f32x8 y;
          std::memcpy(&v, a + i, sizeof v);
          std::memcpy(&y, b + i, sizeof y);
          v *= y;
        },
        [&](std::int64_t i) CAUSEWAY_INLINE_LAMBDA {
          CAUSEWAY_EXACT_BODY
          return a[i] * b[i];
        });
  }
};

/// left[k][i] = dot(matrix[i], right[k]) for a range of rows i.
struct left_rows {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(low_rank_shape s, const float* matrix, const float* right, float* left,
                                         index_range part) {
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      for (std::size_t k = 0; k < s.rank; ++k) {
        left[k * s.rows + static_cast<std::size_t>(i)] = dot_product::run(
            matrix + static_cast<std::size_t>(i) * s.columns, right + k * s.columns, static_cast<std::int64_t>(s.columns));
      }
    }
  }
};

/// right[k][j] = sum over i of left[k][i] · matrix[i][j] for a range of columns j, some at a time so that sums stay in
/// cache.
struct right_columns {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(low_rank_shape s, const float* matrix, const float* left, float* right,
                                         index_range part) {
    constexpr std::int64_t together = 512;
    for (std::int64_t first = part.begin; first < part.end; first += together) {
      const std::int64_t count = std::min(together, part.end - first);
      for (std::size_t k = 0; k < s.rank; ++k) std::fill_n(right + k * s.columns + first, count, 0.0F);
      for (std::size_t i = 0; i < s.rows; ++i) {
        const float* row = matrix + i * s.columns + first;
        for (std::size_t k = 0; k < s.rank; ++k) add_row(right + k * s.columns + first, left[k * s.rows + i], row, count);
      }
    }
  }
  CAUSEWAY_ALWAYS_INLINE static void add_row(float* sums, float factor, const float* row, std::int64_t count) {
    for_lanes(count, [&](std::int64_t j, auto lanes) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 sum, x;
      load(sum, sums + j, lanes);
      load(x, row + j, lanes);
      store(sums + j, sum + factor * x, lanes);
    });
  }
};

/// matrix[i] = sum over k of left[k][i] · right[k] for a range of rows i.
struct expand_rows {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(low_rank_shape s, const float* left, const float* right, float* matrix,
                                         index_range part) {
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      float* row = matrix + static_cast<std::size_t>(i) * s.columns;
      for_lanes(static_cast<std::int64_t>(s.columns), [&](std::int64_t j, auto lanes) CAUSEWAY_INLINE_LAMBDA {
        CAUSEWAY_EXACT_BODY
        f32x16 sum{};
        for (std::size_t k = 0; k < s.rank; ++k) {
          CAUSEWAY_EXACT_BODY
          f32x16 x;
          load(x, right + k * s.columns + j, lanes);
          sum += left[k * s.rows + static_cast<std::size_t>(i)] * x;
        }
        store(row + j, sum, lanes);
      });
    }
  }
};

/// Makes one vector a unit vector that is orthogonal to the unit vectors before it.
class gram_schmidt {
 public:
  gram_schmidt(std::span<float> factor, std::size_t length, simd_level level)
      : factor_{factor.data()}, length_{length}, count_{static_cast<std::int64_t>(length)}, level_{level} {}

  /// False when the vector is zero, or lies (but for rounding) in the span of those before it.
  bool orthonormalise(std::size_t k) const {
    float* const v = factor_ + k * length_;
    float largest = 0;
    for (std::size_t i = 0; i < length_; ++i) largest = std::max(largest, std::abs(v[i]));
    if (largest == 0) return false;
    for (std::size_t i = 0; i < length_; ++i) v[i] /= largest;  // so that no square overflows or vanishes
    const float before = norm(v);
    remove_others(k);
    if (!(norm(v) > 1e-5F * before)) return false;
    divide(v, norm(v));
    remove_others(k);  // what rounding left, which the division has made larger ("twice is enough")
    divide(v, norm(v));
    return true;
  }

 private:
  [[nodiscard]] float dot(const float* a, const float* b) const { return dispatch<dot_product>(level_, a, b, count_); }
  [[nodiscard]] float norm(const float* v) const { return std::sqrt(dot(v, v)); }

  void divide(float* v, float by) const {
    for (std::size_t i = 0; i < length_; ++i) v[i] /= by;
  }
  void remove_others(std::size_t k) const {
    float* const v = factor_ + k * length_;
    for (std::size_t other = 0; other < k; ++other) {
      const float* const u = factor_ + other * length_;
      dispatch<subtract_multiple>(level_, v, dot(u, v), u, count_);
    }
  }
  struct subtract_multiple {
    static constexpr bool exact = true;
    CAUSEWAY_ALWAYS_INLINE static void run(float* v, float factor, const float* u, std::int64_t count) {
      right_columns::add_row(v, -factor, u, count);
    }
  };

  float* factor_;
  std::size_t length_;
  std::int64_t count_;
  simd_level level_;
};

inline void fill_random(std::span<float> values, std::uint64_t seed) {
  rng random{seed};
  for (float& v : values) v = 2.0F * random.uniform() - 1.0F;
}

}  // namespace detail

/// The right factor of the first round: uniform numbers between -1 and 1, equal on all peers that use the same seed.
inline void low_rank_start(const low_rank_shape& shape, std::uint64_t seed, std::span<float> right) {
  CAUSEWAY_EXPECT(right.size() == shape.right_size());
  detail::fill_random(right, mix(seed, shape.rows, shape.columns));
}

/// left = matrix · right: 2 · rows · columns · rank operations.
inline void low_rank_left(thread_pool& pool, const low_rank_shape& shape, std::span<const float> matrix,
                          std::span<const float> right, std::span<float> left, simd_level level = detect_simd_level()) {
  CAUSEWAY_EXPECT(matrix.size() == shape.matrix_size() && right.size() == shape.right_size() &&
                  left.size() == shape.left_size());
  detail::for_rows(pool, static_cast<std::int64_t>(shape.rows), static_cast<std::int64_t>(shape.columns),
                   [&](index_range part) {
                     detail::dispatch<detail::left_rows>(level, shape, matrix.data(), right.data(), left.data(), part);
                   });
}

/// right = matrixᵀ · left: as many.
inline void low_rank_right(thread_pool& pool, const low_rank_shape& shape, std::span<const float> matrix,
                           std::span<const float> left, std::span<float> right, simd_level level = detect_simd_level()) {
  CAUSEWAY_EXPECT(matrix.size() == shape.matrix_size() && right.size() == shape.right_size() &&
                  left.size() == shape.left_size());
  const auto columns = static_cast<std::int64_t>(shape.columns);
  const std::int64_t grain = shape.matrix_size() <= std::size_t{detail::smallest_share} ? columns : 64;
  pool.for_range(columns, grain, [&](index_range part) {
    detail::dispatch<detail::right_columns>(level, shape, matrix.data(), left.data(), right.data(), part);
  });
}

/// matrix = left · rightᵀ: as many.
inline void low_rank_expand(thread_pool& pool, const low_rank_shape& shape, std::span<const float> left,
                            std::span<const float> right, std::span<float> matrix, simd_level level = detect_simd_level()) {
  CAUSEWAY_EXPECT(matrix.size() == shape.matrix_size() && right.size() == shape.right_size() &&
                  left.size() == shape.left_size());
  detail::for_rows(pool, static_cast<std::int64_t>(shape.rows), static_cast<std::int64_t>(shape.columns),
                   [&](index_range part) {
                     detail::dispatch<detail::expand_rows>(level, shape, left.data(), right.data(), matrix.data(), part);
                   });
}

/// Each vector of `length` values over its own length + epsilon, in place.
inline void to_unit_length(std::span<float> vectors, std::size_t length, float epsilon) {
  for (std::size_t at = 0; at < vectors.size(); at += length) {
    double sum = 0;
    for (std::size_t i = at; i < at + length; ++i) sum += double{vectors[i]} * double{vectors[i]};
    const float over = static_cast<float>(std::sqrt(sum)) + epsilon;
    for (std::size_t i = at; i < at + length; ++i) vectors[i] /= over;
  }
}

/// Gram-Schmidt, twice, in place: `factor` becomes orthonormal vectors of `length` values that span what they spanned. A
/// vector that adds nothing (a matrix of lower rank, a round of zeros) is replaced by a direction that all peers agree on,
/// so that the next round can use it; without that a warm start would lose it for good. errc::non_finite when a value is
/// not finite; the factor is then unspecified. Costs 4 · rank² · length operations, on one thread.
inline result<void> low_rank_orthonormalise(std::span<float> factor, std::size_t length,
                                            simd_level level = detect_simd_level()) {
  CAUSEWAY_EXPECT(length > 0 && factor.size() % length == 0 && factor.size() / length <= length);
  for (const float v : factor) {
    if (std::abs(v) <= std::numeric_limits<float>::max()) continue;
    return fail(errc::non_finite, "low_rank", "a factor has NaN or infinity; the matrices that it comes from are unusable");
  }
  const detail::gram_schmidt vectors{factor, length, level};
  for (std::size_t k = 0; k < factor.size() / length; ++k) {
    for (std::uint64_t attempt = 0; !vectors.orthonormalise(k); ++attempt) {
      detail::fill_random(factor.subspan(k * length, length), mix(k, length, attempt));
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_EXACT_KERNEL((low_rank_shape, const float*, const float*, float*, index_range), left_rows)
CAUSEWAY_EXACT_KERNEL((low_rank_shape, const float*, const float*, float*, index_range), right_columns)
CAUSEWAY_EXACT_KERNEL((low_rank_shape, const float*, const float*, float*, index_range), expand_rows)
CAUSEWAY_EXACT_KERNEL((const float*, const float*, std::int64_t), dot_product)

#endif  // CAUSEWAY_KERNELS_LOW_RANK_HPP
