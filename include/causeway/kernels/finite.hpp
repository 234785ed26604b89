// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_FINITE_HPP
#define CAUSEWAY_KERNELS_FINITE_HPP

// The look for NaN and infinity, alone or while values are converted to f32: one loop for all who read what others sent.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/dtype.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace kernels { namespace detail {

/// Whether all elements that it has seen are finite, by their bits: adding one to an exponent of all ones carries into the
/// highest bit. In vectors of 32 bytes, as sums are.
template <class Element>
class exponent_watch {
  using integer = std::conditional_t<sizeof(Element) == 4, std::uint32_t, std::uint16_t>;
  using vector [[gnu::vector_size(32)]] = integer;
  static constexpr auto exponent = static_cast<integer>(std::is_same_v<Element, float>  ? 0x7F800000U
                                                        : std::is_same_v<Element, bf16> ? 0x7F80U
                                                                                        : 0x7C00U);
  static constexpr integer unit = exponent & (0U - exponent);
  static constexpr std::size_t lanes = sizeof(vector) / sizeof(integer), parts = 16 / lanes;

 public:
  CAUSEWAY_ALWAYS_INLINE void see(const Element* p, whole) {
    for (std::size_t k = 0; k < parts; ++k) {
      vector bits;
      std::memcpy(&bits, p + k * lanes, sizeof bits);
      seen_[k] |= (bits & exponent) + unit;
    }
  }
  CAUSEWAY_ALWAYS_INLINE void see(const Element* p, tail part) {
    Element padded[16] = {};
    std::memcpy(static_cast<void*>(padded), p, static_cast<std::size_t>(part.count) * sizeof(Element));
    see(padded, whole{});
  }
  [[nodiscard]] CAUSEWAY_ALWAYS_INLINE bool all_finite() const {
    integer all = 0;
    for (std::size_t k = 0; k < parts; ++k) {
      for (std::size_t lane = 0; lane < lanes; ++lane) all = static_cast<integer>(all | seen_[k][lane]);
    }
    return all >> (8 * sizeof(integer) - 1) == 0;
  }

 private:
  vector seen_[parts] = {};
};

/// Whether all elements are finite; with `to`, they also become f32 there, bit by bit where they are.
struct finite_kernel {
  static constexpr bool exact = true;

  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static bool run(const Element* from, std::int64_t count) {
    return look(from, count, [](std::int64_t, auto) CAUSEWAY_INLINE_LAMBDA {});
  }
  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static bool run(const Element* from, float* to, std::int64_t count) {
    return look(from, count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      f32x16 v;
      load(v, from + i, part);
      store(to + i, v, part);
    });
  }

 private:
  template <class Element, class Also>
  CAUSEWAY_ALWAYS_INLINE static bool look(const Element* from, std::int64_t count, Also&& also) {
    exponent_watch<Element> watch;
    for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      watch.see(from + i, part);
      also(i, part);
    });
    return watch.all_finite();
  }
};

/// finite_kernel by all threads: whether all of `from` are finite, and, with `to`, what they are in f32.
template <class Element, class... To>
bool look_for_finite(thread_pool& pool, simd_level level, std::int64_t count, const Element* from, To*... to) {
  std::atomic<bool> finite{true};
  for_elements(pool, count, [&](index_range r) {
    const bool good = dispatch<finite_kernel>(level, from + r.begin, (to + r.begin)..., r.size());
    if (!good) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::kernels::detail

CAUSEWAY_EXACT_KERNEL((const float*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const bf16*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const f16*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const float*, float*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const bf16*, float*, std::int64_t), finite_kernel)
CAUSEWAY_EXACT_KERNEL((const f16*, float*, std::int64_t), finite_kernel)

#endif  // CAUSEWAY_KERNELS_FINITE_HPP
