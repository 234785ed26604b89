// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SERVER_PROCESSES_HPP
#define CAUSEWAY_EXAMPLES_SERVER_PROCESSES_HPP

// The servers that a launcher starts beside the peers of a run on its machine.

#include <causeway/core/result.hpp>

#include <sys/types.h>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "settings.hpp"

namespace app {

/// One that dies is started again, at the address that it had, and says so on stderr; ten quick deaths in a row are its
/// last. All end with this object: experts are saved then.
class server_processes {
 public:
  /// Starts servers.here processes for the run in `folder`, and waits until all listen.
  static causeway::result<std::unique_ptr<server_processes>> start(const settings& s, const std::string& folder);
  server_processes(const server_processes&) = delete;
  server_processes& operator=(const server_processes&) = delete;
  ~server_processes();

  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept { return addresses_; }

 private:
  struct process {
    pid_t pid = 0;  ///< 0: none
    unsigned quick_deaths = 0;
    std::chrono::steady_clock::time_point started{};
  };

  explicit server_processes(const settings& s) : s_{s} {}

  causeway::result<void> start(std::uint32_t part);
  causeway::result<void> wait_for_address(std::uint32_t part);
  void watch(const std::stop_token& stop);
  void died(std::uint32_t part, int status);

  settings s_;
  std::vector<process> all_;
  std::vector<std::string> addresses_;
  std::jthread watcher_;  ///< from when all listen on, `all_` is its
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SERVER_PROCESSES_HPP
