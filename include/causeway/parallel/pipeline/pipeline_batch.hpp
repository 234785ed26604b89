// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_BATCH_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_BATCH_HPP

// A batch through all stages of a pipeline, and the loss on all of its peers: for training in the order of a schedule, and
// forward only. The synchronous and the asynchronous pipeline evaluate alike.

#include <causeway/collective/group_view.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/pipeline/pipeline_exchange.hpp>
#include <causeway/parallel/pipeline/pipeline_mailbox.hpp>
#include <causeway/parallel/pipeline/pipeline_pass.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/plan/schedules.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/tensor/batch.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// The order in which `rank` works, within the memory of the schedule and the room that `order` gives beyond it.
template <stage::Schedule Order>
[[nodiscard]] plan::schedule_cursor cursor_of(const plan::schedule& s, std::uint32_t rank, const Order& order) {
  plan::held_memory limit = plan::peak_memory(s, rank);
  limit += {order.room(), order.room()};
  return {s, rank, order.order(), limit};
}

/// How many boundary tensors may arrive at a rank before it takes one.
template <stage::Schedule Order>
[[nodiscard]] std::uint32_t window_of(const plan::schedule& s, const Order& order) {
  std::uint32_t window = 1;
  for (std::uint32_t r = 0; r < s.ranks; ++r) {
    const plan::held_memory held = plan::peak_memory(s, r);
    window = std::max(window, static_cast<std::uint32_t>(held.activations + held.inputs) + order.room());
  }
  return window;
}

/// The batch of `setup`, whose sequences its schedule's micro-batches must divide, through the stages of `view`. Returns
/// the sum of the tokens' losses where this rank has the last stage, else 0. See pipeline_pass.
template <class Context, class Codec>
result<double> pass_batch(Context& ctx, collective::group_view& view, Codec& codec, plan::schedule_cursor& cursor,
                          const pass_setup& setup, const boundary_options& boundaries) {
  pipeline_mailbox<Codec> mailbox{
      view, codec, {ctx.pool(), setup.schedule, setup.whole, ctx.model().width(), setup.rank, boundaries}};
  pipeline_pass run{ctx.model(), mailbox, setup};
  return run.run(cursor);
}

/// The rank that knows the loss of all micro-batches; none where there are two ways, and the first and the last rank know
/// that of half of them each.
[[nodiscard]] constexpr std::optional<std::uint32_t> loss_rank(const plan::schedule& s) noexcept {
  if (s.path == plan::stage_path::two_ways) return std::nullopt;
  return plan::place_of(s, plan::virtual_stages(s) - 1).rank;
}

/// The mean loss over the batch of `setup`, on all peers of the pipeline. `stages`: how they tell each other.
template <class Context, class Codec>
result<double> run_batch(Context& ctx, collective::group_view& view, Codec& codec, plan::schedule_cursor& cursor,
                         const pass_setup& setup, const boundary_options& boundaries, const pipeline_exchange& stages) {
  CAUSEWAY_ASSIGN(const double sum, pass_batch(ctx, view, codec, cursor, setup, boundaries));
  CAUSEWAY_ASSIGN(const double all, loss_of_pipeline(view, sum, loss_rank(setup.schedule), stages));
  return all / static_cast<double>(setup.whole.tokens());
}

/// The mean loss over `b`, forward only and without dropout, in `micro_batches` pieces that divide its sequences;
/// boundaries cross as f32. `chunks`: the blocks of each of this rank's chunks, through which batches go as `path` says.
template <class Context>
result<double> evaluate_batch(Context& ctx, collective::group_view& view, std::span<const nn::block_range> chunks,
                              std::uint32_t micro_batches, const batch& b, const boundary_options& boundaries,
                              const pipeline_exchange& stages, plan::stage_path path = plan::stage_path::round) {
  stage::plain exact;
  CAUSEWAY_ASSIGN(const plan::schedule forwards,
                  plan::forwards_only(view.size(), static_cast<std::uint32_t>(chunks.size()), micro_batches, path));
  plan::schedule_cursor cursor{forwards, view.self(), plan::run_order::strict};
  return run_batch(ctx, view, exact, cursor, {forwards, view.self(), chunks, b, 0.0F, false}, boundaries, stages);
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_BATCH_HPP
