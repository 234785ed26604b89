// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_STANDING_RUN_HPP
#define CAUSEWAY_EXAMPLES_STANDING_RUN_HPP

// Why a run stands still, or does not begin: what its peers write down of that, for who started them.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace app {

class standing_run {
 public:
  /// A round was seen.
  void goes_on();
  /// Where there was none for five seconds: what the peers in `folders` have written down since then of what
  /// they wait for, once.
  [[nodiscard]] std::optional<std::string> why(const std::vector<std::string>& folders);

 private:
  using clock = std::chrono::system_clock;  // as what peers write down

  clock::time_point since_ = clock::now();
  clock::time_point next_look_ = since_;
  bool said_ = false;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_STANDING_RUN_HPP
