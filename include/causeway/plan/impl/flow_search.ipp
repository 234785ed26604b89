// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_IMPL_FLOW_SEARCH_IPP
#define CAUSEWAY_PLAN_IMPL_FLOW_SEARCH_IPP

#include <causeway/plan/flow_search.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

CAUSEWAY_DECL std::vector<double> flow_costs(const link_matrix& links, std::span<const double> seconds, double bytes) {
  CAUSEWAY_EXPECT(seconds.size() == links.size());
  std::vector<double> costs(links.size() * links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    for (std::size_t j = 0; j < links.size(); ++j) {
      if (i == j) continue;
      const link_cost &there = links(i, j), &back = links(j, i);
      costs[i * links.size() + j] =
          (seconds[i] + seconds[j] + there.delay + back.delay) / 2 + 2 * 8 * bytes / (there.bandwidth + back.bandwidth);
    }
  }
  return costs;
}

CAUSEWAY_DECL flow_search::flow_search(std::vector<flow_peer> peers, std::vector<double> costs,
                                       const flow_search_options& options)
    : peers_{std::move(peers)}, costs_{std::move(costs)}, options_{options}, draw_{options.seed, mix(0x666C6F77U)} {
  CAUSEWAY_EXPECT(costs_.size() == peers_.size() * peers_.size() && options_.cooling > 0);
  states_.assign(peers_.size(), {});
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (peers_[p].stage >= stages_.size()) stages_.resize(peers_[p].stage + 1);
    stages_[peers_[p].stage].push_back(p);
    states_[p].temperature = options_.temperature;
    states_[p].ignored.assign(peers_.size(), 0);
  }
}

CAUSEWAY_DECL void flow_search::period() {
  std::vector<std::size_t> order;
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (states_[p].here) order.push_back(p);
  }
  shuffle(order, draw_);
  for (const std::size_t p : order) act(p);
}

CAUSEWAY_DECL void flow_search::lose(std::size_t peer) {
  states_[peer].here = false;
  auto& stage = stages_[peers_[peer].stage];
  stage.erase(std::find(stage.begin(), stage.end(), peer));
  const std::vector<std::size_t> lost = states_[peer].flows;
  for (const std::size_t f : lost) {
    const auto [up, down] = std::pair{flows_[f].up, flows_[f].down};
    erase(f);
    if (up != none) lose_way(up);
    if (down != none) lose_user(down);
  }
}

CAUSEWAY_DECL std::vector<std::vector<std::size_t>> flow_search::paths() const {
  std::vector<std::vector<std::size_t>> all;
  for (const std::size_t data : stages_.front()) {
    for (std::size_t f : states_[data].flows) {
      if (flows_[f].down == none) continue;
      std::vector<std::size_t> path{data};
      while (flows_[f].down != none && !has_data(after(flows_[f]))) {
        path.push_back(after(flows_[f]));
        f = flows_[f].down;
      }
      if (flows_[f].down != none) all.push_back(std::move(path));
    }
  }
  return all;
}

CAUSEWAY_DECL double flow_search::cost() const {
  double sum = 0;
  for (const auto& path : paths()) {
    for (std::size_t i = 0; i < path.size(); ++i) sum += link(path[i], path[(i + 1) % path.size()]);
  }
  return sum;
}

// ---- what a peer does in a period ------------------------------------------------------------------------------------

CAUSEWAY_DECL std::size_t flow_search::with_way(std::size_t p) const {
  const auto& own = states_[p].flows;
  return static_cast<std::size_t>(
      std::count_if(own.begin(), own.end(), [this](std::size_t f) { return flows_[f].down != none; }));
}

CAUSEWAY_DECL std::size_t flow_search::taken_up(std::size_t p) const {
  const auto& own = states_[p].flows;
  return static_cast<std::size_t>(
      std::count_if(own.begin(), own.end(), [this](std::size_t f) { return flows_[f].up != none; }));
}

CAUSEWAY_DECL void flow_search::act(std::size_t p) {
  if (!has_data(p)) {
    push_back_old(p);
    if (give_up_offers(p)) return;
  }
  const bool offering = !has_data(p) && with_way(p) > taken_up(p);
  if (!offering && with_way(p) < peers_[p].capacity) {
    if (const auto o = cheapest_offer(p)) return take(p, *o);
  }
  if (has_data(p)) return;
  const double chance = offering ? options_.look_offering : options_.look_free;
  if (double{draw_.uniform()} < chance) look(p);
}

