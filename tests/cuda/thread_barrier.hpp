// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_THREAD_BARRIER_HPP
#define CAUSEWAY_TESTS_CUDA_THREAD_BARRIER_HPP

// A barrier whose threads sleep. std::barrier yields first, and on a busy machine each yield is another program's turn:
// tests that took 10 seconds took 10 minutes.

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace causeway_test {

class thread_barrier {
 public:
  explicit thread_barrier(int threads) : threads_{threads} {}

  void arrive_and_wait() {
    std::unique_lock lock{mutex_};
    const std::uint64_t phase = phase_;
    if (++arrived_ == threads_) {
      arrived_ = 0;
      ++phase_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return phase_ != phase; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::uint64_t phase_ = 0;
  int threads_, arrived_ = 0;
};

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_THREAD_BARRIER_HPP
