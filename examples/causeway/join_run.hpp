// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_JOIN_RUN_HPP
#define CAUSEWAY_EXAMPLES_JOIN_RUN_HPP

// How somebody who has nothing but an address of a run comes to its settings and its text.

#include <causeway/core/result.hpp>

#include "settings.hpp"

namespace app {

/// A run that this process is about to join.
struct joined_run {
  settings s;            ///< those of the run, and of this machine
  bool new_here = true;  ///< this machine was not in it before
};

/// Asks at `s.net.join` what is run there, for net.patience seconds, and makes the run's folder here; its text comes along
/// unless data.path says where it is. Of a run of changing peers that this machine was in before, nobody need answer.
/// errc::wrong_run, errc::wrong_model: what was given here (`from`) is not what is run there.
causeway::result<joined_run> learn_run(settings s, const origins& from);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_JOIN_RUN_HPP
