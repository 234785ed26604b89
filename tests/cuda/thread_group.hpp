// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_THREAD_GROUP_HPP
#define CAUSEWAY_TESTS_CUDA_THREAD_GROUP_HPP

// A group of threads of the host: a body that forgets to wait for its group, or in which only some threads come to a
// barrier, fails here (and under the thread sanitizer) as it would on a device.

#include <causeway/cuda/bodies/group.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "cuda/thread_barrier.hpp"

namespace causeway_test {

class thread_group {
 public:
  static constexpr int most = 16;

  struct shared {
    explicit shared(int threads) : count{threads}, gate{threads} {}
    int count;
    thread_barrier gate;
    std::array<double, most> values{};
    std::array<float, 64> room{};
  };

  thread_group(shared& common, int rank) : common_{&common}, rank_{rank} {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return common_->count; }
  template <class T>
  T sum(T v) {
    return reduce(v, [](T a, T b) { return a + b; });
  }
  template <class T>
  T largest(T v) {
    return reduce(v, [](T a, T b) { return a < b ? b : a; });
  }
  std::int32_t before(std::int32_t v) {
    common_->values[static_cast<std::size_t>(rank_)] = static_cast<double>(v);
    sync();
    double sum = 0;
    for (int i = 0; i < rank_; ++i) sum += common_->values[static_cast<std::size_t>(i)];
    sync();
    return static_cast<std::int32_t>(sum);
  }
  void sync() { common_->gate.arrive_and_wait(); }
  float* room() { return common_->room.data(); }

 private:
  template <class T, class F>
  T reduce(T v, F f) {
    common_->values[static_cast<std::size_t>(rank_)] = static_cast<double>(v);
    sync();
    auto all = static_cast<T>(common_->values[0]);
    for (int i = 1; i < size(); ++i) all = f(all, static_cast<T>(common_->values[static_cast<std::size_t>(i)]));
    sync();
    return all;
  }

  shared* common_;
  int rank_;
};
static_assert(causeway::cuda::Group<thread_group>);

/// Calls f(group) in `threads` threads; with one thread, the group is the library's own.
template <class F>
void with_group(int threads, F&& f) {
  if (threads == 1) {
    causeway::cuda::lone_group alone;
    f(alone);
    return;
  }
  thread_group::shared common{threads};
  std::vector<std::thread> started;
  for (int i = 0; i < threads; ++i) {
    started.emplace_back([&, i] {
      thread_group g{common, i};
      f(g);
    });
  }
  for (auto& t : started) t.join();
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_THREAD_GROUP_HPP
