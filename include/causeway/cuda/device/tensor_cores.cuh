// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_DEVICE_TENSOR_CORES_CUH
#define CAUSEWAY_CUDA_DEVICE_TENSOR_CORES_CUH

// The warp of the device (warp.hpp): each call is one PTX instruction of sm_80 and later. And the kernel and its launcher
// for bodies that are written over warps.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/warp.hpp>
#include <causeway/cuda/device/row_kernels.cuh>
#include <causeway/cuda/device/runtime.cuh>
#include <causeway/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

namespace detail {

class device_warp {
 public:
  static constexpr int lanes = 1;
  using fragment_values = lane_values<std::uint32_t, 4, 1>;

  [[nodiscard]] __device__ static int warp() { return static_cast<int>(threadIdx.x / warp_size); }
  template <class F>
  __device__ static void each(F&& f) {
    f(static_cast<int>(threadIdx.x % warp_size));
  }
  __device__ static void sync() { __syncthreads(); }
  __device__ static void sync_lanes() { __syncwarp(); }

  template <int Half>
  __device__ static void multiply(lane_values<float, 4, 1>& sums, const fragment_values& a, const fragment_values& b) {
    float(&c)[4] = sums[0];
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0][0]), "r"(a[0][1]), "r"(a[0][2]), "r"(a[0][3]), "r"(b[0][2 * Half]), "r"(b[0][2 * Half + 1]));
  }

  template <class F>
  __device__ static void load(fragment_values& r, F&& place) {
    std::uint32_t(&v)[4] = r[0];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(shared_address(place(lane())))
                 : "memory");
  }
  template <class F>
  __device__ static void load_transposed(fragment_values& r, F&& place) {
    std::uint32_t(&v)[4] = r[0];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(shared_address(place(lane())))
                 : "memory");
  }

  template <int Bytes>
  __device__ static void copy(void* to, const void* from, bool real) {
    static_assert(Bytes == 4 || Bytes == 16);
    const int read = real ? Bytes : 0;
    if constexpr (Bytes == 16) {  // past the first cache: nobody else on this multiprocessor wants it
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(global_address(from)),
                   "r"(read)
                   : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(global_address(from)),
                   "r"(read)
                   : "memory");
    }
  }
  __device__ static void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int Pending>
  __device__ static void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
  }

  template <int N>
  __device__ static void largest_of_quad(lane_values<float, N, 1>& v) {
    over_quad<take_larger>(v[0]);
  }
  template <int N>
  __device__ static void sum_of_quad(lane_values<float, N, 1>& v) {
    over_quad<add_values>(v[0]);
  }

 private:
  [[nodiscard]] __device__ static int lane() { return static_cast<int>(threadIdx.x % warp_size); }
  [[nodiscard]] __device__ static std::uint32_t shared_address(const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
  }
  [[nodiscard]] __device__ static std::uint64_t global_address(const void* p) { return __cvta_generic_to_global(p); }
  template <class How, int N>
  __device__ static void over_quad(float (&v)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      v[i] = How::of(v[i], __shfl_xor_sync(0xFFFFFFFFU, v[i], 1));
      v[i] = How::of(v[i], __shfl_xor_sync(0xFFFFFFFFU, v[i], 2));
    }
  }
};

/// The bounds let as many blocks run together as `Blocks` says, which caps the registers.
template <int Blocks, class Body>
CAUSEWAY_KERNEL void __launch_bounds__(Body::warps* warp_size, Blocks) one_block_of_warps_per_item(Body body) {
  extern __shared__ __align__(128) unsigned char tile_memory[];
  device_warp w;
  body.run(w, std::int64_t{blockIdx.x}, reinterpret_cast<bf16*>(tile_memory));
}

}  // namespace detail

/// Starts `body.run(warp, item, memory)` with a block of `Body::warps` warps and `Body::working_bytes` of shared memory for
/// each item. `Blocks` is how many blocks a multiprocessor should have room for.
template <int Blocks, class Body>
[[nodiscard]] result<void> for_each_tile(stream& s, const Body& body) {
  constexpr std::size_t without_asking = 48 * 1024;
  const std::int64_t items = body.items();
  CAUSEWAY_EXPECT(items >= 0 && items <= std::numeric_limits<std::int32_t>::max());
  if (items == 0) return {};
  const auto kernel = detail::one_block_of_warps_per_item<Blocks, Body>;
  if constexpr (Body::working_bytes > without_asking) {
    CAUSEWAY_TRY(check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int{Body::working_bytes}),
                       "asking for shared memory"));
  }
  kernel<<<static_cast<unsigned>(items), Body::warps * detail::warp_size, Body::working_bytes, s.handle()>>>(body);
  return check(cudaGetLastError(), "launching a kernel over tiles");
}

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_DEVICE_TENSOR_CORES_CUH
