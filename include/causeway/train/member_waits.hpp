// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_MEMBER_WAITS_HPP
#define CAUSEWAY_TRAIN_MEMBER_WAITS_HPP

// How a member's trainer waits for the membership: a wait that gets long says so, and one that is in vain ends.

#include <causeway/core/clock.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/membership/situation.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/train/member_control.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace causeway::inline CAUSEWAY_ABI::detail {

/// For the trainer's thread. All that it is given must outlive it.
class member_waits {
 public:
  using situation = membership::situation;

  member_waits(net::fabric& fabric, member_control& control, const member_options& options, log_sink log)
      : fabric_{&fabric}, control_{&control}, options_{&options}, log_{std::move(log)}, say_at_{options.say_after} {}

  template <class F>
  void locked(F&& what) const {
    fabric_->locked(std::forward<F>(what));
  }

  [[nodiscard]] time_point time_now() const {
    time_point now;
    locked([&] { now = fabric_->now(); });
    return now;
  }

  [[nodiscard]] situation look() const {
    situation now;
    locked([&] { now = control_->now_what(); });
    return now;
  }

  template <class Done>
  result<situation> await(Done&& done) {
    for (;;) {
      situation now;
      const auto over = [&] {
        if (!done(control_->now_what())) return false;
        now = control_->now_what();
        return true;
      };
      CAUSEWAY_ASSIGN(const bool happened, block_a_while(over));
      if (happened) return now;
      CAUSEWAY_TRY(give_up_if_alone());
    }
  }

  // A wait that gets long says so, ever more rarely; also one of many short ones that come to nothing.
  template <class Over>
  result<bool> block_a_while(const Over& over, duration most = duration::max()) {
    const time_point begin = time_now();
    most = std::min(most, say_at_ - waited_);
    if (options_->patience > duration{0}) most = std::min(most, options_->patience);
    const auto outcome = fabric_->block(over, begin + most);
    waited_ += time_now() - begin;
    if (outcome && !*outcome && waited_ >= say_at_) {
      say_at_ = 2 * waited_;
      say_waiting();
    }
    return outcome;
  }

  [[nodiscard]] std::string describe() const {
    std::string text;
    locked([&] { text = control_->describe(); });
    return text + fabric_->describe_waits();
  }

  void say_waiting() const {
    const situation s = look();
    const std::string since = "waiting since " + std::to_string(static_cast<std::int64_t>(seconds(waited_))) + " s: ";
    if (!settled_in(s.is) || s.is == situation::kind::fetch) {
      log_(severity::warning, since + std::string{to_string(s.is)} + (s.why.empty() ? "" : ", " + s.why));
    }
    log_(severity::info, since + describe());
  }

  // Progress: the next wait is another one.
  void stop_waiting() {
    waited_ = duration{0};
    say_at_ = options_->say_after;
  }

  // A newcomer, or who comes back to a run that has done without it, could wait for ever for peers that have ended. Who was
  // in waits longer: what it has trained is worth something, if the others are only cut off.
  result<void> give_up_if_alone() const {
    std::optional<error> why;
    locked([&] { why = control_->alone_too_long(options_->patience * (inside_ ? 10 : 1)); });
    return why ? result<void>{*why} : result<void>{};
  }

  result<void> await_change(const situation& before) {
    CAUSEWAY_TRY(await([&](const situation& s) { return s.changes != before.changes; }));
    return {};
  }

  // False: something else is to be done first. Nobody wakes this peer for that, so it looks.
  result<bool> await_change_or_call(const situation& before) {
    if (!options_->called_away) {
      CAUSEWAY_TRY(await_change(before));
      return true;
    }
    for (;;) {
      if (options_->called_away()) return false;
      const auto over = [&] { return control_->now_what().changes != before.changes || options_->called_away(); };
      CAUSEWAY_ASSIGN(const bool happened, block_a_while(over, look_around));
      if (happened) return look().changes != before.changes;
      CAUSEWAY_TRY(give_up_if_alone());
    }
  }

  static bool settled_in(situation::kind is) { return is != situation::kind::joining && is != situation::kind::no_quorum; }

  /// This peer has had a committed state: it waits for longer before it gives up.
  void note_inside() noexcept { inside_ = true; }

 private:
  static constexpr duration look_around = std::chrono::milliseconds{100};

  net::fabric* fabric_;
  member_control* control_;
  const member_options* options_;
  log_sink log_;
  bool inside_ = false;
  duration waited_{0};  // since the last progress
  duration say_at_;     // of waited_
};

}  // namespace causeway::inline CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_MEMBER_WAITS_HPP
