// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SEGMENTS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SEGMENTS_IPP

#include <causeway/parallel/elastic/block_segments.hpp>

#include <algorithm>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace detail {

inline bool begins_stage(const stage::layout& l, std::int64_t block) {
  const auto at = [block](const stage::assignment& s) { return s.computes.first == block; };
  return std::any_of(l.replicas.begin(), l.replicas.end(),
                     [&](const stage::replica& r) { return std::any_of(r.assignments.begin(), r.assignments.end(), at); });
}

// `first`, then the others of these.
inline std::vector<std::uint64_t> led_by(std::uint64_t first, const std::vector<std::uint64_t>& peers) {
  std::vector<std::uint64_t> all{first};
  for (const std::uint64_t p : peers) {
    if (std::find(all.begin(), all.end(), p) == all.end()) all.push_back(p);
  }
  return all;
}

// Who exchanges the table for the peers of a pipeline: its first stage, or of the first stages one with a part of its last.
inline std::uint64_t exchanges_table(const std::vector<table_part>& parts, const stage::replica& r, std::int64_t layers) {
  const std::uint64_t first = computer_of(r, 0), last = computer_of(r, layers - 1);
  if (first != stage::nobody) return first;
  const auto with = std::find_if(parts.begin(), parts.end(), [last](const table_part& p) { return p.last == last; });
  return with != parts.end() ? with->first : last;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL bool block_segment::is_computed_by(std::uint64_t peer) const {
  return std::find(computers.peers.begin(), computers.peers.end(), peer) != computers.peers.end();
}

CAUSEWAY_DECL std::vector<block_segment> segments_of(const stage::layout& l, std::int64_t layers) {
  std::vector<block_segment> all;
  for (std::int64_t b = 0; b < layers; ++b) {
    if (b == 0 || detail::begins_stage(l, b)) all.push_back({{b, b}, computers_of(l, b)});
    all.back().blocks.last = b + 1;
  }
  return all;
}

CAUSEWAY_DECL std::vector<table_part> table_parts(const stage::layout& l, std::int64_t layers) {
  auto wanted = l.micro_batches_at(0);  // by replica: that its first stage has no part of yet
  const auto all = l.micro_batches_at(l.replicas.front().assignments.size() - 1);
  auto left = all;
  std::vector<table_part> parts;
  const auto give = [&](std::size_t from, std::size_t to) {
    const std::uint64_t first = computer_of(l.replicas[to], 0), last = computer_of(l.replicas[from], layers - 1);
    const std::uint32_t count = std::min(left[from], wanted[to]);
    if (first == stage::nobody || last == stage::nobody || (count == 0 && from != to)) return;
    if (first != last)
      parts.push_back({first, last, static_cast<float>(count) / static_cast<float>(std::max(all[from], 1U))});
    left[from] -= count;
    wanted[to] -= count;
  };
  for (std::size_t r = 0; r < l.replicas.size(); ++r) give(r, r);
  for (std::size_t from = 0; from < l.replicas.size(); ++from) {
    for (std::size_t to = 0; to < l.replicas.size(); ++to) {
      if (from != to) give(from, to);
    }
  }
  return parts;
}

CAUSEWAY_DECL std::vector<kept_run> kept_runs(const stage::layout& l, std::size_t replica, std::int64_t layers, bool tied) {
  std::vector<kept_run> all;
  const auto parts = tied ? table_parts(l, layers) : std::vector<table_part>{};
  for (std::size_t each = 0; tied && each < l.replicas.size(); ++each) {
    const std::uint64_t first = detail::exchanges_table(parts, l.replicas[each], layers);
    auto peers = detail::led_by(first, holders_of_table(stage::layout{{l.replicas[each]}}, layers));
    if (peers.size() > 1) all.push_back({{}, true, std::move(peers)});
  }
  const stage::replica& r = l.replicas[replica];
  for (std::int64_t b = 0; b < layers; ++b) {
    auto peers = detail::led_by(computer_of(r, b), stage::layout{{r}}.holders(b));
    if (peers.size() < 2) continue;
    const bool goes_on = !all.empty() && !all.back().table && all.back().blocks.last == b && all.back().peers == peers;
    if (!goes_on) all.push_back({{b, b}, false, std::move(peers)});
    all.back().blocks.last = b + 1;
  }
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SEGMENTS_IPP
