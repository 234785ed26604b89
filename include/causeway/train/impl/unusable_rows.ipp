// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_UNUSABLE_ROWS_IPP
#define CAUSEWAY_TRAIN_IMPL_UNUSABLE_ROWS_IPP

#include <causeway/train/unusable_rows.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL result<void> unusable_rows::add(const error& why, std::uint64_t round, const log_sink& log) {
  const std::uint32_t rounds = 1U << std::min(in_a_row_++, 4U);
  if (in_a_row_ > most) {
    return fail(errc::non_finite, why.where,
                why.message + ", " + std::to_string(in_a_row_) +
                    " times in a row: this peer ends. If it is the only one, look at its hardware; if others end so "
                    "too, lower the learning rate or lengthen its warm-up");
  }
  until_ = round + rounds;
  log(severity::warning, "round " + std::to_string(round + 1) + ": " + why.where + " is left out: " + why.message +
                             "; it takes the shared state over and trains again after " + std::to_string(rounds) +
                             (rounds == 1 ? " round" : " rounds"));
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_UNUSABLE_ROWS_IPP
