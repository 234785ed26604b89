// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_OPTIONS_HPP
#define CAUSEWAY_SIM_OPTIONS_HPP

// What a simulated cluster is made of, as plain values: hosts, the lines between them, and the rules that hold for all.

#include <causeway/core/clock.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

namespace detail {

/// Whole nanoseconds; `seconds` at most some 290 years.
inline duration from_seconds(double seconds) { return duration{std::llround(seconds * 1e9)}; }

}  // namespace detail

/// A host's place in its world: 0, 1, 2, ... in the order of add_host.
using host_index = std::uint32_t;
inline constexpr host_index no_host = UINT32_MAX;

/// A rate without a limit.
inline constexpr double unlimited = std::numeric_limits<double>::infinity();

struct host_options {
  std::string name{};               ///< part of its address; none: "host-<index>"
  double speed = 1;                 ///< process::compute takes 1/speed of its nominal time
  double up_bytes_per_s = 125e6;    ///< shared by everything that it sends
  double down_bytes_per_s = 125e6;  ///< shared by everything that it receives
  std::uint32_t region = 0;         ///< see world::set_region_link
};

/// One direction between two hosts.
struct link_options {
  duration latency = std::chrono::milliseconds{1};  ///< one way
  double bytes_per_s = unlimited;                   ///< of one connection
  duration jitter{0};                               ///< adds a uniform draw from [0, jitter]; never reorders a connection
  /// Part of the packets (1460 bytes) that get lost. A lost one costs one more round trip, at least 10 ms, and a
  /// connection carries at most 1.22 · 1460 bytes / (RTT · √loss) per stream (Mathis et al. 1997).
  double loss = 0;
  std::uint32_t streams = 1;  ///< TCP streams that a connection stands for; only the cap by `loss` knows them
};

/// What can befall a message on a line; each with a chance of its own, see world::set_mishap.
enum class mishap : std::uint8_t {
  damage,   ///< bits flip: the receiver's digest does not fit, and it ends the link
  alter,    ///< data arrives whole, with another value in it: of a broken machine, or of one that lies
  repeat,   ///< a control message comes a second time, up to 5 s later, after a reconnect on the new connection
  reorder,  ///< a control message is held up for up to 200 ms and overtaken, after a reconnect as with repeat
};
inline constexpr std::size_t mishaps = 4;

struct world_options {
  std::uint64_t seed = 1;
  link_options link{};                                        ///< between hosts that no other rule is about
  std::size_t header_bytes = 80;                              ///< what every message adds on the wire
  std::size_t piece_bytes = std::size_t{64} << 10U;           ///< transfers are cut into these, and take turns
  std::size_t socket_buffer = std::size_t{4} << 20U;          ///< what the kernel of a stopped process takes in
  std::size_t kept_bytes = std::size_t{64} << 20U;            ///< per fabric: messages kept before their receive is started
  duration connect_delay_min = std::chrono::milliseconds{1};  ///< on top of the round trips of making a connection
  duration connect_delay_max = std::chrono::milliseconds{11};
  duration connect_timeout = std::chrono::seconds{10};  ///< then a dial that got no answer is unreachable
  double repeat_after_reconnect = 0;                    ///< chance that a new connection begins with the last control
                                                        ///< messages of the one before, once more
  std::size_t stack_bytes = std::size_t{256} << 10U;    ///< of each process
};

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_OPTIONS_HPP
