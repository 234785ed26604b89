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
#include <optional>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// For the trainer's thread. All that it is given must outlive it.
class member_waits {
 public:
  using situation = membership::situation;

  CAUSEWAY_DECL member_waits(net::fabric& fabric, member_control& control, const member_options& options, log_sink log);

  template <class F>
  void locked(F&& what) const {
    fabric_->locked(std::forward<F>(what));
  }

  CAUSEWAY_DECL [[nodiscard]] time_point time_now() const;

  CAUSEWAY_DECL [[nodiscard]] situation look() const;

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
    if (limit() > duration{0}) most = std::min(most, inside_ ? options_->patience : limit());
    const auto outcome = fabric_->block(over, begin + most);
    waited_ += time_now() - begin;
    if (outcome && !*outcome && waited_ >= say_at_) {
      say_at_ = 2 * waited_;
      say_waiting();
    }
    return outcome;
  }

  CAUSEWAY_DECL [[nodiscard]] std::string describe() const;

  CAUSEWAY_DECL void say_waiting() const;

  // Progress: the next wait is another one.
  CAUSEWAY_DECL void stop_waiting();

  // A newcomer, or who comes back to a run that has done without it, could wait for ever for peers that have ended. Who was
  // in waits longer: what it has trained is worth something, if the others are only cut off.
  CAUSEWAY_DECL result<void> give_up_if_alone() const;

  // How long this peer may find nobody; 0: for ever.
  [[nodiscard]] duration limit() const noexcept {
    if (inside_) return 10 * options_->patience;
    return options_->patience > duration{0} ? options_->patience : options_->newcomer_patience;
  }

  CAUSEWAY_DECL result<void> await_change(const situation& before);

  // False: something else is to be done first. Nobody wakes this peer for that, so it looks.
  CAUSEWAY_DECL result<bool> await_change_or_call(const situation& before);

  static bool joined_in(situation::kind is) { return is != situation::kind::joining && is != situation::kind::no_quorum; }

  /// This peer has had a committed state: it waits for longer before it gives up.
  void note_inside() noexcept { inside_ = true; }
  [[nodiscard]] bool is_inside() const noexcept { return inside_; }

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

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/member_waits.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_MEMBER_WAITS_HPP
