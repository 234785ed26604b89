// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_FIXED_RUN_HPP
#define CAUSEWAY_EXAMPLES_FIXED_RUN_HPP

// What a process does as a peer of a run whose peers stay the same: as the first of several on this machine, as the host
// for others, as one that joins, by a list of addresses, as a rank of an MPI job, or alone.

#include <causeway/core/result.hpp>

#include "mpi_job.hpp"
#include "settings.hpp"
#include "stop.hpp"

namespace app {

/// The exit status of a run that was stopped by a signal.
constexpr int interrupted = 130;

/// Threads of a peer where nobody has said how many.
unsigned default_threads(const settings& s);

/// Trains to the end, a signal or an error; under fault.policy restart, an error that comes from others begins another
/// attempt. The exit status. `s` becomes what was trained: a joiner takes the run's settings over.
causeway::result<int> train_fixed(settings& s, const origins& from, stop_watch& watch);

/// A rank of an MPI job in which each is a peer.
causeway::result<int> train_as_rank(settings s, mpi_job& job, stop_watch& watch);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_FIXED_RUN_HPP
