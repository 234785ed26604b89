// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_SWARM_GROUP_HPP
#define CAUSEWAY_TRAIN_SWARM_GROUP_HPP

// The peers of one stage of a swarm as a membership: that of train/member.hpp, with three things added. An exchange begins
// when the stage has every micro-batch of the step, and only if its peers have each exactly once between them; what is
// exchanged is summed, not averaged; and nobody takes the step before all stages have their sums, on disk where the group
// has one: then a stage that loses all its peers while another takes the step can take it as well, once one is back.

#include <causeway/collective/channels.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/round_store.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/swarm_options.hpp>
#include <causeway/parallel/swarm_shares.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/train/elastic_group.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI {

/// Threading: as elastic_group.
class swarm_group final : public elastic_group {
 public:
  /// `stage`: the membership of the peers that hold the same stage; a quota and a budget of 0 fit it, since samples are not
  /// handed out by it.
  swarm_group(std::shared_ptr<elastic_group> stage, std::shared_ptr<parallel::swarm_round> swarm)
      : stage_{std::move(stage)}, swarm_{std::move(swarm)} {}
  /// With a disk, where `folder` is this stage's: a step costs one write of the stage's gradient more, before the other
  /// stages hear of it. Peers that take local steps write none (docs/design/swarm.md, L7).
  swarm_group(std::shared_ptr<elastic_group> stage, std::shared_ptr<parallel::swarm_round> swarm, io::any_storage disk,
              const std::string& folder)
      : swarm_group{std::move(stage), std::move(swarm)} {
    states_.emplace(disk, folder + "/rounds");
    if (swarm_->options().local_steps == 0) sums_.emplace(std::move(disk), folder + "/sums");
  }

