// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_GROUP_VIEW_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_GROUP_VIEW_IPP

#include <causeway/collective/group_view.hpp>

#include <algorithm>
#include <cstddef>
#include <map>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL bool has_each_once(const std::vector<peer_group>& groups, std::uint32_t peers) {
  std::vector<net::peer_index> all;
  for (const auto& group : groups) {
    if (group.empty()) return false;
    all.insert(all.end(), group.begin(), group.end());
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != i) return false;
  }
  return all.size() == peers;
}

CAUSEWAY_DECL peer_group hubs_of(const std::vector<peer_group>& groups) {
  peer_group hubs;
  for (const peer_group& group : groups) hubs.push_back(group.front());
  return hubs;
}

CAUSEWAY_DECL peer_group group_of(const std::vector<peer_group>& groups, net::peer_index peer) {
  for (const peer_group& group : groups) {
    if (std::find(group.begin(), group.end(), peer) != group.end()) return group;
  }
  return {};
}

CAUSEWAY_DECL region_list regions_by_label(const std::vector<std::uint32_t>& own, std::uint32_t fewest) {
  std::map<std::uint32_t, std::vector<net::peer_index>> named;
  for (net::peer_index p = 0; p < own.size(); ++p) {
    if (own[p] != region_label::any) named[own[p]].push_back(p);
  }
  region_list all;
  for (auto& [name, peers] : named) all.push_back(std::move(peers));
  all.resize(std::max<std::size_t>({all.size(), fewest, 1}));
  for (net::peer_index p = 0; p < own.size(); ++p) {
    if (own[p] != region_label::any) continue;
    const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    std::min_element(all.begin(), all.end(), fewer)->push_back(p);
  }
  std::erase_if(all, [](const auto& peers) { return peers.empty(); });
  return all;
}

CAUSEWAY_DECL group_view::group_view(net::any_transport& over, std::vector<net::peer_index> members)
    : over_{&over}, members_{std::move(members)}, self_{rank_of(over.self())} {
  CAUSEWAY_EXPECT(self_ < members_.size());
  CAUSEWAY_EXPECT(are_distinct());
}

CAUSEWAY_DECL net::operation group_view::send(net::peer_index to, const net::message_id& id,
                                              std::span<const std::byte> bytes) {
  return is_other(to) ? over_->send(members_[to], id, bytes) : no_operation;
}

CAUSEWAY_DECL net::operation group_view::receive(net::peer_index from, const net::message_id& id,
                                                 std::span<std::byte> buffer) {
  return is_other(from) ? over_->receive(members_[from], id, buffer) : no_operation;
}

CAUSEWAY_DECL result<std::size_t> group_view::wait(net::operation op, time_point deadline) {
  if (op == no_operation) return fail(errc::invalid_argument, "group", "there is no such other rank");
  return over_->wait(op, deadline);
}

CAUSEWAY_DECL bool group_view::wait_any(std::span<const net::operation> ops, time_point deadline) {
  return std::find(ops.begin(), ops.end(), no_operation) != ops.end() || over_->wait_any(ops, deadline);
}

CAUSEWAY_DECL net::peer_index group_view::rank_of(net::peer_index peer) const {
  return static_cast<net::peer_index>(std::find(members_.begin(), members_.end(), peer) - members_.begin());
}

CAUSEWAY_DECL bool group_view::are_distinct() const {
  std::vector<net::peer_index> sorted = members_;
  std::sort(sorted.begin(), sorted.end());
  return sorted.back() < over_->size() && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_GROUP_VIEW_IPP
