// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_SIDE_THREAD_HPP
#define CAUSEWAY_NET_SIDE_THREAD_HPP

// One thread for work that may block for seconds, such as fsync, so that nobody who serves the network has to wait for it.

#include <causeway/config/config.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::net {

/// Thread-safe, except that the destructor must be the last call. The thread starts with the first work.
class side_thread {
 public:
  side_thread() = default;
  side_thread(const side_thread&) = delete;
  side_thread& operator=(const side_thread&) = delete;

  /// All that was pushed is done first.
  ~side_thread() {
    {
      const std::lock_guard lock{mutex_};
      ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// Runs later, after all that was pushed before. Where no thread can be started, at once.
  void push(std::function<void()> work) {
    std::unique_lock lock{mutex_};
    if (!has_thread()) {
      lock.unlock();
      return work();
    }
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

  /// Blocks until all that was pushed is done. Not from inside of work.
  void wait_idle() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return work_.empty() && !busy_; });
  }

 private:
  [[nodiscard]] bool has_thread() {
    if (thread_.joinable()) return true;
    try {
      thread_ = std::thread{[this] { run(); }};
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void run() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      busy_ = true;
      lock.unlock();
      next();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace causeway::inline CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_SIDE_THREAD_HPP
