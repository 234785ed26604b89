// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_PIPELINE_GROUP_IPP
#define CAUSEWAY_TRAIN_IMPL_PIPELINE_GROUP_IPP

#include <causeway/train/pipeline_group.hpp>

#include <causeway/collective/group_view.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_LAZY basic_pipeline_group<Whole>::basic_pipeline_group(std::shared_ptr<run_group> below)
    : below_{std::move(below)} {}

CAUSEWAY_LAZY basic_pipeline_group<Whole>::~basic_pipeline_group() { below_->close(below_.use_count() > 1); }

CAUSEWAY_LAZY std::vector<std::uint64_t> basic_pipeline_group<Whole>::draw(std::uint64_t skipped, std::uint64_t count) {
  return below_->draw(skipped, count);
}

CAUSEWAY_LAZY result<void> basic_pipeline_group<Whole>::open(shared_state state, thread_pool& pool) {
  state_ = std::move(state.exchange);
  if (rounds_.by_block && !state_.rows_in_parts) {
    return fail(
        errc::unsupported, "pipeline",
        "both ends of the model hold the token table, which is exchanged as a row by itself, and this policy has no rows "
        "of single blocks; build the model with untied embeddings, or use one with comm_traits::rows_in_parts, such as "
        "presets::diloco");
  }
  if (state_.divide) {
    auto of_blocks = state_.memory ? state_.memory(0) : std::vector<std::span<std::byte>>{};
    for (const parameter_row& row : state_.rows()) {
      for (const std::span<float> piece : row.pieces) of_blocks.push_back(std::as_writable_bytes(piece));
    }
    for (const std::span<std::byte> part : std::span{state.parts}.subspan(state.of_model)) {
      const auto lies_there = [&](std::span<std::byte> piece) {
        return piece.data() >= part.data() && piece.data() < part.data() + part.size();
      };
      if (std::none_of(of_blocks.begin(), of_blocks.end(), lies_there)) state_.alike.push_back(part);
    }
  }
  state_.round_samples = state.round_samples;
  state_.by_pace = state.by_pace;
  state_.round_seconds = state.round_seconds;
  state_.begin_anew = [adopted = std::move(state.adopted)] { adopted({}); };
  return below_->open({{std::as_writable_bytes(std::span{&record_, 1})}, [](std::span<const float>) {}}, pool);
}

CAUSEWAY_LAZY result<round_entry> basic_pipeline_group<Whole>::enter(std::uint64_t, std::uint64_t) {
  round_entry e{
      .transport = &alone_, .round = below_->round() + 1, .parent = below_->parent(), .share = 1, .shares = {1.0}};
  in_exchange_ = true;
  if (!rounds_.enter) return e;
  CAUSEWAY_ASSIGN(parallel::exchange_entry with, rounds_.enter());
  e.attempt = with.attempt.attempt;
  if (with.kept || !with.known.empty()) {
    e.result_at = net::peer_index{0};
    if (gradient_.empty()) e.result = with.known;  // else it was several rows, which the policy has as they were
    e.result_kept = with.kept;
    e.share = 1.0 / expected_;
  } else {
    gradient_.clear();
  }
  e.last = with.last;
  e.paths = std::move(with.paths);
  if (with.attempt.transport == nullptr) return e;
  while (exchanges_.size() <= with.segment) exchanges_.emplace_back();
  net::any_transport& exchange = exchanges_[with.segment];
  exchange = net::any_transport{collective::group_view{*with.attempt.transport, std::move(with.holders)}};
  e.transport = &exchange;
  e.round = with.attempt.round;
  e.parent = with.attempt.parent;
  e.deadline = with.attempt.deadline;
  e.share = with.shares[exchange.self()];
  e.shares = std::move(with.shares);
  e.identities = std::move(with.names);
  e.blocks = std::move(with.blocks);
  e.replicas = std::move(with.replicas);
  return e;
}

CAUSEWAY_LAZY std::optional<round_entry> basic_pipeline_group<Whole>::lines() {
  parallel::exchange_entry with = rounds_.lines ? rounds_.lines() : parallel::exchange_entry{};
  if (with.attempt.transport == nullptr) return {};
  below_lines_ = below_->lasting();
  lines_ = net::any_transport{collective::group_view{below_lines_, std::move(with.holders)}};
  return round_entry{.transport = &lines_,
                     .round = with.attempt.round,
                     .identities = std::move(with.names),
                     .paths = std::move(with.paths),
                     .attempt = with.attempt.attempt};
}

CAUSEWAY_LAZY void basic_pipeline_group<Whole>::received(std::span<const float> row,
                                                         const std::vector<index_range>* where) {
  if (!rounds_.exchanged || where == nullptr) return;
  for (const index_range r : *where) {
    const auto end = static_cast<std::size_t>(r.end);
    if (gradient_.size() < end) gradient_.resize(end);
    std::copy_n(row.begin(), r.size(), gradient_.begin() + r.begin);
    row = row.subspan(static_cast<std::size_t>(r.size()));
  }
}

CAUSEWAY_LAZY result<void> basic_pipeline_group<Whole>::exchanged(std::span<const float> mean) {
  if (!rounds_.exchanged) return {};
  return rounds_.exchanged(mean.empty() ? std::span<const float>{gradient_} : mean);
}

CAUSEWAY_LAZY result<verdict> basic_pipeline_group<Whole>::decide(const result<void>& outcome, bool) {
  const bool in_exchange = std::exchange(in_exchange_, false);
  if (std::exchange(finished_by_others_, false)) return verdict::commit;  // the attempt begun is the next step's
  if (outcome) return verdict::commit;                                    // `propose` came before
  if (std::exchange(again_, false)) return verdict::retry;
  if (!in_exchange && is_final(outcome.error())) return outcome.error();
  CAUSEWAY_TRY(below_->decide(outcome, false));
  return verdict::retry;  // what became of it, the pipelines see in the record
}

CAUSEWAY_LAZY result<parallel::step_attempt> basic_pipeline_group<Whole>::begin_attempt() {
  CAUSEWAY_ASSIGN(const round_entry entry, below_->enter(1, 0));
  return parallel::step_attempt{entry.transport, entry.round, entry.parent, entry.deadline, entry.attempt};
}

CAUSEWAY_LAZY result<void> basic_pipeline_group<Whole>::propose(const parallel::step_record& next) {
  CAUSEWAY_TRY(below_->exchanged({}));
  record_ = next;
  CAUSEWAY_ASSIGN(const verdict judged, below_->decide({}, true));
  if (judged == verdict::commit) return {};
  return fail(errc::cancelled, "step", "the others did not vote for it");
}

CAUSEWAY_LAZY bool basic_pipeline_group<Whole>::is_final(const error& why) {
  return why.code == errc::unsupported || why.code == errc::invalid_argument;
}

CAUSEWAY_LAZY result<void> basic_pipeline_group<Whole>::failed(const error& why) {
  if (is_final(why)) return why;
  CAUSEWAY_TRY(below_->decide(why, false));
  return {};
}

#ifdef CAUSEWAY_COMPILED
template class basic_pipeline_group<void>;
#endif

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_PIPELINE_GROUP_IPP
