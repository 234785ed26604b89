// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_AXIS_IMPL_GROUPS_IPP
#define CAUSEWAY_AXIS_IMPL_GROUPS_IPP

#include <causeway/axis/groups.hpp>

#include <algorithm>
#include <numeric>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis { namespace detail {

CAUSEWAY_DECL std::vector<net::peer_index> shuffled(std::uint32_t peers, rng draw) {
  std::vector<net::peer_index> order(peers);
  std::iota(order.begin(), order.end(), net::peer_index{0});
  shuffle(order, draw);
  return order;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::axis::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace axis {

CAUSEWAY_DECL result<void> refuse_numbers(const char* what, bool named) {
  if (!named) return {};
  return fail(errc::invalid_argument, what, "of peers by number, which change where peers come and go; leave it out there");
}

CAUSEWAY_DECL std::vector<net::peer_index> all_peers::members(const group_question& q) const {
  std::vector<net::peer_index> all(q.peers);
  std::iota(all.begin(), all.end(), net::peer_index{0});
  return all;
}

CAUSEWAY_DECL result<void> random_groups::check(std::uint32_t peers) const {
  if (size >= 2 || peers == 1) return {};
  return fail(errc::invalid_argument, "random_groups", "groups of fewer than 2 peers never mix; set size to 2 or more");
}

CAUSEWAY_DECL std::vector<net::peer_index> random_groups::members(const group_question& q) const {
  const auto order = detail::shuffled(q.peers, rng{q.seed, mix(detail::group_stream, q.number)});
  const auto place = static_cast<std::uint32_t>(std::find(order.begin(), order.end(), q.self) - order.begin());
  const std::uint32_t groups = std::max(q.peers / size, 1U);
  const std::uint32_t mine = std::min(place / size, groups - 1);
  const auto begin = order.begin() + mine * size;
  std::vector<net::peer_index> group(begin, mine + 1 == groups ? order.end() : begin + size);
  std::sort(group.begin(), group.end());
  return group;
}

CAUSEWAY_DECL grid::grid() : grid(4, 2) {}

CAUSEWAY_DECL grid::grid(std::uint32_t side, std::uint32_t dimensions) : side_{side}, dimensions_{dimensions} {}

CAUSEWAY_DECL result<void> grid::check(std::uint32_t) const {
  if (side_ >= 2 && dimensions_ >= 1 && dimensions_ <= 16) return {};
  return fail(errc::invalid_argument, "grid", "a side of at least 2 and 1 to 16 dimensions, please");
}

CAUSEWAY_DECL std::vector<net::peer_index> grid::members(const group_question& q) const {
  const auto places = this->places(q.peers);
  std::vector<net::peer_index> group;
  for (net::peer_index p = 0; p < q.peers; ++p) {
    if (meets(places, q.self, p, axis_of(q))) group.push_back(p);
  }
  return group;
}

CAUSEWAY_DECL void grid::formed(const group_question& q) {
  const auto places = this->places(q.peers);
  const std::uint32_t axis = axis_of(q);
  auto next = places;
  std::vector<bool> moved(q.peers);
  for (net::peer_index first = 0; first < q.peers; ++first) {
    if (moved[first]) continue;
    const auto order = detail::shuffled(q.peers, rng{q.seed, mix(detail::group_stream, q.number, first)});
    std::vector<net::peer_index> group;
    for (const net::peer_index p : order) {
      if (meets(places, first, p, axis)) group.push_back(p);
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      moved[group[i]] = true;
      next[group[i] * dimensions_ + axis] = static_cast<std::uint32_t>(i);
    }
  }
  places_ = std::move(next);
}

CAUSEWAY_DECL std::uint32_t grid::axis_of(const group_question& q) const {
  return static_cast<std::uint32_t>(q.number % dimensions_);
}

CAUSEWAY_DECL std::vector<std::uint32_t> grid::places(std::uint32_t peers) const {
  if (places_.size() == std::size_t{peers} * dimensions_) return places_;
  std::vector<std::uint32_t> all;
  for (std::uint32_t p = 0; p < peers; ++p) {
    std::uint64_t rest = p;
    for (std::uint32_t d = 0; d < dimensions_; ++d, rest /= side_) all.push_back(static_cast<std::uint32_t>(rest % side_));
  }
  return all;
}

CAUSEWAY_DECL bool grid::meets(const std::vector<std::uint32_t>& places, net::peer_index a, net::peer_index b,
                               std::uint32_t axis) const {
  for (std::uint32_t d = 0; d < dimensions_; ++d) {
    if (d != axis && places[a * dimensions_ + d] != places[b * dimensions_ + d]) return false;
  }
  return true;
}

CAUSEWAY_DECL key_groups::key_groups() : key_groups(2, 2) {}

CAUSEWAY_DECL key_groups::key_groups(std::uint32_t bits, std::uint32_t step) : bits_{bits}, step_{step} {}

CAUSEWAY_DECL result<void> key_groups::check(std::uint32_t) const {
  if (bits_ <= 30 && step_ >= 1 && step_ <= 16) return {};
  return fail(errc::invalid_argument, "key_groups", "keys have 0 to 30 bits and grow by 1 to 16; other numbers were given");
}

CAUSEWAY_DECL std::vector<net::peer_index> key_groups::members(const group_question& q) const {
  const auto keys = this->keys(q.peers);
  std::vector<net::peer_index> group;
  for (net::peer_index p = 0; p < q.peers; ++p) {
    if (keys[p] == keys[q.self]) group.push_back(p);
  }
  return group;
}

CAUSEWAY_DECL void key_groups::formed(const group_question& q) {
  const auto old = keys(q.peers);
  const auto order = detail::shuffled(q.peers, rng{q.seed, mix(detail::group_stream, q.number)});
  std::vector<std::uint32_t> next(q.peers);
  std::vector<std::uint32_t> seen(std::size_t{1} << bits_);
  for (const net::peer_index p : order) next[p] = ((old[p] << step_) | (seen[old[p]]++ & ((1U << step_) - 1))) & mask();
  keys_ = std::move(next);
}

CAUSEWAY_DECL std::vector<std::uint32_t> key_groups::keys(std::uint32_t peers) const {
  if (keys_.size() == peers) return keys_;
  std::vector<std::uint32_t> all(peers);
  for (std::uint32_t p = 0; p < peers; ++p) all[p] = p & mask();
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::axis

#endif  // CAUSEWAY_AXIS_IMPL_GROUPS_IPP
