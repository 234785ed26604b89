// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_MEMBER_HPP
#define CAUSEWAY_TRAIN_MEMBER_HPP

// A peer of a run whose peers come and go: brings the membership's decisions, the transfer of state and the disk together
// with the trainer's thread. The decisions themselves are in membership/protocol.hpp; this is the part that waits.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/train/entered_attempt.hpp>
#include <causeway/train/held_round.hpp>
#include <causeway/train/member_control.hpp>
#include <causeway/train/member_waits.hpp>
#include <causeway/train/run_group.hpp>
#include <causeway/train/state_fetch.hpp>
#include <causeway/train/unusable_rows.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

template <class Whole>
class basic_member;
using member = basic_member<void>;

/// Models what training_context asks of a group, over any fabric. One per process and run. Made by `make`, before the
/// trainer; it must outlive the trainer's use of it, and may outlive the trainer: it then gives the result of the run to
/// those who come late. Threading: run_group's members from the trainer's thread; `describe` and `rejected` from any.
///
/// Memory: one staging copy of the shared state while state is fetched; while others fetch it for longer than a round, see
/// membership::kept_states; another one where it outlives the trainer. Disk: the shared state of two rounds, and a record
/// of a few hundred bytes.
template <class Whole>
class basic_member final : public run_group {
 public:
  using situation = membership::situation;

  /// `fabric` must have the identity that `member_identity` gave for this storage.
  static result<std::shared_ptr<member>> make(std::shared_ptr<net::fabric> fabric, io::any_storage storage,
                                              member_options options, log_sink log = {});

  ~basic_member() override { control_->detach(); }

  [[nodiscard]] std::uint64_t identity() const override { return fabric_->id(); }
  [[nodiscard]] std::uint32_t expected() const override { return std::max<std::uint32_t>(options_.protocol.expected, 1); }
  [[nodiscard]] std::uint64_t round() const override { return held_.round(); }
  [[nodiscard]] std::uint64_t parent() const override { return held_.record().chain(); }
  [[nodiscard]] std::uint64_t state_hash() const override { return held_.record().state; }
  [[nodiscard]] std::uint64_t contributed() const override { return contributed_; }

  result<void> open(shared_state state, thread_pool& pool) override;

  result<round_entry> enter(std::uint64_t samples, std::uint64_t later) override;

  bool announce(std::uint64_t samples, std::uint64_t gathered) override;

  bool stand_by(std::uint64_t samples, std::uint64_t later) override;

  [[nodiscard]] bool exchange_waits() const override { return waits_.look().is == situation::kind::exchange; }

  void offer_parameters_at(std::span<float> where) override {
    locked([&] { held_.image().lies_at(0, std::as_writable_bytes(where)); });
  }

  [[nodiscard]] net::any_transport lasting() override { return attempt_.lasting(); }
  [[nodiscard]] net::any_transport of_attempt() override { return attempt_.of_attempt(); }

  result<void> exchanged(std::span<const float> mean) override;

  result<verdict> decide(const result<void>& outcome, bool candidate) override;

  [[nodiscard]] bool can_sit_out() const override { return true; }

  result<verdict> sit_out(const error& why) override;

  [[nodiscard]] std::vector<std::uint64_t> draw(std::uint64_t skipped, std::uint64_t count) override {
    if (unusable_.sits_out(held_.round())) return {};
    return asked([&] { return held_.samples().draw(control_->ledger(), skipped, count); });
  }

  [[nodiscard]] bool budget_used() const override { return held_.samples().complete(); }
  /// Samples of the run that are in commits, of all peers.
  [[nodiscard]] std::uint64_t samples_done() const { return held_.samples().done(); }

  /// Tells the others that this peer goes, so that they need not find out.
  void leave() override {
    locked([&] { control_->leave(); });
  }

  void close(bool stays) override;

  /// Whom this peer waits for, since when, and what happens next; one line each. From any thread.
  [[nodiscard]] std::string describe() const { return waits_.describe(); }

 private:
  basic_member(std::shared_ptr<net::fabric> fabric, io::any_storage storage, member_options options, log_sink log,
               std::unique_ptr<member_control> control);

  /// What it gives with the lock held.
  template <class F>
  auto asked(F&& what) const -> decltype(what()) {
    decltype(what()) answer{};
    locked([&] { answer = what(); });
    return answer;
  }

  // ---- an exchange --------------------------------------------------------------------------------------------------

  // With what this peer has trained on, but for the last samples, `later`.
  situation say_ready(std::uint64_t later);

  result<std::optional<round_entry>> entry(const situation& s);

  result<void> report(const error& why);

  // ---- a verdict ----------------------------------------------------------------------------------------------------

  // The vote promises that this peer holds the round, also after a crash: so it is written first. Where it was taken over,
  // this peer need not have held the one before: it may have been started just now.
  result<void> vote(std::uint64_t round);

  result<verdict> judge(bool voted);

  // Others hold a candidate that may have been chosen: this peer votes for it too, once it has it.
  result<void> adopt(const situation& now, bool voted);

  verdict committed(const membership::commit_record& record);

  // See detail::held_round.
  void hold(const membership::commit_record& record, const std::optional<membership::ledger>& samples = {});

  // Whether what was trained since the last commit may still be contributed: not if somebody else was given its samples.
  bool keeps_samples();

  // The step under way ends with the state of the others.
  error lose_progress();

  // ---- state --------------------------------------------------------------------------------------------------------

  /// The shared state as it was committed: what is in memory may be spoilt, too.
  result<verdict> restore();

  /// Returns when this peer holds the newest committed state, and nothing else.
  result<void> take_newest();

  /// Replaces the shared state by the one that `now` asks for. `keep`: local progress stays on top of it. False: the
  /// situation moved on before it was whole, and nothing was changed.
  result<bool> fetch(const situation& asked, bool keep);

  // A commit soon after this peer had asked says nothing of how long the transfer takes: once that does not count.
  void excuse() {
    if (!std::exchange(excused_, true) && fetch_.little_came()) in_vain_ = 0;
  }

  // ---- rounds that were committed while the state of an earlier one came --------------------------------------------

  // Whether what is in memory is a state that others keep for this peer, with the means of the rounds since.
  [[nodiscard]] bool follows() const;

  // Does those rounds again, from what they exchanged. Ends when the newest is reached, or nobody can help any further.
  result<void> follow(bool keep, bool late);

  void passing(std::string_view point) const {
    if (options_.passing) options_.passing(point);
  }

  void locked(const std::function<void()>& what) const { fabric_->locked(what); }

  static constexpr unsigned quick_tries = 1;

  struct candidate_state {
    std::uint64_t round = 0, hash = 0;
  };

  std::shared_ptr<net::fabric> fabric_;
  member_options options_;
  log_sink log_;
  std::unique_ptr<member_control> control_;
  detail::member_waits waits_;
  detail::state_fetch fetch_;
  detail::held_round held_;
  candidate_state candidate_;
  std::uint64_t uncommitted_ = 0;  // trained on since the last commit
  std::uint64_t contributed_ = 0;
  bool lost_progress_ = false;  // in `enter`, to be said by `decide`

  detail::entered_attempt attempt_;
  bool in_step_ = false;            // the shared state is that of held_
  bool excused_ = false;            // one fetch in vain was
  unsigned in_vain_ = 0;            // states fetched, or begun to be, since this peer last took part
  detail::unusable_rows unusable_;  // what this peer had to contribute
};

}}  // namespace causeway::CAUSEWAY_ABI

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/member.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_MEMBER_HPP
