// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_UNUSABLE_ROWS_HPP
#define CAUSEWAY_TRAIN_UNUSABLE_ROWS_HPP

// What follows when what a member has to contribute is not finite: it sits out a round, then two, then four, and after too
// many in a row it ends.

#include <causeway/core/error.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>

#include <cstdint>
#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// A regular value.
class unusable_rows {
 public:
  static constexpr std::uint32_t most = 8;  ///< in a row

  /// One more, after `round`. An error if that is too many.
  CAUSEWAY_DECL result<void> add(const error& why, std::uint64_t round, const log_sink& log);
  /// One was usable.
  void end() noexcept { in_a_row_ = 0; }
  /// Whether this peer draws no samples after `round`.
  [[nodiscard]] bool sits_out(std::uint64_t round) const noexcept { return round < until_; }

 private:
  std::uint32_t in_a_row_ = 0;
  std::uint64_t until_ = 0;  // a round
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/unusable_rows.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_UNUSABLE_ROWS_HPP
