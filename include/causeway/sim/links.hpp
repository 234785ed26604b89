// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_LINKS_HPP
#define CAUSEWAY_SIM_LINKS_HPP

// The lines between hosts, one for each direction: what they are like, and what is wrong with them right now. A line is
// made when it is first asked for, from the most specific rule: set for this pair, set for the two regions, the default.

#include <causeway/core/clock.hpp>
#include <causeway/sim/options.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim::detail {

struct link {
  link_options options;
  double slowed_to = unlimited;  ///< bytes/s, while somebody slows it down
  std::uint32_t blocks = 0;      ///< how many faults black-hole it; nothing arrives unless 0
  time_point blocked_since;
  std::array<double, mishaps> chances{};  ///< of each mishap, for a message
  std::uint32_t from_region = 0;
  std::uint32_t to_region = 0;
  bool own_rule = false;

  [[nodiscard]] bool blocked() const noexcept { return blocks != 0; }
  [[nodiscard]] double chance_of(mishap m) const noexcept { return chances[static_cast<std::size_t>(m)]; }
};

class link_map {
 public:
  explicit link_map(const link_options& otherwise) : otherwise_{otherwise} {}

  void add_host(std::uint32_t region) { regions_.push_back(region); }

  /// The line from `from` to `to`. It stays where it is.
  link& between(host_index from, host_index to) {
    const auto [at, made] = links_.try_emplace(std::uint64_t{from} << 32U | to);
    if (made) {
      at->second.from_region = regions_[from];
      at->second.to_region = regions_[to];
      at->second.options = rule(at->second);
    }
    return at->second;
  }

  void set(host_index from, host_index to, const link_options& options) {
    link& l = between(from, to);
    l.own_rule = true;
    l.options = options;
    ++version_;
  }

  void set_region(std::uint32_t from, std::uint32_t to, const link_options& options) {
    region_rules_[{from, to}] = options;
    for (auto& [pair, l] : links_) {
      if (!l.own_rule) l.options = rule(l);
    }
    ++version_;
  }

  void slow(host_index from, host_index to, double bytes_per_s) {
    between(from, to).slowed_to = bytes_per_s;
    ++version_;
  }

  /// Grows with every change of a line's options: what was worked out from them is out of date.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  void changed() noexcept { ++version_; }

 private:
  [[nodiscard]] const link_options& rule(const link& l) const {
    const auto found = region_rules_.find({l.from_region, l.to_region});
    return found == region_rules_.end() ? otherwise_ : found->second;
  }

  link_options otherwise_;
  std::vector<std::uint32_t> regions_;
  std::unordered_map<std::uint64_t, link> links_;  // never walked where the order could show
  std::map<std::pair<std::uint32_t, std::uint32_t>, link_options> region_rules_;
  std::uint64_t version_ = 1;
};

/// The time of one packet there and one back, without jitter.
inline duration round_trip(const link& there, const link& back) { return there.options.latency + back.options.latency; }

/// What one connection can carry on `there`, by the line's own limit and by its losses. Bytes/s.
inline double connection_cap(const link& there, const link& back) {
  double cap = std::min(there.options.bytes_per_s, there.slowed_to);
  if (there.options.loss > 0) {
    const double rtt = std::max(seconds(round_trip(there, back)), 1e-4);
    cap = std::min(cap, there.options.streams * 1.22 * 1460.0 / (rtt * std::sqrt(there.options.loss)));
  }
  return cap;
}

/// How long `bytes` take at `bytes_per_s`, to the nanosecond.
inline duration transfer_time(double bytes, double bytes_per_s) {
  return duration{bytes_per_s == unlimited ? 0 : std::llround(bytes / bytes_per_s * 1e9)};
}

}  // namespace causeway::inline CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_LINKS_HPP
