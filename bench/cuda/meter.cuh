// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_CUDA_METER_CUH
#define CAUSEWAY_BENCH_CUDA_METER_CUH

// Times kernels beside what bounds them: a copy of device memory, or a large matrix product. The two take turns, and a
// share is the median over the rounds of the ratio in each, so that clocks that move do not compare one minute with
// another.

#include <causeway/core/result.hpp>
#include <causeway/cuda/device/elementwise.cuh>
#include <causeway/cuda/device/matmul.cuh>
#include <causeway/cuda/device/memory.cuh>
#include <causeway/cuda/device/runtime.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

namespace cuda = causeway::cuda;
using causeway::result;
using launch = std::function<result<void>()>;

/// What bounds a kernel. `amount` is bytes read and written, or operations (a multiply-add is two).
enum class bound { copy, product };

struct figure {
  std::string name, size;
  bound by;
  double seconds, rate, share;  // rate in amounts a second
};

/// Values in (-spread, spread) that no two places share by design: zeros would draw less power than training does.
template <class T>
struct noise_body {
  T* to;
  float spread;
  CAUSEWAY_HD void operator()(std::int64_t i) const {
    auto z = static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    const auto unit = static_cast<float>(static_cast<std::int32_t>(z >> 32U)) * 0x1p-31F;
    to[i] = T(unit * spread);
  }
};

class meter {
 public:
  /// `quick` makes everything small and measures once: to see that all runs.
  static result<meter> create(bool quick);

  [[nodiscard]] cuda::stream& stream() { return s_; }
  [[nodiscard]] cuda::arena& memory() { return memory_; }
  [[nodiscard]] bool quick() const { return quick_; }
  /// A number of rows or values, or a small one in quick runs.
  [[nodiscard]] std::int64_t sized(std::int64_t n) const { return quick_ ? std::max<std::int64_t>(n / 512, 64) : n; }

  template <class T>
  result<cuda::device_buffer<T>> random(std::int64_t count, float spread = 1.0F) {
    CAUSEWAY_ASSIGN(auto buffer, cuda::device_buffer<T>::create(static_cast<std::size_t>(count)));
    CAUSEWAY_TRY(cuda::elementwise(s_, count, noise_body<T>{buffer.data(), spread}));
    return result<cuda::device_buffer<T>>{std::move(buffer)};
  }

  /// What the shares are of: set once, before `measure`.
  void set_reference(bound by, launch start, double amount);
  /// The rate of one launch alone, in amounts a second.
  result<double> rate_of(const launch& start, double amount);
  /// Adds a figure.
  result<void> measure(std::string name, std::string size, bound by, double amount, const launch& start);

  [[nodiscard]] const std::vector<figure>& figures() const { return figures_; }

 private:
  struct reference {
    launch start;
    double amount = 0;
  };

  meter(cuda::stream s, cuda::event begin, cuda::event end, bool quick)
      : s_{std::move(s)}, memory_{0}, begin_{std::move(begin)}, end_{std::move(end)}, quick_{quick} {}
  result<double> seconds(const launch& start, int repeats);
  result<int> repeats_of(const launch& start);

  cuda::stream s_;
  cuda::arena memory_;
  cuda::event begin_, end_;
  bool quick_;
  reference references_[2];
  std::vector<figure> figures_;
};

double median(std::vector<double> all);

/// The parts; each adds its figures.
result<void> measure_memory_bound(meter& m);
result<void> measure_updates(meter& m);
result<void> measure_codecs(meter& m);
result<void> measure_attention(meter& m);
result<void> measure_products(meter& m);

}  // namespace bench

#endif  // CAUSEWAY_BENCH_CUDA_METER_CUH
