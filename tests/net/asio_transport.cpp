// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_transport.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

using namespace support;

namespace {

const message_id talk{.channel = 1, .epoch = 0, .step = 5, .parent = 9};

message_id step(std::uint64_t n) {
  message_id id = talk;
  id.step = n;
  return id;
}

}  // namespace

TEST_CASE("tcp transport: messages of every size arrive, whichever side is first", "[net][fast]") {
  const bool receiver_first = GENERATE(true, false);
  auto peers = tcp_mesh(2);
  std::uint64_t n = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{79}, std::size_t{16'304}, std::size_t{65'536},
                                 std::size_t{1} << 20U, (std::size_t{1} << 20U) + 1, std::size_t{5'000'003}}) {
    CAPTURE(size, receiver_first);
    const auto sent = pattern(size, 3);
    std::vector<std::byte> got(size + 7);
    operation in = 0;
    operation out = 0;
    if (receiver_first) in = peers[1].receive(0, step(++n), got);
    out = peers[0].send(1, step(receiver_first ? n : ++n), sent);
    if (!receiver_first) in = peers[1].receive(0, step(n), got);
    REQUIRE(*peers[1].wait(in, soon()) == size);
    REQUIRE(*peers[0].wait(out, soon()) == size);
    got.resize(size);
    CHECK((got == sent));
  }
}

TEST_CASE("tcp transport: receives may be posted in any order, equal ids keep theirs", "[net][fast]") {
  auto peers = tcp_mesh(2);
  const auto a = pattern(3'000'000, 1);
  const auto b = pattern(100, 2);
  const auto c = pattern(100, 3);
  std::vector<operation> sends{peers[0].send(1, step(1), a), peers[0].send(1, step(2), b), peers[0].send(1, step(2), c)};
  std::vector<std::byte> got_a(a.size());
  std::vector<std::byte> got_b(b.size());
  std::vector<std::byte> got_c(c.size());
  const auto first = peers[1].receive(0, step(2), got_b);
  REQUIRE(peers[1].wait(first, soon()));
  REQUIRE(peers[1].wait(peers[1].receive(0, step(1), got_a), soon()));
  REQUIRE(peers[1].wait(peers[1].receive(0, step(2), got_c), soon()));
  for (const operation op : sends) CHECK(peers[0].wait(op, soon()));
  CHECK((got_a == a));
  CHECK((got_b == b));
  CHECK((got_c == c));
}

TEST_CASE("tcp transport: done says when wait would return at once", "[net][fast]") {
  auto peers = tcp_mesh(2);
  const auto sent = pattern(100, 1);
  std::vector<std::byte> first(100), second(100);
  const operation one = peers[1].receive(0, step(1), first);
  const operation two = peers[1].receive(0, step(2), second);
  CHECK_FALSE(peers[1].done(one));
  CHECK_FALSE(peers[1].wait_any(std::array{one, two}, time_point{}));
  CHECK(peers[0].wait(peers[0].send(1, step(1), sent), soon()));
  CHECK_FALSE(peers[1].done(two));
  CHECK(peers[0].wait(peers[0].send(1, step(2), sent), soon()));
  REQUIRE(peers[1].wait_any(std::array{two}, soon()));
  REQUIRE(peers[1].wait(two, soon()));
  CHECK(peers[1].done(one));  // it came before, on the same stream
  CHECK(*peers[1].wait(one, time_point{}) == 100);
  CHECK(peers[1].done(one));
}

