// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SUPERVISE_HPP
#define CAUSEWAY_EXAMPLES_SUPERVISE_HPP

// Several peers of an elastic run on this machine. The launcher trains nothing and holds nothing: it starts the peers that
// do not run yet, shows what they write into their folders, and starts the dead again if it is asked to. When it dies, the
// peers go on; started once more, it finds them.

#include <causeway/core/result.hpp>

#include "settings.hpp"
#include "stop.hpp"

namespace app {

/// Runs peers 0 to net.peers - 1 of the run on this machine until all have ended.
causeway::result<int> supervise(settings s, stop_watch& watch);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SUPERVISE_HPP
