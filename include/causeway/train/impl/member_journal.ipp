// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_MEMBER_JOURNAL_IPP
#define CAUSEWAY_TRAIN_IMPL_MEMBER_JOURNAL_IPP

// Bodies of train/member_journal.hpp.

#include <causeway/train/member_journal.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL member_journal::member_journal(const net::fabric& fabric, write_behind& behind, bool kept)
    : fabric_{fabric}, behind_{behind}, kept_{kept} {}

CAUSEWAY_DECL void member_journal::trained(const membership::commit_record& on, std::span<const std::uint64_t> drawn,
                                           std::uint64_t count) {
  if (!kept_ || count == 0) return;
  membership::event e;
  e.what = membership::event::trained;
  e.round = on.round + 1;
  e.parent = on.chain();
  for (const std::uint64_t n : drawn.last(std::min<std::size_t>(drawn.size(), count))) {
    if (!e.ranges.empty() && e.ranges.back().first + e.ranges.back().count == n) {
      ++e.ranges.back().count;
    } else {
      e.ranges.push_back({n, 1});
    }
  }
  note(std::move(e));
}

CAUSEWAY_DECL void member_journal::updates(const membership::view& view) {
  if (!kept_) return;
  for (const auto& m : view.members) {
    if (m.peer == fabric_.id()) continue;
    membership::event e;
    e.what = membership::event::update_accepted;
    e.from = m.peer;
    e.at = view.at;
    e.round = view.round;
    e.parent = view.parent;
    note(std::move(e));
  }
}

CAUSEWAY_DECL void member_journal::held(const membership::commit_record& record) {
  membership::event e;
  e.what = membership::event::held;
  e.round = record.round;
  e.hash = record.state;
  note(std::move(e));
}

CAUSEWAY_DECL void member_journal::note(membership::event e) {
  if (!kept_) return;
  e.peer = fabric_.id();
  e.at_time = fabric_.now();
  behind_.note(e);
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

#endif  // CAUSEWAY_TRAIN_IMPL_MEMBER_JOURNAL_IPP
