// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_SWARM_GROUP_IPP
#define CAUSEWAY_TRAIN_IMPL_SWARM_GROUP_IPP

#include <causeway/train/swarm_group.hpp>

#include <causeway/parallel/swarm/swarm_peer.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI {

template <class Peer>
basic_swarm_group<Peer>::basic_swarm_group(std::shared_ptr<run_group> stage, std::shared_ptr<Peer> swarm)
    : stage_{std::move(stage)}, swarm_{std::move(swarm)} {}

template <class Peer>
basic_swarm_group<Peer>::basic_swarm_group(std::shared_ptr<run_group> stage, std::shared_ptr<Peer> swarm,
                                           io::any_storage disk, const std::string& folder)
    : basic_swarm_group{std::move(stage), std::move(swarm)} {
  states_.emplace(disk, folder + "/rounds");
  if (!steps_alone()) sums_.emplace(std::move(disk), folder + "/sums");
}

template <class Peer>
std::vector<std::uint64_t> basic_swarm_group<Peer>::draw(std::uint64_t skipped, std::uint64_t count) {
  return stage_->draw(skipped, count);
}

template <class Peer>
result<void> basic_swarm_group<Peer>::open(shared_state state, thread_pool& pool) {
  state.adopted = [this, inner = std::move(state.adopted)](std::span<const float>) {
    replaced_ = true;
    if (inner) inner({});
  };
  state.replay = nullptr;  // a stage's step depends on the other stages
  state.awaited = true;
  round_samples_ = std::exchange(state.round_samples, 0);
  if (!state.own.empty() || state.meanwhile) swarm_->meets_in_groups();
  swarm_->meanwhile(std::move(state.meanwhile));
  if (steps_alone() && state.exchange.batch_parts > 0) {
    CAUSEWAY_TRY(swarm_->shares_paths(state.exchange.paths, state.exchange.follow, state.exchange.parameters_of));
  }
  averages_ = !steps_alone() && state.exchange.divide;
  row_waits_ = std::move(state.exchange.row_waits);
  auto place = std::exchange(state.exchange.compute, nullptr);
  if (averages_) CAUSEWAY_TRY(swarm_->exchange_means(row_waits_ && row_waits_(), std::move(place)));
  if (state.stage_sums > 0 || steps_alone()) state.parts.push_back(swarm_->decision(state.stage_sums));
  parts_ = state.parts;
  adopted_ = state.adopted;
  CAUSEWAY_TRY(stage_->open(std::move(state), pool));
  if (steps_alone() && !replaced_) adopted_({});  // what a checkpoint has beyond the last exchange others may be given
  replaced_ = false;
  recall_sums();
  swarm_->committed(true);
  return {};
}

template <class Peer>
result<round_entry> basic_swarm_group<Peer>::enter(std::uint64_t samples, std::uint64_t) {
  CAUSEWAY_TRY(swarm_->complete([this] { return stage_->exchange_waits(); }));
  CAUSEWAY_ASSIGN(entry_, stage_->enter(1 + swarm_->contributed(), 0));
  if (replaced_) return fail(errc::cancelled, "swarm", "the others of this stage have finished the step");
  rows_.clear();
  samples_ = samples;
  entry_.last = run_ends();
  CAUSEWAY_TRY(divide());
  return entry_;
}

template <class Peer>
void basic_swarm_group<Peer>::received(std::span<const float> row, const std::vector<index_range>*) {
  if (exchanges_rows()) rows_.insert(rows_.end(), row.begin(), row.end());
}

template <class Peer>
result<void> basic_swarm_group<Peer>::exchanged(std::span<const float> sum) {
  sum_of_ = known_of_;
  sum_paths_ = entry_.paths;
  CAUSEWAY_TRY(keep_sum(sum.empty() ? std::span<const float>{rows_} : sum));
  CAUSEWAY_ASSIGN(std::vector<double> all, swarm_->all_summed());
  CAUSEWAY_TRY(agree_on(all));
  CAUSEWAY_TRY(stage_->exchanged({}));
  swarm_->agreed(all);
  return {};
}

