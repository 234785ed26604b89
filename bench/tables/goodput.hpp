// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TABLES_GOODPUT_HPP
#define CAUSEWAY_BENCH_TABLES_GOODPUT_HPP

// S4: the part of their time that chips train, of Decoupled DiLoCo's simulation of failures (arXiv 2604.21428, table 1, as
// public summaries have it; the paper itself was not at hand): each chip is interrupted once a year, and M learners share
// the chips. How long a learner stops after an interruption is not in those summaries. Here it is the one number that is
// fitted, for all learners alike and whatever their size; the rest is a renewal: a learner of n/M chips trains for
// year/(n/M), then stops for that long.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "report.hpp"

namespace tables {

inline constexpr std::array<double, 5> million_chips{0.15, 0.3, 0.6, 1.2, 2.4};

struct goodput_row {
  const char* name;
  double learners;
  double stop_s;  ///< fitted
  std::array<double, 5> published;
};

inline double goodput(double million, const goodput_row& row) {
  constexpr double year_s = 365.25 * 24 * 3600;
  return 1 / (1 + row.stop_s * million * 1e6 / row.learners / year_s);
}

/// Of all figures of a row that has a fitted stop of its own, or shares one.
struct distance {
  double most = 0;
  double squares = 0;
  int figures = 0;
};

inline void print_goodput(const goodput_row& row, distance& d) {
  std::printf("    %-26s", row.name);
  for (std::size_t i = 0; i < million_chips.size(); ++i) {
    const double ours = 100 * goodput(million_chips[i], row);
    std::printf("  %3.0f > %5.1f", row.published[i], ours);
    const double off = std::abs(ours - row.published[i]);
    d.most = std::max(d.most, off);
    d.squares += off * off;
    ++d.figures;
  }
  std::printf("\n");
}

inline void decoupled_goodput(report& out) {
  constexpr double elastic_s = 23, rigid_s = 78;
  const goodput_row rows[] = {{"data parallel, elastic", 1, elastic_s, {88, 80, 69, 58, 40}},
                              {"2 learners", 2, elastic_s, {94, 88, 80, 70, 54}},
                              {"4 learners", 4, elastic_s, {96, 93, 89, 82, 73}},
                              {"8 learners", 8, elastic_s, {98, 96, 94, 88, 80}},
                              {"16 learners", 16, elastic_s, {99, 98, 96, 93, 86}}};
  const goodput_row rigid{"data parallel, rigid", 1, rigid_s, {72, 57, 38, 27, 18}};
  out.section("S4", "Decoupled DiLoCo (arXiv 2604.21428): goodput in %, published > ours, at 0.15 to 2.4 million chips");
  distance all, alone;
  print_goodput(rigid, alone);
  for (const goodput_row& row : rows) print_goodput(row, all);
  std::printf("    fitted: an interruption stops a learner for %.0f s, rigid data parallelism for %.0f s\n", elastic_s,
              rigid_s);
  std::printf("    %d figures: %.1f points off in the quadratic mean, %.1f at most; rigid: %d, %.1f, %.1f\n", all.figures,
              std::sqrt(all.squares / all.figures), all.most, alone.figures, std::sqrt(alone.squares / alone.figures),
              alone.most);
  // Without any fit: M learners on n chips are as one on n/M.
  double apart = 0;
  int pairs = 0;
  for (const goodput_row& row : rows) {
    for (std::size_t i = 0; i < million_chips.size(); ++i) {
      const auto same = std::find(million_chips.begin(), million_chips.end(), million_chips[i] / row.learners);
      if (row.learners == 1 || same == million_chips.end()) continue;
      apart = std::max(
          apart, std::abs(row.published[i] - rows[0].published[static_cast<std::size_t>(same - million_chips.begin())]));
      ++pairs;
    }
  }
  std::printf("    M learners on n chips against one on n/M, as published: %d pairs, at most %.0f points apart\n", pairs,
              apart);
  out.claim(all.most < 4.8 && std::sqrt(all.squares / all.figures) < 2.2,
            "25 figures within 4.8 points, with one fitted time");
  out.claim(pairs == 10 && apart <= 4, "M learners have the goodput of one on an M-th of the chips, within 4 points");
}

}  // namespace tables

#endif  // CAUSEWAY_BENCH_TABLES_GOODPUT_HPP
