// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_EXCHANGE_HPP
#define CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_EXCHANGE_HPP

// The small things that the stages of one pipeline tell each other: which blocks they hold, the loss, their part of the
// gradient's norm, and the table that first and last stage share.

#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/collective/group_view.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/plan/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// Names and bounds one of these conversations.
struct pipeline_exchange {
  net::message_id id;  ///< of consecutive channels, one for each kind
  collective::collective_options options;

  CAUSEWAY_DECL [[nodiscard]] net::message_id on(std::uint32_t kind) const noexcept;
};

namespace detail {

enum exchange_kind : std::uint32_t {
  parts_kind,
  loss_kind,
  norm_kind,
  table_kind = 5,
  base_kind = 7,
  round_kind = 9,
  losses_kind = 10
};  // a gather takes two

}  // namespace detail

/// What a peer must share with the others of its pipeline.
struct part_agreement {
  std::uint64_t hash = 0;  ///< of model, schedule and codec
  std::int64_t layers = 0;
  std::uint32_t chunks = 1;
  std::uint64_t step = 0;  ///< that it goes on after: the stages must be given the same batches from here on
  plan::stage_path path = plan::stage_path::round;
};

/// Checks that all ranks agree and that their parts, stage after stage, make the whole model (twice, where there are two
/// ways). `exchange` must not depend on the step. 16 bytes a chunk and 16 more from and to everybody.
CAUSEWAY_DECL result<void> agree_on_parts(collective::group_view& view, const part_agreement& mine,
                                          std::span<const nn::block_range> chunks, const pipeline_exchange& exchange);

/// The loss, which rank `from` knows, on all ranks; without `from` the sum of what ranks know. 8 bytes to each.
CAUSEWAY_DECL result<double> loss_of_pipeline(collective::group_view& view, double loss, std::optional<std::uint32_t> from,
                                              const pipeline_exchange& exchange);

/// The root of the sum of all ranks' `squares`, added up in the order of ranks on all of them.
CAUSEWAY_DECL result<float> norm_of_pipeline(collective::group_view& view, double squares,
                                             const pipeline_exchange& exchange);

/// On the first and the last rank: table ← the last rank's + the first rank's, the same bits on both. `other` is memory for
/// what the other end sends. Bytes: the table, each way. On an error the table is as it was.
CAUSEWAY_DECL result<void> add_ends(collective::group_view& view, thread_pool& pool, std::span<float> table,
                                    std::vector<float>& other, const pipeline_exchange& exchange);

/// On every rank, where each has the same stages as its mirror: gradients ← theirs + its own, the same bits on both.
/// `other` is memory for what the mirror sends. Bytes: the gradients, each way.
CAUSEWAY_DECL result<void> add_copies(collective::group_view& view, thread_pool& pool, std::span<float> gradients,
                                      std::vector<float>& other, const pipeline_exchange& exchange);

/// There: parameters that are not those of the mirror become those of the rank in the first half; whether they have
/// changed. 8 bytes each way, and the parameters once where they differ.
CAUSEWAY_DECL result<bool> align_copies(collective::group_view& view, std::span<float> parameters,
                                        const pipeline_exchange& exchange);

/// Of the first and the last rank, whether `mine` is true at either; false on the others. A byte each way.
CAUSEWAY_DECL result<bool> at_either_end(collective::group_view& view, bool mine, const pipeline_exchange& exchange);

/// The last rank's table becomes that of the first. Bytes: the table, once.
CAUSEWAY_DECL result<void> copy_to_last(collective::group_view& view, std::span<float> table,
                                        const pipeline_exchange& exchange);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/pipeline/impl/pipeline_exchange.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_PIPELINE_PIPELINE_EXCHANGE_HPP
