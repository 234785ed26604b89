// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_TABLES_REPORT_HPP
#define CAUSEWAY_BENCH_TABLES_REPORT_HPP

// How the tables are printed, and what became of them: each section says itself what it holds to be reproduced, so that the
// program fails when a figure moves.

#include <cstdio>

namespace tables {

class report {
 public:
  void section(const char* id, const char* title) {
    std::printf("%s\n%s %s\n", first_ ? "" : "\n", id, title);
    first_ = false;
  }

  /// A published figure beside ours; they agree if ours is within `tolerance` (a part of the published one).
  void compare(const char* what, double published, double ours, double tolerance, const char* unit) {
    const double off = (ours - published) / published;
    const bool agrees = off <= tolerance && off >= -tolerance;
    std::printf("  %-58s %9.4g %9.4g %-6s %+6.1f %% %s\n", what, published, ours, unit, 100 * off, agrees ? "" : "DIFFERS");
  }

  /// What the text beside this program claims. One that no longer holds makes the program fail.
  void claim(bool holds, const char* what) {
    std::printf("  %s: %s\n", holds ? "holds" : "NO LONGER HOLDS", what);
    failed_ = failed_ || !holds;
  }

  static void heading(const char* what = "") { std::printf("  %-58s %9s %9s\n", what, "published", "ours"); }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  bool first_ = true;
  bool failed_ = false;
};

}  // namespace tables

#endif  // CAUSEWAY_BENCH_TABLES_REPORT_HPP
