// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_IMPL_WRITE_BEHIND_IPP
#define CAUSEWAY_TRAIN_IMPL_WRITE_BEHIND_IPP

#include <causeway/train/write_behind.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL result<membership::durable_record> read_member_record(io::any_storage& storage, const std::string& folder) {
  CAUSEWAY_ASSIGN(const io::byte_vector bytes, storage.read(folder + "/record"));
  const std::span<const std::byte> all{bytes};
  auto first = membership::decode_durable_record(all.first(all.size() / 2));
  return first ? std::move(first) : membership::decode_durable_record(all.last(all.size() / 2));
}

CAUSEWAY_DECL result<void> write_member_record(io::any_storage& storage, const std::string& folder,
                                               const std::vector<std::byte>& bytes) {
  return storage.write_atomic(folder + "/record", [&](const io::byte_sink& sink) -> result<void> {
    CAUSEWAY_TRY(sink(std::span{bytes}));
    return sink(std::span{bytes});
  });
}

}}}  // namespace causeway::CAUSEWAY_ABI::detail

namespace causeway { inline namespace CAUSEWAY_ABI {

CAUSEWAY_DECL net::peer_id member_identity(io::any_storage storage, const std::string& folder, std::uint64_t run,
                                           net::peer_id fresh) {
  const auto record = detail::read_member_record(storage, folder);
  return record && record->run == run ? record->self : fresh;
}

}}  // namespace causeway::CAUSEWAY_ABI

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

CAUSEWAY_DECL write_behind::write_behind(outlets to, duration patience, std::uint64_t run)
    : to_{std::move(to)}, patience_{patience}, farewell_{membership::detail::encode(run, membership::detail::farewell{})} {}

CAUSEWAY_DECL bool write_behind::must_resign() { return std::exchange(overdue_, false); }

CAUSEWAY_DECL void write_behind::persist(const membership::durable_record& record) {
  newest_ = std::make_shared<const std::vector<std::byte>>(membership::encode(record));
  ++asked_;
  begin_writing();
}

CAUSEWAY_DECL void write_behind::send(net::peer_id to, std::vector<std::byte> message) {
  if (broken_) return;
  const auto kind = membership::detail::kind_of(message);
  if (idle()) return say(to, std::move(message));
  if (kind == membership::detail::number_of<membership::detail::heartbeat>) {
    overdue_ = overdue_ || to_.now() - began_ > patience_;
    return to_.send(to, overdue_ ? farewell_ : std::move(message));
  }
  const bool reports = kind == membership::detail::number_of<membership::detail::report>;
  if (reports) to_.send(to, last_report_.empty() ? farewell_ : last_report_);
  held_.push_back({asked_, letter{to, std::move(message)}});
}

CAUSEWAY_DECL void write_behind::note(const membership::event& e) {
  if (idle()) return to_.note(e);
  if (broken_) return;
  held_.push_back({asked_, e});
}

CAUSEWAY_DECL void write_behind::begin_writing() {
  if (writing_ || over()) return;
  writing_ = true;
  began_ = to_.now();
  const auto good = std::make_shared<bool>(false);
  to_.aside([this, record = newest_, good] { *good = to_.write(*record); },
            [this, number = asked_, good] {
              writing_ = false;
              wrote(number, *good);
            });
}

CAUSEWAY_DECL void write_behind::wrote(std::uint64_t number, bool good) {
  broken_ = !good;
  if (broken_) held_.clear();
  if (broken_) return to_.failed();
  written_ = number;
  while (!held_.empty() && held_.front().record <= written_) {
    auto next = std::move(held_.front().what);
    held_.pop_front();
    if (auto* const l = std::get_if<letter>(&next)) say(l->to, std::move(l->message));
    if (const auto* const e = std::get_if<membership::event>(&next)) to_.note(*e);
  }
  begin_writing();
}

CAUSEWAY_DECL void write_behind::say(net::peer_id to, std::vector<std::byte> message) {
  if (membership::detail::kind_of(message) == membership::detail::number_of<membership::detail::report>) {
    last_report_ = message;
  }
  to_.send(to, std::move(message));
}

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

#endif  // CAUSEWAY_TRAIN_IMPL_WRITE_BEHIND_IPP
