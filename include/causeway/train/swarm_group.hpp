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
#include <causeway/parallel/swarm/swarm_options.hpp>
#include <causeway/parallel/swarm/swarm_shares.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/train/run_group.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

template <class Peer>
class basic_swarm_group;
using swarm_group = basic_swarm_group<parallel::swarm_peer>;

/// Threading: as run_group.
template <class Peer>
class basic_swarm_group final : public run_group {
 public:
  /// `stage`: the membership of the peers that hold the same stage; a quota and a budget of 0 fit it, since samples are not
  /// handed out by it.
  basic_swarm_group(std::shared_ptr<run_group> stage, std::shared_ptr<Peer> swarm);
  /// With a disk, where `folder` is this stage's: a step costs one write of the stage's gradient more, before the other
  /// stages hear of it. Peers that take local steps write none (docs/design/swarm.md, L7).
  basic_swarm_group(std::shared_ptr<run_group> stage, std::shared_ptr<Peer> swarm, io::any_storage disk,
                    const std::string& folder);

  [[nodiscard]] std::uint64_t identity() const override { return stage_->identity(); }
  [[nodiscard]] std::uint64_t round() const override { return stage_->round(); }
  [[nodiscard]] std::uint64_t parent() const override { return stage_->parent(); }
  [[nodiscard]] std::uint64_t state_hash() const override { return stage_->state_hash(); }
  [[nodiscard]] std::uint32_t expected() const override { return stage_->expected(); }
  // Gradients leave nothing over; a row that is a round late, what was trained after it.
  [[nodiscard]] std::uint64_t contributed() const override { return steps_alone() ? samples_ : UINT64_MAX; }
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) override;
  [[nodiscard]] bool budget_used() const override { return stage_->budget_used(); }
  void leave() override { stage_->leave(); }
  void close(bool stays) override { stage_->close(stays || stage_.use_count() > 1); }
  [[nodiscard]] bool exchange_waits() const override { return stage_->exchange_waits() || swarm_->is_waited_for(); }
  [[nodiscard]] net::any_transport lasting() override { return stage_->lasting(); }
  [[nodiscard]] bool exchanges_at_once() const override { return true; }
  [[nodiscard]] bool run_ends() const override { return steps_alone() && swarm_->run_ends(); }
  void offer_parameters_at(std::span<float> where) override { stage_->offer_parameters_at(where); }

  result<void> open(shared_state state, thread_pool& pool) override;

  result<round_entry> enter(std::uint64_t samples, std::uint64_t) override;
  bool announce(std::uint64_t, std::uint64_t gathered) override { return run_ends() || gathered >= round_samples_; }

  void received(std::span<const float> row, const std::vector<index_range>* where) override;
  result<void> exchanged(std::span<const float> sum) override;

  result<verdict> decide(const result<void>& outcome, bool candidate) override;

 private:
  // What a sum was made of, and where it leads from.
  struct kept_sum {
    std::uint64_t step = 0;
    double squares = 0;
    std::uint64_t state = 0;
    std::uint64_t attempt = 0;  ///< that it is of
    std::uint64_t length = 0;   ///< values: with what else came of the exchange
  };

  result<verdict> judge(const result<void>& outcome, bool candidate);

  // This peer alone came to values that are not finite: its share goes to others, and it goes back to the committed state,
  // as if it had been started again. Where that does not help, all would come to the same.
  result<verdict> mend(const error& why);

  // This peer gives up what it has of the round: it is at the committed state, as if it had been started again.
  void begin_anew();

  // Of the shared parameters, which come first.
  [[nodiscard]] bool is_sound() const;

  result<void> keep_sum(std::span<const float> gradient);

  // A sum on top of the state that this peer has is what it makes the next step with; of one before it others may ask.
  // Without one, or with one that is torn, the micro-batches are computed again, if they can be.
  void recall_sums();
  [[nodiscard]] bool steps_alone() const { return swarm_->options().local_steps > 0; }
  [[nodiscard]] bool exchanges_rows() const { return averages_ || steps_alone(); }
  [[nodiscard]] std::uint64_t run_of_sums() const { return mix(swarm_->options().run, swarm_->options().stage); }

  // Everybody's holdings go to everybody: M bits each.
  result<void> divide();

  // Peers of a stage may have heard of other stages at different moments; one word counts, so that they step alike. The
  // exchange's deadline does not hold here, since the other stages take the time that they take; but once this peer has
  // heard of all of them its mates have too, or soon will. Who is lost, or hangs for longer than that ever took, ends the
  // wait.
  // What is agreed on replaces `all`.
  result<void> agree_on(std::vector<double>& all);
  result<void> exchange_totals(std::vector<double>& all, time_point deadline);

  [[nodiscard]] net::message_id name(std::uint32_t part) const;

  static constexpr std::uint32_t most_spoilt = 3;
  static constexpr std::size_t most_bytes = (parallel::swarm_wire::most_micro_batches / 4) + 20000;

  std::shared_ptr<run_group> stage_;
  std::shared_ptr<Peer> swarm_;
  std::optional<membership::round_store> sums_;
  std::optional<membership::round_store> states_;        // as the membership keeps them
  std::vector<std::span<std::byte>> parts_;              // of the shared state
  std::function<void(std::span<const float>)> adopted_;  // shared_state::adopted
  std::uint32_t spoilt_ = 0;                             // times in a row that this peer came to values that are not finite
  round_entry entry_;
  net::arrival_statistics norm_times_{{.floor = std::chrono::seconds{10}}};
  bool averages_ = false;  // gradients are rows of a mean, which the policy exchanges: it keeps something of them
  std::function<std::optional<bool>()> row_waits_;  // exchange_state's
  // Where rows are exchanged:
  std::vector<float> rows_;               // of the exchange entered last, and what else came of it
  std::uint64_t samples_ = 0;             // behind this peer's
  std::uint64_t computed_ = 0;            // micro-batches, in the attempt at a step that was entered last
  std::uint64_t computed_before_ = 0;     // in the step before it
  std::uint64_t round_samples_ = 0;       // that all peers gather together; 0: that is not how rounds come
  std::uint32_t row_of_ = 0;              // the attempt that this peer sent one in last, of this round
  std::uint32_t sum_of_ = 0;              // the attempt that the sum is of which it has
  std::vector<std::uint32_t> sum_paths_;  // of a model of modules: that the rows in it were of
  std::uint32_t known_of_ = 0;  // the attempt that the result is of which the exchange entered last passes on; or itself
  bool leaves_ = false;
  bool gives_up_ = false;  // what this peer has of the round
  bool replaced_ = false;  // the shared state was, since the last `decide`
};

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/swarm_group.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_SWARM_GROUP_HPP
