// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_KERNELS_BACKEND_HPP
#define CAUSEWAY_KERNELS_BACKEND_HPP

// What every kernel call needs, in one place: threads, working memory and a matrix product. A model owns one backend.

#include <causeway/config/config.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/default_gemm.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/tensor/scratch.hpp>

#include <concepts>
#include <string>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::kernels {

/// Threads, scratch memory and a matrix product of a processor. For one calling thread at a time.
template <class GemmType = default_gemm>
  requires Gemm<GemmType>
class basic_cpu_backend {
 public:
  using gemm_type = GemmType;

  explicit basic_cpu_backend(unsigned threads = 1, GemmType gemm = GemmType{}) : pool_{threads}, gemm_{std::move(gemm)} {}

  [[nodiscard]] thread_pool& pool() noexcept { return pool_; }
  [[nodiscard]] scratch& memory() noexcept { return memory_; }
  [[nodiscard]] GemmType& gemm() noexcept { return gemm_; }

  /// One line for a person, such as "cpu: packed gemm (avx512, avx512_bf16), 2 threads".
  [[nodiscard]] std::string describe() const {
    const unsigned threads = pool_.size();
    return "cpu: " + gemm_.describe() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }

 private:
  thread_pool pool_;
  scratch memory_;
  GemmType gemm_;
};

using cpu_backend = basic_cpu_backend<>;

/// What models ask of a backend on the host.
template <class B>
concept Backend = requires(B& backend, const B& constant) {
  { backend.pool() } -> std::same_as<thread_pool&>;
  { backend.memory() } -> std::same_as<scratch&>;
  requires Gemm<typename B::gemm_type>;
  { backend.gemm() } -> std::same_as<typename B::gemm_type&>;
  { constant.describe() } -> std::convertible_to<std::string>;
};

}  // namespace causeway::inline CAUSEWAY_ABI::kernels

#endif  // CAUSEWAY_KERNELS_BACKEND_HPP
