// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_FAULT_QUORUM_HPP
#define CAUSEWAY_FAULT_QUORUM_HPP

// Peers come, stall and die, and the run goes on. An exchange that failed is run again with the survivors, on the same
// pseudo-gradients; a round counts once a majority of the members of the round before holds it.

#include <causeway/io/storage.hpp>
#include <causeway/policy/concepts.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace fault {

/// Where every peer holds all that others hold, as in data parallelism and in the stages of a swarm.
struct no_recovery {};

/// Of peers that hold parts of the model.
struct quorum_options {
  /// Of pipelines: where blocks are saved, and where the run goes back to when nobody has one any more. Peers may reach one
  /// storage, or have one for each machine: each keeps what its own peers hold. Of a swarm: the peer's own disk, for the
  /// gradient of each step that it has.
  std::optional<io::any_storage> storage{};
  std::string folder = "blocks";
  /// Steps, or rounds where replicas take steps of their own; none: 100 and 1. The first state is saved too.
  std::optional<std::uint64_t> store_every{};
  /// Of the run, if known; equal on all peers. What is gathered or left to each peer then is exchanged after the last.
  std::uint64_t steps = 0;
};

/// Leaves the judgement of every round to the membership (environment::group, docs/design/membership.md): commit when a
/// quorum voted for it, retry with the survivors when the exchange failed. Inner steps of survivors are never thrown away.
///
/// `Recovery`: what becomes of the blocks of pipelines, a policy of stage/recovery.hpp (train/pipeline_executors.hpp);
/// without one pipelines regroup.
///
/// Cost per round without faults: two control messages to and from the leader, one hash of the shared state, and, where
/// the group has a disk, one copy of it written. Nothing per inner step. Minimum quorum and grace are the group's options.
template <class Recovery = no_recovery>
class quorum {
 public:
  static constexpr std::string_view name = "quorum";
  static constexpr fault_traits traits{.produces = peers::elastic, .retries = true};
  static constexpr std::uint32_t state_version = 1;

  explicit quorum(Recovery how = Recovery{}, quorum_options saved = {})
      : recovery{std::move(how)}, options{std::move(saved)} {}

  result<void> begin_step(auto&) { return {}; }
  result<verdict> end_step(auto& ctx, const result<void>& outcome) { return ctx.decide(outcome); }

  void serialize(auto&) {}

  Recovery recovery;
  quorum_options options;
};
static_assert(FaultPolicy<quorum<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::fault

#endif  // CAUSEWAY_FAULT_QUORUM_HPP
