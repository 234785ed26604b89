// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_ROW_KERNELS_CUH
#define CAUSEWAY_CUDA_DEVICE_ROW_KERNELS_CUH

// The groups of the device, and kernels that give each group one item of a body: a block or a warp for each. Values are
// combined by butterfly exchanges, which leave every thread the same bits, in an order that depends on the number of
// threads alone.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/cuda/device/runtime.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

inline constexpr int warp_size = 32;
inline constexpr int warps_per_block = 8;  // where each warp has an item of its own
inline constexpr int largest_block = 512;  // threads, where a block has a row

struct add_values {
  template <class T>
  __device__ static T of(T a, T b) {
    return a + b;
  }
  template <class T>
  __device__ static T none() {
    return T{0};
  }
};
struct take_larger {
  template <class T>
  __device__ static T of(T a, T b) {
    return a < b ? b : a;
  }
  template <class T>
  __device__ static T none() {
    return std::numeric_limits<T>::lowest();
  }
};

template <class How, class T>
__device__ T over_warp(T v) {
#pragma unroll
  for (int apart = warp_size / 2; apart > 0; apart /= 2) v = How::of(v, __shfl_xor_sync(0xFFFFFFFFU, v, apart));
  return v;
}

/// The sum over the lanes up to this one.
__device__ inline std::int32_t up_to_lane(std::int32_t v) {
  const int lane = static_cast<int>(threadIdx.x % warp_size);
#pragma unroll
  for (int apart = 1; apart < warp_size; apart *= 2) {
    const std::int32_t left = __shfl_up_sync(0xFFFFFFFFU, v, apart);
    if (lane >= apart) v += left;
  }
  return v;
}

/// 32 neighbouring threads of a block.
class warp_group {
 public:
  [[nodiscard]] __device__ static int rank() { return static_cast<int>(threadIdx.x % warp_size); }
  [[nodiscard]] __device__ static int size() { return warp_size; }
  template <class T>
  __device__ static T sum(T v) {
    return over_warp<add_values>(v);
  }
  template <class T>
  __device__ static T largest(T v) {
    return over_warp<take_larger>(v);
  }
  [[nodiscard]] __device__ static std::int32_t before(std::int32_t v) { return up_to_lane(v) - v; }
  __device__ static void sync() { __syncwarp(); }
  /// Of its own for each warp of the block.
  [[nodiscard]] __device__ static float* room() {
    __shared__ float rooms[warps_per_block][64];
    return rooms[threadIdx.x / warp_size];
  }
};

/// All threads of a block, whose number must be a multiple of 32.
class block_group {
 public:
  [[nodiscard]] __device__ static int rank() { return static_cast<int>(threadIdx.x); }
  [[nodiscard]] __device__ static int size() { return static_cast<int>(blockDim.x); }
  template <class T>
  __device__ static T sum(T v) {
    return over_block<add_values>(v);
  }
  template <class T>
  __device__ static T largest(T v) {
    return over_block<take_larger>(v);
  }
  [[nodiscard]] __device__ static std::int32_t before(std::int32_t v) {
    __shared__ std::int32_t of_warps[warp_size];
    const int warp = rank() / warp_size, lane = rank() % warp_size;
    const std::int32_t sum = up_to_lane(v);
    if (lane == warp_size - 1) of_warps[warp] = sum;
    __syncthreads();
    const std::int32_t warps = up_to_lane(lane < warp ? of_warps[lane] : 0);  // its last lane has all warps before
    __syncthreads();                                                          // all have read before the next call writes
    return __shfl_sync(0xFFFFFFFFU, warps, warp_size - 1) + sum - v;
  }
  __device__ static void sync() { __syncthreads(); }
  [[nodiscard]] __device__ static float* room() {
    __shared__ float values[64];
    return values;
  }

 private:
  template <class How, class T>
  __device__ static T over_block(T v) {
    __shared__ T of_warps[warp_size];
    v = over_warp<How>(v);
    const int warp = rank() / warp_size, lane = rank() % warp_size;
    if (lane == 0) of_warps[warp] = v;
    __syncthreads();
    v = lane < size() / warp_size ? of_warps[lane] : How::template none<T>();
    v = over_warp<How>(v);
    __syncthreads();  // all have read before the next call writes
    return v;
  }
};

// The bounds keep the registers of a thread few enough for blocks of this size to start.
template <int N, class Body>
CAUSEWAY_KERNEL void __launch_bounds__(largest_block) one_block_per_item(Body body) {
  block_group g;
  body.template run<N>(g, std::int64_t{blockIdx.x});
}

