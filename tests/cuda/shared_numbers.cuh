// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_SHARED_NUMBERS_CUH
#define CAUSEWAY_TESTS_CUDA_SHARED_NUMBERS_CUH

#include <causeway/cuda/device/runtime.cuh>

#include "cuda/body_support.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace causeway_test {

/// Memory that the host and the device see, with the same numbers each time it is made.
template <class T>
class shared_numbers {
 public:
  static causeway::result<shared_numbers> create(std::size_t count) {
    T* data = nullptr;
    CAUSEWAY_TRY(causeway::cuda::check(cudaMallocManaged(reinterpret_cast<void**>(&data), count * sizeof(T)), "reserving"));
    const auto values = numbers<T>(count, 77);
    std::copy(values.begin(), values.end(), data);
    return shared_numbers{data};
  }
  shared_numbers(shared_numbers&& other) noexcept : data_{std::exchange(other.data_, nullptr)} {}
  ~shared_numbers() {
    if (data_ != nullptr) (void)cudaFree(data_);
  }
  T* data() const { return data_; }

 private:
  explicit shared_numbers(T* data) : data_{data} {}
  T* data_;
};

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_SHARED_NUMBERS_CUH
