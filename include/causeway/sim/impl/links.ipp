// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_IMPL_LINKS_IPP
#define CAUSEWAY_SIM_IMPL_LINKS_IPP

#include <causeway/sim/links.hpp>

#include <algorithm>
#include <cmath>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim { namespace detail {

CAUSEWAY_DECL link_map::link_map(const link_options& otherwise) : otherwise_{otherwise} {}

CAUSEWAY_DECL void link_map::add_host(std::uint32_t region) { regions_.push_back(region); }

CAUSEWAY_DECL link& link_map::between(host_index from, host_index to) {
  const auto [at, made] = links_.try_emplace(std::uint64_t{from} << 32U | to);
  if (made) {
    at->second.from_region = regions_[from];
    at->second.to_region = regions_[to];
    at->second.options = rule(at->second);
  }
  return at->second;
}

CAUSEWAY_DECL void link_map::set(host_index from, host_index to, const link_options& options) {
  link& l = between(from, to);
  l.own_rule = true;
  l.options = options;
  ++version_;
}

CAUSEWAY_DECL void link_map::set_region(std::uint32_t from, std::uint32_t to, const link_options& options) {
  region_rules_[{from, to}] = options;
  for (auto& [pair, l] : links_) {
    if (!l.own_rule) l.options = rule(l);
  }
  ++version_;
}

CAUSEWAY_DECL void link_map::slow(host_index from, host_index to, double bytes_per_s) {
  between(from, to).slowed_to = bytes_per_s;
  ++version_;
}

CAUSEWAY_DECL const link_options& link_map::rule(const link& l) const {
  const auto found = region_rules_.find({l.from_region, l.to_region});
  return found == region_rules_.end() ? otherwise_ : found->second;
}

CAUSEWAY_DECL double connection_cap(const link& there, const link& back) {
  double cap = std::min(there.options.bytes_per_s, there.slowed_to);
  if (there.options.loss > 0) {
    const double rtt = std::max(seconds(round_trip(there, back)), 1e-4);
    cap = std::min(cap, there.options.streams * 1.22 * 1460.0 / (rtt * std::sqrt(there.options.loss)));
  }
  return cap;
}

CAUSEWAY_DECL duration transfer_time(double bytes, double bytes_per_s) {
  return duration{bytes_per_s == unlimited ? 0 : std::llround(bytes / bytes_per_s * 1e9)};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::sim::detail

#endif  // CAUSEWAY_SIM_IMPL_LINKS_IPP
