// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_LAST_WORDS_HPP
#define CAUSEWAY_EXAMPLES_LAST_WORDS_HPP

// How a process ends that several others, started by the same launcher, may end with for the same reason.

#include <causeway/core/error.hpp>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace app {

/// Prints the error if `aloud`; gives the exit status of it.
using last_words = int (*)(const causeway::error& what, bool aloud);

/// Ends the process by `act` if it lives longer than `patience`: whatever waits for others meanwhile may wait for ever.
class last_resort {
 public:
  last_resort(std::chrono::seconds patience, std::function<void()> act)
      : thread_{[this, patience, act = std::move(act)] {
          std::unique_lock lock{mutex_};
          if (!ended_.wait_for(lock, patience, [this] { return over_; })) act();
        }} {}
  last_resort(const last_resort&) = delete;
  last_resort& operator=(const last_resort&) = delete;
  ~last_resort() {
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

/// The end of a process that cannot reach the others of its job, which end for the same reason: one of each host speaks.
/// The launcher may end all when one has ended, so the others give it the time to speak.
inline int end_alone(const causeway::error& mine, bool is_first_of_host, last_words say) {
  static int status = 0;
  status = say(mine, is_first_of_host);
  if (is_first_of_host) return status;
  std::signal(SIGTERM, [](int) { std::_Exit(status); });
  std::this_thread::sleep_for(std::chrono::seconds{2});
  return status;
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_LAST_WORDS_HPP
