// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_WRITE_BEHIND_HPP
#define CAUSEWAY_TRAIN_WRITE_BEHIND_HPP

// Lets a membership's record be written beside everything else, and holds back what depends on it: a promise or a vote
// leaves this peer once it is durable, and in the order in which it was made. An fsync may take seconds; the network goes
// on meanwhile, and the leader and its members stay in touch:
//
// - A heartbeat is not held back. It names a term, but nobody votes for its sake, and proposals of that term wait. A leader
//   whose disk takes longer than its members would bear its silence says farewell instead, so that another one leads.
// - In place of a report that waits, the last one that was said goes out again, whoever asks: an earlier statement, still
//   true. A leader that resigned has made none to others, and says farewell again.

#include <causeway/config/config.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/history.hpp>
#include <causeway/membership/messages.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/net/fabric.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

namespace detail {

// The file in which a member keeps who it is and what it has promised.

// The record is in its file twice, so that one damaged place costs nothing: without it this peer would be somebody else.
CAUSEWAY_DECL result<membership::durable_record> read_member_record(io::any_storage& storage, const std::string& folder);

CAUSEWAY_DECL result<void> write_member_record(io::any_storage& storage, const std::string& folder,
                                               const std::vector<std::byte>& bytes);

}  // namespace detail

/// The identity that this storage has in a run, or `fresh` if it has none: a record that is torn or lost is no identity.
CAUSEWAY_DECL net::peer_id member_identity(io::any_storage storage, const std::string& folder, std::uint64_t run,
                                           net::peer_id fresh);

}}  // namespace causeway::CAUSEWAY_ABI

namespace causeway { inline namespace CAUSEWAY_ABI { namespace detail {

/// Threading: like its owner's other members; `write` alone runs without the lock, never twice at a time.
class write_behind {
 public:
  struct outlets {
    /// Runs the first without the lock, then the second with it, as net::fabric::aside does.
    std::function<void(std::function<void()>, std::function<void()>)> aside;
    std::function<bool(const std::vector<std::byte>&)> write;  ///< makes an encoded record durable
    std::function<void(net::peer_id, std::vector<std::byte>)> send;
    std::function<void(const membership::event&)> note;
    std::function<void()> failed;  ///< a record cannot be written: nothing of what waits is said, ever
    std::function<time_point()> now;
  };

  /// `patience`: how long a leader may wait for its disk. `run`: as in the messages.
  CAUSEWAY_DECL write_behind(outlets to, duration patience, std::uint64_t run);
  write_behind(const write_behind&) = delete;
  write_behind& operator=(const write_behind&) = delete;

  /// What is sent and noted from now on waits for this record.
  CAUSEWAY_DECL void persist(const membership::durable_record& record);

  CAUSEWAY_DECL void send(net::peer_id to, std::vector<std::byte> message);

  CAUSEWAY_DECL void note(const membership::event& e);

  /// Whether a leader had to say farewell: it is to lead no longer. Said once.
  CAUSEWAY_DECL [[nodiscard]] bool must_resign();
  /// Nothing waits.
  [[nodiscard]] bool idle() const noexcept { return written_ == asked_; }
  /// Nothing waits any more, or for ever: the disk has failed.
  [[nodiscard]] bool over() const noexcept { return idle() || broken_; }

  /// An orderly end: what waits is written and said. `locked` runs a function with the lock held; `finish` returns once no
  /// work is under way aside. Nothing of it blocks in the simulator, where destructors must not.
  template <class Locked, class Finish>
  void flush(Locked locked, Finish finish) {
    if (over()) return;
    const auto good = std::make_shared<bool>(false);
    locked([&] { to_.aside([this, record = newest_, good] { *good = to_.write(*record); }, [] {}); });
    finish();
    locked([&] { wrote(asked_, *good); });
  }

 private:
  struct letter {
    net::peer_id to = 0;
    std::vector<std::byte> message;
  };
  struct waiting {
    std::uint64_t record = 0;  ///< the number of the record that it waits for
    std::variant<letter, membership::event> what;
  };

  /// One record at a time: those that were replaced meanwhile are in the newest.
  CAUSEWAY_DECL void begin_writing();

  CAUSEWAY_DECL void wrote(std::uint64_t number, bool good);

  CAUSEWAY_DECL void say(net::peer_id to, std::vector<std::byte> message);

  outlets to_;
  duration patience_;
  std::vector<std::byte> farewell_;
  time_point began_;
  std::shared_ptr<const std::vector<std::byte>> newest_;
  std::uint64_t asked_ = 0;    // records so far
  std::uint64_t written_ = 0;  // the number of the newest that is durable
  bool writing_ = false;
  bool broken_ = false;
  bool overdue_ = false;
  std::deque<waiting> held_;
  std::vector<std::byte> last_report_;
};

// What a member's trainer did, as events for a checker (membership/checker.hpp), beside those of the protocol.

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
#include <causeway/train/impl/write_behind.ipp>
#endif

#endif  // CAUSEWAY_TRAIN_WRITE_BEHIND_HPP
