// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_ROUND_ATTENDANCE_HPP
#define CAUSEWAY_TRAIN_ROUND_ATTENDANCE_HPP

// A trainer's part in the rounds of its group: with which samples it enters an exchange, once in an attempt, what it was
// let into, and what it says came of it. In a fixed set there are no attempts.

#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/train/contribution.hpp>
#include <causeway/train/run_group.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

class round_attendance {
 public:
  explicit round_attendance(run_group& group) : group_{&group} { look(); }

  /// Before anything was entered: what there is to see of the group, which may be another one than before.
  void look() { entry_ = group_->view(); }
  [[nodiscard]] const round_entry& entry() const noexcept { return entry_; }
  [[nodiscard]] contribution& samples() noexcept { return contribution_; }
  [[nodiscard]] const contribution& samples() const noexcept { return contribution_; }
  /// Names the attempt that this peer was let into, until that is judged; never 0, which
  /// is for none: in a fixed set always.
  [[nodiscard]] std::uint64_t attempt() const noexcept { return entered_ ? std::uint64_t{1} + entry_.attempt : 0; }
  [[nodiscard]] bool can_sit_out() const { return group_->can_sit_out(); }

  bool announce() { return entered_ || group_->announce(contribution_.all(), contribution_.gathered()); }
  bool stand_by() {
    return entered_ || group_->stand_by(contribution_.all() - contribution_.later(), contribution_.later());
  }

  /// Lets this peer into the exchange of the round, once per attempt.
  CAUSEWAY_DECL result<void> enter();
  /// The exchange is of so many, and over with the last.
  void in_parts(std::size_t count) noexcept { parts_ = parts_left_ = count; }
  [[nodiscard]] bool has_parts() const noexcept { return parts_ > 1; }
  /// `counts`: how many peers each value came from, where that matters. `where`: see run_group::received.
  CAUSEWAY_DECL result<void> exchanged(std::span<const float> mean, std::span<const float> counts = {},
                                       const std::vector<index_range>* where = nullptr);
  /// Another exchange of the attempt, while what one came to is given to `exchanged`: that one is over once this is.
  CAUSEWAY_DECL result<void> one_more(const std::function<result<void>()>& exchange);
  /// Fills `row` with what comes next in a result that this peer knows.
  CAUSEWAY_DECL void take_known(std::span<float> row);

  /// The shared state is that of a round which is not decided on yet, or needs no decision. `hash`: see
  /// run_group::made.
  void is_candidate(const std::function<std::uint64_t(std::uint64_t)>& hash) {
    candidate_ = true;
    group_->made(hash);
  }
  /// This peer gives up what it computed since the last commit: `decide` sees to it.
  CAUSEWAY_DECL [[nodiscard]] error unusable(const std::string& what);
  CAUSEWAY_DECL result<verdict> decide(const result<void>& outcome);
  /// Whether it did, when it decided last.
  [[nodiscard]] bool gave_up() const noexcept { return gave_up_; }

 private:
  run_group* group_;
  round_entry entry_;
  std::size_t known_at_ = 0;  // in its result
  contribution contribution_;
  bool entered_ = false;
  std::size_t parts_ = 1, parts_left_ = 1;
  const float* before_ = nullptr;  // the row of the part before
  std::size_t before_size_ = 0;
  bool candidate_ = false;
  bool unusable_ = false;
  bool gave_up_ = false;
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/round_attendance.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_ROUND_ATTENDANCE_HPP
