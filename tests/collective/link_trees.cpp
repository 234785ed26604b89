// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/link_trees.hpp>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using collective::index_tree;
using collective::link_tree;

namespace {

struct links {
  std::uint32_t peers;
  std::vector<double> costs;

  explicit links(std::uint32_t n, double everywhere = 1) : peers{n}, costs(std::size_t{n} * n, everywhere) {}
  void set(net::peer_index from, net::peer_index to, double cost) { costs[std::size_t{from} * peers + to] = cost; }
  operator collective::link_costs() const { return {costs, peers}; }
};

using tree = std::vector<net::peer_index>;

/// Every peer's way leads to the root, and nobody has more than `arity` children.
bool is_tree(const tree& parents, net::peer_index root, std::uint32_t arity) {
  for (net::peer_index p = 0; p < parents.size(); ++p) {
    net::peer_index at = p;
    for (std::size_t hops = 0; at != root; ++hops) {
      if (hops > parents.size()) return false;
      at = parents[at];
    }
    std::size_t children = 0;
    for (net::peer_index c = 0; c < parents.size(); ++c) children += parents[c] == p && c != root ? 1 : 0;
    if (children > arity) return false;
  }
  return parents[root] == root;
}

}  // namespace

TEST_CASE("link trees: where all links are alike peers join by index, where a row could be soonest", "[collective][fast]") {
  const tree roots{2};
  CHECK(link_tree(links{7}, roots, 0, 2) == tree{4, 5, 2, 2, 2, 3, 3});  // 3 after 1, 4 and 5 after 2, 6, 0 and 1 after 3
  CHECK(link_tree(links{1}, roots, 0, 2) == tree{0});
}

TEST_CASE("link trees: a slow link is left out, in whichever direction it is slow", "[collective][fast]") {
  for (const bool back : {false, true}) {
    links l{5};
    back ? l.set(0, 1, 20) : l.set(1, 0, 20);
    const tree parents = link_tree(l, tree{0}, 0, 4);
    CHECK(is_tree(parents, 0, 4));
    CHECK(parents[1] != 0);
  }
}

TEST_CASE("link trees: a peer whose links are all slow has no children", "[collective][fast]") {
  links l{6};
  for (net::peer_index p = 0; p < 6; ++p) l.set(3, p, 50), l.set(p, 3, 50);
  for (net::peer_index root = 0; root < 6; ++root) {
    if (root == 3) continue;
    const tree parents = link_tree(l, tree{root}, 0, 2);
    CHECK(is_tree(parents, root, 2));
    CHECK(std::count(parents.begin(), parents.end(), 3) == 0);
  }
}

TEST_CASE("link trees: several trees use different links where that is no detour", "[collective][fast]") {
  const links l{4};
  const tree roots{0, 1, 2, 3};
  std::vector<int> uses(16);
  for (std::size_t t = 0; t < 4; ++t) {
    const tree parents = link_tree(l, roots, t, 2);
    CHECK(is_tree(parents, roots[t], 2));
    for (net::peer_index p = 0; p < 4; ++p) {
      if (p != roots[t]) ++uses[std::min(p, parents[p]) * 4 + std::max(p, parents[p])];
    }
  }
  CHECK(*std::max_element(uses.begin(), uses.end()) <= 3);  // of 12 over 6 links; all four trees by one link would be 4
  CHECK(link_tree(l, roots, 5, 2) == link_tree(l, roots, 1, 2));
}

TEST_CASE("link trees: links that are not there come last", "[collective][fast]") {
  links l{4, std::numeric_limits<double>::infinity()};
  l.set(0, 1, 1), l.set(1, 0, 1), l.set(1, 2, 1), l.set(2, 1, 1), l.set(2, 3, 1), l.set(3, 2, 1);
  CHECK(link_tree(l, tree{0}, 0, 2) == tree{0, 0, 1, 2});
}

TEST_CASE("link trees: with an arity of 0 each peer's way is its fastest path to the root", "[collective][fast]") {
  links l{6};
  CHECK(link_tree(l, tree{3, 0}, 1, 0) == tree{0, 0, 0, 0, 0, 0});  // whatever it shares with others, or with other trees
  l.set(0, 1, 20), l.set(4, 0, 2.5);
  l.set(5, 0, 3), l.set(4, 5, 0.25), l.set(5, 4, 0.25);
  // 1, 4 and 5 at 2 by peer 2, which is there as soon as 3; directly they would be at 20, 2.5 and 3.
  CHECK(link_tree(l, tree{0}, 0, 0) == tree{0, 2, 0, 0, 2, 2});
  l.set(2, 4, 9), l.set(3, 4, 9), l.set(1, 4, 9), l.set(2, 5, 9), l.set(3, 5, 9), l.set(1, 5, 9);
  CHECK(link_tree(l, tree{0}, 0, 0) == tree{0, 2, 0, 0, 0, 4});  // 5 by 4 at 2.75, for 3
}

TEST_CASE("link trees: by index, level by level", "[collective][fast]") {
  CHECK(index_tree(6, 4, 2) == tree{4, 5, 5, 0, 4, 4});
  CHECK(index_tree(4, 1, 0) == tree{1, 1, 1, 1});
  CHECK(index_tree(4, 1, 1) == tree{3, 1, 1, 2});
  CHECK(collective::root_of(index_tree(6, 4, 2)) == 4);
  CHECK(collective::root_of(tree{0}) == 0);
}
