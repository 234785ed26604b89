// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_BODIES_PACK_HPP
#define CAUSEWAY_CUDA_BODIES_PACK_HPP

// What the bodies of element-wise kernels are written with: f32 in registers, f32, bf16 or f16 in memory, four neighbours
// at a time because a thread of a GPU needs 16-byte accesses to fill the memory bus. Host and device code. Where replicas
// must agree to the bit, products go through `times`, so that no compiler fuses one with the sum it goes into.

#include <causeway/config/config.hpp>
#include <causeway/tensor/dtype.hpp>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// Elements that a thread handles at once where pointers and rows allow it.
inline constexpr int pack_width = 4;

/// `body.run<N>(i)` does the elements i .. i+N-1, for N = 1, and for N = pack_width where i is a multiple of it and
/// `aligned()` holds; it touches no other thread's elements. A small struct of pointers and numbers.
template <class B>
concept PackBody = std::is_trivially_copyable_v<B> && requires(const B& b, std::int64_t i) {
  { b.aligned() } -> std::same_as<bool>;
  b.template run<1>(i);
  b.template run<pack_width>(i);
};

/// The body over [0, count) on the calling thread: what a kernel does, where there is no device.
template <PackBody B>
void run_here(const B& body, std::int64_t count) {
  std::int64_t i = 0;
  if (body.aligned()) {
    for (; i + pack_width <= count; i += pack_width) body.template run<pack_width>(i);
  }
  for (; i < count; ++i) body.template run<1>(i);
}

namespace detail {

template <class T, int N>
struct alignas(N * sizeof(T)) pack {
  T at[N];
};

/// Whether packs can be read and written at all of the pointers; null is as good as any.
template <class... T>
bool on_packs(const T*... p) noexcept {
  return ((reinterpret_cast<std::uintptr_t>(p) % (pack_width * sizeof(T)) == 0) && ...);
}

template <int N, class T>
CAUSEWAY_HD inline void load(float (&v)[N], const T* p) {
  const auto raw = *reinterpret_cast<const pack<T, N>*>(p);
  for (int k = 0; k < N; ++k) v[k] = static_cast<float>(raw.at[k]);
}

template <int N, class T>
CAUSEWAY_HD inline void store(T* p, const float (&v)[N]) {
  pack<T, N> raw;
  for (int k = 0; k < N; ++k) raw.at[k] = T(v[k]);
  *reinterpret_cast<pack<T, N>*>(p) = raw;
}

// ---- one rounding an operation -------------------------------------------------------------------------------------

/// a·b, rounded: never part of a fused multiply-add.
CAUSEWAY_HD inline float times(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  const volatile float product = a * b;  // what has been stored cannot be fused
  return product;
#endif
}

/// a/b and the square root, rounded correctly whatever the compiler's options for speed are.
CAUSEWAY_HD inline float over(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
CAUSEWAY_HD inline float root(float a) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}

// ---- functions -----------------------------------------------------------------------------------------------------

/// e^x by the polynomial of kernels/simd_math.hpp, so that both sides err alike: relative error below 1e-7, arguments
/// beyond ±87 are taken as ±87, NaN stays NaN.
CAUSEWAY_HD inline float exponential(float x) {
  x = 87.0F < x ? 87.0F : x;
  x = -87.0F > x ? -87.0F : x;
  const float shifted = x * 1.44269504088896341F + 0x1.8p23F;  // the nearest integer in the low bits
  const float n = shifted - 0x1.8p23F;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r;
  const float scale = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + (127U - 0x4B400000U)) << 23U);
  return p * scale + scale;
}

/// The logistic function of -x.
CAUSEWAY_HD inline float sigmoid_of_minus(float x) { return 1.0F / (1.0F + exponential(x)); }

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_BODIES_PACK_HPP
