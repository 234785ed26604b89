// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_ROUTING_FLOW_IPP
#define CAUSEWAY_STAGE_IMPL_ROUTING_FLOW_IPP

#include <causeway/stage/routing_flow.hpp>

#include <algorithm>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing { namespace detail {

CAUSEWAY_DECL flow_graph::flow_graph(std::size_t vertices) : out_(vertices) {}

CAUSEWAY_DECL void flow_graph::connect(std::size_t from, std::size_t to, std::uint32_t capacity, double cost) {
  out_[from].push_back(arcs_.size());
  arcs_.push_back({to, capacity, cost});
  out_[to].push_back(arcs_.size());
  arcs_.push_back({from, 0, -cost});
}

CAUSEWAY_DECL std::uint32_t flow_graph::send(std::size_t source, std::size_t sink, std::uint32_t wanted) {
  std::uint32_t sent = 0;
  while (sent < wanted && shortest(source, sink)) {
    for (std::size_t v = sink; v != source; v = arcs_[reached_by_[v] ^ 1U].to) {
      --arcs_[reached_by_[v]].room;
      ++arcs_[reached_by_[v] ^ 1U].room;
    }
    ++sent;
  }
  return sent;
}

CAUSEWAY_DECL std::vector<std::size_t> flow_graph::take_path(std::size_t source, std::size_t sink) {
  std::vector<std::size_t> vertices{source};
  while (vertices.back() != sink) {
    const auto& out = out_[vertices.back()];
    const auto used = std::find_if(out.begin(), out.end(), [&](std::size_t a) { return a % 2 == 0 && flow(a) > 0; });
    CAUSEWAY_EXPECT(used != out.end());
    --arcs_[*used ^ 1U].room;
    vertices.push_back(arcs_[*used].to);
  }
  return vertices;
}

CAUSEWAY_DECL bool flow_graph::shortest(std::size_t source, std::size_t sink) {
  constexpr double far = std::numeric_limits<double>::infinity();
  std::vector<double> distance(out_.size(), far);
  reached_by_.assign(out_.size(), 0);
  distance[source] = 0;
  for (std::size_t pass = 0, changed = 1; changed > 0 && pass < out_.size(); ++pass) {
    changed = 0;
    for (std::size_t v = 0; v < out_.size(); ++v) {
      for (const std::size_t a : out_[v]) {
        const double there = distance[v] + arcs_[a].cost;
        if (distance[v] == far || arcs_[a].room == 0 || !(there < distance[arcs_[a].to] - 1e-12)) continue;
        distance[arcs_[a].to] = there;
        reached_by_[arcs_[a].to] = a;
        ++changed;
      }
    }
  }
  return distance[sink] < far;
}

}}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

CAUSEWAY_DECL std::vector<std::uint32_t> shares_in_time(const std::vector<double>& seconds, std::uint32_t micro_batches) {
  std::vector<std::uint32_t> shares(seconds.size(), 0);
  if (seconds.empty()) return shares;
  double last = 0;
  for (std::uint32_t m = 0; m < micro_batches; ++m) {
    std::size_t best = 0;
    for (std::size_t p = 1; p < seconds.size(); ++p) {
      if ((shares[p] + 1) * seconds[p] < (shares[best] + 1) * seconds[best]) best = p;
    }
    last = ++shares[best] * seconds[best];
  }
  for (std::size_t p = 0; p < seconds.size(); ++p) {
    while ((shares[p] + 1) * seconds[p] <= last * (1 + 1e-9)) ++shares[p];
  }
  return shares;
}

CAUSEWAY_DECL void min_cost_flow::begin(const step_size& size, const roster& known) {
  paths_.clear();
  given_.assign(known.stages(), {});
  stages peers;
  for (std::uint32_t s = 0; s < known.stages(); ++s) peers.push_back(known.usable(s));
  if (std::any_of(peers.begin(), peers.end(), [](const auto& p) { return p.empty(); })) return;
  paths_ = options_.by_peers ? found(size, known, peers) : cheapest(size, known, peers);
  for (const path& way : paths_) {
    for (std::uint32_t s = 0; s < way.size(); ++s) ++given_[s][way[s]];
  }
  interleave();
}

CAUSEWAY_DECL net::peer_id min_cost_flow::choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch) {
  const auto peers = known.usable(stage);
  if (peers.empty()) return nobody;
  if (given_.size() != known.stages()) given_.assign(known.stages(), {});
  if (micro_batch < paths_.size()) {
    const net::peer_id planned = std::exchange(paths_[micro_batch][stage], nobody);
    const auto is_it = [planned](const server& s) { return s.id == planned; };
    if (std::any_of(peers.begin(), peers.end(), is_it)) return planned;
  }
  net::peer_id best = nobody;
  double least = std::numeric_limits<double>::infinity();
  for (const server& s : peers) {
    const double after = (given_[stage][s.id] + 1) * known.expected_seconds(stage, s.id);
    if (after < least) least = after, best = s.id;
  }
  ++given_[stage][best];
  return best;
}

