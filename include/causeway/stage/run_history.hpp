// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RUN_HISTORY_HPP
#define CAUSEWAY_STAGE_RUN_HISTORY_HPP

// How a run of elastic pipelines went so far, for recovery policies that look back. It is voted on with each step, so that
// all peers have the same one, also those that have just come.

#include <causeway/config/config.hpp>
#include <causeway/stage/layout.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// A regular value without padding: it travels as it is.
struct run_history {
  static constexpr std::size_t most = 60;  ///< intervals that are kept

  std::uint32_t replicas = 0;               ///< that took the last step
  std::uint32_t stages = 0;                 ///< of the first of them
  std::array<std::uint16_t, most> there{};  ///< peers at the end of each interval, the newest last; 0: before the run

  /// The run has taken its step number `steps`, laid out like this, with so many peers there. `interval`: in steps; 0:
  /// nothing, for a recovery policy that does not look back.
  CAUSEWAY_DECL void took_step(std::uint64_t steps, std::uint64_t interval, const layout& l, std::size_t peers);
  CAUSEWAY_DECL void add_interval(std::size_t peers);

  /// Peers of each interval that there was.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::size_t> counts() const;

  friend bool operator==(const run_history&, const run_history&) = default;
};

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/run_history.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RUN_HISTORY_HPP
