// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_SIDE_THREAD_IPP
#define CAUSEWAY_NET_IMPL_SIDE_THREAD_IPP

#include <causeway/net/side_thread.hpp>

#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

CAUSEWAY_INLINE side_thread::~side_thread() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

CAUSEWAY_DECL void side_thread::push(std::function<void()> work) {
  std::unique_lock lock{mutex_};
  if (!has_thread()) {
    lock.unlock();
    return work();
  }
  work_.push_back(std::move(work));
  changed_.notify_all();
}

CAUSEWAY_DECL void side_thread::wait_idle() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return work_.empty() && !busy_; });
}

CAUSEWAY_DECL bool side_thread::has_thread() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

CAUSEWAY_DECL void side_thread::run() {
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

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_IMPL_SIDE_THREAD_IPP
