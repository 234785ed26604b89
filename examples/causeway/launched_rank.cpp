// SPDX-License-Identifier: Apache-2.0
#include "launched_rank.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <thread>

#include "addresses.hpp"

namespace app {
namespace {

using causeway::errc;
using causeway::fail;
namespace net = causeway::net;

constexpr std::uint32_t usual_port = 29500;  // torchrun's, too

causeway::result<std::uint32_t> number(const char* name, std::uint32_t most) {
  const std::string text = variable(name).value_or("");
  std::uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc{} && end == text.data() + text.size() && value <= most) return value;
  return fail(errc::invalid_argument, name, "'" + text + "' is no number up to " + std::to_string(most));
}

// The names of a launcher's variables. It started this process if all that must be there are there.
struct dialect {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_size;
  std::initializer_list<const char*> also;  ///< without them rank and size are remains
};

const dialect dialects[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {"MASTER_ADDR", "MASTER_PORT"}},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", {}},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", {"SLURM_STEP_ID"}},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_TASKS_PER_NODE", {"SLURM_STEP_ID"}},
    {"Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {"MASTER_ADDR"}},
};

// In a shell that Slurm opened, or in a batch script, the step is none of srun's: its number is one of the last ones.
bool is_step_of_srun() {
  constexpr std::uint32_t first_special = 0xFFFFFFF0U;
  const auto step = number("SLURM_STEP_ID", std::numeric_limits<std::uint32_t>::max());
  return step && *step < first_special;
}

bool speaks(const dialect& d) {
  const auto there = [](const char* name) { return variable(name).has_value(); };
  if (!there(d.rank) || !there(d.size) || !std::all_of(d.also.begin(), d.also.end(), there)) return false;
  return std::string_view{d.launcher} != "Slurm" || is_step_of_srun();
}

// The first of a list such as "gpu[03-07,12],login1".
std::string first_node(const std::string& list) {
  const auto bracket = list.find_first_of("[,");
  if (bracket == std::string::npos || list[bracket] == ',') return list.substr(0, bracket);
  const auto end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

causeway::result<std::string> host_of(const dialect& d, const launched_rank& found) {
  if (const auto named = variable("MASTER_ADDR")) return *named;
  if (found.local >= found.size) return std::string{"127.0.0.1"};
  if (const auto nodes = variable("SLURM_STEP_NODELIST"); nodes && std::string_view{d.launcher} == "Slurm")
    return first_node(*nodes);
  return fail(errc::invalid_argument, "MASTER_ADDR",
              found.launcher + " started " + std::to_string(found.size) +
                  " processes on several machines; set MASTER_ADDR to where rank 0 can be reached, for all of them");
}

// "2(x3),1" begins with the tasks of the first machine; one number alone is as good.
std::uint32_t first_number(const std::string& text) {
  std::uint32_t value = 1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return std::max(1U, value);
}

causeway::result<std::optional<launched_rank>> read(const dialect& d) {
  launched_rank found;
  found.launcher = d.launcher;
  CAUSEWAY_ASSIGN(found.size, number(d.size, 1024));
  CAUSEWAY_ASSIGN(found.rank, number(d.rank, 1023));
  if (found.size <= 1) return std::optional<launched_rank>{};
  if (found.rank >= found.size) {
    return fail(errc::invalid_argument, d.rank,
                std::to_string(found.rank) + " is none of the " + std::to_string(found.size) + " ranks that " + d.size +
                    " says there are; unset both, or start all processes with the same launcher");
  }
  if (const auto local = variable(d.local_size)) found.local = std::min(found.size, first_number(*local));
  CAUSEWAY_ASSIGN(found.host.host, host_of(d, found));
  CAUSEWAY_ASSIGN(found.host.port, port_of_first_rank());
  return std::optional{found};
}

}  // namespace

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>{value};
}

causeway::result<std::uint16_t> port_of_first_rank() {
  std::uint32_t port = usual_port;
  if (variable("MASTER_PORT")) {
    CAUSEWAY_ASSIGN(port, number("MASTER_PORT", 65535));
  }
  // There torchrun itself listens at the port that it names.
  if (variable("TORCHELASTIC_USE_AGENT_STORE") == "True" && port < 65535) ++port;
  if (port == 0) return fail(errc::invalid_argument, "MASTER_PORT", "0 is no port at which others find rank 0");
  return static_cast<std::uint16_t>(port);
}

void meet_at(settings& s, bool is_first, const net::endpoint& host) {
  if (!is_first) {
    s.net.join = host.text();
    return;
  }
  const bool own = is_own_address(host.host);
  s.net.listen = net::endpoint{own ? host.host : "0.0.0.0", host.port}.text();
  if (!own && s.net.announce.empty()) s.net.announce = host.host;
}

void share_cores(settings& s, std::uint32_t ranks_here) {
  if (s.net.threads == 0) s.net.threads = std::max(1U, std::thread::hardware_concurrency() / ranks_here);
}

causeway::result<std::optional<launched_rank>> rank_from_environment() {
  for (const dialect& d : dialects) {
    if (speaks(d)) return read(d);
  }
  return std::optional<launched_rank>{};
}

causeway::result<void> take_rank(settings& s, const origins& from) {
  if (!s.net.listen.empty() || !s.net.join.empty() || !s.net.static_peers.empty()) return {};
  CAUSEWAY_ASSIGN(const auto found, rank_from_environment());
  if (!found) return {};
  const auto peers = from.find("net.peers");
  if (peers != from.end() && peers->second.starts_with("--") && s.net.peers != found->size) {
    return fail(errc::invalid_argument, peers->second,
                "is " + std::to_string(s.net.peers) + ", but " + found->launcher + " started " +
                    std::to_string(found->size) + " processes, which are the peers of one run; leave it out");
  }
  if (is_swarm(s)) {
    return fail(errc::unsupported, "parallel.policy",
                "a swarm is founded on one machine: start it there alone with --peers, and join it from the others");
  }
  s.net.peers = found->size;
  s.net.index = found->rank;
  meet_at(s, found->rank == 0, found->host);
  share_cores(s, found->local);
  if (found->rank > 0 && !from.contains("quiet")) s.quiet = true;
  return {};
}

}  // namespace app
