// SPDX-License-Identifier: Apache-2.0
// Everything that can happen to a message of several chunks, in every order.
#include <causeway/net/inbox.hpp>

#include "net/inbox_messages.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

using namespace causeway;
using namespace causeway::net;
using net::detail::chunk_target;
using net::detail::slot_index;

namespace {

using inbox_messages::all_are;
using inbox_messages::talk;

/// A small model of a link: two streams bring the first two of three chunks in pieces, and the first then a retry of the
/// message; another stream brings the sender's abort; the caller receives, gives up, and receives again. Streams write the
/// way the link does. A receive that has ended gives its buffer back: the model clears it and looks whether it stays so.
class model {
 public:
  explicit model(std::size_t taken_back_to) : abort_at_{taken_back_to} {}

  static constexpr char first = 'a', second = 'b', abort = 'x', caller = 'c', death = 'd';

  void step(char who) {
    if (who == caller) call();
    if (who == death) die();
    if (!dead_ && who == abort) hear_abort();
    if (!dead_ && (who == first || who == second)) read(who == first ? 0 : 1);
    for (attempt& a : attempts_) take_back(a);
  }

  void check() {
    for (attempt& a : attempts_) {
      const bool whole = operations_[a.slot].done && !operations_[a.slot].failure && !a.cancelled;
      if (a.returned && !whole) REQUIRE(all_are(a.buffer, std::byte{0}));
      if (whole) REQUIRE(all_are({a.buffer.begin(), a.buffer.begin() + small}, std::byte{9}));
    }
  }
  [[nodiscard]] bool dropped() const { return dropped_; }

  static constexpr std::size_t small = 8;  // bytes in a chunk

 private:
  static frame_header header(std::uint64_t sequence, std::size_t length, std::size_t offset) {
    frame_header h;
    h.id = talk;
    h.sequence = sequence;
    h.message_length = length;
    h.chunk_offset = offset;
    h.chunk_length = small;
    return h;
  }

  struct attempt {
    std::vector<std::byte> buffer;
    slot_index slot;
    bool cancelled = false;
    bool returned = false;  ///< to the caller
  };

  void call() {
    const int what = calls_++;
    if (what == 1) {
      if (attempts_.empty() || operations_[attempts_.front().slot].done) return;
      attempt& a = attempts_.front();
      box_.cancel(a.slot);
      a.cancelled = true;
    } else if (!dead_) {
      attempts_.push_back({std::vector<std::byte>(3 * small), 0});
      attempt& a = attempts_.back();
      a.slot = operations_.start({.peer = 1, .id = talk, .target = a.buffer.data(), .length = a.buffer.size()});
      box_.post(a.slot);
    }
  }

  void take_back(attempt& a) {
    const bool ended = a.cancelled || (operations_[a.slot].done && operations_[a.slot].failure);
    if (!ended || a.returned) return;
    a.returned = true;
    std::fill(a.buffer.begin(), a.buffer.end(), std::byte{0});
  }

  void hear_abort() {
    frame_header h = header(0, 3 * small, abort_at_);
    if (!box_.abort_message(h)) drop();
  }

  void read(std::size_t stream) {
    const int piece = pieces_[stream]++;
    if (piece == 0) {
      const auto spot = box_.begin_chunk(header(0, 3 * small, stream * small));
      if (!spot) return drop();
      spots_[stream] = *spot;
    } else if (piece < 3) {
      const std::size_t half = small / 2;
      std::byte* const to = box_.place(spots_[stream]);
      if (to != nullptr) std::memset(to + half * static_cast<std::size_t>(piece - 1), 1, half);
      if (piece == 2) box_.end_chunk(spots_[stream]);
    } else {
      const auto spot = box_.begin_chunk(header(1, small, 0));
      if (!spot) return drop();
      if (std::byte* const to = box_.place(*spot)) std::memset(to, 9, small);
      box_.end_chunk(*spot);
    }
  }

  void drop() {
    dropped_ = true;
    die();
  }
  void die() {
    dead_ = true;
    box_.fail_all(fail(errc::peer_lost, "peer 1", "a stream died"));
  }

  net::detail::operation_table operations_;
  net::detail::inbox box_{operations_, 1, {.chunk = small}};
  std::size_t abort_at_;
  std::deque<attempt> attempts_;
  std::array<chunk_target, 2> spots_;
  std::array<int, 2> pieces_{};
  int calls_ = 0;
  bool dead_ = false;
  bool dropped_ = false;
};

/// Runs every order of these steps; those of one actor keep their order. How many there were, and how many were dropped.
std::pair<int, int> every_order(std::string steps, std::size_t taken_back_to) {
  std::pair<int, int> count;
  std::sort(steps.begin(), steps.end());
  do {
    model m{taken_back_to};
    for (const char who : steps) m.step(who);
    m.check();
    ++count.first;
    count.second += m.dropped() ? 1 : 0;
  } while (std::next_permutation(steps.begin(), steps.end()));
  return count;
}

}  // namespace

TEST_CASE("inbox: an abort, a retry and a cancel in any order with half chunks never touch a returned buffer", "[net]") {
  const auto [orders, dropped] = every_order("aaaabbbcccx", 2 * model::small);
  CHECK(orders == 46200);
  CHECK(dropped == 0);  // an honest sender is never blamed
}

TEST_CASE("inbox: the death of one stream at any point ends a message of several", "[net]") {
  const auto [orders, dropped] = every_order("aaabbbccxd", 2 * model::small);
  CHECK(orders == 50400);
  CHECK(dropped == 0);
}

TEST_CASE("inbox: an abort that takes back what is coming in is refused, at any point", "[net]") {
  const std::size_t chunks = GENERATE(0U, 1U);
  const auto [orders, dropped] = every_order("aaabbbccx", chunks * model::small);
  CHECK(orders == 5040);
  CHECK(dropped == orders);
}
