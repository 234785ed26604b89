// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SERVE_HPP
#define CAUSEWAY_EXAMPLES_SERVE_HPP

// A process that holds a part of a model for the peers of a run: experts, which learn there, or blocks of a stored model.

#include <causeway/core/result.hpp>

#include "settings.hpp"
#include "stop.hpp"

namespace app {

/// `causeway serve`: at net.listen, until a signal. Says how to use it.
causeway::result<int> serve(settings s, const origins& from, stop_watch& watch);

/// One that the launcher of a run starts on its machine; it ends with the launcher. The settings are in the run's folder.
causeway::result<int> serve_run(settings s, const origins& from, stop_watch& watch);

/// Where such a server keeps what it has, and says where it listens: "ADDRESS PID".
std::string server_folder(const settings& s, std::uint32_t part);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SERVE_HPP
