// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_WELCOME_HPP
#define CAUSEWAY_EXAMPLES_WELCOME_HPP

// How a newcomer learns the settings of a run whose peers come and go: it asks any one of them, before it is anybody there.

#include <causeway/core/result.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/fabric.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "peer_talk.hpp"
#include "settings.hpp"

namespace app {

/// What a peer of the run said, and the connection to it: a run that is at its end waits for whoever is connected, so that
/// a newcomer keeps it until it is in.
struct visit {
  run_welcome said;
  std::shared_ptr<causeway::net::fabric> connection;
};

/// Asks whoever listens at `address`. Dials again while nobody answers, for `patience` seconds. errc::wrong_run if a peer
/// of another run listens there.
causeway::result<visit> ask_for_welcome(const std::string& address, std::uint64_t run_id, std::uint32_t patience);

/// From the operating system.
std::uint64_t fresh_secret();

/// An id that nobody has. Its last three digits are the peer's number on its machine, for people.
causeway::net::peer_id fresh_identity(std::uint32_t index);

/// Where a peer that dials `others` should listen if it was told nothing: at the interface that leads to them, on this
/// machine alone if they are here too, or if there are none.
causeway::net::endpoint listen_near(const std::string& others);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_WELCOME_HPP
