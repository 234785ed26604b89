// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_ASSIGNED_WORK_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_ASSIGNED_WORK_IPP

#include <causeway/parallel/elastic/assigned_work.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace detail {

CAUSEWAY_DECL assigned_work work_in_pipeline(const stage::layout& l, const stage::layout::place& at, plan::schedule s) {
  assigned_work w{std::move(s), static_cast<std::uint32_t>(at.rank), {}, {}, l.first_micro_batch(at.replica), 1};
  for (const stage::assignment& assignment : l.replicas[at.replica].assignments) w.peers.push_back(assignment.peer);
  return w;
}

CAUSEWAY_DECL assigned_work work_on_routes(const stage::layout& l, const stage::layout::place& at,
                                           plan::routed_schedule s) {
  assigned_work w;
  w.peers = l.assigned();
  const auto stages = static_cast<std::uint32_t>(s.stages()), micro_batches = static_cast<std::uint32_t>(s.routes.size());
  w.schedule = {stages, 1, micro_batches, true, std::vector<std::vector<plan::operation>>(stages)};
  w.rank = static_cast<std::uint32_t>(at.rank);
  const auto self = std::find(w.peers.begin(), w.peers.end(), l.replicas[at.replica].assignments[at.rank].peer);
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

CAUSEWAY_DECL assigned_work work_in_ring(const stage::layout& l, const stage::layout::place& at, plan::routed_schedule s) {
  const auto places = static_cast<std::uint32_t>(s.stages()), micro_batches = static_cast<std::uint32_t>(s.routes.size());
  assigned_work w = work_in_pipeline(l, at, {1, places, micro_batches, true, {}});
  w.rank = 0;
  std::int64_t held = 1;
  for (std::size_t p = 0; p < s.orders.size(); ++p) held = std::max(held, plan::peak_activations(s, p));
  w.window = std::min(static_cast<std::uint32_t>(held), micro_batches);
  w.schedule.orders.push_back(std::move(s.orders[at.rank]));
  w.routes = std::move(s.routes);
  return w;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<assigned_work> forwards_of(const stage::layout& l, const stage::layout::place& at) {
  constexpr std::uint32_t ahead = 2;  // boundary tensors from each peer
  if (l.has_unassigned()) {
    assigned_work w = detail::work_on_routes(l, at, plan::routed_forwards(l.routes(), l.assigned().size()));
    w.window = ahead * static_cast<std::uint32_t>(l.replicas.size());
    return w;
  }
  const stage::replica& mine = l.replicas[at.replica];
  if (mine.ring && mine.micro_batches > 0) {
    const auto ranks = static_cast<std::uint32_t>(mine.assignments.size());
    auto routes = plan::ring_routes(ranks, mine.micro_batches);
    assigned_work w = detail::work_in_ring(l, at, plan::routed_forwards(std::move(routes), ranks));
    w.window = ahead;
    return w;
  }
  plan::schedule s{1, 1, 0, true, {}};
  if (mine.micro_batches > 0) {
    CAUSEWAY_ASSIGN(s, plan::forwards_only(static_cast<std::uint32_t>(mine.assignments.size()), 1, mine.micro_batches));
  }
  assigned_work w = detail::work_in_pipeline(l, at, std::move(s));
  w.window = ahead;
  return w;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_ASSIGNED_WORK_IPP
