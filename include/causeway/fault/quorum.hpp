// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FAULT_QUORUM_HPP
#define CAUSEWAY_FAULT_QUORUM_HPP

// Peers come, stall and die, and the run goes on. An exchange that failed is run again with the survivors, on the same
// pseudo-gradients; a round counts once a majority of the members of the round before holds it.

#include <causeway/policy/concepts.hpp>

#include <cstdint>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace fault {

/// Leaves the judgement of every round to the membership (environment::group, docs/design/membership.md): commit when a
/// quorum voted for it, retry with the survivors when the exchange failed. Inner steps of survivors are never thrown away.
///
/// Cost per round without faults: two control messages to and from the leader, one hash of the shared state, and, where
/// the group has a disk, one copy of it written. Nothing per inner step. Minimum quorum and grace are the group's options.
class quorum {
 public:
  static constexpr std::string_view name = "quorum";
  static constexpr fault_traits traits{.produces = peers::elastic, .retries = true};
  static constexpr std::uint32_t state_version = 1;

  result<void> begin_step(auto&) { return {}; }
  result<verdict> end_step(auto& ctx, const result<void>& outcome) { return ctx.decide(outcome); }

  void serialize(auto&) {}
};
static_assert(FaultPolicy<quorum>);

}}}  // namespace causeway::CAUSEWAY_ABI::fault

#endif  // CAUSEWAY_FAULT_QUORUM_HPP
