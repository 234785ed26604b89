// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/mailbox.hpp>

#include <memory>
#include <string>

#include "cluster.hpp"
#include "support/catch.hpp"

using namespace cluster;
using sim::detail::mailbox;

namespace {

struct box {
  traffic counters;
  mailbox mail{counters};
  std::vector<std::byte> room = std::vector<std::byte>(8);

  box() {
    mail.add_link("peer 0");
    mail.add_link("peer 1");
  }

  void arrive(net::peer_index link, const net::message_id& id, const std::string& text, bool aborted = false) {
    auto message = sim::detail::sent_message_ptr{new sim::detail::sent_message};
    message->id = id;
    message->bytes = bytes_of(text);
    message->wire_bytes = text.size() + 80;
    message->aborted = aborted;
    mail.arrived(link, std::move(message));
  }
  auto receive(net::peer_index link, const net::message_id& id, bool up = true) {
    return mail.start_receive(link, id, room, {}, up);
  }
  /// The text received, or the name of the error.
  std::string outcome(sim::detail::slot_index slot) {
    REQUIRE(mail.done(slot));
    const auto moved = mail.release(slot);
    if (!moved) return std::string{to_string(moved.error().code)};
    return text_of(std::span{room}.first(*moved));
  }
};

net::message_id with(std::uint32_t channel, std::uint32_t epoch, std::uint64_t step, std::uint64_t parent) {
  return {channel, epoch, step, parent};
}

}  // namespace

TEST_CASE("mailbox: a message finds its receive, whichever comes first", "[sim][fast]") {
  box b;
  const auto early = b.receive(1, some_id);
  b.arrive(0, some_id, "zero");
  CHECK_FALSE(b.mail.done(early));
  b.arrive(1, some_id, "one");
  CHECK(b.outcome(early) == "one");
  CHECK(b.mail.kept_bytes() > 0);
  CHECK(b.outcome(b.receive(0, some_id)) == "zero");
  CHECK(b.mail.kept_bytes() == 0);
  CHECK(b.counters.frames_received == 2);
  CHECK(b.counters.bytes_received == 160 + 7);
}

TEST_CASE("mailbox: channel, epoch and step must be equal; messages with equal ids keep their order", "[sim][fast]") {
  box b;
  b.arrive(0, with(1, 2, 3, 4), "first");
  b.arrive(0, with(1, 2, 3, 4), "second");
  for (const auto& other : {with(9, 2, 3, 4), with(1, 9, 3, 4), with(1, 2, 9, 4)}) {
    CHECK_FALSE(b.mail.done(b.receive(0, other)));
  }
  CHECK(b.outcome(b.receive(0, with(1, 2, 3, 4))) == "first");
  CHECK(b.outcome(b.receive(0, with(1, 2, 3, 4))) == "second");
}

TEST_CASE("mailbox: a wrong parent and a message too long are refused and counted", "[sim][fast]") {
  box b;
  b.arrive(0, with(1, 2, 3, 4), "text");
  CHECK(b.outcome(b.receive(0, with(1, 2, 3, 5))) == "wrong_parent");
  const auto slot = b.receive(0, with(1, 2, 3, 4));
  b.arrive(0, with(1, 2, 3, 4), "123456789");
  CHECK(b.outcome(slot) == "too_large");
  CHECK(b.counters.frames_rejected == 2);
}

TEST_CASE("mailbox: a message whose receive was given up is dropped, unless it is asked for again", "[sim][fast]") {
  box b;
  CHECK_FALSE(b.mail.give_up(b.receive(0, some_id), errc::timeout, ""));
  b.arrive(0, some_id, "late");
  CHECK(b.mail.kept_bytes() == 0);
  CHECK_FALSE(b.mail.give_up(b.receive(0, some_id), errc::timeout, ""));
  const auto again = b.receive(0, some_id);
  b.arrive(0, some_id, "in time");
  CHECK(b.outcome(again) == "in time");
}