CAUSEWAY_DECL std::vector<path> min_cost_flow::cheapest(const step_size& size, const roster& known, const stages& peers) {
  std::vector<std::size_t> first{1};
  for (const auto& p : peers) first.push_back(first.back() + 2 * p.size());
  const std::size_t sink = first.back();
  detail::flow_graph graph{sink + 1};
  for (std::uint32_t s = 0; s < peers.size(); ++s) {
    const auto capacity = capacities(known, s, peers[s], size.micro_batches);
    for (std::size_t p = 0; p < peers[s].size(); ++p) {
      const std::size_t in = first[s] + 2 * p;
      graph.connect(in, in + 1, capacity[p], known.expected_seconds(s, peers[s][p].id));
      if (s == 0) graph.connect(0, in, size.micro_batches, 0);
      if (s + 1 == peers.size()) graph.connect(in + 1, sink, size.micro_batches, 0);
      for (std::size_t q = 0; s + 1 < peers.size() && q < peers[s + 1].size(); ++q) {
        const double delay = known.link(peers[s][p].id, peers[s + 1][q].id);
        graph.connect(in + 1, first[s + 1] + 2 * q, size.micro_batches, delay);
      }
    }
  }
  std::vector<path> ways;
  const std::uint32_t sent = graph.send(0, sink, size.micro_batches);
  for (std::uint32_t m = 0; m < sent; ++m) {
    path way;
    const auto vertices = graph.take_path(0, sink);
    for (std::uint32_t s = 0; s < peers.size(); ++s) {
      way.push_back(peers[s][(vertices[1 + 2 * s] - first[s]) / 2].id);
    }
    ways.push_back(std::move(way));
  }
  return ways;
}

CAUSEWAY_DECL std::vector<path> min_cost_flow::found(const step_size& size, const roster& known,
                                                     const stages& peers) const {
  std::vector<plan::flow_peer> all{{0, size.micro_batches}};  // who has the data: no computation, no links
  std::vector<server> who{{}};
  for (std::uint32_t s = 0; s < peers.size(); ++s) {
    const auto capacity = capacities(known, s, peers[s], size.micro_batches);
    for (std::size_t p = 0; p < peers[s].size(); ++p) {
      all.push_back({s + 1, capacity[p]});
      who.push_back({peers[s][p].id, known.expected_seconds(s, peers[s][p].id)});
    }
  }
  std::vector<double> costs(who.size() * who.size());
  double sum = 0;
  for (std::size_t i = 0; i < who.size(); ++i) {
    for (std::size_t j = 0; j < who.size(); ++j) {
      if (i == j) continue;
      const double delay = i == 0 || j == 0 ? 0 : known.link(who[i].id, who[j].id);
      sum += costs[i * who.size() + j] = (who[i].seconds + who[j].seconds) / 2 + delay;
    }
  }
  const double mean = sum / static_cast<double>(costs.size() - who.size());
  plan::flow_search search{all, std::move(costs), {.seed = mix(options_.seed, size.step), .temperature = mean / 3}};
  for (std::uint32_t n = 0; n < 2 * options_.periods; ++n) {
    search.period();
    if (n + 1 >= options_.periods && search.paths().size() == size.micro_batches) break;  // none is being moved
  }
  std::vector<path> ways;
  for (const auto& found : search.paths()) {
    path way;
    for (std::size_t s = 1; s < found.size(); ++s) way.push_back(who[found[s]].id);
    ways.push_back(std::move(way));
  }
  return ways;
}

CAUSEWAY_DECL std::vector<std::uint32_t> min_cost_flow::capacities(const roster& known, std::uint32_t stage,
                                                                   const std::vector<server>& peers,
                                                                   std::uint32_t micro_batches) {
  std::vector<double> seconds;
  for (const server& s : peers) seconds.push_back(known.expected_seconds(stage, s.id));
  return shares_in_time(seconds, micro_batches);
}

CAUSEWAY_DECL void min_cost_flow::interleave() {
  std::sort(paths_.begin(), paths_.end());
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t from = 0; from < paths_.size();) {
    std::size_t to = from;
    while (to < paths_.size() && paths_[to] == paths_[from]) ++to;
    for (std::size_t i = from; i < to; ++i) {
      order.emplace_back((static_cast<double>(i - from) + 0.5) / static_cast<double>(to - from), i);
    }
    from = to;
  }
  std::sort(order.begin(), order.end());
  std::vector<path> mixed;
  for (const auto& [when, i] : order) mixed.push_back(paths_[i]);
  paths_ = std::move(mixed);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#endif  // CAUSEWAY_STAGE_IMPL_ROUTING_FLOW_IPP
