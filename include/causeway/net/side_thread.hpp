// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_SIDE_THREAD_HPP
#define CAUSEWAY_NET_SIDE_THREAD_HPP

// One thread for work that may block for seconds, such as fsync, so that nobody who serves the network has to wait for it.

#include <causeway/config/config.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

/// Thread-safe, except that the destructor must be the last call. The thread starts with the first work.
class side_thread {
 public:
  side_thread() = default;
  side_thread(const side_thread&) = delete;
  side_thread& operator=(const side_thread&) = delete;

  /// All that was pushed is done first.
  ~side_thread();

  /// Runs later, after all that was pushed before. Where no thread can be started, at once.
  CAUSEWAY_DECL void push(std::function<void()> work);

  /// Blocks until all that was pushed is done. Not from inside of work.
  CAUSEWAY_DECL void wait_idle();

 private:
  CAUSEWAY_DECL [[nodiscard]] bool has_thread();

  CAUSEWAY_DECL void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/side_thread.ipp>
#endif

#endif  // CAUSEWAY_NET_SIDE_THREAD_HPP
