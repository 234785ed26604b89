// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ROTARY_HPP
#define CAUSEWAY_KERNELS_ROTARY_HPP

// Rotary position embedding (Su et al. 2021), in the layout of Llama's published weights: element i of a head is paired
// with element i + head_size/2.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/buffer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// How Llama 3.1 stretches wavelengths for contexts longer than those that a model was trained with first: frequencies
/// that turn less than `low` times in the original context are divided by `factor`, those that turn more than `high` times
/// stay, and between them it is blended.
struct rotary_scaling {
  float factor = 1.0F;  ///< 1: nothing is stretched
  float low = 1.0F;
  float high = 4.0F;
  std::int64_t original_context = 8192;

  [[nodiscard]] double stretched(double frequency) const noexcept {
    if (factor == 1.0F) return frequency;
    constexpr double full_turn = 6.283185307179586;
    const double turns = static_cast<double>(original_context) * frequency / full_turn;
    if (turns > static_cast<double>(high)) return frequency;
    const double slow = frequency / static_cast<double>(factor);
    if (turns < static_cast<double>(low)) return slow;
    const double kept = (turns - static_cast<double>(low)) / static_cast<double>(high - low);
    return (1.0 - kept) * slow + kept * frequency;
  }

  friend bool operator==(const rotary_scaling&, const rotary_scaling&) = default;
};

/// theta^(-2i/head_size): the angle between two positions of a head's pair `i`, before it is stretched.
inline double rotary_frequency(double theta, std::int64_t i, std::int64_t head_size) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
}

/// cos and sin of position · frequency, f32 [T, head_size/2] each, made once; the frequencies are theta^(-2i/head_size),
/// stretched. Angles are computed in f64.
class rotary_table {
 public:
  rotary_table() = default;
  rotary_table(std::int64_t positions, std::int64_t head_size, double theta = 10000.0, rotary_scaling scaling = {})
      : cosine_{static_cast<std::size_t>(positions * (head_size / 2))},
        sine_{cosine_.size()},
        positions_{positions},
        head_size_{head_size},
        theta_{theta},
        scaling_{scaling} {
    CAUSEWAY_EXPECT(head_size % 2 == 0);
    const std::int64_t half = head_size / 2;
    for (std::int64_t t = 0; t < positions; ++t) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) * scaling.stretched(rotary_frequency(theta, i, head_size));
        cosine_[static_cast<std::size_t>(t * half + i)] = static_cast<float>(std::cos(angle));
        sine_[static_cast<std::size_t>(t * half + i)] = static_cast<float>(std::sin(angle));
      }
    }
  }

  [[nodiscard]] const float* cosine() const noexcept { return cosine_.data(); }
  [[nodiscard]] const float* sine() const noexcept { return sine_.data(); }
  [[nodiscard]] std::int64_t positions() const noexcept { return positions_; }
  [[nodiscard]] std::int64_t head_size() const noexcept { return head_size_; }
  [[nodiscard]] double theta() const noexcept { return theta_; }
  [[nodiscard]] const rotary_scaling& scaling() const noexcept { return scaling_; }

 private:
  aligned_buffer<float> cosine_;
  aligned_buffer<float> sine_;
  std::int64_t positions_ = 0;
  std::int64_t head_size_ = 0;
  double theta_ = 0.0;
  rotary_scaling scaling_;
};

namespace detail {

struct rotary_kernel {
  static constexpr bool exact = false;

  /// Rows [begin, end) of [batch·T]; `sign` is -1 for the inverse.
  template <class T>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* cosine, const float* sine, T* x, std::int64_t begin, std::int64_t end,
                                         std::int64_t positions, std::int64_t stride, std::int64_t heads,
                                         std::int64_t head_size, float sign) {
    const std::int64_t half = head_size / 2;
    for (std::int64_t row = begin; row < end; ++row) {
      const float* c = cosine + row % positions * half;
      const float* s = sine + row % positions * half;
      for (T* head = x + row * stride; head < x + row * stride + heads * head_size; head += head_size) {
        for_lanes(half, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
          f32x16 first, second, cos, sin;
          load(first, head + i, part);
          load(second, head + half + i, part);
          load(cos, c + i, part);
          load(sin, s + i, part);
          sin *= sign;
          store(head + i, first * cos - second * sin, part);
          store(head + half + i, second * cos + first * sin, part);
        });
      }
    }
  }
};

}  // namespace detail

/// Rotates `heads` contiguous heads of every row in place; `inverse` rotates back, which is also the gradient. `qkv` points
/// at the first head of row 0; row b·T+t is `row_stride` elements further for each row and has position t. Moves 8 bytes
/// an element (f32), 4 (bf16).
template <Activation Act>
void rotary_apply(thread_pool& pool, const rotary_table& table, Act* qkv, std::int64_t batch, std::int64_t T,
                  std::int64_t row_stride, std::int64_t heads, std::int64_t head_size, bool inverse,
                  simd_level level = detect_simd_level()) {
  CAUSEWAY_EXPECT(T <= table.positions() && head_size == table.head_size());
  detail::for_rows(pool, batch * T, heads * head_size, [&](index_range part) {
    detail::dispatch<detail::rotary_kernel>(level, table.cosine(), table.sine(), qkv, part.begin, part.end, T, row_stride,
                                            heads, head_size, inverse ? -1.0F : 1.0F);
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_FAST_KERNEL((const float*, const float*, float*, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                      std::int64_t, std::int64_t, float),
                     rotary_kernel)
CAUSEWAY_FAST_KERNEL((const float*, const float*, bf16*, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                      std::int64_t, std::int64_t, float),
                     rotary_kernel)

#endif  // CAUSEWAY_KERNELS_ROTARY_HPP
