// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_IMPL_PIPELINE_TALK_IPP
#define CAUSEWAY_PARALLEL_IMPL_PIPELINE_TALK_IPP

// Bodies of parallel/pipeline_talk.hpp.

#include <causeway/parallel/pipeline_talk.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL net::message_id pipeline_talk::on(std::uint32_t kind) const noexcept {
  net::message_id named = id;
  named.channel += kind;
  return named;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel { namespace detail {

CAUSEWAY_DECL result<void> swap_ends(collective::group_view& view, std::span<const std::byte> mine,
                                     std::span<std::byte> theirs, const net::message_id& id, const pipeline_talk& talk) {
  const net::peer_index other = view.self() == 0 ? view.size() - 1 : 0;
  const auto inward = view.receive(other, id, theirs);
  const auto outward = view.send(other, id, mine);
  const auto sent = view.wait(outward, talk.options.deadline);
  const auto got = view.wait(inward, talk.options.deadline);
  if (!sent) return sent.error();
  if (!got) return got.error();
  if (*got != theirs.size()) {
    return fail(errc::protocol, "rank " + std::to_string(other), "it sent a token table of another size");
  }
  return {};
}

CAUSEWAY_DECL bool is_an_end(const collective::group_view& view) {
  return view.self() == 0 || view.self() + 1 == view.size();
}

}}}}  // namespace causeway::CAUSEWAY_ABI::parallel::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL result<void> agree_on_parts(collective::group_view& view, const part_agreement& mine,
                                          std::span<const nn::block_range> chunks, const pipeline_talk& talk) {
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
    CAUSEWAY_TRY(collective::all_gather(view, talk.on(detail::parts_kind), std::as_bytes(own),
                                        std::as_writable_bytes(std::span{all}), talk.options));
  }
  std::int64_t next = 0;
  for (std::size_t v = 0; v < std::size_t{view.size()} * chunks.size(); ++v) {
    const std::size_t rank = v % view.size();
    const std::int64_t* at = all.data() + row * rank;
    if (at[0] != own[0]) {
      return fail(errc::wrong_model, "rank " + std::to_string(rank),
                  "it has another model, schedule, activation codec or number of micro-batches than this peer");
    }
    if (at[1] != own[1]) {
      return fail(errc::diverged, "rank " + std::to_string(rank),
                  "it is at step " + std::to_string(at[1]) + ", this peer at step " + std::to_string(own[1]) +
                      "; start all stages from checkpoints of the same step");
    }
    const nn::block_range held{at[2 + 2 * (v / view.size())], at[3 + 2 * (v / view.size())]};
    if (held.first != next) {
      return fail(errc::wrong_model, "rank " + std::to_string(rank),
                  "it holds blocks " + nn::model_part::text(held) + " as stage " + std::to_string(v) +
                      ", which must begin at block " + std::to_string(next) + "; build all parts with parallel::part_of");
    }
    next = held.last;
  }
  if (next == mine.layers) return {};
  return fail(errc::wrong_model, "pipeline",
              "the last stage ends at block " + std::to_string(next) + " of " + std::to_string(mine.layers));
}

CAUSEWAY_DECL result<double> loss_of_pipeline(collective::group_view& view, double loss, const pipeline_talk& talk) {
  CAUSEWAY_TRY(collective::broadcast(view, talk.on(detail::loss_kind), view.size() - 1, std::span{&loss, 1}, talk.options));
  return loss;
}

CAUSEWAY_DECL result<float> norm_of_pipeline(collective::group_view& view, double squares, const pipeline_talk& talk) {
  std::vector<double> all(view.size(), squares);
  if (view.size() > 1) {
    CAUSEWAY_TRY(collective::all_gather(view, talk.on(detail::norm_kind), std::as_bytes(std::span{&squares, 1}),
                                        std::as_writable_bytes(std::span{all}), talk.options));
  }
  double sum = 0;
  for (const double s : all) sum += s;
  return static_cast<float>(std::sqrt(sum));
}

CAUSEWAY_DECL result<void> add_ends(collective::group_view& view, thread_pool& pool, std::span<float> table,
                                    std::vector<float>& other, const pipeline_talk& talk) {
  if (!detail::is_an_end(view)) return {};
  other.resize(table.size());
  CAUSEWAY_TRY(detail::swap_ends(view, std::as_bytes(table), std::as_writable_bytes(std::span{other}),
                                 talk.on(detail::table_kind), talk));
  kernels::add(pool, table.data(), table.data(), other.data(), static_cast<std::int64_t>(table.size()));
  return {};
}

CAUSEWAY_DECL result<bool> at_either_end(collective::group_view& view, bool mine, const pipeline_talk& talk) {
  if (!detail::is_an_end(view)) return false;
  const std::byte own{mine ? std::uint8_t{1} : std::uint8_t{0}};
  std::byte other{};
  CAUSEWAY_TRY(detail::swap_ends(view, {&own, 1}, {&other, 1}, talk.on(detail::round_kind), talk));
  return mine || other != std::byte{};
}

CAUSEWAY_DECL result<void> copy_to_last(collective::group_view& view, std::span<float> table, const pipeline_talk& talk) {
  if (!detail::is_an_end(view)) return {};
  const bool sends = view.self() == 0;
  const auto id = talk.on(detail::table_kind + 1);
  const auto op =
      sends ? view.send(view.size() - 1, id, std::as_bytes(table)) : view.receive(0, id, std::as_writable_bytes(table));
  CAUSEWAY_ASSIGN(const std::size_t moved, view.wait(op, talk.options.deadline));
  if (moved == table.size_bytes()) return {};
  return fail(errc::protocol, "rank 0", "it sent a token table of another size");
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_IMPL_PIPELINE_TALK_IPP
