// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_IMPL_TIED_TABLE_IPP
#define CAUSEWAY_PARALLEL_IMPL_TIED_TABLE_IPP

// Bodies of parallel/tied_table.hpp.

#include <causeway/parallel/tied_table.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::vector<std::uint64_t> holders_of_table(const stage::layout& l, std::int64_t layers) {
  std::vector<std::uint64_t> all = l.holders(0);
  for (const std::uint64_t peer : l.holders(layers - 1)) {
    if (std::find(all.begin(), all.end(), peer) == all.end()) all.push_back(peer);
  }
  return all;
}

CAUSEWAY_DECL std::vector<table_part> table_parts(const stage::layout& l) {
  const std::size_t ranks = l.replicas.front().assignments.size(), replicas = l.replicas.size();
  if (ranks < 2) return {};
  auto wanted = l.micro_batches_at(0);  // by replica: that its first stage has no part of yet
  const auto all = l.micro_batches_at(ranks - 1);
  auto left = all;
  std::vector<table_part> parts;
  const auto give = [&](std::size_t from, std::size_t to) {
    const std::uint64_t first = l.replicas[to].assignments.front().peer, last = l.replicas[from].assignments.back().peer;
    const std::uint32_t count = std::min(left[from], wanted[to]);
    if (first == stage::nobody || last == stage::nobody || (count == 0 && from != to)) return;
    parts.push_back({first, last, static_cast<float>(count) / static_cast<float>(std::max(all[from], 1U))});
    left[from] -= count;
    wanted[to] -= count;
  };
  for (std::size_t r = 0; r < replicas; ++r) give(r, r);
  for (std::size_t from = 0; from < replicas; ++from) {
    for (std::size_t to = 0; to < replicas; ++to) {
      if (from != to) give(from, to);
    }
  }
  return parts;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_IMPL_TIED_TABLE_IPP
