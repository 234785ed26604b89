// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_PLACE_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_PLACE_HPP

// Which peer holds which stage of which replica, and which blocks that is. A replica is one whole pipeline; its ranks are
// peers in the order of the model.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

/// Equal on all peers.
struct pipeline_options {
  std::int64_t micro_batches = 4;  ///< pieces that a batch is cut into; more: less bubble, smaller products
  std::uint32_t ranks = 0;         ///< peers of a pipeline; 0: all peers are one pipeline
  /// [replica][rank]: the peer, as a planner placed it. None: peer = replica · ranks + rank.
  std::vector<std::vector<net::peer_index>> placement{};
  /// The first block of every virtual stage but the first, rising. None: blocks are spread evenly.
  std::vector<std::int64_t> cuts{};
};

/// Where a peer is.
struct pipeline_place {
  std::uint32_t replica = 0;
  std::uint32_t rank = 0;
  std::vector<net::peer_index> pipeline;  ///< the peers of its pipeline, by rank
  std::vector<net::peer_index> group;     ///< the peers of all pipelines that hold the same stage, by replica

  [[nodiscard]] std::uint32_t ranks() const noexcept { return static_cast<std::uint32_t>(pipeline.size()); }
  [[nodiscard]] std::uint32_t replicas() const noexcept { return static_cast<std::uint32_t>(group.size()); }
};

namespace detail {

inline error wrong_placement(const std::string& what) { return fail(errc::invalid_argument, "pipeline placement", what); }

/// The placement that `o` means for `peers` peers.
[[nodiscard]] inline result<std::vector<std::vector<net::peer_index>>> placement_of(const pipeline_options& o,
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
[[nodiscard]] inline result<void> check_placement(const std::vector<std::vector<net::peer_index>>& rows,
                                                  std::uint32_t peers) {
  std::vector<net::peer_index> all;
  for (const auto& row : rows) {
    if (row.empty() || row.size() != rows[0].size()) return wrong_placement("all replicas need equally many ranks");
    all.insert(all.end(), row.begin(), row.end());
  }
  std::sort(all.begin(), all.end());
  bool once = all.size() == peers;
  for (std::size_t i = 0; once && i < all.size(); ++i) once = all[i] == i;
  if (once) return {};
  return wrong_placement("every one of the " + std::to_string(peers) + " peers needs exactly one place");
}

}  // namespace detail

/// Where `self` of `peers` peers is.
[[nodiscard]] inline result<pipeline_place> place_in(const pipeline_options& o, net::peer_index self, std::uint32_t peers) {
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
  return at;
}

/// The blocks of a rank, for a model of `layers` blocks and a schedule with `chunks` parts on each rank: chunk c of rank p
/// is virtual stage c · ranks + p.
[[nodiscard]] inline result<nn::model_part> part_of(const pipeline_options& o, const pipeline_place& at,
                                                    std::int64_t layers, std::uint32_t chunks = 1) {
  const std::int64_t stages = std::int64_t{at.ranks()} * chunks;
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
  for (std::size_t v = at.rank; v < static_cast<std::size_t>(stages); v += at.ranks()) {
    ranges.push_back({starts[v], starts[v + 1]});
  }
  nn::model_part part{std::move(ranges)};
  CAUSEWAY_TRY(part.check(layers));
  return part;
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_PLACE_HPP
