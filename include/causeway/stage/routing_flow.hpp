// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ROUTING_FLOW_HPP
#define CAUSEWAY_STAGE_ROUTING_FLOW_HPP

// Paths for all micro-batches of a step at once, as a flow of least cost through the stages, in the manner of GWTF
// (Go With The Flow, arXiv 2509.21221): as many micro-batches as the peers can carry, at the least cost. Going from one
// peer to the next costs half of what each computes, and the link. There the peers find the flow among themselves. Here the
// one who routes knows all peers and computes the least sum, by successive shortest paths; or, where that is asked for,
// what the peers would find (plan/flow_search.hpp).

#include <causeway/config/config.hpp>
#include <causeway/plan/flow_search.hpp>
#include <causeway/stage/routing.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

namespace detail {

/// A directed graph with integer capacities; its flow of least cost. Costs are at least 0.
class flow_graph {
 public:
  CAUSEWAY_DECL explicit flow_graph(std::size_t vertices);

  CAUSEWAY_DECL void connect(std::size_t from, std::size_t to, std::uint32_t capacity, double cost);

  /// Sends up to `wanted` units, one by one on the shortest path of what is left; gives how many went. Each is optimal for
  /// its number (Busacker and Gowen, 1960). Cost: O(wanted · vertices · arcs).
  CAUSEWAY_DECL std::uint32_t send(std::size_t source, std::size_t sink, std::uint32_t wanted);

  /// Takes one unit of the flow out, and gives the vertices that it passes.
  CAUSEWAY_DECL std::vector<std::size_t> take_path(std::size_t source, std::size_t sink);

 private:
  struct arc {
    std::size_t to;
    std::uint32_t room;
    double cost;
  };
  [[nodiscard]] std::uint32_t flow(std::size_t a) const { return arcs_[a ^ 1U].room; }

  // Bellman-Ford, because what flows back has a negative cost. The tolerance keeps rounding from going in circles.
  CAUSEWAY_DECL bool shortest(std::size_t source, std::size_t sink);

  std::vector<arc> arcs_;
  std::vector<std::vector<std::size_t>> out_;
  std::vector<std::size_t> reached_by_;
};

}  // namespace detail

/// How many micro-batches each peer carries so that all are through as soon as possible: the shares in the shortest time T
/// for which Σ ⌊T / seconds⌋ reaches `micro_batches`. What is over at that T is left with the peers, as room to choose.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint32_t> shares_in_time(const std::vector<double>& seconds,
                                                                      std::uint32_t micro_batches);

struct min_cost_flow_options {
  bool by_peers = false;        ///< paths as peers find them among themselves, at some per cent more than the least cost
  std::uint32_t periods = 134;  ///< in which they look: as many as in the program of GWTF's first author
  std::uint64_t seed = 1;       ///< of their search, with the step
};

/// Peers carry what they can in the time of the step (`shares_in_time` of their stage); among all ways to share it out, the
/// one with the least sum of computation and link delays is taken: where peers could carry more than there is, the quicker
/// ones do, unless their links are slower by more. Deterministic. Micro-batches that have lost their peer go where the
/// work is done first. Cost of a step: O(M · V · E) with V peers and E pairs of neighbours, thousands of micro-batches and
/// some tens of peers in milliseconds.
class min_cost_flow {
 public:
  static constexpr std::string_view name = "min_cost_flow";

  explicit min_cost_flow(min_cost_flow_options options = {}) : options_{options} {}

  CAUSEWAY_DECL void begin(const step_size& size, const roster& known);

  CAUSEWAY_DECL [[nodiscard]] net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch);

  [[nodiscard]] bool runs(const step_size&, std::uint32_t, std::uint32_t) const noexcept { return true; }

 private:
  using stages = std::vector<std::vector<server>>;

  // Every peer is two vertices with an arc between them that has its capacity.
  CAUSEWAY_DECL static std::vector<path> cheapest(const step_size& size, const roster& known, const stages& peers);

  // Micro-batches for which the peers have found no path when they stop looking have none.
  CAUSEWAY_DECL [[nodiscard]] std::vector<path> found(const step_size& size, const roster& known,
                                                      const stages& peers) const;

  CAUSEWAY_DECL static std::vector<std::uint32_t> capacities(const roster& known, std::uint32_t stage,
                                                             const std::vector<server>& peers, std::uint32_t micro_batches);

  // The flow says how many take which path; one after the other they would all queue at one peer while others idle. So each
  // path's k-th of n micro-batches is started at (k + 1/2) / n of the step.
  CAUSEWAY_DECL void interleave();

  min_cost_flow_options options_;
  std::vector<path> paths_;                                   // planned, by micro-batch
  std::vector<std::map<net::peer_id, std::uint32_t>> given_;  // by stage: micro-batches of this step
};
static_assert(Router<min_cost_flow>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/routing_flow.ipp>
#endif

#endif  // CAUSEWAY_STAGE_ROUTING_FLOW_HPP
