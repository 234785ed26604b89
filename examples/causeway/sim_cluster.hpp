// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SIM_CLUSTER_HPP
#define CAUSEWAY_EXAMPLES_SIM_CLUSTER_HPP

// One simulated run: every peer is a process on a host of its own in a world of virtual time, runs the elastic session that
// real processes run, and is started again when it dies. A checker watches everything that the membership decides.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "session_input.hpp"
#include "settings.hpp"

namespace app {

/// What one simulated run came to. Times are virtual.
struct sim_result {
  bool complete = false;                 ///< every peer trained to the end
  std::optional<std::string> violation;  ///< what must never happen, and did
  bool cancelled = false;
  double seconds = 0;           ///< until the last peer was through
  double alive_seconds = 0;     ///< all peers' processes together
  double compute_seconds = 0;   ///< of it, computing
  double capacity_seconds = 0;  ///< what the processes could have computed while they were alive, in seconds at speed 1
  double useful_seconds = 0;    ///< computing that the committed samples take on a peer of speed 1
  std::uint64_t samples = 0;    ///< committed
  std::uint64_t rounds = 0;
  std::uint64_t bytes_sent = 0;  ///< by all
  std::uint64_t kills = 0;
  std::uint64_t restarts = 0;
  std::uint64_t stops = 0;
  double validation = 0;
  std::uint64_t state = 0;    ///< hash of the last round's shared state
  std::uint64_t history = 0;  ///< hash of everything that happened
  std::uint64_t events = 0;
  std::string waiting;  ///< what the peers waited for where it is not complete
};

struct sim_progress {
  double seconds = 0;
  std::uint64_t round = 0;
  std::uint32_t alive = 0;
};

/// Simulates the run of `in.s` with `in.s.run.seed`. `progress` is called now and then; false from it ends the simulation.
/// `history` gets every event of the membership as a line, and, behind a #, what peers log.
causeway::result<sim_result> simulate_run(const session_input& in, const std::function<bool(const sim_progress&)>& progress,
                                          const std::function<void(const std::string&)>& history);

/// Nominal duration of computing on so many tokens, on a peer of speed 1.
double nominal_seconds(const session_input& in, double tokens);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SIM_CLUSTER_HPP
