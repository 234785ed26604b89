// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TABLES_ROUNDS_HPP
#define CAUSEWAY_BENCH_TABLES_ROUNDS_HPP

// S3: what part of a round two public runs computed, from how long they computed and how long an exchange took; and how
// long it should have taken over measured links.

#include <cstdio>
#include <string_view>
#include <vector>

#include "regions.hpp"
#include "report.hpp"

namespace tables {

inline double share_of_computing(double compute_s, double exchange_s) { return compute_s / (compute_s + exchange_s); }

/// Seconds of a ring all-reduce: 2 (n - 1) / n times the row over the slowest link.
inline double ring_seconds(double parameters, double bits, double peers, double gbit_s) {
  return 2 * (peers - 1) / peers * parameters * bits / (gbit_s * 1e9);
}

inline void intellect1(report& out, const causeway::sim::link_table& world) {
  struct run {
    const char* where;
    double sync_s;
    double published;
    std::vector<std::string_view> regions;
  };
  const run runs[] = {
      {"United States", 103, 95.7, {"Oregon", "Virginia", "Ohio"}},
      {"United States and Europe", 382, 85.6, {"Oregon", "Virginia", "Ohio", "London", "Frankfurt", "Ireland"}},
      {"three continents", 469, 83.0, {}}};
  constexpr double compute_s = 38 * 60;  // published: an inner phase of 100 steps
  out.section("S3", "INTELLECT-1 and Covenant-72B: the part of a round that is computing, %");
  out.heading("INTELLECT-1, 38 min and the median exchange measured");
  for (const run& r : runs) {
    out.compare(r.where, r.published, 100 * share_of_computing(compute_s, r.sync_s), 0.002, "%");
  }
  out.heading("INTELLECT-1, the exchange from links of world.csv (derived)");
  for (const run& r : runs) {
    // Derived: 10 B parameters, 8 bits, 14 nodes, one connection a link, the best ring through the regions.
    const double gbit_s = network_of(world, r.regions).ring_gbit_s();
    const double seconds = ring_seconds(10e9, 8, 14, gbit_s);
    out.compare(r.where, r.published, 100 * share_of_computing(compute_s, seconds), 0.01, "%");
    std::printf("    %.0f s at %.2f Gbit/s; the %.0f s measured mean %.2f Gbit/s\n", seconds, gbit_s, r.sync_s,
                ring_seconds(10e9, 8, 14, 1) / r.sync_s);
  }
  bool equal = true;
  for (const run& r : runs) {
    const double off = 100 * share_of_computing(compute_s, r.sync_s) - r.published;
    equal = equal && off < 0.1 && off > -0.1;
  }
  out.claim(equal, "INTELLECT-1's three shares from its own times, within 0.1 points");
}

/// Published: 94.5 % with 70 s per round. What that says about the rest is derived.
inline void covenant(report& out) {
  constexpr double exchange_s = 70;
  constexpr double share = 0.945;
  const double compute_s = share / (1 - share) * exchange_s;
  const double bits = 72e9 * 32 / 146.3;  // 64 of 4,096 coordinates, each 12 bits of index and 2 of value
  out.heading("Covenant-72B");
  out.compare("20 min of computing and 70 s of exchange", 100 * share, 100 * share_of_computing(1200, exchange_s), 0.002,
              "%");
  std::printf(
      "    94.5 %% with 70 s means %.1f min of computing; a peer's message of %.2f GB needs %.0f Mbit/s to leave in"
      " 70 s\n",
      compute_s / 60, bits / 8e9, bits / exchange_s / 1e6);
}

}  // namespace tables

#endif  // CAUSEWAY_BENCH_TABLES_ROUNDS_HPP
