// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_RING_ORDER_HPP
#define CAUSEWAY_COLLECTIVE_RING_ORDER_HPP

// In which order peers should stand in a ring, from what each link costs: a travelling salesman's problem with costs that
// may differ between the two directions. Exact up to 12 peers (dynamic programming over subsets, Held and Karp 1962), a
// good local optimum beyond. Every peer works it out from the same costs and gets the same order; a group_view makes it the
// ring.

#include <causeway/core/rng.hpp>
#include <causeway/net/transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

/// What the best ring is.
enum class ring_goal : std::uint8_t {
  slowest,  ///< its slowest link is as fast as can be, then the sum is least: for large rows, where all links are busy at
            ///< once
  sum,      ///< the sum of its costs is least: for small rows, where one latency waits for another
};

/// What `peers` peers pay for a message on each link: `costs[i * peers + j]` is the price of i to j, >= 0, in any unit;
/// infinite where there is no link. The diagonal is not looked at.
struct link_costs {
  std::span<const double> costs;
  std::uint32_t peers = 0;

  [[nodiscard]] double operator()(net::peer_index from, net::peer_index to) const { return costs[from * peers + to]; }
};

struct ring_cost {
  double slowest = 0;
  double sum = 0;
};

/// What the ring `order` costs: each peer sends to the next one, the last to the first.
CAUSEWAY_DECL ring_cost cost_of_ring(const link_costs& links, std::span<const net::peer_index> order);

namespace detail {

inline constexpr std::uint32_t exact_ring_peers = 12;
using ring_list = std::vector<net::peer_index>;

CAUSEWAY_DECL bool is_better(const ring_cost& a, const ring_cost& b, ring_goal goal);

/// The best ring by the sum of its links, or by the largest one, over links that cost at most `limit`. best[s][j] is what
/// the best path from peer 0 over exactly the peers of set s costs, when it ends at peer j + 1.
class subset_search {
 public:
  CAUSEWAY_DECL subset_search(const link_costs& links, bool by_sum, double limit);

  /// What the best ring costs, and its order from peer 0 on.
  CAUSEWAY_DECL [[nodiscard]] std::pair<double, ring_list> ring() const;

 private:
  [[nodiscard]] std::size_t at(std::uint32_t set, std::uint32_t j) const { return std::size_t{set} * others_ + j; }
  CAUSEWAY_DECL [[nodiscard]] double link(net::peer_index from, net::peer_index to) const;
  [[nodiscard]] double joined(double path, double link) const { return by_sum_ ? path + link : std::max(path, link); }

  CAUSEWAY_DECL void extend(std::uint32_t set, std::uint32_t j);

  const link_costs& links_;
  bool by_sum_;
  double limit_;
  std::uint32_t others_;
  std::vector<double> best_;
  std::vector<std::uint8_t> before_;
};

CAUSEWAY_DECL ring_list exact_ring(const link_costs& links, ring_goal goal);

/// From `start`, always to the nearest peer that is left.
CAUSEWAY_DECL ring_list nearest_neighbours(const link_costs& links, net::peer_index start);

/// Reverses and moves runs of peers as long as that helps (2-opt, Or-opt). Each try costs O(peers).
class local_search {
 public:
  CAUSEWAY_DECL local_search(const link_costs& links, ring_goal goal, ring_list order);

  [[nodiscard]] const ring_list& order() const noexcept { return order_; }
  [[nodiscard]] const ring_cost& cost() const noexcept { return cost_; }

 private:
  CAUSEWAY_DECL bool reverse_runs();

  CAUSEWAY_DECL bool move_runs();

  CAUSEWAY_DECL bool move_run(std::size_t first, std::size_t length, std::size_t to);

  CAUSEWAY_DECL bool keep_if_better();

  const link_costs& links_;
  ring_goal goal_;
  ring_list order_;
  ring_list tried_;
  ring_cost cost_;
};

/// Costs with a price on links that do not exist, higher than that of any ring without one: so that fewer of them is
/// better.
CAUSEWAY_DECL std::vector<double> with_penalties(std::span<const double> costs);

CAUSEWAY_DECL ring_list searched_ring(const link_costs& with_gaps, ring_goal goal, std::uint64_t seed);

}  // namespace detail

/// The peers in the order of a good ring, from peer 0 on: the best one up to 12 peers. Deterministic: the same costs and
/// seed give the same order on every machine. Time: about a millisecond up to 12 peers; a tenth of a
/// second for 64.
CAUSEWAY_DECL std::vector<net::peer_index> ring_order(const link_costs& links, ring_goal goal = ring_goal::slowest,
                                                      std::uint64_t seed = 0);

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#ifndef CAUSEWAY_COMPILED
#include <causeway/collective/impl/ring_order.ipp>
#endif

#endif  // CAUSEWAY_COLLECTIVE_RING_ORDER_HPP