TEST_CASE("tcp transport: four peers exchange with everybody at once, over one stream or three", "[net][fast]") {
  auto options = test_options();
  options.streams_per_link = GENERATE(std::size_t{1}, std::size_t{3});
  options.transport.chunk_bytes = 64U << 10U;
  auto peers = tcp_mesh(4, options);
  CHECK(peers[0].streams(3) == options.streams_per_link);
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (auto& t : peers) {
    threads.emplace_back([&t, &good] {
      for (std::uint64_t round = 0; round < 8; ++round) {
        const std::size_t size = round % 3 == 0 ? 64 : 700'001;
        const auto mine = pattern(size, t.self());
        std::vector<std::vector<std::byte>> got(4, std::vector<std::byte>(size));
        std::vector<operation> ops;
        for (peer_index p = 0; p < 4; ++p) {
          if (p != t.self()) ops.push_back(t.send(p, step(round), mine));
        }
        for (peer_index p = 0; p < 4; ++p) {
          if (p != t.self()) ops.push_back(t.receive(p, step(round), got[p]));
        }
        bool all = true;
        for (const operation op : ops) all = t.wait(op, soon()).has_value() && all;
        for (peer_index p = 0; p < 4; ++p) all = all && (p == t.self() || got[p] == pattern(size, p));
        if (all) ++good[t.self()];
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(good == std::vector<int>{8, 8, 8, 8});
  // Payload and headers are counted on both sides alike.
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  for (const auto& t : peers) sent += t.stats().bytes_sent;
  for (const auto& t : peers) received += t.stats().bytes_received;
  const std::uint64_t payload = 12ULL * (3 * 64 + 5 * 700'001ULL);
  CHECK(received >= payload);
  CHECK(sent >= payload + 12ULL * 8 * header_bytes);
}

TEST_CASE("tcp transport: a deadline that has passed cancels, and its buffer is left alone", "[net][fast]") {
  auto peers = tcp_mesh(2);
  std::vector<std::byte> buffer(1000);
  const auto timed_out = peers[1].wait(peers[1].receive(0, step(1), buffer), steady_clock{}.now());
  REQUIRE_FALSE(timed_out);
  CHECK(timed_out.error().code == errc::timeout);
  CHECK(timed_out.error().where == "peer 0");
  CHECK(timed_out.error().message.find("step 1") != std::string::npos);
  // The late message is dropped; the next one comes through.
  const auto late = pattern(1000, 1);
  const auto next = pattern(1000, 2);
  std::vector<std::byte> got(1000);
  const auto in = peers[1].receive(0, step(2), got);
  for (const operation op : {peers[0].send(1, step(1), late), peers[0].send(1, step(2), next)}) {
    REQUIRE(peers[0].wait(op, soon()));
  }
  REQUIRE(peers[1].wait(in, soon()));
  CHECK((got == next));
  CHECK((buffer == std::vector<std::byte>(1000)));
}

TEST_CASE("tcp transport: an operation is waited for once", "[net][fast]") {
  auto peers = tcp_mesh(2);
  const auto op = peers[0].send(1, talk, {});
  CHECK(peers[0].wait(op, soon()));
  CHECK(peers[0].wait(op, soon()).error().code == errc::invalid_argument);
  CHECK(peers[0].wait(peers[0].send(0, talk, {}), soon()).error().code == errc::invalid_argument);
  CHECK(peers[0].wait(peers[0].send(9, talk, {}), soon()).error().code == errc::invalid_argument);
}

TEST_CASE("tcp transport: too long a message and another parent end the receive alone", "[net][fast]") {
  auto peers = tcp_mesh(2);
  const auto sent = pattern(2'000'000, 1);
  std::vector<std::byte> small(1'999'999);
  std::vector<std::byte> large(2'000'000);
  const auto too_long = peers[1].receive(0, step(1), small);
  message_id stale = step(2);
  stale.parent = 1234;
  const auto wrong = peers[1].receive(0, step(2), large);
  std::vector<operation> sends{peers[0].send(1, step(1), sent), peers[0].send(1, stale, sent),
                               peers[0].send(1, step(3), sent)};
  CHECK(peers[1].wait(too_long, soon()).error().code == errc::too_large);
  CHECK(peers[1].wait(wrong, soon()).error().code == errc::wrong_parent);
  CHECK((small == std::vector<std::byte>(small.size())));
  CHECK((large == std::vector<std::byte>(large.size())));
  REQUIRE(peers[1].wait(peers[1].receive(0, step(3), large), soon()));
  CHECK((large == sent));
  for (const operation op : sends) CHECK(peers[0].wait(op, soon()));
}

TEST_CASE("tcp transport: a peer that leaves ends waits for it, and only those", "[net][fast]") {
  auto peers = tcp_mesh(3);
  const auto last_words = pattern(100, 1);
  REQUIRE(peers[2].wait(peers[2].send(0, step(1), last_words), soon()));
  peers[2].close();
  std::vector<std::byte> buffer(100);
  const auto gone = peers[0].wait(peers[0].receive(2, step(2), buffer), soon());
  CHECK(gone.error().code == errc::peer_lost);
  CHECK(gone.error().text() == "peer 2: it left the run [peer_lost]");
  REQUIRE(peers[0].wait(peers[0].receive(2, step(1), buffer), soon()));  // what it said before is still there
  CHECK((buffer == last_words));
  CHECK(peers[0].wait(peers[0].send(2, step(3), last_words), soon()).error().code == errc::peer_lost);
  const auto in = peers[1].receive(0, step(4), buffer);
  REQUIRE(peers[0].wait(peers[0].send(1, step(4), last_words), soon()));
  CHECK(peers[1].wait(in, soon()));
}

TEST_CASE("tcp transport: a dropped peer's operations end at once on both sides", "[net][fast]") {
  auto peers = tcp_mesh(2);
  std::vector<std::byte> buffer(100);
  const auto here = peers[0].receive(1, talk, buffer);
  const auto there = peers[1].receive(0, talk, buffer);
  peers[0].drop(1, "the others voted it out");
  CHECK(peers[0].wait(here, soon()).error().message == "the others voted it out");
  CHECK(peers[1].wait(there, soon()).error().code == errc::peer_lost);
}

TEST_CASE("tcp transport: waits describe themselves", "[net][fast]") {
  auto peers = tcp_mesh(2);
  CHECK(peers[0].describe_waits().empty());
  std::vector<std::byte> buffer(100);
  const auto op = peers[0].receive(1, step(12), buffer);
  const std::string text = peers[0].describe_waits();
  CHECK(text.find("receiving from peer 1 (channel 1, epoch 0, step 12) for 0.") == 0);
  CHECK(text.find("0 of at most 100 bytes") != std::string::npos);
  CHECK_FALSE(peers[0].wait(op, steady_clock{}.now()));
  CHECK(peers[0].describe_waits().empty());
}

TEST_CASE("tcp transport: transfers go on while the trainer computes", "[net][fast]") {
  auto peers = tcp_mesh(2);
  const auto sent = pattern(30'000'000, 1);  // more than the kernel buffers
  std::vector<std::byte> got(sent.size());
  const auto in = peers[1].receive(0, talk, got);
  REQUIRE(peers[0].wait(peers[0].send(1, talk, sent), soon()));  // peer 1 is nowhere near a wait
  REQUIRE(peers[1].wait(in, soon()));
  CHECK((got == sent));
}

TEST_CASE("tcp transport: closing ends what was not waited for", "[net][fast]") {
  auto peers = tcp_mesh(2);
  std::vector<std::byte> buffer(100);
  const auto op = peers[0].receive(1, talk, buffer);
  peers[0].close();
  peers[0].close();
  CHECK(peers[0].wait(op, soon()).error().code == errc::cancelled);
  CHECK(peers[0].wait(peers[0].receive(1, talk, buffer), soon()).error().code == errc::cancelled);
}

TEST_CASE("tcp transport: goes into any transport, and moves", "[net][fast]") {
  auto peers = tcp_mesh(2);
  any_transport any{std::move(peers[0])};
  const auto sent = pattern(10, 1);
  std::vector<std::byte> got(10);
  REQUIRE(any.wait(any.send(1, talk, sent), soon()));
  REQUIRE(peers[1].wait(peers[1].receive(0, talk, got), soon()));
  CHECK((got == sent));
}
