// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/memory_transport.hpp>

#include "support/catch.hpp"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace causeway;
using namespace causeway::net;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span{text.data(), text.size()}); }

/// Receives one message of at most 100 bytes.
struct inbox {
  std::vector<std::byte> buffer = std::vector<std::byte>(100);
  result<std::string> take(memory_transport& t, operation op, time_point deadline = no_deadline) {
    CAUSEWAY_ASSIGN(const std::size_t n, t.wait(op, deadline));
    return std::string{reinterpret_cast<const char*>(buffer.data()), n};
  }
};

/// A clock that jumps ahead each time somebody looks.
struct hurried_clock {
  std::atomic<std::int64_t>* now_ns;
  time_point now() const { return {duration{now_ns->fetch_add(1000)}}; }
};

const message_id hello{.channel = 1, .epoch = 2, .step = 3, .parent = 4};

}  // namespace

TEST_CASE("memory transport: messages of equal id arrive in order, whichever side starts first", "[net][fast]") {
  const std::size_t kept = GENERATE(std::size_t{1000}, std::size_t{3}, std::size_t{0});
  memory_network network{2, {.kept_bytes = kept}};
  auto a = network.transport(0);
  auto b = network.transport(1);
  const std::string one = "one", two = "two!", three = "three";
  inbox first, second, third;
  const auto early = b.receive(0, hello, first.buffer);
  const auto s1 = a.send(1, hello, bytes_of(one));
  const auto s2 = a.send(1, hello, bytes_of(two));
  const auto s3 = a.send(1, hello, bytes_of(three));
  const auto late = b.receive(0, hello, second.buffer);
  const auto last = b.receive(0, hello, third.buffer);
  CHECK(*third.take(b, last) == three);
  CHECK(*first.take(b, early) == one);
  CHECK(*second.take(b, late) == two);
  CHECK(*a.wait(s1, no_deadline) == 3);
  CHECK(*a.wait(s2, no_deadline) == 4);
  CHECK(*a.wait(s3, no_deadline) == 5);
}

TEST_CASE("memory transport: a short message does not overtake a long one that waits for room", "[net][fast]") {
  memory_network network{2, {.kept_bytes = 4}};
  auto a = network.transport(0);
  auto b = network.transport(1);
  const std::string lengthy = "too long to keep", tiny = "ok";
  const auto s1 = a.send(1, hello, bytes_of(lengthy));
  const auto s2 = a.send(1, hello, bytes_of(tiny));
  inbox box;
  CHECK(*box.take(b, b.receive(0, hello, box.buffer)) == lengthy);
  CHECK(*box.take(b, b.receive(0, hello, box.buffer)) == tiny);
  CHECK(a.wait(s1, no_deadline));
  CHECK(a.wait(s2, no_deadline));
}

TEST_CASE("memory transport: without room a send ends when its message is taken, or at its deadline", "[net][fast]") {
  std::atomic<std::int64_t> now{0};
  memory_network network{2, {.clock = any_clock{hurried_clock{&now}}, .kept_bytes = 0}};
  auto a = network.transport(0);
  auto b = network.transport(1);
  const std::string text = "text";
  const auto send = a.send(1, hello, bytes_of(text));
  const auto outcome = a.wait(send, {duration{5000}});
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::timeout);
  CHECK(outcome.error().where == "peer 1");
  inbox box;  // the cancelled message must not arrive
  const auto nothing = box.take(b, b.receive(0, hello, box.buffer), {duration{now + 5000}});
  REQUIRE_FALSE(nothing);
  CHECK(nothing.error().code == errc::timeout);
}

TEST_CASE("memory transport: channel, epoch, step and sender keep messages apart", "[net][fast]") {
  memory_network network{3};
  auto a = network.transport(0);
  auto b = network.transport(1);
  auto c = network.transport(2);
  const std::string words[] = {"channel", "epoch", "step", "sender"};
  (void)a.send(1, {.channel = 9, .epoch = 2, .step = 3, .parent = 4}, bytes_of(words[0]));
  (void)a.send(1, {.channel = 1, .epoch = 9, .step = 3, .parent = 4}, bytes_of(words[1]));
  (void)a.send(1, {.channel = 1, .epoch = 2, .step = 9, .parent = 4}, bytes_of(words[2]));
  (void)c.send(1, hello, bytes_of(words[3]));
  inbox box;
  const auto from_a = b.receive(0, hello, box.buffer);
  CHECK(b.wait(from_a, time_point{}).error().code == errc::timeout);
  CHECK(*box.take(b, b.receive(2, hello, box.buffer)) == "sender");
  CHECK(*box.take(b, b.receive(0, {.channel = 1, .epoch = 2, .step = 9, .parent = 4}, box.buffer)) == "step");
  CHECK(*box.take(b, b.receive(0, {.channel = 1, .epoch = 9, .step = 3, .parent = 4}, box.buffer)) == "epoch");
  CHECK(*box.take(b, b.receive(0, {.channel = 9, .epoch = 2, .step = 3, .parent = 4}, box.buffer)) == "channel");
}

