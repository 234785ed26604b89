// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_SKIP_ROUTE_HPP
#define CAUSEWAY_PLAN_SKIP_ROUTE_HPP

// The quickest way of one group of micro-batches through some of the stages and back, at measured times, around what others
// occupy: the inner search of SkipPipe (Blagoev et al. 2025, arXiv 2502.19913). A best-first search over ways begun (A*).
// What is still to come is bounded from below by the quickest rest without waiting, which a table has for every peer.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/plan/stage_costs.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// Who serves which stage, and what everything takes.
struct skip_task {
  std::vector<std::vector<std::uint32_t>> stages;  ///< [stage]: its peers; a peer serves one stage; at least three stages
  std::vector<stage_cost> peers;                   ///< [peer]: seconds of one group of micro-batches there
  std::vector<std::vector<double>> ways;           ///< [from][to]: seconds of a group's boundary tensor
  std::size_t passes = 3;                          ///< stages of a path, with the first and the last, which always run
  std::size_t groups_of_peer = 1;                  ///< that begin at each peer of the first stage, one after another
  std::size_t room = 1;                            ///< groups whose activations a peer can hold
  std::size_t most_in_stage = 0;                   ///< groups that may pass a middle stage; 0: as few as can be, evenly

  [[nodiscard]] std::size_t groups() const { return stages.front().size() * groups_of_peer; }
  /// Where a group begins.
  [[nodiscard]] std::uint32_t first_peer(std::size_t group) const { return stages.front()[group / groups_of_peer]; }
  /// Seconds: its peer does those before it first.
  CAUSEWAY_DECL [[nodiscard]] double begins(std::size_t group) const;
};

/// errc::invalid_argument says what does not go together.
CAUSEWAY_DECL result<void> check(const skip_task& task);

/// One pass of a group at a peer.
struct skip_visit {
  std::uint32_t peer = 0;
  double start = 0, end = 0;
};

struct skip_route {
  std::vector<std::uint32_t> peers;  ///< in the order of the stages
  std::vector<skip_visit> visits;    ///< forward through all, and back
  double seconds = 0;                ///< when the last pass ends
};

/// What a group must keep to.
struct skip_limits {
  std::vector<char> banned;          ///< [peer]: it may not go there
  std::vector<skip_visit> occupied;  ///< peers that do something else from `start` to `end`
};

/// The quickest of all ways of `group` within `limits`: at each peer it is computed as soon as it is there and the peer is
/// not occupied for a moment of it, forward and backward. None: there is no way. `task` is one that `check` has passed.
/// Costs O(passes · peers²), and then as many ways begun as waiting makes slower than the bound says.
CAUSEWAY_DECL [[nodiscard]] std::optional<skip_route> quickest_route(const skip_task& task, std::size_t group,
                                                                     const skip_limits& limits);

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/skip_route.ipp>
#endif

#endif  // CAUSEWAY_PLAN_SKIP_ROUTE_HPP
