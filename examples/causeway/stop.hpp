// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_STOP_HPP
#define CAUSEWAY_EXAMPLES_STOP_HPP

// Ctrl-C and SIGTERM. The first asks for a stop: the peer ends the step it is in and saves. A peer that is waiting for
// others in an exchange goes on waiting for a moment, because the others may be about to finish it too; then its wait is
// ended, and it saves the step with the exchange pending. A second signal ends the program at once. SIGUSR1 asks what the
// program is waiting for.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace app {

namespace detail {
inline std::atomic<int> signals_seen{0};
inline std::atomic<bool> question_seen{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

inline void on_signal(int) {
  if (signals_seen.fetch_add(1) > 0) std::_Exit(130);
}

inline void on_question(int) { question_seen = true; }
}  // namespace detail

/// The flag that the whole program looks at.
inline std::atomic<bool>& stop_requested() {
  static std::atomic<bool> flag{false};
  return flag;
}

/// Installs the handlers, and watches in a thread of its own while it lives.
class stop_watch {
 public:
  stop_watch() {
    struct sigaction action {};
    action.sa_handler = detail::on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    action.sa_handler = detail::on_question;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    watcher_ = std::thread{[this] { watch(); }};
  }

  ~stop_watch() {
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    watcher_.join();
  }

  /// `f` is called once, from the watcher's thread, when a stop is requested.
  void when_stopping(std::function<void()> f) {
    const std::lock_guard lock{mutex_};
    first_ = std::move(f);
  }

  /// `f` is called once, from the watcher's thread, a moment after a stop was requested, or `patience` after it, if that is
  /// more.
  void when_patience_ends(std::function<void()> f, std::chrono::seconds patience = {}) {
    const std::lock_guard lock{mutex_};
    late_ = std::move(f);
    patience_ = std::max<std::int64_t>(10, 10 * patience.count());
  }

  /// `f` is called, from the watcher's thread, when somebody asks with SIGUSR1; its text goes to stderr.
  void when_asked(std::function<std::string()> f) {
    const std::lock_guard lock{mutex_};
    describe_ = std::move(f);
  }

 private:
  // A signal handler may not notify anybody, so the watcher looks ten times a second.
  void watch() {
    using namespace std::chrono_literals;
    std::unique_lock lock{mutex_};
    std::int64_t ticks_since = 0;
    while (!over_) {
      changed_.wait_for(lock, 100ms);
      if (detail::question_seen.exchange(false)) answer();
      if (detail::signals_seen.load() == 0) continue;
      stop_requested() = true;
      if (first_) std::exchange(first_, nullptr)();
      if (++ticks_since >= patience_ && late_) std::exchange(late_, nullptr)();
    }
  }

  void answer() const {
    const std::string text = describe_ ? describe_() : "";
    std::fprintf(stderr, "%s\n", text.empty() ? "waiting for nothing" : text.c_str());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> first_;
  std::function<void()> late_;
  std::function<std::string()> describe_;
  std::int64_t patience_ = 10;  // tenths of a second
  bool over_ = false;
  std::thread watcher_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_STOP_HPP
