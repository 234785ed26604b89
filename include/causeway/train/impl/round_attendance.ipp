// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_ROUND_ATTENDANCE_IPP
#define CAUSEWAY_TRAIN_IMPL_ROUND_ATTENDANCE_IPP

#include <causeway/train/round_attendance.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL result<void> round_attendance::enter() {
  if (entered_ || group_->is_fixed()) return {};
  CAUSEWAY_ASSIGN(entry_, group_->enter(contribution_.all() - contribution_.later(), contribution_.later()));
  entered_ = true;
  known_at_ = 0;
  in_parts(1);
  return {};
}

CAUSEWAY_DECL result<void> round_attendance::exchanged(std::span<const float> mean, std::span<const float> counts,
                                                       const std::vector<index_range>* where) {
  group_->received(mean, parts_ > 1 ? where : nullptr);
  group_->received(counts, nullptr);
  if (--parts_left_ > 0) {
    before_ = mean.data();
    before_size_ = mean.size();
    return {};
  }
  parts_left_ = 1;
  const std::size_t parts = std::exchange(parts_, 1);
  if (parts == 1) return group_->exchanged(mean);
  const bool is_one_row = parts == 2 && mean.empty();  // and a word that goes with it
  return group_->exchanged(is_one_row ? std::span{before_, before_size_} : std::span<const float>{});
}

CAUSEWAY_DECL result<void> round_attendance::one_more(const std::function<result<void>()>& exchange) {
  round_entry with = std::exchange(entry_, {});
  entered_ = false;
  const result<void> outcome = exchange();
  entry_ = std::move(with);
  entered_ = true;
  return outcome;
}

CAUSEWAY_DECL void round_attendance::take_known(std::span<float> row) {
  const auto next = entry_.result.subspan(known_at_, row.size());
  std::copy(next.begin(), next.end(), row.begin());
  known_at_ += row.size();
}

CAUSEWAY_DECL error round_attendance::unusable(const std::string& what) {
  unusable_ = true;
  return fail(errc::non_finite, "this peer's contribution", what);
}

CAUSEWAY_DECL result<verdict> round_attendance::decide(const result<void>& outcome) {
  gave_up_ = false;
  if (outcome && !candidate_) return verdict::commit;
  const bool gives_up = std::exchange(unusable_, false) && !outcome;
  CAUSEWAY_ASSIGN(const verdict judged, gives_up ? group_->sit_out(outcome.error()) : group_->decide(outcome, candidate_));
  entered_ = candidate_ = false;
  gave_up_ = gives_up;
  if (!gives_up && judged == verdict::commit) contribution_.committed(group_->contributed());
  return judged;
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_ROUND_ATTENDANCE_IPP
