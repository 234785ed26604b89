// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_MEMBER_JOURNAL_HPP
#define CAUSEWAY_TRAIN_MEMBER_JOURNAL_HPP

// What a member's trainer did, as events for a checker (membership/checker.hpp), beside those of the protocol.

#include <causeway/config/config.hpp>
#include <causeway/membership/history.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/train/write_behind.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// With the fabric's lock held.
class member_journal {
 public:
  /// `kept`: somebody reads it. Else nothing is written.
  CAUSEWAY_DECL member_journal(const net::fabric& fabric, write_behind& behind, bool kept);

  /// `drawn`: sample numbers, of which the last `count` were trained on for the round after `on`.
  CAUSEWAY_DECL void trained(const membership::commit_record& on, std::span<const std::uint64_t> drawn,
                             std::uint64_t count);
  /// Those of everybody in a view were used.
  CAUSEWAY_DECL void updates(const membership::view& view);
  /// The state of that round is this peer's.
  CAUSEWAY_DECL void held(const membership::commit_record& record);

 private:
  CAUSEWAY_DECL void note(membership::event e);

  const net::fabric& fabric_;
  write_behind& behind_;
  bool kept_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#ifndef CAUSEWAY_COMPILED
#include <causeway/train/impl/member_journal.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_MEMBER_JOURNAL_HPP