TEST_CASE("mailbox: what the sender gave up ends the receive", "[sim][fast]") {
  box b;
  const auto slot = b.receive(0, some_id);
  b.arrive(0, some_id, "", true);
  CHECK(b.outcome(slot) == "cancelled");
  b.arrive(0, some_id, "", true);
  CHECK(b.mail.kept_bytes() == 0);
}

TEST_CASE("mailbox: a lost link ends what is under way; whole messages stay", "[sim][fast]") {
  box b;
  b.arrive(0, with(1, 1, 1, 0), "kept");
  const auto in = b.receive(0, some_id);
  const auto out = b.mail.start_send(0, some_id, 10, {}, true);
  const auto other = b.receive(1, some_id);
  b.mail.fail_link(0, fail(errc::peer_lost, "peer 0", "gone"));
  CHECK(b.outcome(in) == "peer_lost");
  CHECK(b.outcome(out) == "peer_lost");
  CHECK_FALSE(b.mail.done(other));
  CHECK(b.outcome(b.receive(0, with(1, 1, 1, 0), false)) == "kept");
  CHECK(b.outcome(b.receive(0, some_id, false)) == "peer_lost");
  CHECK(b.outcome(b.mail.start_send(0, some_id, 10, {}, false)) == "peer_lost");
}

TEST_CASE("mailbox: calling off epochs ends, forgets and refuses", "[sim][fast]") {
  box b;
  std::vector<sim::detail::slot_index> stopped;
  b.arrive(0, with(1, 1, 1, 0), "old");
  b.arrive(0, with(1, 2, 1, 0), "new");
  const auto old_in = b.receive(0, with(2, 1, 1, 0));
  const auto new_in = b.receive(0, with(2, 2, 1, 0));
  const auto old_out = b.mail.start_send(0, with(1, 1, 1, 0), 5, {}, true);
  b.mail.cancel_before(2, [&](auto slot) { stopped.push_back(slot); });
  CHECK(stopped == std::vector<sim::detail::slot_index>{old_out});
  CHECK(b.outcome(old_in) == "cancelled");
  CHECK(b.outcome(old_out) == "cancelled");
  CHECK_FALSE(b.mail.done(new_in));
  CHECK(b.outcome(b.receive(0, with(1, 1, 1, 0))) == "cancelled");
  CHECK(b.outcome(b.receive(0, with(1, 2, 1, 0))) == "new");
  b.arrive(0, with(3, 1, 1, 0), "late");
  CHECK(b.mail.kept_bytes() == 0);
  CHECK(b.counters.frames_rejected == 1);
}

TEST_CASE("mailbox: lasting epochs outlive those of views", "[sim][fast]") {
  box b;
  const auto stop = [](auto) {};
  const std::uint32_t lasting = net::lasting_epoch(4);
  b.arrive(0, with(1, lasting, 1, 0), "kept");
  const auto open = b.receive(0, with(2, lasting, 1, 0));
  b.mail.cancel_before(100, stop);
  CHECK_FALSE(b.mail.done(open));
  CHECK(b.outcome(b.receive(0, with(1, lasting, 1, 0))) == "kept");
  const auto of_a_view = b.receive(0, with(2, 100, 1, 0));
  b.mail.cancel_before(net::lasting_epoch(5), stop);
  CHECK(b.outcome(open) == "cancelled");
  CHECK_FALSE(b.mail.done(of_a_view));
  b.arrive(0, with(3, lasting, 1, 0), "late");
  CHECK(b.mail.kept_bytes() == 0);
}

TEST_CASE("mailbox: operations under way are described", "[sim][fast]") {
  box b;
  b.receive(1, some_id);
  CHECK(b.mail.describe(at(1500ms)) == "receive from peer 1 (channel 32, epoch 1, step 7, 8 bytes) since 1.500 s\n");
}

TEST_CASE("mailbox: a link that does not exist is the caller's mistake", "[sim][fast]") {
  box b;
  CHECK(b.outcome(b.receive(2, some_id)) == "invalid_argument");
}
