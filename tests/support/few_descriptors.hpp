// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_FEW_DESCRIPTORS_HPP
#define CAUSEWAY_TESTS_SUPPORT_FEW_DESCRIPTORS_HPP

// A process that may open only so many more files and connections, for as long as this lives.

#include "support/catch.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace support {

/// The descriptor that the next open would get; as many are in use.
inline rlim_t next_descriptor() {
  const int probe = ::dup(0);
  REQUIRE(probe >= 0);
  ::close(probe);
  return static_cast<rlim_t>(probe);
}

inline bool is_open(rlim_t descriptor) { return ::fcntl(static_cast<int>(descriptor), F_GETFD) != -1; }

/// How many are open; of the first few thousand, which is all that a test has.
inline rlim_t open_descriptors() {
  rlim_t count = 0;
  for (rlim_t d = 0; d < 4096; ++d) count += is_open(d) ? 1 : 0;
  return count;
}

/// So many files that are open.
class held_files {
 public:
  explicit held_files(std::size_t count) {
    for (std::size_t n = 0; n < count; ++n) files_.push_back(::dup(0));
  }
  ~held_files() {
    for (const int file : files_) ::close(file);
  }
  held_files(const held_files&) = delete;
  held_files& operator=(const held_files&) = delete;

 private:
  std::vector<int> files_;
};

/// No more than `more` can be opened while it lives.
class few_descriptors {
 public:
  explicit few_descriptors(rlim_t more) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlim_t limit = 0;
    for (rlim_t left = more + 1; left != 0; ++limit) left -= is_open(limit) ? 0 : 1;
    const rlimit now{limit - 1, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
  }
  ~few_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  few_descriptors(const few_descriptors&) = delete;
  few_descriptors& operator=(const few_descriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_FEW_DESCRIPTORS_HPP
