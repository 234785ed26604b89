// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_PIPELINE_GROUP_HPP
#define CAUSEWAY_TRAIN_PIPELINE_GROUP_HPP

// All peers of elastic pipelines as one membership. A round is a step. What the peers vote on is not the parameters, of
// which each has a part, but that the step's gradient is complete everywhere, and its norm: whoever knows that makes the
// same step, now or when it hears of it. So no state has to be taken back when an attempt fails.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/train/by_segment.hpp>
#include <causeway/train/run_group.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

template <class Whole>
class basic_pipeline_group;
using pipeline_group = basic_pipeline_group<void>;

/// environment::group and the policy's step_group in one. The communication policy sees a peer that is alone, where the
/// pipelines sum the gradients; where it is to exchange them, or replicas take steps of their own, the holders of the same
/// blocks. Threading: as run_group.
template <class Whole>
class basic_pipeline_group final : public run_group, public parallel::step_group {
 public:
  /// `below`: the membership of all peers; a quota and a budget of 0 fit it, since samples are not handed out by it, and
  /// member_options::enters_afresh must be set.
  explicit basic_pipeline_group(std::shared_ptr<run_group> below);
  /// What the peers vote on is in here, not in the trainer: so the membership is closed here.
  ~basic_pipeline_group() override;
  basic_pipeline_group(const basic_pipeline_group&) = delete;
  basic_pipeline_group& operator=(const basic_pipeline_group&) = delete;

  // ---- for the context ------------------------------------------------------------------------------------------------

  [[nodiscard]] std::uint64_t identity() const override { return below_->identity(); }
  [[nodiscard]] std::uint32_t expected() const override { return expected_; }
  [[nodiscard]] std::uint64_t round() const override { return below_->round(); }
  [[nodiscard]] std::uint64_t parent() const override { return below_->parent(); }
  [[nodiscard]] std::uint64_t state_hash() const override { return record_.state; }
  [[nodiscard]] std::uint64_t contributed() const override { return UINT64_MAX; }  // nothing is left over
  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) override;
  [[nodiscard]] bool budget_used() const override { return below_->budget_used(); }
  void leave() override { below_->leave(); }

  /// What the others hold alike is not what the context would share.
  result<void> open(shared_state, thread_pool& pool) override;

  /// Of replicas that take steps of their own: an attempt of the membership is all that lies between two exchanges.
  [[nodiscard]] bool exchanges_at_once() const override { return true; }
  /// To all peers of the attempt, whatever they hold, as long as it lasts: then they meet again.
  [[nodiscard]] net::any_transport lasting() override { return below_->of_attempt(); }
  [[nodiscard]] bool moves_blocks() const override { return true; }
  [[nodiscard]] bool rows_by_block() const override { return rounds_.by_block; }
  [[nodiscard]] bool run_ends() const override { return rounds_.run_ends && rounds_.run_ends(); }
  result<round_entry> enter(std::uint64_t, std::uint64_t) override;
  bool announce(std::uint64_t, std::uint64_t) override { return !rounds_.enough || rounds_.enough(); }
  [[nodiscard]] bool exchange_waits() const override { return rounds_.waits && rounds_.waits(); }
  [[nodiscard]] std::optional<round_entry> lines() override;
  void received(std::span<const float> row, const std::vector<index_range>* where) override;
  result<void> exchanged(std::span<const float> mean) override;

  result<verdict> decide(const result<void>& outcome, bool) override;

  // ---- for the pipelines ----------------------------------------------------------------------------------------------

  [[nodiscard]] parallel::step_group* steps() noexcept override { return this; }
  [[nodiscard]] const parallel::step_record& record() const override { return record_; }

  result<parallel::step_attempt> begin_attempt() override;

  result<void> propose(const parallel::step_record& next) override;

  result<void> failed(const error& why) override;

  void finished_by_others() override { finished_by_others_ = true; }
  void begin_exchange_again() override { again_ = true; }
  void exchange_by(parallel::exchange_hooks rounds) override { rounds_ = std::move(rounds); }
  void expects(std::uint32_t holders) override { expected_ = holders; }
  [[nodiscard]] const parallel::exchange_state& state() const override { return state_; }

 private:
  /// Whether every attempt of the pipelines would come to the same: an option that cannot work, or what they cannot do.
  /// (The membership retries neither what a machine cannot do. In the policy's own exchange weights that add up to 0 are an
  /// invalid argument, too, and may be others in the next.)
  [[nodiscard]] static bool is_final(const error& why);

  std::shared_ptr<run_group> below_;
  parallel::step_record record_;
  net::any_transport alone_{};
  std::deque<net::any_transport> exchanges_;  // what the communication policy began with them may outlive the pipelines
  net::any_transport below_lines_{}, lines_{};
  parallel::exchange_hooks rounds_;
  parallel::exchange_state state_;
  std::vector<float> gradient_;  // of several rows, as far as they have come in the exchange under way
  std::uint32_t expected_ = 1;
  bool in_exchange_ = false;  // the policy entered one since the last decision
  bool finished_by_others_ = false;
  bool again_ = false;  // the exchange, in the attempt under way
};

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/pipeline_group.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_PIPELINE_GROUP_HPP
