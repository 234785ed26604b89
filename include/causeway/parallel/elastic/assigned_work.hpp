// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_ASSIGNED_WORK_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_ASSIGNED_WORK_HPP

// What one peer of a layout does with a batch: in which order, with whom, and on which of the batch's micro-batches. In a
// layout where every stage has a peer each pipeline works by itself; else all pipelines work together, and each
// micro-batch goes its own way through them. In a ring micro-batches have ways of their own, too, and a peer several
// places.

#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/pipeline/pipeline_batch.hpp>
#include <causeway/plan/routed_schedule.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/tensor/batch.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

struct assigned_work {
  plan::schedule schedule;           ///< of its pipeline; with routes its own order only, in a ring with places as chunks
  std::uint32_t rank = 0;            ///< its stage
  std::vector<std::uint64_t> peers;  ///< of its pipeline; with detours of all
  std::vector<std::vector<std::uint32_t>> routes;  ///< [micro-batch][stage]: place in `peers`; none: all go through `peers`
  std::uint32_t first = 0;                         ///< micro-batch of the batch that is the schedule's first
  std::uint32_t window = 1;                        ///< boundary tensors that may arrive before one is taken
};

namespace detail {

CAUSEWAY_DECL [[nodiscard]] assigned_work work_in_pipeline(const stage::layout& l, const stage::layout::place& at,
                                                           plan::schedule s);

CAUSEWAY_DECL [[nodiscard]] assigned_work work_on_routes(const stage::layout& l, const stage::layout::place& at,
                                                         plan::routed_schedule s);

CAUSEWAY_DECL [[nodiscard]] assigned_work work_in_ring(const stage::layout& l, const stage::layout::place& at,
                                                       plan::routed_schedule s);

}  // namespace detail

/// A step of training, for a peer of a layout that has passed its check. No micro-batches: nothing to do. Errors: those of
/// the schedule.
template <stage::Schedule Order, stage::Recovery Recovery>
result<assigned_work> work_of(const stage::layout& l, const stage::layout::place& at, const Order& order,
                              const Recovery& recovery) {
  if (l.has_unassigned()) {
    if constexpr (stage::Rerouting<Recovery>) {
      CAUSEWAY_ASSIGN(plan::routed_schedule s, recovery.order(l));
      return detail::work_on_routes(l, at, std::move(s));
    } else {
      return fail(errc::invalid_argument, "layout",
                  "it has stages without a peer, for which the recovery policy has no order");
    }
  }
  const stage::replica& mine = l.replicas[at.replica];
  const auto ranks = static_cast<std::uint32_t>(mine.assignments.size());
  if (mine.ring && mine.micro_batches > 0) {
    auto routes = plan::swapped_routes(ranks, mine.micro_batches, l.first_micro_batch(at.replica));
    return detail::work_in_ring(l, at, plan::ring_schedule(std::move(routes)));
  }
  plan::schedule s{1, 1, 0, true, {}};
  if (mine.micro_batches > 0) {
    CAUSEWAY_ASSIGN(s, order.make(ranks, mine.micro_batches));
  }
  assigned_work w = detail::work_in_pipeline(l, at, std::move(s));
  if (mine.micro_batches > 0) w.window = window_of(w.schedule, order);
  return w;
}

/// Forwards only.
CAUSEWAY_DECL [[nodiscard]] result<assigned_work> forwards_of(const stage::layout& l, const stage::layout::place& at);

/// A batch for an assigned peer.
struct assigned_batch {
  const batch& whole;               ///< of all pipelines
  std::uint32_t micro_batches = 1;  ///< of it
  nn::block_range computes;
  float grad_scale = 0;
  bool training = true;
  std::span<const std::uint64_t> dropout{};  ///< of each micro-batch of the work's schedule; none in evaluation
};

/// Does the work. `transport` is to all peers of the attempt, `index_of` its number of each. Of `boundaries` everything
/// counts but window and routes. Returns the sum of the losses of the tokens whose last stage is here.
template <class Context, class Codec, stage::Schedule Order>
result<double> pass_assigned(Context& ctx, net::any_transport& transport,
                             const std::map<std::uint64_t, net::peer_index>& index_of, Codec& codec,
                             const assigned_work& work, const Order& order, const assigned_batch& b,
                             boundary_options boundaries) {
  const plan::schedule& s = work.schedule;
  if (s.micro_batches == 0) return 0.0;
  const std::int64_t sequences = b.whole.sequences / b.micro_batches;
  const batch piece = b.whole.slice(work.first * sequences, s.micro_batches * sequences);
  std::vector<net::peer_index> peers;
  for (const std::uint64_t id : work.peers) peers.push_back(index_of.at(id));
  collective::group_view view{transport, std::move(peers)};
  auto cursor = cursor_of(s, work.rank, order);
  boundaries.window = work.window;
  boundaries.routes = work.routes.empty() ? nullptr : &work.routes;
  const std::vector<nn::block_range> chunks(s.chunks, b.computes);
  return pass_batch(ctx, view, codec, cursor, {s, work.rank, chunks, piece, b.grad_scale, b.training, b.dropout},
                    boundaries);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/assigned_work.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_ASSIGNED_WORK_HPP
