// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TABLES_REGIONS_HPP
#define CAUSEWAY_BENCH_TABLES_REGIONS_HPP

// A network between regions as a matrix, from the simulator's tables.

#include <causeway/collective/ring_order.hpp>
#include <causeway/sim/link_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tables {

struct region_network {
  std::size_t regions = 0;
  std::vector<double> gbit_s;  // from i to j at i * regions + j; on the diagonal, within a region

  [[nodiscard]] double between(std::size_t i, std::size_t j) const { return gbit_s[i * regions + j]; }

  /// Of the slowest link between two regions.
  [[nodiscard]] double slowest() const {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < regions; ++i) {
      for (std::size_t j = 0; j < regions; ++j) least = i == j ? least : std::min(least, between(i, j));
    }
    return least;
  }

  /// Of the slowest link of the ring whose slowest link is fastest.
  [[nodiscard]] double ring_gbit_s() const {
    std::vector<double> costs;
    for (const double b : gbit_s) costs.push_back(1 / b);
    const causeway::collective::link_costs links{costs, static_cast<std::uint32_t>(regions)};
    return 1 / causeway::collective::cost_of_ring(links, causeway::collective::ring_order(links)).slowest;
  }
};

/// The part of a table that is about `names`; all of it if there are none. A region that the table lacks stays out.
inline region_network network_of(const causeway::sim::link_table& table, std::vector<std::string_view> names = {}) {
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < table.regions().size(); ++i) {
    const bool wanted = names.empty() || std::find(names.begin(), names.end(), table.regions()[i]) != names.end();
    if (wanted) places.push_back(i);
  }
  region_network net{places.size(), {}};
  for (const std::uint32_t i : places) {
    for (const std::uint32_t j : places) {
      const auto* link = table.find(i, j);
      net.gbit_s.push_back(link == nullptr ? 0 : link->bytes_per_s * 8 / 1e9);
    }
  }
  return net;
}

}  // namespace tables

#endif  // CAUSEWAY_BENCH_TABLES_REGIONS_HPP
