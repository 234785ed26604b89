// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ELASTIC_RUN_HPP
#define CAUSEWAY_EXAMPLES_ELASTIC_RUN_HPP

// A process that is one peer of a run whose peers come and go.

#include <causeway/core/result.hpp>

#include <string>

#include "session_input.hpp"
#include "settings.hpp"
#include "stop.hpp"

namespace app {

/// What a peer of this run needs to know from the run's folder: writes the settings there, or checks that they are the same
/// as those that are there. An error names what differs.
causeway::result<void> agree_on_settings(settings& s, const std::string& folder);

/// Founds the run of `s` and waits for others, or goes on with it if this machine had a part in it.
causeway::result<int> run_founder(settings s, stop_watch& watch);

/// Joins the run at `s.net.join`, or goes on with it. Takes the run's settings over from any of its peers.
causeway::result<int> run_joiner(settings s, const origins& from, stop_watch& watch);

/// One of several peers that a launcher starts on this machine. The settings are in the run's folder.
causeway::result<int> run_sibling(settings s, const origins& from, stop_watch& watch);

/// What joins the run that listens at `address`, for a person to type elsewhere.
std::string join_command(const settings& s, const std::string& address);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ELASTIC_RUN_HPP
