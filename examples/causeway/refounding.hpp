// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_REFOUNDING_HPP
#define CAUSEWAY_EXAMPLES_REFOUNDING_HPP

// Founding a run anew: what a person does when too many members are gone for good.

#include <causeway/core/result.hpp>

#include <string>

#include "settings.hpp"

namespace app {

/// Makes peer 0 in the run's folder the founder of a branch of the run, from the newest committed round that any peer here
/// has, and says on stdout how others join it. `s` gets the branch, and is what is kept: net.peers and fault.min_peers may
/// be other ones than before. An error if a peer of this folder runs, or none has a committed round.
causeway::result<void> refound_run(settings& s, const std::string& folder);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_REFOUNDING_HPP
