// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_IMPL_PIPELINE_PLACE_IPP
#define CAUSEWAY_PARALLEL_PIPELINE_IMPL_PIPELINE_PLACE_IPP

#include <causeway/parallel/pipeline/pipeline_place.hpp>

#include <causeway/collective/group_view.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace detail {

inline error wrong_placement(const std::string& what) { return fail(errc::invalid_argument, "pipeline placement", what); }

/// The placement that `o` means for `peers` peers.
CAUSEWAY_DECL result<std::vector<std::vector<net::peer_index>>> placement_of(const pipeline_options& o,
                                                                             std::uint32_t peers) {
  if (!o.placement.empty()) return o.placement;
  const std::uint32_t ranks = o.ranks == 0 ? peers : o.ranks;
  if (ranks > peers || peers % ranks != 0) {
    return wrong_placement(std::to_string(peers) + " peers do not make whole pipelines of " + std::to_string(ranks) +
                           " ranks; change the number of peers or ranks, or give a placement");
  }
  std::vector<std::vector<net::peer_index>> rows(peers / ranks);
  for (net::peer_index p = 0; p < peers; ++p) rows[p / ranks].push_back(p);
  return rows;
}

/// Every replica has the same number of ranks, every peer one place.
CAUSEWAY_DECL result<void> check_placement(const std::vector<std::vector<net::peer_index>>& rows, std::uint32_t peers) {
  for (const auto& row : rows) {
    if (row.empty() || row.size() != rows[0].size()) return wrong_placement("all replicas need equally many ranks");
  }
  if (collective::has_each_once(rows, peers)) return {};
  return wrong_placement("every one of the " + std::to_string(peers) + " peers needs exactly one place");
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<pipeline_place> place_in(const pipeline_options& o, net::peer_index self, std::uint32_t peers) {
  if (peers == 0) {
    return fail(errc::unsupported, "pipeline",
                "peers that come and go have no number here; use fault::quorum, or a fixed set");
  }
  CAUSEWAY_ASSIGN(const auto rows, detail::placement_of(o, peers));
  CAUSEWAY_TRY(detail::check_placement(rows, peers));
  pipeline_place at;
  for (std::uint32_t replica = 0; replica < rows.size(); ++replica) {
    const auto found = std::find(rows[replica].begin(), rows[replica].end(), self);
    if (found == rows[replica].end()) continue;
    at.replica = replica;
    at.rank = static_cast<std::uint32_t>(found - rows[replica].begin());
    at.pipeline = rows[replica];
  }
  for (const auto& row : rows) at.group.push_back(row[at.rank]);
  at.rows = rows;
  return at;
}

CAUSEWAY_DECL result<std::vector<nn::block_range>> chunks_of(const pipeline_options& o, const pipeline_place& at,
                                                             std::int64_t layers, std::uint32_t chunks,
                                                             plan::stage_path path) {
  const plan::schedule shape{at.ranks(), chunks, 1, true, {}, path};
  const std::int64_t stages = path == plan::stage_path::two_ways ? at.ranks() : std::int64_t{at.ranks()} * chunks;
  std::vector<std::int64_t> starts{0};
  starts.insert(starts.end(), o.cuts.begin(), o.cuts.end());
  if (o.cuts.empty()) {
    starts.clear();
    for (std::int64_t v = 0; v < stages; ++v) starts.push_back(v * layers / stages);
  }
  starts.push_back(layers);
  bool rises = static_cast<std::int64_t>(starts.size()) == stages + 1;
  for (std::size_t i = 0; rises && i + 1 < starts.size(); ++i) rises = starts[i] < starts[i + 1];
  if (!rises) {
    return fail(errc::invalid_argument, "pipeline cuts",
                std::to_string(layers) + " blocks do not fall into " + std::to_string(stages) +
                    " stages of one block or more; give one rising cut for every stage but the first, or use fewer stages");
  }
  std::vector<nn::block_range> ranges;
  for (std::uint32_t c = 0; c < chunks; ++c) {
    const std::size_t v = plan::virtual_stage(shape, {at.rank, c});
    ranges.push_back({starts[v], starts[v + 1]});
  }
  return ranges;
}

CAUSEWAY_DECL result<nn::model_part> part_of(const pipeline_options& o, const pipeline_place& at, std::int64_t layers,
                                             std::uint32_t chunks, plan::stage_path path) {
  CAUSEWAY_ASSIGN(std::vector<nn::block_range> ranges, chunks_of(o, at, layers, chunks, path));
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<nn::block_range> apart;
  for (const nn::block_range& r : ranges) {
    if (!apart.empty() && apart.back().last == r.first) {
      apart.back().last = r.last;
    } else {
      apart.push_back(r);
    }
  }
  nn::model_part part{std::move(apart)};
  CAUSEWAY_TRY(part.check(layers));
  return part;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_IMPL_PIPELINE_PLACE_IPP
