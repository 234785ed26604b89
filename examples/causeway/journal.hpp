// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_JOURNAL_HPP
#define CAUSEWAY_EXAMPLES_JOURNAL_HPP

// What the membership of a peer decided, line by line in a file, and the check of such files afterwards.

#include <causeway/core/result.hpp>
#include <causeway/membership/history.hpp>

#include <string>
#include <vector>

namespace app {

/// Appends to a file. A line is with the kernel when `write` returns: it outlives the process, though not the machine.
class journal_file {
 public:
  static causeway::result<journal_file> open(const std::string& path);
  journal_file(journal_file&& other) noexcept;
  journal_file& operator=(journal_file&&) = delete;
  ~journal_file();

  void write(const causeway::membership::event& e);

 private:
  explicit journal_file(int fd) : fd_{fd} {}
  int fd_;
};

/// Each branch of a run (settings: run.branch) has journals of its own.
std::string journal_name(const std::string& branch);

/// Checks the journals below the folders, each of a run or of a peer, all together; a branch with what it branched off.
/// Prints what was found; 0 where all is as it must be, else 1.
causeway::result<int> check_journals(const std::vector<std::string>& folders);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_JOURNAL_HPP
