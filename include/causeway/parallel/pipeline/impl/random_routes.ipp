// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_IMPL_RANDOM_ROUTES_IPP
#define CAUSEWAY_PARALLEL_PIPELINE_IMPL_RANDOM_ROUTES_IPP

#include <causeway/parallel/pipeline/random_routes.hpp>

#include <causeway/axis/groups.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/parallel/micro_batches.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL random_routes::random_routes(std::uint32_t replicas, std::uint32_t stages, std::uint64_t seed)
    : replicas_{replicas}, stages_{stages}, seed_{seed} {}

CAUSEWAY_DECL std::vector<std::uint32_t> random_routes::next(std::uint64_t step, std::uint32_t micro_batch,
                                                             std::uint32_t stage) const {
  return axis::detail::shuffled(replicas_, rng{seed_, mix(step, micro_batch, stage)});
}

CAUSEWAY_DECL std::vector<std::uint32_t> random_routes::way(std::uint64_t step, std::uint32_t micro_batch,
                                                            std::uint32_t replica, std::uint32_t stage) const {
  std::vector<std::uint32_t> through(stages_, replica);
  for (std::uint32_t s = stage; s + 1 < stages_; ++s) through[s + 1] = next(step, micro_batch, s)[through[s]];
  for (std::uint32_t s = stage; s > 0; --s) {
    const auto to = next(step, micro_batch, s - 1);
    through[s - 1] = static_cast<std::uint32_t>(std::find(to.begin(), to.end(), through[s]) - to.begin());
  }
  return through;
}

CAUSEWAY_DECL result<void> swap_targets(collective::group_view& last_stages, const random_routes& routes,
                                        std::uint32_t stages, std::uint32_t micro_batches, const batch& mine,
                                        std::vector<std::int32_t>& targets, const pipeline_exchange& exchange) {
  const std::uint32_t self = last_stages.self();
  const std::size_t piece = mine.targets.size() / micro_batches;
  targets.assign(mine.targets.begin(), mine.targets.end());
  std::vector<std::pair<net::operation, std::size_t>> pending;  // with the bytes that it must move
  for (std::uint32_t m = 0; m < micro_batches; ++m) {
    const std::uint32_t from = routes.way(exchange.id.step, m, self, stages - 1).front();
    const std::uint32_t to = routes.way(exchange.id.step, m, self, 0).back();
    if (from == self) continue;  // then `to` is, too
    net::message_id id = exchange.on(detail::losses_kind);
    id.step = (id.step << most_micro_batch_bits) | m;
    const auto room = std::as_writable_bytes(std::span{targets}.subspan(m * piece, piece));
    pending.emplace_back(last_stages.receive(from, id, room), room.size());
    pending.emplace_back(last_stages.send(to, id, std::as_bytes(mine.targets.subspan(m * piece, piece))), room.size());
  }
  result<void> all;
  for (const auto& [op, bytes] : pending) {
    const auto moved = last_stages.wait(op, exchange.options.deadline);
    if (!all) continue;
    if (!moved) all = moved.error();
    if (moved && *moved != bytes) {
      all = fail(errc::protocol, "pipeline",
                 "another replica sent targets of another number; give all replicas equal batches");
    }
  }
  return all;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_IMPL_RANDOM_ROUTES_IPP
