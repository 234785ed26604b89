// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CORE_OWNED_DESCRIPTOR_HPP
#define CAUSEWAY_CORE_OWNED_DESCRIPTOR_HPP

// A file descriptor that is closed when its owner ends: of files, sockets and shared memory alike.

#include <causeway/config/config.hpp>

#include <utility>

#include <unistd.h>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Owns a file descriptor. -1: none.
class owned_descriptor {
 public:
  explicit owned_descriptor(int fd = -1) noexcept : fd_{fd} {}
  owned_descriptor(owned_descriptor&& other) noexcept : fd_{other.release()} {}
  owned_descriptor& operator=(owned_descriptor&& other) noexcept {
    if (this == &other) return *this;
    (void)close();
    fd_ = other.release();
    return *this;
  }
  ~owned_descriptor() { (void)close(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

  /// False if the system reports a late write error (network file systems do it here).
  bool close() noexcept { return fd_ < 0 || ::close(release()) == 0; }

 private:
  int fd_;
};

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_CORE_OWNED_DESCRIPTOR_HPP
