// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_EMBEDDING_CUH
#define CAUSEWAY_CUDA_EMBEDDING_CUH

// The gradient of an embedding on the device: CUB's stable radix sort of the tokens, then the bodies of
// embedding_bodies.hpp. (The look-up is `elementwise` of embedding_forward_body.)

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/elementwise.cuh>
#include <causeway/cuda/embedding_bodies.hpp>
#include <causeway/cuda/memory.cuh>
#include <causeway/cuda/runtime.cuh>

#include <cub/device/device_radix_sort.cuh>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace causeway::inline CAUSEWAY_ABI::cuda {

/// dtoken[tokens[b,t]] += dx[b,t] and dposition[t] += dx[b,t], f32 [batch, T, C]; dposition may be null. Tokens must lie in
/// [0, vocabulary), and batch·T below 2^31. The bits of kernels::embedding_backward. Takes 16 bytes a token and the sort's
/// own from the arena.
[[nodiscard]] inline result<void> embedding_backward(stream& s, arena& memory, const std::int32_t* tokens, const float* dx,
                                                     float* dtoken, float* dposition, std::int64_t batch, std::int64_t T,
                                                     std::int64_t C, std::int64_t vocabulary) {
  const std::int64_t count = batch * T;
  CAUSEWAY_EXPECT(count < (std::int64_t{1} << 31U) && vocabulary > 0);
  if (count == 0) return {};
  const auto n = static_cast<std::size_t>(count);
  CAUSEWAY_ASSIGN(const auto numbers, memory.take<std::int32_t>(n));
  CAUSEWAY_ASSIGN(const auto sorted, memory.take<std::int32_t>(n));
  CAUSEWAY_ASSIGN(const auto rows, memory.take<std::int32_t>(n));
  CAUSEWAY_TRY(elementwise(s, count, count_body{numbers.data()}));

  const int bits = std::bit_width(static_cast<std::uint64_t>(vocabulary - 1)) + (vocabulary == 1 ? 1 : 0);
  std::size_t bytes = 0;
  const auto sort = [&](void* room) {
    return cub::DeviceRadixSort::SortPairs(room, bytes, tokens, sorted.data(), numbers.data(), rows.data(),
                                           static_cast<int>(count), 0, bits, s.handle());
  };
  CAUSEWAY_TRY(check(sort(nullptr), "asking for the memory of a sort"));
  CAUSEWAY_ASSIGN(const auto room, memory.take<std::byte>(bytes));
  CAUSEWAY_TRY(check(sort(room.data()), "sorting tokens"));

  CAUSEWAY_TRY(elementwise(s, count * C, embedding_backward_body{sorted.data(), rows.data(), dx, dtoken, count, C}));
  if (dposition == nullptr) return {};
  return elementwise(s, T * C, position_backward_body{dx, dposition, batch, T, C});
}

}  // namespace causeway::inline CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_EMBEDDING_CUH
