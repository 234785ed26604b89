// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_PIPELINE_IMPL_PIPELINE_EXCHANGE_IPP
#define CAUSEWAY_PARALLEL_PIPELINE_IMPL_PIPELINE_EXCHANGE_IPP

#include <causeway/parallel/pipeline/pipeline_exchange.hpp>

#include <cmath>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace detail {

/// The rank as far from the other end as this one is from its own.
CAUSEWAY_DECL net::peer_index mirror_of(const collective::group_view& view) { return view.size() - 1 - view.self(); }

/// One message each way between a rank and its mirror.
CAUSEWAY_DECL result<void> swap_mirrored(collective::group_view& view, std::span<const std::byte> mine,
                                         std::span<std::byte> theirs, const net::message_id& id,
                                         const pipeline_exchange& exchange) {
  const net::peer_index other = mirror_of(view);
  const auto inward = view.receive(other, id, theirs);
  const auto outward = view.send(other, id, mine);
  const auto sent = view.wait(outward, exchange.options.deadline);
  const auto got = view.wait(inward, exchange.options.deadline);
  if (!sent) return sent.error();
  if (!got) return got.error();
  if (*got != theirs.size()) {
    return fail(errc::protocol, "rank " + std::to_string(other), "it sent parameters or gradients of another size");
  }
  return {};
}

/// What the rank in the second half of the pipeline has becomes what its mirror has.
CAUSEWAY_DECL result<void> copy_mirrored(collective::group_view& view, std::span<float> values,
                                         const pipeline_exchange& exchange) {
  const net::peer_index other = mirror_of(view);
  const auto id = exchange.on(table_kind + 1);
  const auto op = view.self() < other ? view.send(other, id, std::as_bytes(values))
                                      : view.receive(other, id, std::as_writable_bytes(values));
  CAUSEWAY_ASSIGN(const std::size_t moved, view.wait(op, exchange.options.deadline));
  if (moved == values.size_bytes()) return {};
  return fail(errc::protocol, "rank " + std::to_string(other), "it sent parameters of another size");
}

CAUSEWAY_DECL bool is_an_end(const collective::group_view& view) {
  return view.self() == 0 || view.self() + 1 == view.size();
}

/// The sum of all ranks' values, added up in the order of ranks on all of them. Takes two consecutive kinds.
CAUSEWAY_DECL result<double> sum_over_ranks(collective::group_view& view, double mine, std::uint32_t kind,
                                            const pipeline_exchange& exchange) {
  std::vector<double> all(view.size(), mine);
  if (view.size() > 1) {
    CAUSEWAY_TRY(collective::all_gather(view, exchange.on(kind), std::as_bytes(std::span{&mine, 1}),
                                        std::as_writable_bytes(std::span{all}), exchange.options));
  }
  double sum = 0;
  for (const double value : all) sum += value;
  return sum;
}

/// Of the gathered rows, those of the stages that a micro-batch `way` of `shape` goes through.
CAUSEWAY_DECL result<void> check_parts(const plan::schedule& shape, std::uint32_t way, std::span<const std::int64_t> all,
                                       const part_agreement& mine) {
  std::int64_t next = 0;
  for (std::uint32_t v = 0; v < plan::virtual_stages(shape); ++v) {
    const plan::stage_place place = plan::place_of(shape, v, way);
    const auto rank = "rank " + std::to_string(place.rank);
    const std::int64_t* at = all.data() + place.rank * (2 + 2 * std::size_t{shape.chunks});
    if (std::memcmp(at, &mine.hash, sizeof mine.hash) != 0) {
      return fail(errc::wrong_model, rank,
                  "it has another model, schedule, activation codec or number of micro-batches than this peer");
    }
    if (at[1] != static_cast<std::int64_t>(mine.step)) {
      return fail(errc::diverged, rank,
                  "it is at step " + std::to_string(at[1]) + ", this peer at step " + std::to_string(mine.step) +
                      "; start all stages from checkpoints of the same step");
    }
    const nn::block_range held{at[2 + 2 * place.chunk], at[3 + 2 * place.chunk]};
    if (held.first != next) {
      return fail(errc::wrong_model, rank,
                  "it holds blocks " + nn::model_part::text(held) + " as stage " + std::to_string(v) +
                      ", which must begin at block " + std::to_string(next) + "; build all parts with parallel::part_of");
    }
    next = held.last;
  }
  if (next == mine.layers) return {};
  return fail(errc::wrong_model, "pipeline",
              "the last stage ends at block " + std::to_string(next) + " of " + std::to_string(mine.layers));
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL net::message_id pipeline_exchange::on(std::uint32_t kind) const noexcept {
  net::message_id named = id;
  named.channel += kind;
  return named;
}

CAUSEWAY_DECL result<void> agree_on_parts(collective::group_view& view, const part_agreement& mine,
                                          std::span<const nn::block_range> chunks, const pipeline_exchange& exchange) {
  if (chunks.size() != mine.chunks) {
    return fail(errc::invalid_argument, "pipeline",
                "this peer's model has " + std::to_string(chunks.size()) + " ranges of blocks, the schedule needs " +
                    std::to_string(mine.chunks) + "; build it with parallel::part_of");
  }
  const std::size_t row = 2 + 2 * chunks.size();
  std::vector<std::int64_t> all(row * view.size());
  const std::span<std::int64_t> own = std::span{all}.subspan(row * view.self(), row);
  std::memcpy(own.data(), &mine.hash, sizeof mine.hash);
  own[1] = static_cast<std::int64_t>(mine.step);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    own[2 + 2 * c] = chunks[c].first;
    own[3 + 2 * c] = chunks[c].last;
  }
  if (view.size() > 1) {
    CAUSEWAY_TRY(collective::all_gather(view, exchange.on(detail::parts_kind), std::as_bytes(own),
                                        std::as_writable_bytes(std::span{all}), exchange.options));
  }
  // a micro-batch of each way; there is one way unless the path says otherwise
  const plan::schedule shape{view.size(), mine.chunks, 2, true, {}, mine.path};
  for (std::uint32_t way = 0; way < (mine.path == plan::stage_path::two_ways ? 2U : 1U); ++way) {
    CAUSEWAY_TRY(detail::check_parts(shape, way, all, mine));
  }
  return {};
}

