// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SEAT_WORK_HPP
#define CAUSEWAY_PARALLEL_SEAT_WORK_HPP

// What one seat of a layout does with a batch: in which order, with whom, and on which of the batch's micro-batches. In a
// layout without empty seats each pipeline works by itself; with empty seats all pipelines work together, and each
// micro-batch goes its own way through them.

#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/pipeline_batch.hpp>
#include <causeway/plan/routed_schedule.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::parallel {

struct seat_work {
  plan::schedule schedule;                         ///< of its pipeline; with routes its own order only
  std::uint32_t rank = 0;                          ///< its stage
  std::vector<std::uint64_t> peers;                ///< of its pipeline; with routes of all
  std::vector<std::vector<std::uint32_t>> routes;  ///< [micro-batch][stage]: place in `peers`; none: all go through `peers`
  std::uint32_t first = 0;                         ///< micro-batch of the batch that is the schedule's first
  std::uint32_t window = 1;                        ///< boundary tensors that may arrive before one is taken
};

namespace detail {

[[nodiscard]] inline seat_work work_in_pipeline(const stage::layout& l, const stage::layout::place& at, plan::schedule s) {
  seat_work w{std::move(s), static_cast<std::uint32_t>(at.rank), {}, {}, l.first_micro_batch(at.replica), 1};
  for (const stage::seat& seat : l.replicas[at.replica].seats) w.peers.push_back(seat.peer);
  return w;
}

[[nodiscard]] inline seat_work work_on_routes(const stage::layout& l, const stage::layout::place& at,
                                              plan::routed_schedule s) {
  seat_work w;
  w.peers = l.seated();
  const auto stages = static_cast<std::uint32_t>(s.stages()), micro_batches = static_cast<std::uint32_t>(s.routes.size());
  w.schedule = {stages, 1, micro_batches, true, std::vector<std::vector<plan::operation>>(stages)};
  w.rank = static_cast<std::uint32_t>(at.rank);
  const auto self = std::find(w.peers.begin(), w.peers.end(), l.replicas[at.replica].seats[at.rank].peer);
  std::vector<plan::operation>& order = w.schedule.orders[w.rank];
  order = std::move(s.orders[static_cast<std::size_t>(self - w.peers.begin())]);
  for (plan::operation& op : order) op.chunk = 0;  // the only one on this peer
  std::int64_t held = 1;
  for (std::size_t p = 0; p < s.orders.size(); ++p) held = std::max(held, plan::peak_activations(s, p));
  w.window =
      static_cast<std::uint32_t>(std::min<std::size_t>(static_cast<std::size_t>(held) * l.replicas.size(), micro_batches));
  w.routes = std::move(s.routes);
  return w;
}

}  // namespace detail

/// A step of training, for a seat of a layout that has passed its check. No micro-batches: nothing to do. Errors: those of
/// the schedule.
template <stage::Schedule Order, stage::Recovery Recovery>
result<seat_work> work_of(const stage::layout& l, const stage::layout::place& at, const Order& order,
                          const Recovery& recovery) {
  if (l.has_empty_seats()) {
    if constexpr (stage::Rerouting<Recovery>) {
      CAUSEWAY_ASSIGN(plan::routed_schedule s, recovery.order(l));
      return detail::work_on_routes(l, at, std::move(s));
    } else {
      return fail(errc::invalid_argument, "layout", "it has empty seats, for which the recovery policy has no order");
    }
  }
  const stage::replica& mine = l.replicas[at.replica];
  plan::schedule s{1, 1, 0, true, {}};
  if (mine.micro_batches > 0) {
    CAUSEWAY_ASSIGN(s, order.make(static_cast<std::uint32_t>(mine.seats.size()), mine.micro_batches));
  }
  seat_work w = detail::work_in_pipeline(l, at, std::move(s));
  if (mine.micro_batches > 0) w.window = window_of(w.schedule, order);
  return w;
}

/// Forwards only.
[[nodiscard]] inline result<seat_work> forwards_of(const stage::layout& l, const stage::layout::place& at) {
  constexpr std::uint32_t ahead = 2;  // boundary tensors from each peer
  if (l.has_empty_seats()) {
    seat_work w = detail::work_on_routes(l, at, plan::routed_forwards(l.routes(), l.seated().size()));
    w.window = ahead * static_cast<std::uint32_t>(l.replicas.size());
    return w;
  }
  const stage::replica& mine = l.replicas[at.replica];
  plan::schedule s{1, 1, 0, true, {}};
  if (mine.micro_batches > 0) {
    CAUSEWAY_ASSIGN(s, plan::forwards_only(static_cast<std::uint32_t>(mine.seats.size()), 1, mine.micro_batches));
  }
  seat_work w = detail::work_in_pipeline(l, at, std::move(s));
  w.window = ahead;
  return w;
}

/// A batch for a seat.
struct seat_batch {
  const batch& whole;               ///< of all pipelines
  std::uint32_t micro_batches = 1;  ///< of it
  nn::block_range computes;
  float grad_scale = 0;
  bool training = true;
  std::span<const std::uint64_t> dropout{};  ///< of each micro-batch of the work's schedule; none in evaluation
};

/// Does the work. `transport` is to all peers of the attempt, `index_of` its number of each. Of `talk` everything counts
/// but window and routes. Returns the sum of the losses of the tokens whose last stage is here.
template <class Context, class Codec, stage::Schedule Order>
result<double> pass_seat(Context& ctx, net::any_transport& transport,
                         const std::map<std::uint64_t, net::peer_index>& index_of, Codec& codec, const seat_work& work,
                         const Order& order, const seat_batch& b, batch_talk talk) {
  const plan::schedule& s = work.schedule;
  if (s.micro_batches == 0) return 0.0;
  const std::int64_t sequences = b.whole.sequences / b.micro_batches;
  const batch piece = b.whole.slice(work.first * sequences, s.micro_batches * sequences);
  std::vector<net::peer_index> peers;
  for (const std::uint64_t id : work.peers) peers.push_back(index_of.at(id));
  collective::group_view view{transport, std::move(peers)};
  auto cursor = cursor_of(s, work.rank, order);
  talk.window = work.window;
  talk.routes = work.routes.empty() ? nullptr : &work.routes;
  const std::array chunk{b.computes};
  return pass_batch(ctx, view, codec, cursor, {s, work.rank, chunk, piece, b.grad_scale, b.training, b.dropout}, talk);
}

}  // namespace causeway::inline CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SEAT_WORK_HPP