  [[nodiscard]] std::uint64_t identity() const override { return stage_->identity(); }
  [[nodiscard]] std::uint64_t round() const override { return stage_->round(); }
  [[nodiscard]] std::uint64_t parent() const override { return stage_->parent(); }
  [[nodiscard]] std::uint64_t state_hash() const override { return stage_->state_hash(); }
  [[nodiscard]] std::uint64_t contributed() const override { return UINT64_MAX; }  // nothing is left over
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) override {
    return stage_->draw(skipped, count);
  }
  [[nodiscard]] bool budget_used() const override { return stage_->budget_used(); }
  void leave() override { stage_->leave(); }
  [[nodiscard]] bool exchange_waits() const override { return stage_->exchange_waits(); }

  result<void> open(shared_state state, thread_pool& pool) override {
    state.adopted = [this, inner = std::move(state.adopted)](std::span<const float>) {
      replaced_ = true;
      swarm_->replaced();
      if (inner) inner({});
    };
    state.replay = nullptr;  // a stage's step depends on the other stages
    const std::size_t parameters = state.parts.empty() ? 0 : state.parts.front().size() / sizeof(float);
    parts_ = state.parts;
    adopted_ = state.adopted;
    CAUSEWAY_TRY(stage_->open(std::move(state), pool));
    replaced_ = false;
    recall_sums(parameters);
    swarm_->committed(true);
    return {};
  }

  result<round_entry> enter(std::uint64_t) override {
    CAUSEWAY_TRY(swarm_->complete([this] { return stage_->exchange_waits(); }));
    CAUSEWAY_ASSIGN(entry_, stage_->enter(1 + swarm_->contributed()));
    if (replaced_) return fail(errc::cancelled, "swarm", "the others of this stage have finished the step");
    CAUSEWAY_ASSIGN(entry_.share, divide());
    return entry_;
  }

  result<void> exchanged() override {
    CAUSEWAY_TRY(keep_sum());
    CAUSEWAY_ASSIGN(const double squares, swarm_->all_summed());
    CAUSEWAY_TRY(agree_on_norm(squares));
    return stage_->exchanged();
  }

  result<verdict> settle(const result<void>& outcome, bool candidate) override {
    if (!outcome && outcome.error().code == errc::non_finite) return mend(outcome.error());
    if (outcome && candidate && !is_sound()) {
      return mend(fail(errc::non_finite, "this peer", "its parameters are not finite after the step"));
    }
    return judge(outcome, candidate);
  }

 private:
  // What a sum was made of, and where it leads from.
  struct kept_sum {
    std::uint64_t step = 0;
    double squares = 0;
    std::uint64_t state = 0;
  };

  result<verdict> judge(const result<void>& outcome, bool candidate) {
    CAUSEWAY_ASSIGN(const verdict judged, stage_->settle(outcome, candidate));
    if (judged == verdict::commit && swarm_->asked_to_move() && !std::exchange(leaves_, true)) stage_->leave();
    if (judged == verdict::commit && outcome) spoilt_ = 0;
    // Gradients of a step that others have finished are worth nothing on top of it.
    const bool adopted = std::exchange(replaced_, false);
    if (!adopted && judged != verdict::commit) return judged;
    swarm_->committed(adopted);
    return verdict::commit;
  }

  // This peer alone came to values that are not finite: its share goes to others, and it goes back to the committed state,
  // as if it had been started again. Where that does not help, all would come to the same.
  result<verdict> mend(const error& why) {
    if (++spoilt_ > most_spoilt) {
      return fail(
          errc::non_finite, why.where,
          why.message + ", " + std::to_string(most_spoilt) +
              " times from a sound state: lower the learning rate, clip gradients, or look at this machine's memory");
    }
    swarm_->throw_away();
    const result<void> reason = fail(errc::corrupt, why.where, why.message);
    CAUSEWAY_ASSIGN(const verdict judged, judge(reason, false));
    if (judged == verdict::commit) return judged;  // the others' state is here
    if (!is_sound() && states_) (void)states_->load(stage_->round(), stage_->state_hash(), parts_);
    if (is_sound()) {
      adopted_({});
      replaced_ = false;
      swarm_->committed(true);
      return verdict::commit;
    }
    return fail(
        errc::non_finite, why.where,
        why.message + ", and the committed state is not on this peer's disk; start it again, and it takes the others'");
  }

  // Of the shared parameters, which come first.
  [[nodiscard]] bool is_sound() const {
    const auto floats = parts_.empty() ? std::span<const std::byte>{} : std::span<const std::byte>{parts_.front()};
    for (std::size_t at = 0; at + sizeof(float) <= floats.size(); at += sizeof(float)) {
      float v = 0;
      std::memcpy(&v, floats.data() + at, sizeof v);
      if (!std::isfinite(v)) return false;
    }
    return true;
  }

  result<void> keep_sum() {
    CAUSEWAY_ASSIGN(const parallel::swarm_sum sum, swarm_->keep_sum());
    if (!sums_) return {};
    kept_sum head{sum.step, sum.squares, stage_->state_hash()};
    const std::span<std::byte> parts[] = {std::as_writable_bytes(std::span{&head, 1}), std::as_writable_bytes(sum.values)};
    return sums_->save(run_of_sums(), sum.step, run_of_sums(), parts);
  }

  // A sum on top of the state that this peer has is what it makes the next step with; of one before it others may ask.
  // Without one, or with one that is torn, the micro-batches are computed again, if they can be.
  void recall_sums(std::size_t parameters) {
    if (!sums_) return;
    const auto steps = sums_->rounds();
    if (!steps) return;
    for (const std::uint64_t step : *steps) {
      kept_sum head;
      std::vector<float> values(parameters);
      const std::span<std::byte> parts[] = {std::as_writable_bytes(std::span{&head, 1}),
                                            std::as_writable_bytes(std::span{values})};
      if (!sums_->load(step, run_of_sums(), parts)) continue;
      const bool next = head.state == stage_->state_hash();
      swarm_->restore_sum({head.step, head.squares, next ? std::span{values} : std::span<float>{}});
    }
  }
  [[nodiscard]] std::uint64_t run_of_sums() const { return mix(swarm_->options().run, swarm_->options().stage); }

  // Everybody's holdings go to everybody: M bits each.
  result<double> divide() {
    const parallel::swarm_holding mine = swarm_->holding();
    const auto bytes = parallel::encode(mine);
    const std::size_t peers = entry_.transport->size();
    std::vector<std::vector<std::byte>> all(peers);
    if (peers > 1) {
      CAUSEWAY_TRY(
          collective::all_gather(*entry_.transport, name(0), bytes, most_bytes, all, {.deadline = entry_.deadline}));
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
    return swarm_->take_part(holdings, entry_.transport->self());
  }

  // Peers of a stage may have heard of other stages at different moments; one word counts, so that they step alike. The
  // exchange's deadline does not hold here, since the other stages take the time that they take; but once this peer has
  // heard of all of them its mates have too, or soon will. Who is lost, or hangs for longer than that ever took, ends the
  // wait.
  result<void> agree_on_norm(double squares) {
    const time_point begin = swarm_->now();
    auto outcome = exchange_norms(squares, norm_times_.deadline(begin));
    if (outcome) norm_times_.observe(swarm_->now() - begin);
    if (!outcome && outcome.error().code == errc::timeout) norm_times_.overdue(swarm_->now() - begin);
    return outcome;
  }
  result<void> exchange_norms(double squares, time_point deadline) {
    std::vector<double> all(entry_.transport->size(), squares);
    if (all.size() > 1) {
      CAUSEWAY_TRY(collective::all_gather(*entry_.transport, name(1), std::as_bytes(std::span{&squares, 1}),
                                          std::as_writable_bytes(std::span{all}), {.deadline = deadline}));
    }
    if (!std::isfinite(all[0]) || all[0] < 0) return fail(errc::protocol, "peer 0", "it sent a norm that is none");
    swarm_->agreed(all[0]);
    return {};
  }

  [[nodiscard]] net::message_id name(std::uint32_t part) const {
    return {.channel = collective::channels::state + part, .step = entry_.round, .parent = entry_.parent};
  }

  static constexpr std::uint32_t most_spoilt = 3;
  static constexpr std::size_t most_bytes = (parallel::swarm_wire::most_micro_batches / 8) + 64;

  std::shared_ptr<elastic_group> stage_;
  std::shared_ptr<parallel::swarm_round> swarm_;
  std::optional<membership::round_store> sums_;
  std::optional<membership::round_store> states_;        // as the membership keeps them
  std::vector<std::span<std::byte>> parts_;              // of the shared state
  std::function<void(std::span<const float>)> adopted_;  // shared_state::adopted
  std::uint32_t spoilt_ = 0;                             // times in a row that this peer came to values that are not finite
  round_entry entry_;
  net::arrival_statistics norm_times_{{.floor = std::chrono::seconds{10}}};
  bool leaves_ = false;
  bool replaced_ = false;  // the shared state was, since the last settle
};

}  // namespace causeway::inline CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_SWARM_GROUP_HPP