TEST_CASE("memory transport: done says when wait would return at once", "[net][fast]") {
  memory_network network{2};
  auto a = network.transport(0);
  auto b = network.transport(1);
  inbox box;
  const auto early = b.receive(0, hello, box.buffer);
  CHECK_FALSE(b.done(early));
  CHECK(a.done(a.send(1, hello, bytes_of("text"))));
  CHECK(b.done(early));
  CHECK(*box.take(b, early, time_point{}) == "text");
  CHECK(b.done(early));  // not under way any more: wait would say so at once
  CHECK(b.done(12345));
  const auto never = b.receive(0, hello, box.buffer);
  CHECK_FALSE(b.done(never));
  network.kill(0);
  CHECK(b.done(never));
  CHECK(b.wait(never, no_deadline).error().code == errc::peer_lost);
}

TEST_CASE("memory transport: of several operations the one that ends first ends the wait, and stays", "[net][fast]") {
  std::atomic<std::int64_t> now{0};
  memory_network network{2, {.clock = any_clock{hurried_clock{&now}}}};
  auto a = network.transport(0);
  auto b = network.transport(1);
  inbox one, two;
  const std::vector ops{b.receive(0, {.step = 1}, one.buffer), b.receive(0, {.step = 2}, two.buffer)};
  CHECK_FALSE(b.wait_any(ops, time_point{std::chrono::microseconds{5}}));  // nor are they cancelled
  CHECK_FALSE(b.wait_any({}, time_point{}));
  CHECK(a.wait(a.send(1, {.step = 2}, bytes_of("second")), no_deadline));
  CHECK(b.wait_any(ops, no_deadline));
  CHECK_FALSE(b.done(ops[0]));
  CHECK(*two.take(b, ops[1]) == "second");
  CHECK(a.wait(a.send(1, {.step = 1}, bytes_of("first")), no_deadline));
  CHECK(*one.take(b, ops[0]) == "first");
}

TEST_CASE("memory transport: another parent is refused before its bytes are seen", "[net][fast]") {
  memory_network network{2};
  auto a = network.transport(0);
  auto b = network.transport(1);
  const std::string text = "stale";
  message_id stale = hello;
  stale.parent = 5;
  inbox box;
  const auto receive = b.receive(0, hello, box.buffer);
  (void)a.send(1, stale, bytes_of(text));
  const auto outcome = b.wait(receive, no_deadline);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::wrong_parent);
  CHECK(box.buffer == inbox{}.buffer);
  CHECK(b.stats().frames_rejected == 1);
}

TEST_CASE("memory transport: a message longer than the buffer is refused", "[net][fast]") {
  memory_network network{2};
  auto a = network.transport(0);
  auto b = network.transport(1);
  const std::string text(101, 'x');
  inbox box;
  (void)a.send(1, hello, bytes_of(text));
  CHECK(b.wait(b.receive(0, hello, box.buffer), no_deadline).error().code == errc::too_large);
  CHECK(box.buffer == inbox{}.buffer);
}

TEST_CASE("memory transport: a lost peer ends everybody's operations with it, and no others", "[net][fast]") {
  memory_network network{3, {.kept_bytes = 0}};
  auto a = network.transport(0);
  auto b = network.transport(1);
  auto c = network.transport(2);
  const std::string text = "text";
  inbox from_b, from_c;
  const auto doomed_receive = a.receive(1, hello, from_b.buffer);
  const auto doomed_send = a.send(1, hello, bytes_of(text));
  const auto fine = a.receive(2, hello, from_c.buffer);
  std::thread killer{[&] { network.kill(1); }};
  CHECK(a.wait(doomed_receive, no_deadline).error().code == errc::peer_lost);
  CHECK(a.wait(doomed_send, no_deadline).error().code == errc::peer_lost);
  killer.join();
  (void)c.send(0, hello, bytes_of(text));
  CHECK(*from_c.take(a, fine) == text);
  CHECK(a.wait(a.send(1, hello, bytes_of(text)), no_deadline).error().where == "peer 1");
  CHECK(b.wait(b.receive(0, hello, from_b.buffer), no_deadline).error().code == errc::peer_lost);
}

