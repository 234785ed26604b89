// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_ROWS_HPP
#define CAUSEWAY_KERNELS_ROWS_HPP

// Arithmetic of communication policies on whole rows. A policy asks its context for `rows()`: on a processor that is
// host_rows, beside a model on a device something of the same members that works in the device's memory (cuda/rows.hpp).
// One rounding an operation everywhere, so both give the same bits.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels {

/// Steps that were taken while a result was on its way, and where they should have begun (axis::compensated).
struct compensation {
  float steps = 1.0F;   ///< τ
  float lambda = 0.5F;  ///< of the correction
};

/// One outer step among peers that do not share parameters (axis::gossip_nesterov).
struct gossip_coefficients {
  float alpha = 0.5F;  ///< momentum
  float beta = 0.7F;   ///< rate of the mean progress
  float gamma = 0.7F;  ///< pull toward the mean parameters
};

namespace detail {

struct blend_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, float alpha, const float* x, float beta, std::int64_t count) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 vy, vx;
      load(vy, y + i, part);
      load(vx, x + i, part);
      store(y + i, alpha * vy + beta * vx, part);
    });
  }
};

struct compensate_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* y, const float* shared, const float* at_send, std::int64_t count,
                                         compensation c) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, target, sent;
      load(value, y + i, part);
      load(target, shared + i, part);
      load(sent, at_send + i, part);
      const f32x16 g = (sent - value) / c.steps;
      store(y + i, target - c.steps * (g + c.lambda * g * g * (target - sent)), part);
    });
  }
};

struct gossip_kernel {
  static constexpr bool exact = true;
  CAUSEWAY_ALWAYS_INLINE static void run(float* shared, float* velocity, const float* mean, const float* mean_shared,
                                         std::int64_t count, gossip_coefficients c) {
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      CAUSEWAY_EXACT_BODY
      f32x16 value, v, step, target;
      load(value, shared + i, part);
      load(v, velocity + i, part);
      load(step, mean + i, part);
      load(target, mean_shared + i, part);
      v = c.alpha * v - c.beta * step + c.gamma * (target - value);
      store(velocity + i, v, part);
      store(shared + i, value + v, part);
    });
  }
};

}  // namespace detail

/// y = alpha·y + beta·x. Moves 12 bytes an element. On the calling thread.
inline void blend(float* y, float alpha, const float* x, float beta, std::int64_t count,
                  simd_level level = detect_simd_level()) {
  detail::dispatch<detail::blend_kernel>(level, y, alpha, x, beta, count);
}

/// y = shared − τ·(g + λ·g⊙g⊙(shared − at_send)) with g = (at_send − y)/τ. Moves 16 bytes an element. On the calling
/// thread.
inline void compensate(float* y, const float* shared, const float* at_send, std::int64_t count, const compensation& c,
                       simd_level level = detect_simd_level()) {
  detail::dispatch<detail::compensate_kernel>(level, y, shared, at_send, count, c);
}

/// v = α·v − β·mean + γ·(mean_shared − shared); shared += v. Moves 24 bytes an element. On the calling thread.
inline void gossip_update(float* shared, float* velocity, const float* mean, const float* mean_shared, std::int64_t count,
                          const gossip_coefficients& c, simd_level level = detect_simd_level()) {
  detail::dispatch<detail::gossip_kernel>(level, shared, velocity, mean, mean_shared, count, c);
}

/// What a context's `rows()` can do. Rows of one call are as long as each other; of `gather` and `scatter` the row is as
/// long as the ranges together. Errors are a device's.
template <class R>
concept RowArithmetic = requires(const R& r, std::span<float> y, std::span<const float> x,
                                 std::span<const index_range> ranges) {
  { r.copy(y, x) } -> std::same_as<result<void>>;  // y = x
  { r.zero(y) } -> std::same_as<result<void>>;
  { r.subtract(y, x, x) } -> std::same_as<result<void>>;                          // y = a − b
  { r.scale(y, 1.0F) } -> std::same_as<result<void>>;                             // y = α·y
  { r.add(y, 1.0F, x) } -> std::same_as<result<void>>;                            // y += α·x
  { r.blend(y, 1.0F, x, 1.0F) } -> std::same_as<result<void>>;                    // y = α·y + β·x
  { r.compensate(y, x, x, compensation{}) } -> std::same_as<result<void>>;        // y, shared, at_send
  { r.gossip(y, y, x, x, gossip_coefficients{}) } -> std::same_as<result<void>>;  // shared, velocity, means of both
  { r.gather(ranges, x, y) } -> std::same_as<result<void>>;                       // all, row
  { r.scatter(ranges, x, y) } -> std::same_as<result<void>>;                      // row, all
};