CAUSEWAY_DECL result<double> loss_of_pipeline(collective::group_view& view, double loss, std::optional<std::uint32_t> from,
                                              const pipeline_exchange& exchange) {
  if (!from) return detail::sum_over_ranks(view, loss, detail::losses_kind, exchange);
  CAUSEWAY_TRY(collective::broadcast(view, exchange.on(detail::loss_kind), *from, std::span{&loss, 1}, exchange.options));
  return loss;
}

CAUSEWAY_DECL result<float> norm_of_pipeline(collective::group_view& view, double squares,
                                             const pipeline_exchange& exchange) {
  CAUSEWAY_ASSIGN(const double sum, detail::sum_over_ranks(view, squares, detail::norm_kind, exchange));
  return static_cast<float>(std::sqrt(sum));
}

CAUSEWAY_DECL result<void> add_ends(collective::group_view& view, thread_pool& pool, std::span<float> table,
                                    std::vector<float>& other, const pipeline_exchange& exchange) {
  return detail::is_an_end(view) ? add_copies(view, pool, table, other, exchange) : result<void>{};
}

CAUSEWAY_DECL result<void> add_copies(collective::group_view& view, thread_pool& pool, std::span<float> gradients,
                                      std::vector<float>& other, const pipeline_exchange& exchange) {
  other.resize(gradients.size());
  CAUSEWAY_TRY(detail::swap_mirrored(view, std::as_bytes(gradients), std::as_writable_bytes(std::span{other}),
                                     exchange.on(detail::table_kind), exchange));
  kernels::add(pool, gradients.data(), gradients.data(), other.data(), static_cast<std::int64_t>(gradients.size()));
  return {};
}

CAUSEWAY_DECL result<bool> align_copies(collective::group_view& view, std::span<float> parameters,
                                        const pipeline_exchange& exchange) {
  hasher h;
  h.add(std::as_bytes(parameters));
  const std::uint64_t mine = h.finish();
  std::uint64_t theirs = 0;
  CAUSEWAY_TRY(detail::swap_mirrored(view, std::as_bytes(std::span{&mine, 1}),
                                     std::as_writable_bytes(std::span{&theirs, 1}), exchange.on(detail::round_kind),
                                     exchange));
  if (mine == theirs) return false;
  CAUSEWAY_TRY(detail::copy_mirrored(view, parameters, exchange));
  return view.self() > detail::mirror_of(view);
}

CAUSEWAY_DECL result<bool> at_either_end(collective::group_view& view, bool mine, const pipeline_exchange& exchange) {
  if (!detail::is_an_end(view)) return false;
  const std::byte own{mine ? std::uint8_t{1} : std::uint8_t{0}};
  std::byte other{};
  CAUSEWAY_TRY(detail::swap_mirrored(view, {&own, 1}, {&other, 1}, exchange.on(detail::round_kind), exchange));
  return mine || other != std::byte{};
}

CAUSEWAY_DECL result<void> copy_to_last(collective::group_view& view, std::span<float> table,
                                        const pipeline_exchange& exchange) {
  return detail::is_an_end(view) ? detail::copy_mirrored(view, table, exchange) : result<void>{};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_PIPELINE_IMPL_PIPELINE_EXCHANGE_IPP