TEST_CASE("memory transport: what a peer sent before it left can still be received; a restart begins anew", "[net][fast]") {
  memory_network network{2};
  auto a = network.transport(0);
  const std::string last_words = "last words";
  {
    auto b = network.transport(1);
    (void)b.send(0, hello, bytes_of(last_words));
  }
  inbox box;
  CHECK(*box.take(a, a.receive(1, hello, box.buffer)) == last_words);
  CHECK(a.wait(a.receive(1, hello, box.buffer), no_deadline).error().code == errc::peer_lost);
  auto b = network.transport(1);
  CHECK(network.operations(1) == 0);
  (void)b.send(0, hello, bytes_of(last_words));
  CHECK(*box.take(a, a.receive(1, hello, box.buffer)) == last_words);
}

TEST_CASE("memory transport: planned faults hit exactly the operation they name", "[net][fast]") {
  memory_network network{2};
  auto a = network.transport(0);
  auto b = network.transport(1);
  network.fail_at(0, 1, errc::corrupt);
  network.kill_at(0, 2);
  const std::string text = "text";
  CHECK(a.wait(a.send(1, hello, bytes_of(text)), no_deadline));
  CHECK(a.wait(a.send(1, hello, bytes_of(text)), no_deadline).error().code == errc::corrupt);
  CHECK(network.operations(0) == 2);
  CHECK(a.wait(a.send(1, hello, bytes_of(text)), no_deadline).error().code == errc::peer_lost);
  inbox box;
  CHECK(*box.take(b, b.receive(0, hello, box.buffer)) == text);
  CHECK(b.wait(b.receive(0, hello, box.buffer), no_deadline).error().code == errc::peer_lost);
}

TEST_CASE("memory transport: bytes are counted as if framed", "[net][fast]") {
  memory_network network{2, {.header_bytes = 32}};
  auto a = network.transport(0);
  auto b = network.transport(1);
  const std::string text(70, 'x');
  inbox box;
  for (int i = 0; i < 3; ++i) {
    (void)a.send(1, hello, bytes_of(text));
    CHECK(box.take(b, b.receive(0, hello, box.buffer)));
  }
  CHECK(a.stats().bytes_sent == 3 * 102);
  CHECK(a.stats().frames_sent == 3);
  CHECK(b.stats().bytes_received == 3 * 102);
  CHECK(b.stats().frames_received == 3);
  CHECK(b.stats().bytes_sent == 0);
}

TEST_CASE("memory transport: caller mistakes are answered, not ignored", "[net][fast]") {
  memory_network network{2};
  auto a = network.transport(0);
  const std::string text = "text";
  CHECK(a.wait(a.send(0, hello, bytes_of(text)), no_deadline).error().code == errc::invalid_argument);
  CHECK(a.wait(a.send(7, hello, bytes_of(text)), no_deadline).error().code == errc::invalid_argument);
  const auto once = a.send(1, hello, bytes_of(text));
  CHECK(a.wait(once, no_deadline));
  CHECK(a.wait(once, no_deadline).error().code == errc::invalid_argument);
}

TEST_CASE("memory transport: two threads exchange many messages, with and without room to keep them", "[net][fast]") {
  const std::size_t kept = GENERATE(std::size_t{1} << 20U, std::size_t{64}, std::size_t{0});
  memory_network network{2, {.kept_bytes = kept}};
  constexpr std::uint64_t rounds = 2000;
  std::atomic<int> wrong{0};
  auto talk = [&](peer_index self) {
    auto t = network.transport(self);
    const peer_index other = 1 - self;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      std::uint64_t out = i * 2 + self, in = 0;
      const message_id id{.channel = 1, .step = i};
      const auto r = t.receive(other, id, std::as_writable_bytes(std::span{&in, 1}));
      const auto s = t.send(other, id, std::as_bytes(std::span{&out, 1}));
      if (!t.wait(r, no_deadline) || !t.wait(s, no_deadline) || in != i * 2 + other) ++wrong;
    }
  };
  std::thread peer{talk, 1U};
  talk(0);
  peer.join();
  CHECK(wrong == 0);
}
