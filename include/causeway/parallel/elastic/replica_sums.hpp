// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_REPLICA_SUMS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_REPLICA_SUMS_HPP

// What the peers of one replica tell each other: the loss of a step and the norm of its gradient over the whole model, and
// the loss of an evaluation.

#include <causeway/collective/group_view.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/cohort_exchange.hpp>
#include <causeway/parallel/elastic/cohort_progress.hpp>
#include <causeway/parallel/elastic/pipeline_peer.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/tensor/batch.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// The peers of this peer's replica that are there, in the order of the model.
inline collective::group_view mates_of(const pipeline_peer& peer) {
  std::vector<net::peer_index> peers;
  for (const std::uint64_t id : peer.layout.replicas[peer.place.replica].assigned()) peers.push_back(peer.index_of.at(id));
  return collective::group_view{*peer.attempt.transport, std::move(peers)};
}

struct replica_sums {
  double loss = 0;
  double norm = 0;
  bool exchanges = false;  ///< one of them says that an exchange comes after this step
};

/// Who has heard from all peers of the replica knows that every part of the gradient is complete. `number`: the step;
/// `own`: this peer's part of it.
inline result<replica_sums> sums_of_replica(auto& ctx, const pipeline_peer& peer, std::uint64_t number,
                                            const replica_sums& own) {
  collective::group_view view = mates_of(peer);
  CAUSEWAY_ASSIGN(const auto all,
                  of_all(view, peer.named(pipeline_peer::sums_channel, number),
                         std::array{own.loss, own.norm * own.norm, own.exchanges ? 1.0 : 0.0}, peer.how(ctx)));
  double sum = 0, sum_of_squares = 0;
  bool exchanges = false;
  for (const auto& [one, of_one, exchange] : all) {
    sum += one;
    sum_of_squares += of_one;
    exchanges = exchanges || exchange != 0;
  }
  if (!std::isfinite(sum) || !std::isfinite(sum_of_squares)) {
    return fail(errc::non_finite, "replica", "a peer of it told a loss or a norm that is not finite");
  }
  return replica_sums{sum, std::sqrt(sum_of_squares), exchanges};
}

/// The same of evaluation `number`.
inline result<double> evaluation_of_replica(auto& ctx, const pipeline_peer& peer, std::uint64_t number, double loss) {
  collective::group_view view = mates_of(peer);
  CAUSEWAY_ASSIGN(const auto all, of_all(view, peer.named(pipeline_peer::done_channel, number), loss, peer.how(ctx)));
  return std::accumulate(all.begin(), all.end(), 0.0);
}

/// Of this peer's replica alone, on `b` in `pieces` pieces: the sum of token losses. Not a number: this peer rests, the
/// others are through with it, or a lost peer's stage is made by another one until the next exchange.
inline result<double> loss_of_replica(auto& ctx, pipeline_peer& peer, cohort_progress& progress, replica_evaluations& known,
                                      const batch& b, std::int64_t pieces) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  if (peer.assignment == nullptr) return none;
  if (progress.now().steps == known.steps && progress.now().evaluated < known.through_with) {
    return std::exchange(known.missed, none);
  }
  stage::layout alone{{peer.layout.replicas[peer.place.replica]}};
  if (alone.has_unassigned()) return none;
  alone.replicas.front().micro_batches = static_cast<std::uint32_t>(pieces);
  const std::uint64_t number = progress.evaluation();
  peer.attempt.deadline = progress.due(ctx.clock().now(), peer.attempt.deadline);
  CAUSEWAY_ASSIGN(const double own,
                  peer.forward_only(ctx, alone, {0, peer.place.rank}, b, alone.replicas.front().micro_batches,
                                    (peer.attempt.round << 16U) + number % (1U << 16U)));
  return evaluation_of_replica(ctx, peer, number, own);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_REPLICA_SUMS_HPP
