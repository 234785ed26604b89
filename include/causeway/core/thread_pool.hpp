// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CORE_THREAD_POOL_HPP
#define CAUSEWAY_CORE_THREAD_POOL_HPP

// The one thread pool of a process. Work is cut into parts that depend on the number of threads and on nothing else. Each
// thread has parts of its own, and takes over those of others when it is done: a core that is slower, or that the system
// has given to another program, holds up only the part that it is in. So what a part computes must not depend on the
// thread that it runs on. Idle threads spin for about 100 microseconds before they sleep: a sleeping thread takes 45
// microseconds to wake, which is longer than many kernels.

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

/// `size()` threads, the caller's included. One caller at a time: calls are not re-entrant and not for use from two
/// threads.
class thread_pool {
 public:
  explicit thread_pool(unsigned threads = 1) : size_{threads == 0 ? 1 : threads} {
    if (size_ == 1) return;  // nobody waits, and the number of cores stands in a file
    shared_ = std::make_unique<shared>(size_);
    // Spinning pays only while every thread has a core of its own.
    shared_->spins = size_ <= std::thread::hardware_concurrency() ? 4000 : 0;
    for (unsigned i = 1; i < size_; ++i) others_.emplace_back([s = shared_.get(), i] { work(*s, i); });
  }

  thread_pool(thread_pool&&) noexcept = default;
  thread_pool& operator=(thread_pool&&) = delete;

  ~thread_pool() {
    if (!shared_) return;
    shared_->stop = true;
    publish(*shared_);
    for (auto& thread : others_) thread.join();
  }

  [[nodiscard]] unsigned size() const noexcept { return size_; }

  /// Calls `f(part, thread)` once for each part of [0, parts) and returns when all are done. `thread`, below `size()`,
  /// tells calls apart that run at the same time, so that each has memory of its own; the caller is 0. `f` must not throw.
  template <class F>
  void for_each(unsigned parts, F&& f) {
    if (size_ == 1) {
      for (unsigned part = 0; part < parts; ++part) f(part, 0U);
      return;
    }
    shared& s = *shared_;
    s.object = std::addressof(f);
    s.call = [](const void* object, unsigned part, unsigned thread) {
      (*static_cast<std::remove_reference_t<F>*>(const_cast<void*>(object)))(part, thread);
    };
    for (unsigned i = 0; i < size_; ++i) {
      const index_range own = share_of(parts, i, size_);
      s.queues[i].end = static_cast<unsigned>(own.end);
      s.queues[i].next.store(static_cast<unsigned>(own.begin), std::memory_order_relaxed);
    }
    s.inside.fetch_and(~closed, std::memory_order_release);
    publish(s);
    take_parts(s, 0);
    s.inside.fetch_or(closed, std::memory_order_acq_rel);  // who has not come yet is not waited for
    wait_for_others(s);
  }

  /// Calls `f(i)` once for each i below `size()`: for work that is cut by the number of threads.
  template <class F>
  void run(F&& f) {
    for_each(size_, [&](unsigned i, unsigned) { f(i); });
  }

  /// Cuts [0, count) into contiguous parts, at multiples of `grain`, a few for each thread, and calls `f(index_range)` on
  /// each. Runs on the caller alone when `count <= grain`.
  template <class F>
  void for_range(std::int64_t count, std::int64_t grain, F&& f) {
    if (count <= 0) return;
    if (size_ == 1 || count <= grain) {
      f(index_range{0, count});
      return;
    }
    const std::int64_t grains = (count + grain - 1) / grain;
    const auto parts = static_cast<unsigned>(grains < 4 * std::int64_t{size_} ? grains : 4 * std::int64_t{size_});
    for_each(parts, [&](unsigned part, unsigned) { f(share_of(count, part, parts, grain)); });
  }

 private:
  static constexpr std::uint32_t closed = 1U << 31U;

  /// The parts of one thread that nobody has taken.
  struct alignas(64) queue {
    std::atomic<unsigned> next{0};
    unsigned end = 0;
  };

  struct shared {
    explicit shared(unsigned threads) : queues(threads) {}

    alignas(64) std::atomic<std::uint32_t> generation{0};
    /// Threads that may be in a call, besides the caller; `closed`: what they would find belongs to no call.
    alignas(64) std::atomic<std::uint32_t> inside{closed};
    const void* object = nullptr;
    void (*call)(const void*, unsigned, unsigned) = nullptr;
    std::vector<queue> queues;
    std::atomic<bool> stop{false};
    int spins = 0;
  };

  static void publish(shared& s) {
    s.generation.fetch_add(1, std::memory_order_release);
    s.generation.notify_all();
  }

  /// Its own ones first, then those of the threads after it.
  static void take_parts(shared& s, unsigned thread) {
    const auto threads = static_cast<unsigned>(s.queues.size());
    for (unsigned i = 0; i < threads; ++i) {
      queue& from = s.queues[(thread + i) % threads];
      while (from.next.load(std::memory_order_relaxed) < from.end) {
        const unsigned part = from.next.fetch_add(1, std::memory_order_relaxed);
        if (part < from.end) s.call(s.object, part, thread);
      }
    }
  }

  static void wait_for_others(shared& s) {
    for (int i = 0; i < s.spins; ++i) {
      if (s.inside.load(std::memory_order_acquire) == closed) return;
      detail::relax();
    }
    for (auto now = s.inside.load(std::memory_order_acquire); now != closed;
         now = s.inside.load(std::memory_order_acquire)) {
      s.inside.wait(now, std::memory_order_acquire);
    }
  }

  static void work(shared& s, unsigned index) {
    std::uint32_t seen = 0;
    for (;;) {
      for (int i = 0; i < s.spins && s.generation.load(std::memory_order_acquire) == seen; ++i) detail::relax();
      s.generation.wait(seen, std::memory_order_acquire);
      seen = s.generation.load(std::memory_order_acquire);
      if (s.stop) return;
      if ((s.inside.fetch_add(1, std::memory_order_acq_rel) & closed) == 0) take_parts(s, index);
      if (s.inside.fetch_sub(1, std::memory_order_acq_rel) == (closed | 1U)) s.inside.notify_one();
    }
  }

  std::unique_ptr<shared> shared_;
  unsigned size_;
  std::vector<std::thread> others_;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_THREAD_POOL_HPP