/// With `body.working_bytes()` of shared memory.
template <int N, class Body>
CAUSEWAY_KERNEL void __launch_bounds__(largest_block) one_block_per_item_with_memory(Body body) {
  extern __shared__ __align__(16) unsigned char memory[];
  block_group g;
  body.template run<N>(g, std::int64_t{blockIdx.x}, reinterpret_cast<float*>(memory));
}

template <int N, class Body>
CAUSEWAY_KERNEL void __launch_bounds__(warps_per_block* warp_size) one_warp_per_item(Body body, std::int64_t items) {
  warp_group g;
  const std::int64_t item = std::int64_t{blockIdx.x} * (blockDim.x / warp_size) + threadIdx.x / warp_size;
  if (item < items) body.template run<N>(g, item);
}

/// Threads for rows of so many values: about two packs each, so that a thread has some loads under way, from one warp to
/// `largest_block`.
inline unsigned threads_for_row(std::int64_t columns) noexcept {
  const std::int64_t threads = (columns + 2 * pack_width - 1) / (2 * pack_width);
  return static_cast<unsigned>(std::clamp<std::int64_t>((threads + 31) / 32 * 32, warp_size, largest_block));
}

}  // namespace detail

/// Starts `body.run<N>(group, item)` with a block of the device for each item of [0, items); rows have `columns` values.
/// At most 2^31 - 1 items.
template <class Body>
[[nodiscard]] result<void> for_each_row(stream& s, std::int64_t items, std::int64_t columns, Body body) {
  CAUSEWAY_EXPECT(items >= 0 && items <= std::numeric_limits<std::int32_t>::max());
  if (items == 0) return {};
  const auto blocks = static_cast<unsigned>(items);
  const unsigned threads = detail::threads_for_row(columns);
  if (body.aligned()) {
    detail::one_block_per_item<pack_width><<<blocks, threads, 0, s.handle()>>>(body);
  } else {
    detail::one_block_per_item<1><<<blocks, threads, 0, s.handle()>>>(body);
  }
  return check(cudaGetLastError(), "launching a kernel over rows");
}

namespace detail {

template <int N, class Body>
result<void> launch_with_memory(stream& s, unsigned blocks, unsigned threads, std::size_t bytes, const Body& body) {
  constexpr std::size_t without_asking = 48 * 1024;
  const auto kernel = one_block_per_item_with_memory<N, Body>;
  if (bytes > without_asking) {
    CAUSEWAY_TRY(check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
                       "asking for shared memory; the rows may be too long for this device"));
  }
  kernel<<<blocks, threads, bytes, s.handle()>>>(body);
  return check(cudaGetLastError(), "launching a kernel over rows");
}

}  // namespace detail

/// The same for a body that has working memory: `body.run<N>(group, item, memory)`, `body.working_bytes()`.
template <class Body>
[[nodiscard]] result<void> for_each_row_with_memory(stream& s, std::int64_t items, std::int64_t columns, Body body) {
  CAUSEWAY_EXPECT(items >= 0 && items <= std::numeric_limits<std::int32_t>::max());
  if (items == 0) return {};
  const auto blocks = static_cast<unsigned>(items);
  const unsigned threads = detail::threads_for_row(columns);
  if (body.aligned()) {
    return detail::launch_with_memory<pack_width>(s, blocks, threads, body.working_bytes(), body);
  }
  return detail::launch_with_memory<1>(s, blocks, threads, body.working_bytes(), body);
}

/// Starts `body.run<N>(group, item)` with a warp of the device for each item of [0, items).
template <class Body>
[[nodiscard]] result<void> for_each_block(stream& s, std::int64_t items, Body body) {
  constexpr std::int64_t warps = detail::warps_per_block;
  CAUSEWAY_EXPECT(items >= 0 && items / warps < std::numeric_limits<std::int32_t>::max());
  if (items == 0) return {};
  const auto blocks = static_cast<unsigned>((items + warps - 1) / warps);
  if (body.aligned()) {
    detail::one_warp_per_item<pack_width><<<blocks, warps * detail::warp_size, 0, s.handle()>>>(body, items);
  } else {
    detail::one_warp_per_item<1><<<blocks, warps * detail::warp_size, 0, s.handle()>>>(body, items);
  }
  return check(cudaGetLastError(), "launching a kernel over blocks");
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_ROW_KERNELS_CUH
