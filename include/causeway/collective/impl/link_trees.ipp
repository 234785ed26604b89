// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_LINK_TREES_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_LINK_TREES_IPP

#include <causeway/collective/link_trees.hpp>

#include <algorithm>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// Trees over the same links, one after another.
class tree_builder {
 public:
  tree_builder(const link_costs& links, std::uint32_t arity) : links_{links}, arity_{arity}, used_(links.costs.size()) {}

  std::vector<net::peer_index> grow(net::peer_index root) {
    parents_.assign(links_.peers, root);
    children_.assign(links_.peers, 0);
    reached_.assign(links_.peers, 0.0);
    joined_.assign(1, root);
    outside_.clear();
    for (net::peer_index p = 0; p + 1 < links_.peers; ++p) outside_.push_back((root + 1 + p) % links_.peers);
    while (!outside_.empty()) join_next();
    return parents_;
  }

 private:
  /// Of a link from `parent`, whose lines its children share, unless each link is a line of its own.
  [[nodiscard]] double weight(net::peer_index parent, net::peer_index child) const {
    const double alone = std::max(links_(parent, child), links_(child, parent));
    if (arity_ == 0) return alone;
    return (1 + children_[parent]) * alone * (1 + used_[parent * links_.peers + child]);
  }

  void join_next() {
    net::peer_index parent = joined_.front();
    std::size_t child = 0;
    double soonest = std::numeric_limits<double>::infinity();
    bool found = false;
    for (const net::peer_index p : joined_) {
      if (arity_ > 0 && children_[p] >= arity_) continue;
      for (std::size_t c = 0; c < outside_.size(); ++c) {
        const double at = reached_[p] + weight(p, outside_[c]);
        if (found && !(at < soonest)) continue;  // the first of equal ones
        found = true;
        soonest = at, parent = p, child = c;
      }
    }
    const net::peer_index joins = outside_[child];
    parents_[joins] = parent;
    reached_[joins] = soonest;
    ++children_[parent];
    joined_.push_back(joins);
    outside_.erase(outside_.begin() + static_cast<std::ptrdiff_t>(child));
    ++used_[parent * links_.peers + joins];
    ++used_[joins * links_.peers + parent];
  }

  const link_costs& links_;
  std::uint32_t arity_;
  std::vector<std::uint32_t> used_;
  std::vector<net::peer_index> parents_, joined_, outside_;
  std::vector<std::uint32_t> children_;
  std::vector<double> reached_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::vector<net::peer_index> index_tree(std::uint32_t peers, net::peer_index root, std::uint32_t arity) {
  CAUSEWAY_EXPECT(peers > 0);
  std::vector<net::peer_index> parents(peers);
  for (std::uint64_t position = 0; position < peers; ++position) {
    const std::uint64_t above = position == 0 || arity == 0 ? 0 : (position - 1) / arity;
    parents[(position + root) % peers] = static_cast<net::peer_index>((above + root) % peers);
  }
  return parents;
}

CAUSEWAY_DECL net::peer_index root_of(const std::vector<net::peer_index>& parents) {
  net::peer_index at = parents.front();
  while (parents[at] != at) at = parents[at];
  return at;
}

CAUSEWAY_DECL std::vector<net::peer_index> link_tree(const link_costs& links, const std::vector<net::peer_index>& roots,
                                                     std::size_t index, std::uint32_t arity) {
  CAUSEWAY_EXPECT(!roots.empty() && links.costs.size() == std::size_t{links.peers} * links.peers);
  detail::tree_builder builder{links, arity};
  std::vector<net::peer_index> tree;
  for (std::size_t t = 0; t <= index % roots.size(); ++t) tree = builder.grow(roots[t] % links.peers);
  return tree;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_LINK_TREES_IPP
