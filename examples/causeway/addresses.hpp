// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ADDRESSES_HPP
#define CAUSEWAY_EXAMPLES_ADDRESSES_HPP

// The addresses of this machine: under which others can reach it, and which of them leads to a given other. Nothing is
// sent.

#include <causeway/core/result.hpp>
#include <causeway/net/endpoint.hpp>

#include <string>
#include <vector>

namespace app {

/// The addresses of all interfaces that are up, but for loopback and those that lead to neighbours of one link only. First
/// the one that leads to the rest of the world, IPv4 before IPv6. Empty: there is no network.
std::vector<std::string> own_addresses();

/// Whether `host`, a name or a number, is an address of this machine.
bool is_own_address(const std::string& host);

/// The address of this machine from which it reaches `other`. errc::unreachable if there is no way, or no such name.
causeway::result<std::string> address_towards(const causeway::net::endpoint& other);

/// Where others reach somebody who listens at `bound`, best first: what `announced` (HOST or HOST:PORT) says, else the
/// address itself, or all of this machine's where it listens at all of them.
std::vector<std::string> reachable_at(const causeway::net::endpoint& bound, const std::string& announced);

/// The address that one announces to the others who listens at `bound`; empty where that is plain. HOST or HOST:PORT.
std::string announcement(const causeway::net::endpoint& bound, const std::string& announced);

/// `causeway join` with the best of `addresses`, and the others for those who cannot reach that; lines for a person.
std::string join_lines(const std::vector<std::string>& addresses, const std::string& flags);

/// Whether an address is one of "all of this machine's".
bool is_any_address(const std::string& host);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ADDRESSES_HPP
