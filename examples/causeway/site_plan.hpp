// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SITE_PLAN_HPP
#define CAUSEWAY_EXAMPLES_SITE_PLAN_HPP

// Which site each rank of a job belongs to.

#include <causeway/core/result.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace app {

/// By `listed`, one number a rank, or by hosts: those of a host stay together, and hosts go to sites in the order in which
/// they appear, as many to each. On one host, ranks do. errc::invalid_argument: too few ranks or hosts, or a site that is
/// empty.
inline causeway::result<std::vector<std::uint32_t>> plan_sites(std::uint32_t sites, const std::string& listed,
                                                               const std::vector<std::string>& hosts) {
  using causeway::errc;
  using causeway::fail;
  const std::size_t ranks = hosts.size();
  if (sites > ranks) {
    return fail(errc::invalid_argument, "net.sites",
                std::to_string(sites) + " sites need a rank each, and the job has " + std::to_string(ranks) +
                    "; start more ranks, or use fewer sites");
  }
  std::vector<std::uint32_t> site_of(ranks, 0);
  if (listed.empty()) {
    std::vector<std::string> order;
    for (const auto& h : hosts) {
      if (std::find(order.begin(), order.end(), h) == order.end()) order.push_back(h);
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto host = static_cast<std::size_t>(std::find(order.begin(), order.end(), hosts[r]) - order.begin());
      site_of[r] = static_cast<std::uint32_t>(order.size() >= sites ? host * sites / order.size() : r * sites / ranks);
    }
    return site_of;
  }
  const char* at = listed.data();
  const char* const end = at + listed.size();
  std::size_t count = 0;
  for (; at < end && count < ranks; ++count) {
    const auto [next, code] = std::from_chars(at, end, site_of[count]);
    if (code != std::errc{} || site_of[count] >= sites || (next != end && *next != ',')) break;
    at = next == end ? end : next + 1;
  }
  const std::set<std::uint32_t> used(site_of.begin(), site_of.end());
  if (at == end && count == ranks && used.size() == sites) return site_of;
  return fail(errc::invalid_argument, "net.site_of",
              "'" + listed + "' must be " + std::to_string(ranks) +
                  " numbers with commas, one for each rank, that use all of 0 to " + std::to_string(sites - 1));
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SITE_PLAN_HPP
