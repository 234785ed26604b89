// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_STEP_TURNS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_STEP_TURNS_HPP

// What peers do together between two steps, one after the other: evaluations, in the order in which all of them ask for
// them, and then the step. Who comes late is told what it missed, or that it did miss it, and nobody waits in vain.

#include <causeway/config/config.hpp>

#include <cstdint>
#include <limits>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What a peer says of itself when peers meet.
struct step_turn {
  std::uint32_t evaluated = 0;                             ///< evaluations that it is through with since the last step
  bool trains = true;                                      ///< it makes the step next; else an evaluation
  double last = std::numeric_limits<double>::quiet_NaN();  ///< what the last of those came to; not a number: unknown

  /// Rises from turn to turn.
  CAUSEWAY_DECL [[nodiscard]] std::uint32_t order() const noexcept;
};

/// A peer's turns.
class step_turns {
 public:
  /// `state` names the parameters that it holds: those of another state begin anew.
  CAUSEWAY_DECL void at(std::uint64_t state) noexcept;

  [[nodiscard]] step_turn now(bool trains) const noexcept { return {evaluated_, trains, last_}; }

  /// This evaluation is over; `sum`: not a number where nobody told.
  CAUSEWAY_DECL void came_to(double sum) noexcept;

 private:
  std::uint64_t state_ = 0;
  std::uint32_t evaluated_ = 0;
  double last_ = std::numeric_limits<double>::quiet_NaN();
};

/// The turn of those who are furthest.
CAUSEWAY_DECL [[nodiscard]] std::uint32_t furthest(const std::vector<step_turn>& all) noexcept;

/// What the evaluation came to that `own` wants and others are through with. Not a number: nobody knows any more.
CAUSEWAY_DECL [[nodiscard]] double missed(const step_turn& own, const std::vector<step_turn>& all) noexcept;

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/step_turns.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_STEP_TURNS_HPP