/// These values of a row become 0.
template <RowArithmetic R>
result<void> clear(const R& rows, std::span<const index_range> ranges, std::span<float> row) {
  for (const index_range r : ranges) {
    CAUSEWAY_TRY(rows.zero(row.subspan(static_cast<std::size_t>(r.begin), static_cast<std::size_t>(r.size()))));
  }
  return {};
}

/// On the processor, over the threads of a pool. Nothing fails.
class host_rows {
 public:
  explicit host_rows(thread_pool& pool) noexcept : pool_{&pool} {}

  result<void> copy(std::span<float> y, std::span<const float> x) const {
    std::copy(x.begin(), x.end(), y.begin());
    return {};
  }
  result<void> zero(std::span<float> y) const {
    kernels::zero(*pool_, y.data(), std::ssize(y));
    return {};
  }
  result<void> subtract(std::span<float> y, std::span<const float> a, std::span<const float> b) const {
    kernels::subtract(*pool_, y.data(), a.data(), b.data(), std::ssize(y));
    return {};
  }
  result<void> scale(std::span<float> y, float alpha) const {
    kernels::scale(*pool_, y.data(), alpha, std::ssize(y));
    return {};
  }
  result<void> add(std::span<float> y, float alpha, std::span<const float> x) const {
    kernels::axpy(*pool_, y.data(), alpha, x.data(), std::ssize(y));
    return {};
  }
  result<void> blend(std::span<float> y, float alpha, std::span<const float> x, float beta) const {
    return over(y, [&](std::int64_t i, std::int64_t n) { kernels::blend(y.data() + i, alpha, x.data() + i, beta, n); });
  }
  result<void> compensate(std::span<float> y, std::span<const float> shared, std::span<const float> at_send,
                          const compensation& c) const {
    return over(y, [&](std::int64_t i, std::int64_t n) {
      kernels::compensate(y.data() + i, shared.data() + i, at_send.data() + i, n, c);
    });
  }
  result<void> gossip(std::span<float> shared, std::span<float> velocity, std::span<const float> mean,
                      std::span<const float> mean_shared, const gossip_coefficients& c) const {
    return over(shared, [&](std::int64_t i, std::int64_t n) {
      kernels::gossip_update(shared.data() + i, velocity.data() + i, mean.data() + i, mean_shared.data() + i, n, c);
    });
  }
  result<void> gather(std::span<const index_range> ranges, std::span<const float> all, std::span<float> row) const {
    auto to = row.begin();
    for (const index_range r : ranges) to = std::copy(all.begin() + r.begin, all.begin() + r.end, to);
    return {};
  }
  result<void> scatter(std::span<const index_range> ranges, std::span<const float> row, std::span<float> all) const {
    auto from = row.begin();
    for (const index_range r : ranges) {
      std::copy(from, from + r.size(), all.begin() + r.begin);
      from += r.size();
    }
    return {};
  }

 private:
  template <class F>
  result<void> over(std::span<float> y, F&& f) const {
    detail::for_elements(*pool_, std::ssize(y), [&](index_range part) { f(part.begin, part.size()); });
    return {};
  }

  thread_pool* pool_;
};
static_assert(RowArithmetic<host_rows>);

}}}  // namespace causeway::CAUSEWAY_ABI::kernels

CAUSEWAY_EXACT_KERNEL((float*, float, const float*, float, std::int64_t), blend_kernel)
CAUSEWAY_EXACT_KERNEL((float*, const float*, const float*, std::int64_t, compensation), compensate_kernel)
CAUSEWAY_EXACT_KERNEL((float*, float*, const float*, const float*, std::int64_t, gossip_coefficients), gossip_kernel)

#endif  // CAUSEWAY_KERNELS_ROWS_HPP
