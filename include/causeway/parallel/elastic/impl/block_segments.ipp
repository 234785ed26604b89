// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SEGMENTS_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SEGMENTS_IPP

// Bodies of parallel/elastic/block_segments.hpp.

#include <causeway/parallel/elastic/block_segments.hpp>

#include <algorithm>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace detail {

inline stage_holders computers_of(const stage::layout& l, std::int64_t block) {
  stage_holders all;
  double sum = 0;
  for (const stage::replica& r : l.replicas) {
    all.peers.push_back(computer_of(r, block));
    all.shares.push_back(r.micro_batches);
    sum += r.micro_batches;
  }
  for (double& share : all.shares) share /= sum;
  return all;
}

inline bool begins_stage(const stage::layout& l, std::int64_t block) {
  const auto at = [block](const stage::assignment& s) { return s.computes.first == block; };
  return std::any_of(l.replicas.begin(), l.replicas.end(),
                     [&](const stage::replica& r) { return std::any_of(r.assignments.begin(), r.assignments.end(), at); });
}

inline std::vector<std::uint64_t> holders_in(const stage::replica& r, std::int64_t block) {
  return stage::layout{{r}}.holders(block);
}

// `first`, then the others of these.
inline std::vector<std::uint64_t> led_by(std::uint64_t first, const std::vector<std::uint64_t>& peers) {
  std::vector<std::uint64_t> all{first};
  for (const std::uint64_t p : peers) {
    if (std::find(all.begin(), all.end(), p) == all.end()) all.push_back(p);
  }
  return all;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL std::uint64_t computer_of(const stage::replica& r, std::int64_t block) {
  for (const stage::assignment& s : r.assignments) {
    if (s.peer != stage::nobody && s.computes.first <= block && block < s.computes.last) return s.peer;
  }
  return detail::holders_in(r, block).front();
}

CAUSEWAY_DECL bool block_segment::is_computed_by(std::uint64_t peer) const {
  return std::find(computers.peers.begin(), computers.peers.end(), peer) != computers.peers.end();
}

CAUSEWAY_DECL std::vector<block_segment> segments_of(const stage::layout& l, std::int64_t layers) {
  std::vector<block_segment> all;
  for (std::int64_t b = 0; b < layers; ++b) {
    if (b == 0 || detail::begins_stage(l, b)) all.push_back({{b, b}, detail::computers_of(l, b)});
    all.back().blocks.last = b + 1;
  }
  return all;
}

CAUSEWAY_DECL std::vector<kept_run> kept_runs(const stage::replica& r, std::int64_t layers, bool tied) {
  std::vector<kept_run> all;
  if (tied) {
    auto peers = detail::led_by(computer_of(r, 0), holders_of_table(stage::layout{{r}}, layers));
    if (peers.size() > 1) all.push_back({{}, true, std::move(peers)});
  }
  for (std::int64_t b = 0; b < layers; ++b) {
    auto peers = detail::led_by(computer_of(r, b), detail::holders_in(r, b));
    if (peers.size() < 2) continue;
    const bool goes_on = !all.empty() && !all.back().table && all.back().blocks.last == b && all.back().peers == peers;
    if (!goes_on) all.push_back({{b, b}, false, std::move(peers)});
    all.back().blocks.last = b + 1;
  }
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_SEGMENTS_IPP
