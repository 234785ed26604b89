// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SWARM_STAGE_DECISIONS_HPP
#define CAUSEWAY_PARALLEL_SWARM_STAGE_DECISIONS_HPP

// What a policy asks all stages of a swarm for before it decides something, and what the stages came to.
// docs/design/swarm.md says why one stage decides (L18), and why that is kept where nothing was asked for, too (L20).

#include <causeway/config/config.hpp>
#include <causeway/parallel/swarm/peer_directory.hpp>
#include <causeway/parallel/swarm/swarm_messages.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Of one peer, for its trainer's thread.
class stage_decisions {
 public:
  /// An attempt at an exchange begins: nothing has been asked for in it yet.
  void begin() noexcept { asked_.clear(); }
  /// This stage's part of some numbers, which become those of all stages with `decide`; until then they stay where they
  /// are.
  void ask(std::span<double> values) { asked_.push_back(values); }
  /// What was asked for since `begin`, one after the other: this stage's part.
  CAUSEWAY_DECL [[nodiscard]] std::vector<double> asked() const;

  /// What the barrier before the end of an exchange waits for: what all stages came to in `step`. That is what somebody has
  /// committed, or else the sum that `known` has; where something was asked for, that counts in stage 0 alone, which
  /// commits first.
  CAUSEWAY_DECL [[nodiscard]] std::optional<swarm_wire::stage_sum> total(const peer_directory& known, std::uint32_t stage,
                                                                         std::uint64_t step) const;

  /// Memory for what the last exchange came to, and at most so many numbers: a part of what the peers of a stage vote on.
  /// Without, nothing is kept.
  CAUSEWAY_DECL [[nodiscard]] std::span<std::byte> memory(std::size_t most);
  /// `all`: of all stages the squared norm, then what was asked for. That is given out, and all kept in that memory.
  CAUSEWAY_DECL void decide(std::uint64_t step, std::span<const double> all);
  /// What that memory holds, with the step that it is of.
  CAUSEWAY_DECL [[nodiscard]] std::optional<swarm_wire::stage_sum> last() const;

 private:
  std::vector<std::span<double>> asked_;
  std::vector<double> memory_;  // 1 + the step, 0 before the first exchange; then the squared norm and the numbers
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/swarm/impl/stage_decisions.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_SWARM_STAGE_DECISIONS_HPP
