// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_LINKS_HPP
#define CAUSEWAY_SIM_LINKS_HPP

// The lines between hosts, one for each direction: what they are like, and what is wrong with them right now. A line is
// made when it is first asked for, from the most specific rule: set for this pair, set for the two regions, the default.

#include <causeway/core/clock.hpp>
#include <causeway/sim/options.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

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
  CAUSEWAY_DECL explicit link_map(const link_options& otherwise);

  CAUSEWAY_DECL void add_host(std::uint32_t region);

  /// The line from `from` to `to`. It stays where it is.
  CAUSEWAY_DECL link& between(host_index from, host_index to);

  CAUSEWAY_DECL void set(host_index from, host_index to, const link_options& options);

  CAUSEWAY_DECL void set_region(std::uint32_t from, std::uint32_t to, const link_options& options);

  CAUSEWAY_DECL void slow(host_index from, host_index to, double bytes_per_s);

  /// Grows with every change of a line's options: what was worked out from them is out of date.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  void changed() noexcept { ++version_; }

 private:
  CAUSEWAY_DECL [[nodiscard]] const link_options& rule(const link& l) const;

  link_options otherwise_;
  std::vector<std::uint32_t> regions_;
  std::unordered_map<std::uint64_t, link> links_;  // never walked where the order could show
  std::map<std::pair<std::uint32_t, std::uint32_t>, link_options> region_rules_;
  std::uint64_t version_ = 1;
};

/// The time of one packet there and one back, without jitter.
inline duration round_trip(const link& there, const link& back) { return there.options.latency + back.options.latency; }

/// What one connection can carry on `there`, by the line's own limit and by its losses. Bytes/s.
CAUSEWAY_DECL double connection_cap(const link& there, const link& back);

/// How long `bytes` take at `bytes_per_s`, to the nanosecond.
CAUSEWAY_DECL duration transfer_time(double bytes, double bytes_per_s);

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/links.ipp>
#endif

#endif  // CAUSEWAY_SIM_LINKS_HPP
