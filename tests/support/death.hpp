// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_DEATH_HPP
#define CAUSEWAY_TESTS_SUPPORT_DEATH_HPP

// Runs a function that must abort in a child process, and hands back how that ended. Call it from a process that has one
// thread: the child is a fork and goes on with the caller's thread alone.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>

namespace causeway_tests {

/// How a child ended: the signal that killed it (0 if none), its exit status, and what it wrote to stderr.
struct ending {
  int signal = 0;
  int status = 0;
  std::string said;
};

inline ending collect(pid_t child, int from) {
  ending e;
  std::array<char, 512> piece{};
  for (ssize_t n = 0; (n = ::read(from, piece.data(), piece.size())) > 0;) {
    e.said.append(piece.data(), static_cast<std::size_t>(n));
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) std::abort();
  if (WIFSIGNALED(status)) e.signal = WTERMSIG(status);
  if (WIFEXITED(status)) e.status = WEXITSTATUS(status);
  return e;
}

template <class F>
ending run_in_child(F&& f) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) std::abort();
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // the test framework's handler would report a failed test
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    f();
    ::_exit(0);
  }
  ::close(ends[1]);
  ending e = collect(child, ends[0]);
  ::close(ends[0]);
  return e;
}

}  // namespace causeway_tests

#endif  // CAUSEWAY_TESTS_SUPPORT_DEATH_HPP