template <class Peer>
result<verdict> basic_swarm_group<Peer>::decide(const result<void>& outcome, bool candidate) {
  if (!outcome && outcome.error().code == errc::non_finite) return mend(outcome.error());
  if (outcome && candidate && !is_sound()) {
    return mend(fail(errc::non_finite, "this peer", "its parameters are not finite after the step"));
  }
  return judge(outcome, candidate);
}

template <class Peer>
result<verdict> basic_swarm_group<Peer>::judge(const result<void>& outcome, bool candidate) {
  CAUSEWAY_ASSIGN(const verdict judged, stage_->decide(outcome, candidate));
  if (judged == verdict::commit && swarm_->asked_to_move() && !std::exchange(leaves_, true)) stage_->leave();
  if (judged == verdict::commit && outcome) {
    spoilt_ = 0;
    computed_before_ = computed_;
  }
  // Gradients of a step that others have finished are worth nothing on top of it.
  const bool adopted = std::exchange(replaced_, false), gives_up = std::exchange(gives_up_, false);
  const bool holds_new_state = adopted || judged == verdict::commit;
  if (!holds_new_state && !gives_up) return judged;
  row_of_ = sum_of_ = 0;
  if (!holds_new_state) begin_anew();
  if (holds_new_state) swarm_->committed(adopted);
  return verdict::commit;
}

template <class Peer>
result<verdict> basic_swarm_group<Peer>::mend(const error& why) {
  if (++spoilt_ > most_spoilt) {
    return fail(errc::non_finite, why.where,
                why.message + ", " + std::to_string(most_spoilt) +
                    " times from a sound state: lower the learning rate, clip gradients, or look at this machine's memory");
  }
  swarm_->throw_away();
  const result<void> reason = fail(errc::corrupt, why.where, why.message);
  CAUSEWAY_ASSIGN(const verdict judged, judge(reason, false));
  if (judged == verdict::commit) return judged;  // the others' state is here
  if (!is_sound() && states_) (void)states_->load(stage_->round(), stage_->state_hash(), parts_);
  if (is_sound()) {
    begin_anew();
    return verdict::commit;
  }
  return fail(
      errc::non_finite, why.where,
      why.message + ", and the committed state is not on this peer's disk; start it again, and it takes the others'");
}

template <class Peer>
void basic_swarm_group<Peer>::begin_anew() {
  adopted_({});
  row_of_ = sum_of_ = 0;
  replaced_ = false;
  swarm_->committed(true);
}

template <class Peer>
bool basic_swarm_group<Peer>::is_sound() const {
  const auto floats = parts_.empty() ? std::span<const std::byte>{} : std::span<const std::byte>{parts_.front()};
  for (std::size_t at = 0; at + sizeof(float) <= floats.size(); at += sizeof(float)) {
    float v = 0;
    std::memcpy(&v, floats.data() + at, sizeof v);
    if (!std::isfinite(v)) return false;
  }
  return true;
}

template <class Peer>
result<void> basic_swarm_group<Peer>::keep_sum(std::span<const float> gradient) {
  const auto all = exchanges_rows() ? std::span<const float>{rows_} : gradient;
  CAUSEWAY_ASSIGN(const parallel::swarm_sum sum, swarm_->keep_sum(all, steps_alone() ? all : gradient));
  if (!sums_) return {};
  const std::span<float> values = averages_ ? std::span{rows_} : sum.values;
  kept_sum head{sum.step, sum.squares, stage_->state_hash(), sum_of_, values.size()};
  std::uint64_t model = parts_.empty() ? 0 : parts_.front().size();
  const std::span<std::byte> parts[] = {std::as_writable_bytes(std::span{&head, 1}),
                                        std::as_writable_bytes(std::span{&model, 1}), std::as_writable_bytes(values)};
  return sums_->save(run_of_sums(), sum.step, run_of_sums(), parts);
}

