// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_ELEMENT_HPP
#define CAUSEWAY_COMPRESS_ELEMENT_HPP

// What codecs have in common: where decoded values go (they replace or are added), and the codecs that store every value
// on its own, as another element type (none, bf16 and fp16).

#include <causeway/compress/codec.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/finite.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress { namespace detail {

/// Decoded values replace what was there.
struct put {
  template <class Part>
  CAUSEWAY_ALWAYS_INLINE void operator()(float* to, const kernels::detail::f32x16& v, Part part) const {
    kernels::detail::store(to, v, part);
  }
};

/// Decoded values are added: to + weight · v, two roundings.
struct add_weighted {
  float weight = 1.0F;
  template <class Part>
  CAUSEWAY_ALWAYS_INLINE void operator()(float* to, const kernels::detail::f32x16& v, Part part) const {
    CAUSEWAY_EXACT_BODY
    kernels::detail::f32x16 sum;
    kernels::detail::load(sum, to, part);
    kernels::detail::store(to, sum + weight * v, part);
  }
};

/// `decode` and `decode_add` of a codec C whose `decode_to(pool, bytes, to, sink, level)` does either.
template <class C>
class decodes_to_sink {
 public:
  result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                      kernels::simd_level level = kernels::detect_simd_level()) const {
    return static_cast<const C&>(*this).decode_to(pool, bytes, values, put{}, level);
  }

  result<void> decode_add(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                          kernels::simd_level level = kernels::detect_simd_level()) const {
    return static_cast<const C&>(*this).decode_to(pool, bytes, sum, add_weighted{weight}, level);
  }
};

struct encode_elements {
  static constexpr bool exact = true;
  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static void run(const float* from, Element* to, std::int64_t count) {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, from + i, part);
      kernels::detail::store(to + i, v, part);
    });
  }
};

struct add_elements {
  static constexpr bool exact = true;
  template <class Element>
  CAUSEWAY_ALWAYS_INLINE static void run(const Element* from, float* to, std::int64_t count, add_weighted add) {
    kernels::detail::for_lanes(count, [&](std::int64_t i, auto part) CAUSEWAY_INLINE_LAMBDA {
      kernels::detail::f32x16 v;
      kernels::detail::load(v, from + i, part);
      add(to + i, v, part);
    });
  }
};

/// The codec C that stores every value as an `Element`.
template <class C, class Element>
class element_codec {
 public:
  static constexpr bool raw = std::is_same_v<Element, float>;

  [[nodiscard]] static constexpr std::size_t block() noexcept { return 1; }
  [[nodiscard]] static constexpr std::size_t encoded_size(std::size_t n) noexcept { return n * sizeof(Element); }

  static std::size_t encode(thread_pool& pool, std::span<const float> values, std::span<std::byte> room,
                            kernels::simd_level level = kernels::detect_simd_level()) {
    CAUSEWAY_EXPECT(room.size() >= encoded_size(values.size()));
    auto* const to = reinterpret_cast<Element*>(room.data());
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(values.size()), [&](index_range r) {
      kernels::detail::dispatch<encode_elements>(level, values.data() + r.begin, to + r.begin, r.size());
    });
    return encoded_size(values.size());
  }

  static result<void> decode(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> values,
                             kernels::simd_level level = kernels::detect_simd_level()) {
    return look(pool, bytes, values.size(), level, values.data());
  }

  /// Two passes over the bytes: nothing is added before all were found finite.
  static result<void> decode_add(thread_pool& pool, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                                 kernels::simd_level level = kernels::detect_simd_level()) {
    CAUSEWAY_TRY(look(pool, bytes, sum.size(), level));
    const auto* const from = reinterpret_cast<const Element*>(bytes.data());
    kernels::detail::for_elements(pool, static_cast<std::int64_t>(sum.size()), [&](index_range r) {
      kernels::detail::dispatch<add_elements>(level, from + r.begin, sum.data() + r.begin, r.size(), add_weighted{weight});
    });
    return {};
  }

 private:
  /// Whether there are so many values, all of them finite; with `to`, what they are in f32.
  static result<void> look(thread_pool& pool, std::span<const std::byte> bytes, std::size_t n, kernels::simd_level level,
                           auto... to) {
    if (bytes.size() != encoded_size(n)) return wrong_length(C::name, bytes.size(), encoded_size(n));
    const auto* const from = reinterpret_cast<const Element*>(bytes.data());
    const auto count = static_cast<std::int64_t>(n);
    if (!kernels::detail::look_for_finite(pool, level, count, from, to...)) return not_finite(C::name);
    return {};
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::compress::detail

CAUSEWAY_EXACT_KERNEL((const float*, float*, std::int64_t), compress::detail::encode_elements)
CAUSEWAY_EXACT_KERNEL((const float*, float*, std::int64_t, compress::detail::add_weighted), compress::detail::add_elements)
CAUSEWAY_EXACT_KERNEL((const float*, bf16*, std::int64_t), compress::detail::encode_elements)
CAUSEWAY_EXACT_KERNEL((const bf16*, float*, std::int64_t, compress::detail::add_weighted), compress::detail::add_elements)
CAUSEWAY_EXACT_KERNEL((const float*, f16*, std::int64_t), compress::detail::encode_elements)
CAUSEWAY_EXACT_KERNEL((const f16*, float*, std::int64_t, compress::detail::add_weighted), compress::detail::add_elements)

#endif  // CAUSEWAY_COMPRESS_ELEMENT_HPP
