// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CORE_THREAD_POOL_HPP
#define CAUSEWAY_CORE_THREAD_POOL_HPP

// The one thread pool of a process. Work is cut statically by thread index, so a computation's order depends on the number
// of threads and on nothing else. Idle threads spin for about 100 microseconds before they sleep: a sleeping thread takes
// 45 microseconds to wake, which is longer than many kernels.

#include <causeway/config/config.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace detail

/// A half-open range of indices.
struct index_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] constexpr std::int64_t size() const noexcept { return end - begin; }
};

/// The part of [0, count) that thread `index` of `threads` works on, cut at multiples of `grain`.
constexpr index_range share_of(std::int64_t count, unsigned index, unsigned threads, std::int64_t grain = 1) noexcept {
  const std::int64_t blocks = (count + grain - 1) / grain;
  const std::int64_t first = blocks * index / threads * grain;
  const std::int64_t last = blocks * (index + 1) / threads * grain;
  return {first < count ? first : count, last < count ? last : count};
}

/// `size()` threads, the caller's included. One caller at a time: `run` is not re-entrant and not for use from two threads.
class thread_pool {
 public:
  explicit thread_pool(unsigned threads = 1) : shared_{std::make_unique<shared>()}, size_{threads == 0 ? 1 : threads} {
    if (size_ == 1) return;  // nobody waits, and the number of cores stands in a file
    // Spinning pays only while every thread has a core of its own.
    shared_->spins = size_ <= std::thread::hardware_concurrency() ? 4000 : 0;
    for (unsigned i = 1; i < size_; ++i) others_.emplace_back([s = shared_.get(), i] { work(*s, i); });
  }

  thread_pool(thread_pool&&) noexcept = default;
  thread_pool& operator=(thread_pool&&) = delete;

  ~thread_pool() {
    if (!shared_) return;
    shared_->stop = true;
    publish();
    for (auto& thread : others_) thread.join();
  }

  [[nodiscard]] unsigned size() const noexcept { return size_; }

  /// Calls `f(thread_index)` once on every thread and returns when all have finished. `f` must not throw.
  template <class F>
  void run(F&& f) {
    if (size_ == 1) {
      f(0U);
      return;
    }
    shared& s = *shared_;
    s.object = std::addressof(f);
    s.call = [](const void* object, unsigned index) {
      (*static_cast<std::remove_reference_t<F>*>(const_cast<void*>(object)))(index);
    };
    s.pending.store(size_ - 1, std::memory_order_relaxed);
    publish();
    f(0U);
    while (s.pending.load(std::memory_order_acquire) != 0) wait_for_others(s);
  }

  /// Cuts [0, count) into one contiguous part per thread, at multiples of `grain`, and calls `f(index_range)` on each part
  /// that is not empty. Runs on the caller alone when `count <= grain`.
  template <class F>
  void for_range(std::int64_t count, std::int64_t grain, F&& f) {
    if (count <= 0) return;
    if (size_ == 1 || count <= grain) {
      f(index_range{0, count});
      return;
    }
    run([&](unsigned index) {
      const index_range part = share_of(count, index, size_, grain);
      if (part.size() > 0) f(part);
    });
  }

 private:
  struct shared {
    alignas(64) std::atomic<std::uint32_t> generation{0};
    alignas(64) std::atomic<std::uint32_t> pending{0};
    const void* object = nullptr;
    void (*call)(const void*, unsigned) = nullptr;
    std::atomic<bool> stop{false};
    int spins = 0;
  };

  void publish() {
    shared_->generation.fetch_add(1, std::memory_order_release);
    shared_->generation.notify_all();
  }

  static void wait_for_others(shared& s) {
    for (int i = 0; i < s.spins; ++i) {
      if (s.pending.load(std::memory_order_acquire) == 0) return;
      detail::relax();
    }
    const std::uint32_t left = s.pending.load(std::memory_order_acquire);
    if (left != 0) s.pending.wait(left, std::memory_order_acquire);
  }

  static void work(shared& s, unsigned index) {
    std::uint32_t seen = 0;
    for (;;) {
      for (int i = 0; i < s.spins && s.generation.load(std::memory_order_acquire) == seen; ++i) detail::relax();
      s.generation.wait(seen, std::memory_order_acquire);
      seen = s.generation.load(std::memory_order_acquire);
      if (s.stop) return;
      s.call(s.object, index);
      if (s.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) s.pending.notify_one();
    }
  }

  std::unique_ptr<shared> shared_;
  unsigned size_;
  std::vector<std::thread> others_;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_THREAD_POOL_HPP