/// Flows that have looked for a way for too long go back to the peer before.
CAUSEWAY_DECL void flow_search::push_back_old(std::size_t p) {
  const std::vector<std::size_t> own = states_[p].flows;
  for (const std::size_t f : own) {
    if (flows_[f].down != none || ++flows_[f].waited < options_.waiting) continue;
    const std::size_t up = flows_[f].up;
    erase(f);
    ++tally_.messages;
    lose_way(up);
  }
}

/// A peer whose offers nobody takes lets others have the ways that it holds.
CAUSEWAY_DECL bool flow_search::give_up_offers(std::size_t p) {
  const std::vector<std::size_t> own = states_[p].flows;
  const auto is_offer = [this](std::size_t f) { return flows_[f].up == none; };
  if (std::none_of(own.begin(), own.end(), is_offer)) return false;
  if (++states_[p].unwanted < options_.patience) return false;
  states_[p].unwanted = 0;
  for (const std::size_t f : own) {
    if (!is_offer(f)) continue;
    const std::size_t down = flows_[f].down;
    erase(f);
    ++tally_.messages;
    lose_user(down);
  }
  announce(p);
  return true;
}

/// Whether a flow to `target` would serve: flows that look for a way come first.
CAUSEWAY_DECL bool flow_search::wanted(std::size_t p, std::size_t target) const {
  if (has_data(p)) return target == p;
  bool all = true;
  for (const std::size_t f : states_[p].flows) {
    if (flows_[f].down != none) continue;
    if (flows_[f].target == target) return true;
    all = false;
  }
  return all;
}

CAUSEWAY_DECL std::optional<flow_search::offer> flow_search::cheapest_offer(std::size_t p) const {
  std::optional<offer> best;
  const auto see = [&](const offer& o) {
    if (wanted(p, o.target) && (!best || o.cost < best->cost)) best = o;
  };
  for (const std::size_t q : next_stage(p)) {
    if (has_data(q)) {
      if (taken_up(q) < peers_[q].capacity) see({q, none, q, link(p, q)});
      continue;
    }
    for (const std::size_t f : states_[q].flows) {
      if (flows_[f].up == none) see({q, f, flows_[f].target, link(p, q) + flows_[f].cost});
    }
  }
  return best;
}

CAUSEWAY_DECL void flow_search::take(std::size_t p, const offer& o) {
  tally_.messages += 2;  // asked and granted
  ++tally_.taken;
  const std::size_t down = o.flow == none ? add(o.from, o.target) : o.flow;
  states_[p].unwanted = 0;
  go_on(p, o.target, down);
  announce(o.from);
}

// ---- changes among the peers of a stage ---------------------------------------------------------------------------------

CAUSEWAY_DECL bool flow_search::by_chance(double gain, double temperature) {
  return std::exp(gain / temperature) > double{draw_.uniform()};
}

CAUSEWAY_DECL void flow_search::consider(std::size_t p, const proposal& made, std::optional<proposal>& best) {
  const double least = best ? best->gain : 0;
  if (made.gain > least || (least <= 0 && by_chance(made.gain, states_[p].temperature))) best = made;
}

/// Asks the peer of the stage with which most can be saved, or by chance another one.
CAUSEWAY_DECL void flow_search::look(std::size_t p) {
  std::optional<proposal> best;
  for (const std::size_t q : stages_[peers_[p].stage]) {
    if (q == p) continue;
    if (states_[p].ignored[q] > 0) {
      --states_[p].ignored[q];
      continue;
    }
    for (const std::size_t theirs : states_[q].flows) {
      const flow& f = flows_[theirs];
      if (f.down == none) continue;
      const std::size_t to = after(f);
      if (f.up != none && with_way(p) < peers_[p].capacity) {
        const std::size_t from = before(f);
        consider(p, {q, theirs, none, link(from, q) + link(q, to) - link(from, p) - link(p, to)}, best);
      }
      for (const std::size_t mine : states_[p].flows) {
        const flow& g = flows_[mine];
        if (g.down == none || after(g) == to || g.target != f.target) continue;
        consider(p, {q, theirs, mine, link(q, to) + link(p, after(g)) - link(q, after(g)) - link(p, to)}, best);
      }
    }
  }
  if (!best) return;
  tally_.messages += 2;  // proposed and answered
  states_[p].ignored[best->other] = options_.ignored;
  if (best->gain <= 0 && !by_chance(best->gain, states_[best->other].temperature)) return;
  for (const std::size_t both : {p, best->other}) states_[both].temperature *= options_.cooling;
  best->mine == none ? redirect(p, best->theirs) : change(best->mine, best->theirs);
}

