// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_ELEMENTWISE_CUH
#define CAUSEWAY_CUDA_ELEMENTWISE_CUH

// Runs a body once per element on the device. The body is a small trivially copyable struct, pointers and numbers, whose
// call operator is host and device code: the same body runs on the CPU, where it can be tested on any machine. The kernel
// here adds index arithmetic and nothing else.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/runtime.cuh>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace causeway::inline CAUSEWAY_ABI::cuda {

/// `body(i)` does element i; it touches no other thread's elements.
template <class B>
concept ElementBody = std::is_trivially_copyable_v<B> && std::invocable<const B&, std::int64_t>;

/// out[i] = Out(float(in[i])): all conversions between f32, bf16 and f16. Reads and writes each element once.
template <class In, class Out>
struct convert_body {
  const In* in = nullptr;
  Out* out = nullptr;

  CAUSEWAY_HD void operator()(std::int64_t i) const { out[i] = static_cast<Out>(static_cast<float>(in[i])); }
};

namespace detail {

struct elementwise_tuning {
  unsigned threads = 256;      // per block
  std::int64_t blocks = 4096;  // at most; beyond that each thread takes several elements
};

template <class Body>
CAUSEWAY_KERNEL void one_element_per_thread(Body body, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

}  // namespace detail

/// Starts `body(i)` for all i in [0, count) on the stream. Errors: what the launch itself reports; a fault while running
/// comes back from `stream::synchronize`.
template <ElementBody Body>
[[nodiscard]] result<void> elementwise(stream& s, std::int64_t count, Body body) {
  CAUSEWAY_EXPECT(count >= 0);
  if (count == 0) return {};  // CUDA refuses an empty grid
  constexpr detail::elementwise_tuning tuning{};
  const std::int64_t blocks = std::min(tuning.blocks, (count + tuning.threads - 1) / tuning.threads);
  detail::one_element_per_thread<<<static_cast<unsigned>(blocks), tuning.threads, 0, s.handle()>>>(body, count);
  return check(cudaGetLastError(), "launching an element-wise kernel");
}

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_ELEMENTWISE_CUH
