// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_RELAY_PATHS_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_RELAY_PATHS_IPP

#include <causeway/collective/relay_paths.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// Fastest paths between two peers through fewer and fewer others (Dijkstra 1959, without a heap: all peers are
/// neighbours).
class path_search {
 public:
  path_search(const link_costs& links, net::peer_index from, net::peer_index to)
      : links_{links}, from_{from}, to_{to}, taken_(links.peers, false) {}

  /// The peers in between on the next one, which no later one goes through; none where no path costs at most `limit`.
  relay_path next(double limit) {
    spread();
    relay_path between;
    if (found_[to_].cost == unreached || found_[to_].cost > limit) return between;
    for (net::peer_index p = found_[to_].before; p != from_; p = found_[p].before) between.push_back(p);
    for (const net::peer_index p : between) taken_[p] = true;
    std::reverse(between.begin(), between.end());
    return between;
  }

 private:
  static constexpr double unreached = std::numeric_limits<double>::infinity();

  struct reached {
    double cost = unreached;
    std::uint32_t hops = 0;
    net::peer_index before = 0;
    bool settled = false;
  };

  [[nodiscard]] double cost(net::peer_index a, net::peer_index b) const {
    if (a == from_ && b == to_) return unreached;  // the direct one is another's
    return links_.costs.empty() ? 1 : links_(a, b);
  }
  [[nodiscard]] static bool is_sooner(const reached& a, const reached& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.hops < b.hops;
  }

  void spread() {
    found_.assign(links_.peers, {});
    found_[from_].cost = 0;
    for (std::uint32_t round = 0; round < links_.peers; ++round) {
      const net::peer_index at = nearest();
      if (found_[at].settled || found_[at].cost == unreached || at == to_) return;
      found_[at].settled = true;
      for (std::uint32_t i = 0; i < links_.peers; ++i) {
        if (found_[i].settled || taken_[i]) continue;
        const reached by_it{found_[at].cost + cost(at, i), found_[at].hops + 1, at, false};
        if (is_sooner(by_it, found_[i])) found_[i] = by_it;
      }
    }
  }
  /// The first of the nearest that are not settled, by index counted from `from`.
  [[nodiscard]] net::peer_index nearest() const {
    net::peer_index best = from_;
    bool found = false;
    for (std::uint32_t i = 0; i < links_.peers; ++i) {
      const net::peer_index p = (from_ + i) % links_.peers;
      if (found_[p].settled || (found && !is_sooner(found_[p], found_[best]))) continue;
      best = p;
      found = true;
    }
    return best;
  }

  const link_costs& links_;
  net::peer_index from_, to_;
  std::vector<bool> taken_;
  std::vector<reached> found_;
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL std::vector<relay_path> relay_paths(const link_costs& links, net::peer_index from, net::peer_index to,
                                                  std::size_t most, double limit) {
  CAUSEWAY_EXPECT(from < links.peers && to < links.peers && from != to);
  detail::path_search search{links, from, to};
  std::vector<relay_path> paths;
  while (paths.size() < most) {
    paths.push_back(search.next(limit));
    if (!paths.back().empty()) continue;
    paths.pop_back();
    break;
  }
  return paths;
}

CAUSEWAY_DECL std::vector<std::size_t> messages_by_path(std::size_t messages, std::size_t limit,
                                                        std::vector<std::size_t> handed_over) {
  CAUSEWAY_EXPECT(!handed_over.empty());
  const auto waiting = [](std::size_t on_line) { return on_line == 0 ? 0 : on_line - 1; };
  std::vector<std::size_t> sent(handed_over.size(), 0);
  for (std::size_t m = 0; m < messages; ++m) {
    std::size_t by = 0;
    if (m > 0 && waiting(handed_over[0]) > 2 * limit) {
      const auto free = std::find_if(handed_over.begin() + 1, handed_over.end(),
                                     [&](std::size_t on_line) { return waiting(on_line) < limit; });
      if (free != handed_over.end()) by = static_cast<std::size_t>(free - handed_over.begin());
    }
    ++sent[by];
    ++handed_over[by];
  }
  return sent;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_RELAY_PATHS_IPP