template <class Peer>
void basic_swarm_group<Peer>::recall_sums() {
  if (!sums_) return;
  const auto steps = sums_->rounds();
  if (!steps) return;
  for (const std::uint64_t step : *steps) {
    kept_sum head;
    std::uint64_t model = 0;
    std::span<std::byte> parts[] = {
        std::as_writable_bytes(std::span{&head, 1}), std::as_writable_bytes(std::span{&model, 1}), {}};
    if (!sums_->load(step, run_of_sums(), std::span{parts}.first(2))) continue;
    if (parts_.empty() || model != parts_.front().size()) continue;
    std::vector<float> values(static_cast<std::size_t>(head.length));
    parts[2] = std::as_writable_bytes(std::span{values});
    if (!sums_->load(step, run_of_sums(), parts)) continue;
    const bool next = head.state == stage_->state_hash();
    if (next) sum_of_ = static_cast<std::uint32_t>(head.attempt);
    swarm_->restore_sum({head.step, head.squares, next ? std::span{values} : std::span<float>{}});
  }
}

template <class Peer>
result<void> basic_swarm_group<Peer>::divide() {
  parallel::swarm_holding mine = swarm_->holding();
  computed_ = mine.done.count();
  const auto waits = row_waits_ && !steps_alone() ? row_waits_() : std::nullopt;
  mine.samples = steps_alone() ? samples_ : !waits ? computed_ : *waits ? computed_before_ : 0;
  mine.row_of = row_of_;
  mine.sum_of = sum_of_;
  mine.sum_paths = sum_paths_;
  const auto bytes = parallel::encode(mine);
  const std::size_t peers = entry_.transport->size();
  std::vector<std::vector<std::byte>> all(peers);
  if (peers > 1) {
    CAUSEWAY_TRY(collective::all_gather(*entry_.transport, name(0), bytes, most_bytes, all, {.deadline = entry_.deadline}));
  }
  std::vector<parallel::swarm_holding> holdings;
  for (std::size_t p = 0; p < peers; ++p) {
    if (p == entry_.transport->self()) {
      holdings.push_back(mine);
      continue;
    }
    auto h = parallel::decode_holding(all[p]);
    if (!h) return h.error();
    holdings.push_back(std::move(*h));
  }
  const net::peer_index self = entry_.transport->self();
  CAUSEWAY_ASSIGN(parallel::swarm_part_taken part, swarm_->take_part(holdings, self));
  gives_up_ = part.gives_up;
  if (gives_up_)
    return fail(errc::cancelled, "this peer", "others have a part of what it has moved; it begins the round anew");
  entry_.share = part.weights[self];
  entry_.shares = std::move(part.weights);
  entry_.paths = std::move(part.paths);
  if (!part.result_at && entry_.share > 0) row_of_ = entry_.attempt;
  known_of_ = part.result_at ? holdings[*part.result_at].sum_of : entry_.attempt;
  entry_.result_at = part.result_at;
  entry_.result = part.result;
  return {};
}

template <class Peer>
result<void> basic_swarm_group<Peer>::agree_on(std::vector<double>& all) {
  const time_point begin = swarm_->now();
  auto outcome = exchange_totals(all, norm_times_.deadline(begin));
  if (outcome) norm_times_.observe(swarm_->now() - begin);
  if (!outcome && outcome.error().code == errc::timeout) norm_times_.overdue(swarm_->now() - begin);
  return outcome;
}

template <class Peer>
result<void> basic_swarm_group<Peer>::exchange_totals(std::vector<double>& all, time_point deadline) {
  const std::vector<double> own = all;
  all.resize(own.size() * entry_.transport->size());
  if (all.size() > own.size()) {
    CAUSEWAY_TRY(collective::all_gather(*entry_.transport, name(1), std::as_bytes(std::span{own}),
                                        std::as_writable_bytes(std::span{all}), {.deadline = deadline}));
  }
  all.resize(own.size());
  const bool finite = std::all_of(all.begin(), all.end(), [](double v) { return std::isfinite(v); });
  if (!finite || all[0] < 0) return fail(errc::protocol, "peer 0", "it sent a norm that is none");
  return {};
}

template <class Peer>
net::message_id basic_swarm_group<Peer>::name(std::uint32_t part) const {
  return {.channel = collective::channels::state + part, .step = entry_.round, .parent = entry_.parent};
}

#ifdef CAUSEWAY_COMPILED
template class basic_swarm_group<parallel::swarm_peer>;
#endif

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_IMPL_SWARM_GROUP_IPP
