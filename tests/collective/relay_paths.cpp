// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/relay_paths.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using collective::messages_by_path;
using collective::relay_path;
using collective::relay_paths;

namespace {

constexpr double any = std::numeric_limits<double>::infinity();

struct links {
  std::uint32_t peers;
  std::vector<double> costs;

  explicit links(std::uint32_t n, double everywhere = 1) : peers{n}, costs(std::size_t{n} * n, everywhere) {}
  void set(net::peer_index from, net::peer_index to, double cost) { costs[std::size_t{from} * peers + to] = cost; }
  operator collective::link_costs() const { return {costs, peers}; }
};

using paths = std::vector<relay_path>;

/// The authors' rule as they compute it: all ways that visit no peer twice, in the order of their costs; of these each that
/// has no peer in between in common with one before. The direct one has none.
class every_way {
 public:
  every_way(const collective::link_costs& links, net::peer_index from, net::peer_index to) : links_{links}, to_{to} {
    walk(from, {from}, 0);
    std::sort(all_.begin(), all_.end());
  }
  [[nodiscard]] paths apart() const {
    paths kept;
    std::vector<net::peer_index> taken;
    for (const auto& [cost, way] : all_) {
      const auto is_taken = [&](auto p) { return std::count(taken.begin(), taken.end(), p) > 0; };
      if (way.empty() || std::any_of(way.begin(), way.end(), is_taken)) continue;
      taken.insert(taken.end(), way.begin(), way.end());
      kept.push_back(way);
    }
    return kept;
  }

 private:
  void walk(net::peer_index at, std::vector<net::peer_index> way, double cost) {
    for (net::peer_index p = 0; p < links_.peers; ++p) {
      if (std::count(way.begin(), way.end(), p) > 0) continue;
      if (p == to_) {
        all_.push_back({cost + links_(at, p), {way.begin() + 1, way.end()}});
        continue;
      }
      way.push_back(p);
      walk(p, way, cost + links_(at, p));
      way.pop_back();
    }
  }

  const collective::link_costs& links_;
  net::peer_index to_;
  std::vector<std::pair<double, relay_path>> all_;
};

}  // namespace

TEST_CASE("relay paths: where all links are alike, by one peer each, by index counted from the sender",
          "[collective][fast]") {
  const collective::link_costs alike{{}, 5};
  CHECK(relay_paths(alike, 2, 0, 9, any) == paths{{3}, {4}, {1}});
  CHECK(relay_paths(links{5}, 2, 0, 9, any) == paths{{3}, {4}, {1}});
  CHECK(relay_paths(alike, 2, 0, 2, any) == paths{{3}, {4}});
  CHECK(relay_paths(alike, 2, 0, 2, 1.9).empty());
  CHECK(relay_paths({{}, 2}, 0, 1, 9, any).empty());
}

TEST_CASE("relay paths: the fastest first, none with a peer of an earlier one", "[collective][fast]") {
  links l{5, 50};
  l.set(0, 1, 1), l.set(1, 4, 1);                  // 2 by 1
  l.set(0, 2, 1), l.set(2, 3, 1), l.set(3, 4, 1);  // 3 by 2 and 3
  CHECK(relay_paths(l, 0, 4, 9, any) == paths{{1}, {2, 3}});
  CHECK(relay_paths(l, 0, 4, 9, 2.5) == paths{{1}});
  CHECK(relay_paths(l, 4, 0, 9, any) == paths{{1}, {2}, {3}});  // back all are slow
  l.set(3, 4, any);
  CHECK(relay_paths(l, 0, 4, 9, any) == paths{{1}, {2}});
}

TEST_CASE("relay paths: those that the authors find among all ways", "[collective][fast]") {
  rng random{7};
  for (int network = 0; network < 20; ++network) {
    links l{6};
    for (double& cost : l.costs) cost = 1 + static_cast<double>(random.below(1U << 20U)) / 65536;
    for (net::peer_index from = 0; from < 6; ++from) {
      const net::peer_index to = (from + 1 + static_cast<net::peer_index>(network) % 5) % 6;
      const collective::link_costs costs = l;
      CHECK(relay_paths(costs, from, to, 9, any) == every_way{costs, from, to}.apart());
    }
  }
}

TEST_CASE("relay paths: messages by path, one after another", "[collective][fast]") {
  using counts = std::vector<std::size_t>;
  // One is on its way and three wait directly; a path has one on its way and one that waits.
  CHECK(messages_by_path(4, 1, {0, 0, 0}) == counts{4, 0, 0});
  CHECK(messages_by_path(7, 1, {0, 0, 0}) == counts{4, 2, 1});
  CHECK(messages_by_path(10, 1, {0, 0, 0}) == counts{6, 2, 2});
  CHECK(messages_by_path(10, 2, {0, 0, 0}) == counts{6, 3, 1});
  CHECK(messages_by_path(10, 0, {0, 0, 0}) == counts{10, 0, 0});
  CHECK(messages_by_path(10, 1, {0}) == counts{10});
  // Of what other rows have there already.
  CHECK(messages_by_path(3, 1, {5, 0, 3}) == counts{1, 2, 0});
  CHECK(messages_by_path(3, 1, {4, 2, 1}) == counts{2, 0, 1});
  CHECK(messages_by_path(9, 1, {0, 2}) == counts{9, 0});
}
