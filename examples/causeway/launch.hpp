// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_LAUNCH_HPP
#define CAUSEWAY_EXAMPLES_LAUNCH_HPP

// How a peer gets its place in a run: alone, as the first of several on this machine, as the host for peers from other
// machines, as a joiner, or by a static list.

#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/rendezvous.hpp>

#include <sys/types.h>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "settings.hpp"

namespace app {

/// Starts this program once more, in a process group of its own.
causeway::result<pid_t> start_process(const std::vector<std::string>& arguments);

/// Warnings and errors, one line each.
causeway::log_sink log_to_stderr();

/// Processes that this one started. They are in process groups of their own, so that a Ctrl-C reaches them once, through
/// `stop`, and not a second time from the terminal. They end before we do.
class child_peers {
 public:
  child_peers() = default;
  child_peers(const child_peers&) = delete;
  child_peers& operator=(const child_peers&) = delete;
  ~child_peers();

  causeway::result<void> start(const std::vector<std::string>& arguments);
  /// Asks all to stop as Ctrl-C does. May be called from another thread.
  void stop();
  /// Waits for all; the first that failed is the error.
  causeway::result<void> wait();
  /// Whether one of them is no more.
  [[nodiscard]] bool ended_one();

 private:
  std::mutex mutex_;
  std::vector<pid_t> running_;
};

/// Hosts the run of `s`: starts the other peers here if the settings say so, waits for all, and prints the exact command
/// that joins from another machine. `pieces`: what newcomers are told.
causeway::result<causeway::net::membership> host_run(settings& s, std::uint64_t run_id, child_peers& children,
                                                     causeway::net::piece_source pieces);

/// Joins the run at `s.net.join`, and takes its settings over. A setting that was given here and differs is an error that
/// names it.
causeway::result<causeway::net::membership> join_run(settings& s, const origins& from);

/// Takes over the settings that all peers share from their TOML. One that was given here and differs is an error that
/// names it and `whose` they are.
causeway::result<void> take_over(settings& s, const origins& from, const std::string& text, const std::string& whose);

/// Connects to the peers of a static list.
causeway::result<causeway::net::membership> connect_run(settings& s, std::uint64_t run_id);

/// Names a run on the wire: its name, seed and branch.
std::uint64_t run_id_of(const settings& s);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_LAUNCH_HPP
