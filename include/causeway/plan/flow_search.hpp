// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_FLOW_SEARCH_HPP
#define CAUSEWAY_PLAN_FLOW_SEARCH_HPP

// How peers find paths for micro-batches among themselves, where nobody knows all of them: GWTF's decentralised flow (Go
// With The Flow: Blagoev et al. 2025, arXiv 2509.21221), as its first author's earlier program has it (NikolayBlagoev/
// DecCom-Python 099f5a5, flowprotocol.py and flownode.py, 2024); the program of the paper itself is not public. Flows grow
// from their end: a peer that has a way to it offers that to the stage before, with what it costs, and whoever is there
// takes the cheapest that it knows of. Then peers of a stage exchange the ways of two flows, or one takes a flow over from
// another, wherever the links get cheaper, and by chance where they do not (simulated annealing).
//
// This is the protocol as a computation, on one machine. A peer decides on nothing but its own flows and links, the offers
// of the next stage, and the flows that peers of its stage told it of; every message is counted. A request is answered
// before the next peer acts: there messages take milliseconds and peers act every two seconds.

#include <causeway/config/config.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/plan/link_matrix.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

struct flow_peer {
  /// 0: it has data, and its micro-batches go from it through stages 1, 2, ... and back to it.
  std::uint32_t stage = 0;
  std::uint32_t capacity = 1;  ///< micro-batches of a step that it can carry; in stage 0, that it has
};

/// [i·peers + j]: (c_i + c_j)/2, and the mean of both directions' delays, and the bytes at their mean bandwidth: what a
/// micro-batch costs between neighbours (the paper's d_ij, as reviews of it quote it). `seconds`: a micro-batch's
/// computation at each peer.
CAUSEWAY_DECL [[nodiscard]] std::vector<double> flow_costs(const link_matrix& links, std::span<const double> seconds,
                                                           double bytes);

/// Defaults are those of the program.
struct flow_search_options {
  std::uint64_t seed = 1;
  double temperature = 1.7;     ///< of a peer at the beginning, in the unit of the costs
  double cooling = 0.95;        ///< with every change that it takes part in; above 0
  double look_free = 0.3;       ///< the chance that a peer without anything to ask for looks for a change
  double look_offering = 0.1;   ///< and one with an offer that nobody has taken yet
  std::uint32_t patience = 10;  ///< periods in which nobody takes a peer's offers, until it gives them up
  std::uint32_t waiting = 12;   ///< periods in which a flow finds no next peer, until it goes back to the one before
  std::uint32_t ignored = 5;    ///< how often a peer passes another over that it has just asked for a change
};

struct flow_tally {
  std::uint64_t messages = 0;
  std::uint64_t taken = 0;       ///< offers
  std::uint64_t changed = 0;     ///< pairs of flows that exchanged their ways
  std::uint64_t redirected = 0;  ///< flows that another peer took over
};

class flow_search {
 public:
  /// `costs`: [peers, peers], symmetric, finite and >= 0. Stages are 0 to the highest without a gap.
  CAUSEWAY_DECL flow_search(std::vector<flow_peer> peers, std::vector<double> costs,
                            const flow_search_options& options = {});

  /// Every peer acts once, in an order that is drawn. Time: O(flows of a stage)² for each of its peers that looks.
  CAUSEWAY_DECL void period();

  /// It is gone: its neighbours see their connections end, and offer anew or look for another way.
  CAUSEWAY_DECL void lose(std::size_t peer);

  /// Of every flow that is complete the peers, from its data through all stages; the end, which is the first, is left out.
  CAUSEWAY_DECL [[nodiscard]] std::vector<std::vector<std::size_t>> paths() const;

  /// Σ over all links of `paths()`, the one back to the data too.
  CAUSEWAY_DECL [[nodiscard]] double cost() const;

  [[nodiscard]] const flow_tally& tally() const noexcept { return tally_; }
  [[nodiscard]] double temperature(std::size_t peer) const { return states_[peer].temperature; }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// A flow at a peer. Without `up` it is an offer (or begins here), without `down` it looks for a way (or ends here).
  struct flow {
    std::size_t at = none;               // the peer; none: there is no such flow any more
    std::size_t target = none;           // where it ends
    std::size_t up = none, down = none;  // flows at the neighbours
    double cost = 0;                     // from here to the target, as told
    std::uint32_t waited = 0;
  };
  struct state {
    bool here = true;
    std::vector<std::size_t> flows{};
    double temperature = 0;
    std::uint32_t unwanted = 0;  // periods in which nobody took an offer
    std::vector<std::uint32_t> ignored{};
  };
  struct offer {
    std::size_t from = none, flow = none;  // no flow: the end itself
    std::size_t target = none;
    double cost = 0;
  };
  struct proposal {
    std::size_t other = none, theirs = none;
    std::size_t mine = none;  // none: to take theirs over
    double gain = 0;
  };

  [[nodiscard]] double link(std::size_t a, std::size_t b) const { return costs_[a * peers_.size() + b]; }
  [[nodiscard]] bool has_data(std::size_t p) const { return peers_[p].stage == 0; }
  [[nodiscard]] std::size_t before(const flow& f) const { return flows_[f.up].at; }
  [[nodiscard]] std::size_t after(const flow& f) const { return flows_[f.down].at; }
  [[nodiscard]] const std::vector<std::size_t>& next_stage(std::size_t p) const {
    return stages_[(peers_[p].stage + 1) % stages_.size()];
  }
  CAUSEWAY_DECL [[nodiscard]] std::size_t with_way(std::size_t p) const;
  CAUSEWAY_DECL [[nodiscard]] std::size_t taken_up(std::size_t p) const;
  CAUSEWAY_DECL [[nodiscard]] bool wanted(std::size_t p, std::size_t target) const;

  CAUSEWAY_DECL void act(std::size_t p);
  CAUSEWAY_DECL void push_back_old(std::size_t p);
  CAUSEWAY_DECL bool give_up_offers(std::size_t p);
  CAUSEWAY_DECL [[nodiscard]] std::optional<offer> cheapest_offer(std::size_t p) const;
  CAUSEWAY_DECL void take(std::size_t p, const offer& o);
  CAUSEWAY_DECL void look(std::size_t p);
  CAUSEWAY_DECL void consider(std::size_t p, const proposal& made, std::optional<proposal>& best);
  CAUSEWAY_DECL [[nodiscard]] bool by_chance(double gain, double temperature);
  CAUSEWAY_DECL void change(std::size_t mine, std::size_t theirs);
  CAUSEWAY_DECL void redirect(std::size_t p, std::size_t theirs);

  CAUSEWAY_DECL std::size_t add(std::size_t p, std::size_t target);
  CAUSEWAY_DECL void erase(std::size_t f);
  CAUSEWAY_DECL void join(std::size_t up, std::size_t down);
  CAUSEWAY_DECL void go_on(std::size_t p, std::size_t target, std::size_t down);
  CAUSEWAY_DECL void lose_way(std::size_t f);
  CAUSEWAY_DECL void lose_user(std::size_t f);
  CAUSEWAY_DECL void tell_cost(std::size_t f);
  CAUSEWAY_DECL void announce(std::size_t p);

  std::vector<flow_peer> peers_;
  std::vector<double> costs_;
  flow_search_options options_;
  rng draw_;
  std::vector<std::vector<std::size_t>> stages_;
  std::vector<state> states_;
  std::vector<flow> flows_;
  flow_tally tally_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/flow_search.ipp>
#endif

#endif  // CAUSEWAY_PLAN_FLOW_SEARCH_HPP
