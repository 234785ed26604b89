// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SIM_FAULTS_HPP
#define CAUSEWAY_EXAMPLES_SIM_FAULTS_HPP

// What goes wrong in a simulation, from a name or a file.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/sim/fault_plan.hpp>

#include <cstdint>
#include <string>

namespace app {

/// `what`: empty or "none"; "random", "harsh", "datacentre", "swizzle"; or a file: .toml (a profile, single faults or
/// both), .csv (a trace of preemptions), .txt (a plan as the library prints it). Everything generated ends within
/// `horizon`.
causeway::result<causeway::sim::fault_plan> plan_faults(const std::string& what, std::uint32_t hosts,
                                                        causeway::duration horizon, std::uint64_t seed);

/// A whole small file, or an error that names it.
causeway::result<std::string> read_small_file(const std::string& path);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SIM_FAULTS_HPP
