// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_FAULT_PLAN_HPP
#define CAUSEWAY_SIM_FAULT_PLAN_HPP

// What goes wrong in a simulated cluster, and when, as data: made from a seed (sim/fault_profile.hpp) or read from text,
// printed, replayed, and made smaller until only what matters is left. Formats: docs/reference/simulation_files.md.

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/sim/table_text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim {

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
[[nodiscard]] inline bool undoes(const fault& later, const fault& earlier);

struct fault_plan {
  std::vector<fault> faults;

  /// Orders the faults by time; those of one moment keep their order.
  void sort();

  /// When the last one happens.
  [[nodiscard]] time_point end() const;

  /// One more than the highest host that is named.
  [[nodiscard]] std::uint32_t hosts() const;

  /// Whether fault `i` undoes an earlier one.
  [[nodiscard]] bool is_undo(std::size_t i) const {
    return std::any_of(faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const fault& earlier) { return undoes(faults[i], earlier); });
  }

  /// Without fault `i` and without what undoes it, so that what is left is again something that may happen.
  [[nodiscard]] fault_plan without(std::size_t i) const;

  /// One line per fault; `parse` gives the same plan back, to the bit.
  [[nodiscard]] std::string text() const;

  /// errc::bad_text names the line; errc::too_large beyond 16 MiB.
  static result<fault_plan> parse(std::string_view text, const std::string& name = "fault plan");

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

inline bool undoes(const fault& later, const fault& earlier) {
  const auto wanted = detail::opposite(earlier.kind);
  if (!wanted || later.kind != *wanted || later.hosts != earlier.hosts || later.others != earlier.others) return false;
  if (later.kind != earlier.kind) return true;
  return later.amount == detail::normal_amount(later.kind) && earlier.amount != later.amount;
}

inline void fault_plan::sort() {
  std::stable_sort(faults.begin(), faults.end(), [](const fault& a, const fault& b) { return a.at < b.at; });
}

inline time_point fault_plan::end() const {
  time_point last{};
  for (const fault& f : faults) last = std::max(last, f.at);
  return last;
}

inline std::uint32_t fault_plan::hosts() const {
  std::uint32_t count = 0;
  for (const fault& f : faults) {
    for (const std::uint32_t host : f.hosts) count = std::max(count, host + 1);
    for (const std::uint32_t host : f.others) count = std::max(count, host + 1);
  }
  return count;
}

inline fault_plan fault_plan::without(std::size_t i) const {
  const auto first = faults.begin() + static_cast<std::ptrdiff_t>(i);
  const auto undo = std::find_if(first + 1, faults.end(), [&](const fault& later) { return undoes(later, *first); });
  fault_plan rest;
  for (auto f = faults.begin(); f != faults.end(); ++f) {
    if (f != first && f != undo) rest.faults.push_back(*f);
  }
  return rest;
}

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

inline std::string host_list(const std::vector<std::uint32_t>& hosts) {
  std::string text;
  for (const std::uint32_t host : hosts) text += (text.empty() ? "" : ",") + std::to_string(host);
  return text;
}

inline std::string exact(double value) {
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

/// Seconds with as many decimals as needed, from whole nanoseconds.
inline std::string exact(time_point at) {
  const auto nanoseconds = static_cast<std::uint64_t>(at.since_start.count());
  std::string text = std::to_string(nanoseconds / 1'000'000'000);
  std::string rest = std::to_string(nanoseconds % 1'000'000'000);
  rest.insert(0, 9 - rest.size(), '0');
  rest.erase(rest.find_last_not_of('0') + 1);
  return rest.empty() ? text : text + '.' + rest;
}

inline result<time_point> moment_from(std::string_view field, const text_place& place) {
  const std::size_t dot = std::min(field.find('.'), field.size());
  CAUSEWAY_ASSIGN(const std::uint64_t whole,
                  number_from<std::uint64_t>(field.substr(0, dot), place, "the time in seconds"));
  if (whole > 9'000'000'000U) return place.wrong("the time is out of range");
  std::uint64_t fraction = 0;
  if (dot < field.size()) {
    std::string digits{field.substr(dot + 1)};
    if (digits.empty() || digits.size() > 9) return place.wrong("the time needs one to nine decimals after the point");
    digits.append(9 - digits.size(), '0');
    CAUSEWAY_ASSIGN(fraction, number_from<std::uint64_t>(digits, place, "the time in seconds"));
  }
  return time_point{duration{static_cast<std::int64_t>(whole * 1'000'000'000 + fraction)}};
}

inline result<std::vector<std::uint32_t>> hosts_from(std::string_view field, const text_place& place) {
  std::vector<std::uint32_t> hosts;
  for (const std::string_view part : split(field, ',')) {
    CAUSEWAY_ASSIGN(const auto host, number_from<std::uint32_t>(part, place, "a host"));
    if (host >= 1'000'000) return place.wrong("hosts are numbered from 0 to 999999");
    hosts.push_back(host);
  }
  return hosts;
}

inline result<fault> fault_from(std::string_view line, const text_place& place) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(line, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  if (words.size() < 3) return place.wrong("wants: seconds, what happens, hosts");
  fault f;
  CAUSEWAY_ASSIGN(f.at, moment_from(words[0], place));
  const auto name = std::find(fault_names.begin(), fault_names.end(), words[1]);
  if (name == fault_names.end()) return place.wrong("does not know \"" + std::string{words[1].substr(0, 40)} + '"');
  f.kind = static_cast<fault_kind>(name - fault_names.begin());
  CAUSEWAY_ASSIGN(f.hosts, hosts_from(words[2], place));
  std::size_t next = 3;
  if (between_hosts(f.kind)) {
    if (words.size() < 5 || words[3] != "|") return place.wrong("wants other hosts too: 0,1 | 2,3");
    CAUSEWAY_ASSIGN(f.others, hosts_from(words[4], place));
    next = 5;
  }
  if (has_amount(f.kind)) {
    if (words.size() <= next) return place.wrong("wants an amount at its end");
    constexpr double most = std::numeric_limits<double>::max();
    CAUSEWAY_ASSIGN(f.amount, number_between(words[next++], 0, most, place, "the amount"));
  }
  if (words.size() != next) return place.wrong("has more words than it should");
  return f;
}

}  // namespace detail

inline std::string fault_plan::text() const {
  std::string all;
  for (const fault& f : faults) {
    all += detail::exact(f.at) + ' ' + std::string{to_string(f.kind)} + ' ' + detail::host_list(f.hosts);
    if (detail::between_hosts(f.kind)) all += " | " + detail::host_list(f.others);
    if (detail::has_amount(f.kind)) all += ' ' + detail::exact(f.amount);
    all += '\n';
  }
  return all;
}

inline result<fault_plan> fault_plan::parse(std::string_view text, const std::string& name) {
  fault_plan plan;
  CAUSEWAY_TRY(
      detail::for_each_line(text, name, [&](std::string_view line, const detail::text_place& place) -> result<void> {
        CAUSEWAY_ASSIGN(fault read, detail::fault_from(line, place));
        plan.faults.push_back(std::move(read));
        return {};
      }));
  return plan;
}

}  // namespace causeway::inline CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_FAULT_PLAN_HPP
