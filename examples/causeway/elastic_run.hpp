// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ELASTIC_RUN_HPP
#define CAUSEWAY_EXAMPLES_ELASTIC_RUN_HPP

// A process that is one peer of a run whose peers come and go.

#include <causeway/core/result.hpp>

#include <string>
#include <vector>

#include "session_input.hpp"
#include "settings.hpp"
#include "stop.hpp"

namespace app {

/// Founds the run of `s` and waits for others, or goes on with it if this machine had a part in it.
causeway::result<int> run_founder(settings s, stop_watch& watch);

/// Joins the run at `s.net.join`, whose settings `s` has by now (join_run.hpp). `new_here`: this machine was not in it.
causeway::result<int> run_joiner(settings s, bool new_here, stop_watch& watch);

/// One of several peers on this machine. The settings are in the run's folder. `launched`: by a launcher, which says
/// itself why the peer refuses to begin (peer_folder.hpp).
causeway::result<int> run_sibling(settings s, const origins& from, stop_watch& watch, bool launched);

/// What joins the run at one of `addresses`, best first: lines for a person.
std::string join_command(const settings& s, const std::vector<std::string>& addresses);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ELASTIC_RUN_HPP
