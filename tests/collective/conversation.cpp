// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/conversation.hpp>

#include <array>
#include <string>

#include "exchange_cases.hpp"
#include "support/catch.hpp"

using namespace cases;
using causeway::collective::conversation;
using causeway::collective::part;

namespace {

std::array<std::byte, 4> bytes_of(int value) {
  std::array<std::byte, 4> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Two ends of a network in one thread: messages are kept, so nobody has to wait.
struct two_ends {
  memory_network network{2};
  side a{any_transport{network.transport(0)}};
  side b{any_transport{network.transport(1)}};
};

}  // namespace

TEST_CASE("conversation: phases and chunks keep messages apart, and a place is free once it was waited for",
          "[collective][fast]") {
  two_ends two;
  conversation from, to;
  from.open(two.a.port(), 3);
  to.open(two.b.port(), 3);
  const auto first = bytes_of(1), second = bytes_of(2), third = bytes_of(3);
  from.send(0, 1, part{0, 0}, first);
  from.send(1, 1, part{0, 1}, second);
  from.send(2, 1, part{1, 0}, third);
  std::array<std::array<std::byte, 4>, 3> got{};
  to.receive(0, 0, part{1, 0}, got[0]);
  to.receive(1, 0, part{0, 1}, got[1]);
  to.receive(2, 0, part{0, 0}, got[2]);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(*to.wait(i, 0, soon()) == 4);
    CHECK(from.finish(i, 1, soon()));
  }
  CHECK(got[0] == third);
  CHECK(got[1] == second);
  CHECK(got[2] == first);
  CHECK(*to.wait(0, 0, soon()) == 0);
}

TEST_CASE("conversation: an error closes it, so that buffers are free and the next one starts clean",
          "[collective][fast]") {
  two_ends two;
  conversation talk;
  std::array<std::byte, 4> room{}, other{};
  talk.open(two.a.port(), 2);
  talk.receive(0, 1, part{0}, room);
  talk.receive(1, 1, part{1}, other);
  const auto outcome = talk.wait(0, 1, causeway::time_point{});
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::timeout);
  CHECK(outcome.error().where == "peer 1");
  CHECK_FALSE(talk.is_open());

  const auto late = bytes_of(9);
  CHECK(two.b.net.wait(two.b.net.send(0, {.channel = 33, .epoch = 1, .step = 7, .parent = 99}, late), soon()));
  CHECK(other == std::array<std::byte, 4>{});  // nobody writes into it any more
  talk.open(two.a.port(), 1);
  talk.receive(0, 1, part{1}, other);
  CHECK(*talk.wait(0, 1, soon()) == 4);
  CHECK(other == late);
}

TEST_CASE("conversation: moving it moves what is under way; destroying it cancels", "[collective][fast]") {
  two_ends two;
  std::array<std::byte, 4> room{};
  const causeway::net::message_id id{.channel = 32, .epoch = 1, .step = 7, .parent = 99};
  {
    conversation talk;
    {
      conversation first;
      first.open(two.a.port(), 1);
      first.receive(0, 1, part{0}, room);
      talk = std::move(first);
    }
    CHECK(talk.is_open());
    CHECK(two.b.net.wait(two.b.net.send(0, id, bytes_of(5)), soon()));
    CHECK(*talk.wait(0, 1, soon()) == 4);
    CHECK(room == bytes_of(5));
    talk.receive(0, 1, part{0}, room);
  }
  CHECK(two.b.net.wait(two.b.net.send(0, id, bytes_of(6)), soon()));
  CHECK(room == bytes_of(5));
}
