// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_ELEMENTWISE_CUH
#define CAUSEWAY_CUDA_DEVICE_ELEMENTWISE_CUH

// Runs a body once per element on the device. The body is a small trivially copyable struct, pointers and numbers, whose
// call operator is host and device code: the same body runs on the CPU, where it can be tested on any machine. The kernels
// here add index arithmetic and nothing else.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/cuda/device/runtime.cuh>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// `body(i)` does element i; it touches no other thread's elements.
template <class B>
concept ElementBody = std::is_trivially_copyable_v<B> && std::invocable<const B&, std::int64_t>;

namespace detail {

struct elementwise_tuning {
  unsigned threads = 256;      // per block
  std::int64_t blocks = 4096;  // at most; beyond that each thread takes several elements
};

template <class Body>
CAUSEWAY_KERNEL void __launch_bounds__(elementwise_tuning{}.threads) one_element_per_thread(Body body, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

/// The elements behind the last whole pack are one for each of the first threads.
template <class Body>
CAUSEWAY_KERNEL void __launch_bounds__(elementwise_tuning{}.threads) one_pack_per_thread(Body body, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t self = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t packs = count / pack_width;
  for (std::int64_t i = self; i < packs; i += step) body.template run<pack_width>(i * pack_width);
  if (const std::int64_t i = packs * pack_width + self; i < count) body.template run<1>(i);
}

/// For pointers that packs cannot be read at.
template <class Body>
struct one_by_one {
  Body body;
  CAUSEWAY_HD void operator()(std::int64_t i) const { body.template run<1>(i); }
};

inline unsigned blocks_for(std::int64_t threads) noexcept {
  constexpr elementwise_tuning tuning{};
  return static_cast<unsigned>(std::min(tuning.blocks, (threads + tuning.threads - 1) / tuning.threads));
}

}  // namespace detail

/// Starts `body(i)` for all i in [0, count) on the stream. Errors: what the launch itself reports; a fault while running
/// comes back from `stream::synchronize`.
template <ElementBody Body>
[[nodiscard]] result<void> elementwise(stream& s, std::int64_t count, Body body) {
  CAUSEWAY_EXPECT(count >= 0);
  if (count == 0) return {};  // CUDA refuses an empty grid
  constexpr unsigned threads = detail::elementwise_tuning{}.threads;
  detail::one_element_per_thread<<<detail::blocks_for(count), threads, 0, s.handle()>>>(body, count);
  return check(cudaGetLastError(), "launching an element-wise kernel");
}

/// The same for a body that handles packs of neighbours.
template <PackBody Body>
[[nodiscard]] result<void> elementwise(stream& s, std::int64_t count, Body body) {
  if (!body.aligned()) return elementwise(s, count, detail::one_by_one<Body>{body});
  CAUSEWAY_EXPECT(count >= 0);
  if (count == 0) return {};
  constexpr unsigned threads = detail::elementwise_tuning{}.threads;
  const std::int64_t packs = (count + pack_width - 1) / pack_width;
  detail::one_pack_per_thread<<<detail::blocks_for(packs), threads, 0, s.handle()>>>(body, count);
  return check(cudaGetLastError(), "launching an element-wise kernel");
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_ELEMENTWISE_CUH
