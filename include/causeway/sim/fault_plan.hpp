// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_FAULT_PLAN_HPP
#define CAUSEWAY_SIM_FAULT_PLAN_HPP

// What goes wrong in a simulated cluster, and when, as data: made from a seed (sim/fault_profile.hpp) or read from text,
// printed, replayed, and made smaller until only what matters is left. Formats: docs/reference/simulation_files.md.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/table_text.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

enum class fault_kind : std::uint8_t {
  kill,       ///< the process dies, the machine lives
  power_off,  ///< the machine dies: others hear nothing, the disk loses what was not synced
  restart,    ///< after a kill or power_off; a process that runs is killed first
  stop,       ///< the process stands still
  resume,
  partition,    ///< `hosts` and `others` do not reach each other
  heal,         ///< undoes partition
  block,        ///< nothing gets from `hosts` to `others`
  unblock,      ///< undoes block
  lose_stream,  ///< one TCP stream between `hosts` and `others` dies: data on its way is lost, then the link ends
  slow_link,    ///< between `hosts` and `others` a connection carries `amount` bytes/s; 0: as much as ever
  damage,       ///< part `amount` of the messages from `hosts` to `others` is damaged: the digest ends the link; 0: none
  alter,        ///< part `amount` of the data messages arrives whole and with another value; 0: none
  repeat,       ///< part `amount` of the control messages comes again later, on a later connection too; 0: none
  reorder,      ///< part `amount` of the control messages is overtaken by later ones; 0: none
  speed,        ///< `amount` times the usual speed; 1: the usual
  clock_rate,   ///< the clock runs at `amount` times the usual rate; 1: the usual
  clock_jump,   ///< the clock goes forward by `amount` seconds at once
  descriptors,  ///< the host can have `amount` connections, no dial or accept beyond them; 0: no limit
  no_memory,    ///< part `amount` of the messages that arrive finds no memory and ends its link; 0: none
  fail_write,   ///< the `amount`-th write to the disk from now on fails
  fail_sync,    ///< the same for fsync
  disk_full,    ///< the disk holds `amount` bytes; 0: no limit
  slow_disk,    ///< the disk writes `amount` bytes/s; 0: at once
  slow_sync,    ///< each fsync takes `amount` seconds; 0: no time
  flip,         ///< a bit of some file on the disk
};

inline constexpr std::array<std::string_view, 26> fault_names{
    "kill",      "power_off", "restart",     "stop",       "resume",      "partition", "heal",
    "block",     "unblock",   "lose_stream", "slow_link",  "damage",      "alter",     "repeat",
    "reorder",   "speed",     "clock_rate",  "clock_jump", "descriptors", "no_memory", "fail_write",
    "fail_sync", "disk_full", "slow_disk",   "slow_sync",  "flip"};

constexpr std::string_view to_string(fault_kind kind) noexcept { return fault_names[static_cast<std::size_t>(kind)]; }

/// One thing that happens to `hosts`, and for faults of the network to the lines between them and `others`.
struct fault {
  time_point at{};
  fault_kind kind = fault_kind::kill;
  std::vector<std::uint32_t> hosts{};
  std::vector<std::uint32_t> others{};
  double amount = 0;

  friend bool operator==(const fault&, const fault&) = default;
};

/// What undoes a fault, if something does.
CAUSEWAY_DECL [[nodiscard]] bool undoes(const fault& later, const fault& earlier);

struct fault_plan {
  std::vector<fault> faults;

  /// Orders the faults by time; those of one moment keep their order.
  CAUSEWAY_DECL void sort();

  /// When the last one happens.
  CAUSEWAY_DECL [[nodiscard]] time_point end() const;

  /// One more than the highest host that is named.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t hosts() const;

  /// Whether fault `i` undoes an earlier one.
  CAUSEWAY_DECL [[nodiscard]] bool is_undo(std::size_t i) const;

  /// Without fault `i` and without what undoes it, so that what is left is again something that may happen.
  CAUSEWAY_DECL [[nodiscard]] fault_plan without(std::size_t i) const;

  /// One line per fault; `parse` gives the same plan back, to the bit.
  CAUSEWAY_DECL [[nodiscard]] std::string text() const;

  /// errc::bad_text names the line; errc::too_large beyond 16 MiB.
  CAUSEWAY_DECL static result<fault_plan> parse(std::string_view text, const std::string& name = "fault plan");

  friend bool operator==(const fault_plan&, const fault_plan&) = default;
};

/// Takes faults away, each with what undoes it, as long as `fails(plan)` stays true: halves first, then single ones. Calls
/// `fails` some n · log n times.
template <class Fails>
[[nodiscard]] fault_plan shrink(fault_plan plan, Fails fails);

namespace detail {

constexpr bool between_hosts(fault_kind kind) noexcept {
  return kind >= fault_kind::partition && kind <= fault_kind::reorder;
}
/// Faults of messages on their way; in the order of sim::mishap.
constexpr bool of_messages(fault_kind kind) noexcept { return kind >= fault_kind::damage && kind <= fault_kind::reorder; }
constexpr bool of_the_disk(fault_kind kind) noexcept { return kind >= fault_kind::fail_write; }
constexpr bool has_amount(fault_kind kind) noexcept { return kind >= fault_kind::slow_link && kind != fault_kind::flip; }

/// What a kind is undone by; itself where a second fault of the kind with `normal` as its amount does it.
constexpr std::optional<fault_kind> opposite(fault_kind kind) noexcept {
  switch (kind) {
    case fault_kind::kill:
    case fault_kind::power_off: return fault_kind::restart;
    case fault_kind::stop: return fault_kind::resume;
    case fault_kind::partition: return fault_kind::heal;
    case fault_kind::block: return fault_kind::unblock;
    case fault_kind::lose_stream:
    case fault_kind::clock_jump:
    case fault_kind::fail_write:
    case fault_kind::fail_sync: return std::nullopt;
    default: return has_amount(kind) ? std::optional{kind} : std::nullopt;
  }
}

constexpr double normal_amount(fault_kind kind) noexcept {
  return kind == fault_kind::speed || kind == fault_kind::clock_rate ? 1 : 0;
}

}  // namespace detail

template <class Fails>
fault_plan shrink(fault_plan plan, Fails fails) {
  for (std::size_t chunk = std::max<std::size_t>(plan.faults.size() / 2, 1);; chunk = chunk / 2) {
    for (std::size_t begin = 0; begin < plan.faults.size();) {
      fault_plan smaller = plan;
      std::size_t taken = 0;
      for (std::size_t i = begin; taken < chunk && i < smaller.faults.size();) {
        if (smaller.is_undo(i)) {
          ++i;
        } else {
          smaller = smaller.without(i);
          ++taken;
        }
      }
      if (taken > 0 && fails(smaller)) {
        plan = std::move(smaller);
      } else {
        begin += chunk;
      }
    }
    if (chunk == 1) return plan;
  }
}

namespace detail {

CAUSEWAY_DECL std::string host_list(const std::vector<std::uint32_t>& hosts);

CAUSEWAY_DECL std::string exact(double value);

/// Seconds with as many decimals as needed, from whole nanoseconds.
CAUSEWAY_DECL std::string exact(time_point at);

CAUSEWAY_DECL result<time_point> moment_from(std::string_view field, const text::place& place);

CAUSEWAY_DECL result<std::vector<std::uint32_t>> hosts_from(std::string_view field, const text::place& place);

CAUSEWAY_DECL result<fault> fault_from(std::string_view line, const text::place& place);

}  // namespace detail

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/fault_plan.ipp>
#endif

#endif  // CAUSEWAY_SIM_FAULT_PLAN_HPP
