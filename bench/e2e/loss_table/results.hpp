// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_E2E_LOSS_TABLE_RESULTS_HPP
#define CAUSEWAY_BENCH_E2E_LOSS_TABLE_RESULTS_HPP

// Results as lines of JSON in a file, so that an interrupted table goes on where it stopped; and what is printed of them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "row.hpp"

namespace losses {

/// One run.
struct record {
  std::string name;
  std::string settings;
  std::uint32_t peers = 0;
  std::uint64_t steps = 0;
  std::uint64_t seed = 0;
  double rate = 0;
  std::uint32_t local_steps = 0;
  double momentum = 0;
  bool world = false;  ///< on bench/sim/networks/world.csv, else on 100 Mbit/s
  double loss = 0;
  double megabytes = 0;
  double waited = 0;
};

/// What all seeds of a row came to.
struct summary {
  int runs = 0;
  double loss = 0;  ///< mean, as all that follow but the extremes
  double lowest = 0;
  double highest = 0;
  double megabytes = 0;
  std::optional<double> waited[2];  ///< on 100 Mbit/s, on world.csv
};

class results {
 public:
  /// What the file has so far; nothing if there is none.
  explicit results(std::string path);

  /// The record of the same run, if there is one.
  [[nodiscard]] const record* find(const row& r, const plan& p) const;
  void add(const record& r);

  /// Of the runs that fit the plan, whatever their seed; nothing if there is none.
  [[nodiscard]] std::optional<summary> of(const row& r, const plan& p) const;

 private:
  std::string path_;
  std::vector<record> all_;
};

/// One table in Markdown for p.peers peers. `start` is the loss that all begin with: of what every_step gains from there, a
/// preset keeps a part.
void print_table(const std::vector<row>& rows, const results& all, const plan& p, double start);

/// The small-scale training targets, each with its control. False: one was missed, or has no results yet.
bool print_targets(const std::vector<row>& rows, const results& all, const plan& p);

}  // namespace losses

#endif  // CAUSEWAY_BENCH_E2E_LOSS_TABLE_RESULTS_HPP