CAUSEWAY_DECL void flow_search::change(std::size_t mine, std::size_t theirs) {
  ++tally_.changed;
  tally_.messages += 2;  // to both next peers
  const auto [a, b] = std::pair{flows_[mine].down, flows_[theirs].down};
  join(mine, b);
  join(theirs, a);
  tell_cost(mine);
  tell_cost(theirs);
}

/// `p` takes over the way of another's flow, and offers it; the flow goes back to the peer before.
CAUSEWAY_DECL void flow_search::redirect(std::size_t p, std::size_t theirs) {
  ++tally_.redirected;
  tally_.messages += 2;  // to the neighbours
  const flow f = flows_[theirs];
  erase(theirs);
  announce(f.at);
  lose_way(f.up);
  go_on(p, f.target, f.down);
}

// ---- flows ------------------------------------------------------------------------------------------------------------

CAUSEWAY_DECL std::size_t flow_search::add(std::size_t p, std::size_t target) {
  flows_.push_back({.at = p, .target = target});
  states_[p].flows.push_back(flows_.size() - 1);
  return flows_.size() - 1;
}

CAUSEWAY_DECL void flow_search::erase(std::size_t f) {
  auto& own = states_[flows_[f].at].flows;
  own.erase(std::find(own.begin(), own.end(), f));
  flows_[f] = {};
}

CAUSEWAY_DECL void flow_search::join(std::size_t up, std::size_t down) {
  flows_[up].down = down;
  flows_[up].waited = 0;
  flows_[up].cost = link(flows_[up].at, flows_[down].at) + flows_[down].cost;
  flows_[down].up = up;
}

/// A way to `target` for a flow of `p` that looks for one, or else to be offered.
CAUSEWAY_DECL void flow_search::go_on(std::size_t p, std::size_t target, std::size_t down) {
  const auto& own = states_[p].flows;
  const auto found = std::find_if(own.begin(), own.end(), [&](std::size_t f) {
    return !has_data(p) && flows_[f].down == none && flows_[f].target == target;
  });
  const std::size_t up = found == own.end() ? add(p, target) : *found;
  join(up, down);
  tell_cost(up);
}

/// The next peer has it no more.
CAUSEWAY_DECL void flow_search::lose_way(std::size_t f) {
  flows_[f].down = none;
  if (flows_[f].up != none) return;
  const std::size_t p = flows_[f].at;
  erase(f);
  announce(p);
}

/// The peer before has it no more.
CAUSEWAY_DECL void flow_search::lose_user(std::size_t f) {
  flows_[f].up = none;
  const std::size_t p = flows_[f].at;
  if (flows_[f].down == none) erase(f);
  announce(p);
}

/// Tells the peers before of another cost, up to where the flow begins or is offered.
CAUSEWAY_DECL void flow_search::tell_cost(std::size_t f) {
  while (flows_[f].up != none) {
    const std::size_t up = flows_[f].up;
    const double cost = link(flows_[up].at, flows_[f].at) + flows_[f].cost;
    ++tally_.messages;
    if (flows_[up].cost == cost) return;
    flows_[up].cost = cost;
    f = up;
  }
  announce(flows_[f].at);
}

/// Its offers to the stage before, and all its flows to the peers of its stage.
CAUSEWAY_DECL void flow_search::announce(std::size_t p) {
  const std::size_t stages = stages_.size(), stage = peers_[p].stage;
  tally_.messages += stages_[(stage + stages - 1) % stages].size();
  if (!has_data(p)) tally_.messages += stages_[stage].size() - 1;
}

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#endif  // CAUSEWAY_PLAN_IMPL_FLOW_SEARCH_IPP
