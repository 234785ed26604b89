// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_LAUNCHED_RANK_HPP
#define CAUSEWAY_EXAMPLES_LAUNCHED_RANK_HPP

// The place of this process among those that a launcher started with the same command: torchrun, Open MPI, a step of Slurm,
// an indexed job of Kubernetes. All of them together are one run: rank 0 hosts it, the others join. What a launcher left
// behind in a shell, or says only in part, counts for nothing.

#include <causeway/core/result.hpp>
#include <causeway/net/endpoint.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "settings.hpp"

namespace app {

struct launched_rank {
  std::string launcher;  ///< for messages
  std::uint32_t rank = 0;
  std::uint32_t size = 1;        ///< processes in all
  std::uint32_t local = 1;       ///< of them on this machine, as far as the launcher says
  causeway::net::endpoint host;  ///< where rank 0 can be reached
};

/// A variable of the environment. Exported but empty is not there.
std::optional<std::string> variable(const char* name);

/// The port at which rank 0 can be reached: MASTER_PORT, or torchrun's usual one. errc::invalid_argument: it is none.
causeway::result<std::uint16_t> port_of_first_rank();

/// Lets the processes of `s` meet at `host`, as all of them call the machine of the first one, which listens there: at that
/// address if it is this machine's own, else, behind a name that leads here from outside, at all addresses of this machine.
/// The others join.
void meet_at(settings& s, bool is_first, const causeway::net::endpoint& host);

/// The cores of this machine, in equal parts, unless net.threads says how many threads there are.
void share_cores(settings& s, std::uint32_t ranks_here);

/// None where no launcher started this process, or only this one. errc::invalid_argument: its variables contradict each
/// other, or leave out where rank 0 is.
causeway::result<std::optional<launched_rank>> rank_from_environment();

/// Makes the settings those of this rank: how many peers there are, and where it hosts or joins. Nothing changes where no
/// launcher is, or where the command itself says how peers meet. errc::invalid_argument: the command says another number
/// of peers.
causeway::result<void> take_rank(settings& s, const origins& from);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_LAUNCHED_RANK_HPP
