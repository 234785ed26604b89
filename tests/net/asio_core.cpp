// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_core.hpp>

#include <causeway/net/link_transport.hpp>

#include "support/catch.hpp"
#include "support/fabric_peers.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

using namespace support;

namespace {

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, std::filesystem::directory_iterator{}));
}

std::size_t threads() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, std::filesystem::directory_iterator{}));
}

/// Bytes that were allocated and not freed; 0 where nobody knows (or a sanitizer does).
std::size_t allocated() {
#if defined(__GLIBC__)
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

/// Adds `values` over all ranks: round r of a ring of whole messages. Small, and enough to use every link.
bool all_reduce(net::link_transport& view, std::vector<float>& values, std::uint64_t step) {
  const std::uint32_t n = view.size();
  const std::uint32_t right = (view.self() + 1) % n;
  const std::uint32_t left = (view.self() + n - 1) % n;
  std::vector<float> passing = values;
  std::vector<float> coming(values.size());
  for (std::uint32_t round = 1; round < n; ++round) {
    const message_id id{.channel = 2, .epoch = 0, .step = step * n + round, .parent = 1};
    const auto in = view.receive(left, id, std::as_writable_bytes(std::span{coming}));
    const auto out = view.send(right, id, std::as_bytes(std::span{passing}));
    if (!view.wait(in, soon()) || !view.wait(out, soon())) return false;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += coming[i];
    passing.swap(coming);
  }
  return true;
}

}  // namespace

TEST_CASE("fabric: eight peers in one process, a full mesh, and sums over it", "[net][fast]") {
  constexpr std::uint32_t n = 8;
  fabric_options options;
  options.streams_per_link = 2;
  std::vector<std::unique_ptr<fabric_peer>> peers;
  for (std::uint32_t i = 0; i < n; ++i) peers.push_back(std::make_unique<fabric_peer>(100 + i, options));
  for (const auto& a : peers) {
    for (const auto& b : peers) {
      if (a != b) a->dial(b->net->address());  // both of each pair: at once, as in a start of everybody
    }
  }
  std::vector<std::thread> trainers;
  std::atomic<std::uint32_t> good{0};
  for (std::uint32_t self = 0; self < n; ++self) {
    trainers.emplace_back([&, self] {
      fabric_peer& me = *peers[self];
      std::vector<peer_index> links(n, UINT32_MAX);
      for (std::uint32_t r = 0; r < n; ++r) {
        const bool up = r == self || until(*me.net, [&] { return me.link_to(100 + r).has_value(); });
        if (!up) return;
        if (r != self) me.net->locked([&] { links[r] = *me.link_to(100 + r); });
      }
      net::link_transport view{me.net, links, self, 17};
      for (std::uint64_t step = 0; step < 4; ++step) {
        std::vector<float> values(50'000, static_cast<float>(self + step));
        if (!all_reduce(view, values, step)) return;
        const auto expected = static_cast<float>(28 + 8 * step);
        if (!std::all_of(values.begin(), values.end(), [&](float v) { return v == expected; })) return;
      }
      ++good;
    });
  }
  for (std::thread& t : trainers) t.join();
  CHECK(good == n);
  for (const auto& p : peers) {
    p->net->locked([&] {
      CHECK(p->links.size() == n - 1);
      CHECK(p->order.size() == n - 1);  // no connection came twice
    });
  }
}

TEST_CASE("fabric: a handler without memory costs the link that it served, and nothing else", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9};
  REQUIRE(b.connect() == 1);
  const peer_index link = a.wait_up(9);
  a.net->locked([&] { a.when_told = [](peer_index, const std::string&) { throw std::bad_alloc{}; }; });
  b.socket.write(b.control("hello", 0));
  REQUIRE(until(*a.net, [&] { return a.links[link].downs == 1; }));
  CHECK(a.links[link].last_down.find("no memory") != std::string::npos);
  raw_fabric_peer again{a.net->address(), 9, 501};
  CHECK(again.connect());
  REQUIRE(until(*a.net, [&] { return a.links[link].ups == 2; }));
}

TEST_CASE("fabric: two hundred connections made and killed leave no files, threads or memory", "[net][fast]") {
  fabric_options options;
  options.transport.heartbeat = std::chrono::milliseconds{20};
  fabric_peer a{5, options};
  const auto cycle = [&](int n) {
    raw_fabric_peer b{a.net->address(), 9, static_cast<std::uint64_t>(n)};
    REQUIRE(b.connect());
    b.socket.write(b.control("hello", 0));
    REQUIRE(until(*a.net, [&] { return a.links[0].ups == n && !a.links[0].control.empty(); }));
    const frame_header half = data_header({.channel = 1}, 0, 3'000'000, 0, 1U << 20U);
    frame_header h = half;
    h.sender = 9;
    if (n % 3 == 0) b.socket.write(h, pattern(1000, 1));  // in the middle of a chunk
    if (n % 2 == 0) b.socket.reset();
    b.socket.socket().close();
    REQUIRE(until(*a.net, [&] { return a.links[0].downs == n; }));
    a.net->locked([&] {
      a.links[0].control.clear();
      a.order.clear();
    });
  };
  const auto pass_heartbeat = [&] {  // replaced links go with the heartbeat
    a.net->locked([&] { a.net->wake_at(a.net->now() + std::chrono::milliseconds{500}); });
    const int before = a.wakes;
    REQUIRE(until(*a.net, [&] { return a.wakes > before; }));
  };
  for (int n = 1; n <= 20; ++n) cycle(n);
  pass_heartbeat();
  const std::size_t files = open_files();
  const std::size_t running = threads();
  const std::size_t bytes = allocated();
  for (int n = 21; n <= 220; ++n) cycle(n);
  pass_heartbeat();
  CHECK(open_files() == files);
  CHECK(threads() == running);
  CHECK(allocated() < bytes + 100'000);  // one link forgotten would cost that much
}

TEST_CASE("fabric: fabrics that come and go leave no files, threads or memory", "[net][fast]") {
  fabric_options options;
  options.streams_per_link = 2;
  options.transport.heartbeat = std::chrono::milliseconds{20};
  fabric_peer a{5, options};
  const auto cycle = [&](peer_id id) {
    fabric_peer b{id, options};
    b.dial(a.net->address());
    const peer_index to_a = b.wait_up(5);
    const peer_index to_b = a.wait_up(id);
    const auto note = pattern(100'000, 1);
    std::vector<std::byte> got(note.size());
    const auto in = a.net->receive(to_b, {.channel = 1}, got);
    REQUIRE(b.net->wait(b.net->send(to_a, {.channel = 1}, note), soon()));
    REQUIRE(a.net->wait(in, soon()));
    b.net->close();
    REQUIRE(until(*a.net, [&] { return !a.link_to(id).has_value(); }));
  };
  cycle(9);
  const std::size_t files = open_files();
  const std::size_t running = threads();
  for (int n = 0; n < 30; ++n) cycle(9);
  a.net->locked([&] { a.net->wake_at(a.net->now() + std::chrono::milliseconds{500}); });
  REQUIRE(until(*a.net, [&] { return a.wakes == 1; }));
  CHECK(open_files() == files);
  CHECK(threads() == running);
}

TEST_CASE("fabric: a peer that stops without closing anything is noticed", "[net][fast]") {
  fabric_options options;
  options.transport.heartbeat = std::chrono::milliseconds{20};
  options.transport.silence = std::chrono::seconds{1};
  fabric_peer a{5, options};
  raw_fabric_peer b{a.net->address(), 9};
  REQUIRE(b.connect());
  REQUIRE(until(*a.net, [&] { return a.links.size() == 1; }));
  const peer_index link = 0;
  const auto sent = pattern(30'000'000, 1);  // it does not take that either
  const auto op = a.net->send(link, {.channel = 1}, sent);
  if (GENERATE(false, true)) {  // in the middle of a frame
    const auto frame = b.control("never finished", 0);
    b.socket.write(std::span{frame}.first(frame.size() - 3));
  }
  CHECK(a.net->wait(op, soon()).error().code == errc::peer_lost);
  REQUIRE(until(*a.net, [&] { return a.links[link].downs == 1; }));
  CHECK(a.links[link].last_down.find("nothing was heard from it") == 0);
}

TEST_CASE("fabric: a peer that stalls in the middle of a frame holds nobody else up", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9};
  REQUIRE(b.connect());
  const peer_index stalled = a.wait_up(9);
  const auto frame = b.control(std::string(400'000, 'x'), 0);
  b.socket.write(std::span{frame}.first(200'000));
  fabric_peer c{6};
  c.dial(a.net->address());
  const peer_index to_a = c.wait_up(5);
  c.post(to_a, "I am quick");
  const peer_index to_c = a.wait_up(6);
  REQUIRE(until(*a.net, [&] { return a.links[to_c].control.size() == 1; }));
  CHECK(a.links[stalled].control.empty());
  b.socket.write(std::span{frame}.subspan(200'000));
  REQUIRE(until(*a.net, [&] { return a.links[stalled].control.size() == 1; }));
}

TEST_CASE("fabric: damage, repetition and nonsense on a link end it, and nothing else", "[net][fast]") {
  const int what = GENERATE(range(0, 7));
  CAPTURE(what);
  fabric_pair pair;
  raw_fabric_peer b{pair.a.net->address(), 9};
  REQUIRE(b.connect());
  const peer_index link = pair.a.wait_up(9);
  b.socket.write(b.control("fine", 0));
  auto next = b.control("damaged", what == 1 ? 0 : 1);
  if (what == 0) next.back() ^= std::byte{1};         // content
  if (what == 2) next[70] ^= std::byte{1};            // header
  if (what == 3) next[header_bytes] ^= std::byte{1};  // digest
  if (what == 4) next = raw_fabric_peer::frame(frame_kind::meet, b.introduction().encode());
  if (what == 5) next = std::vector<std::byte>(200);
  if (what == 6) {
    frame_header h = raw_fabric_peer::header(frame_kind::heartbeat, 0);
    h.sender = 8;
    const auto block = encode_header(h);
    next.assign(block.begin(), block.end());
  }
  b.socket.write(next);
  REQUIRE(until(*pair.a.net, [&] { return pair.a.links[link].downs == 1; }));
  CHECK((pair.a.links[link].control == std::vector<std::string>{"fine"}));
  CHECK(pair.a.links[link].last_down.find("dropped: ") == 0);
  CHECK(pair.a.net->stats().frames_rejected == 1);
  pair.a.post(pair.to_b, "still here");
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].control.size() == 1; }));
}

TEST_CASE("fabric: damaged data ends its link before anybody is told that it came", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9};
  const auto serial = b.connect();
  REQUIRE(serial);
  const peer_index link = a.wait_up(9);
  raw_fabric_peer data{a.net->address(), 9};
  data.open_stream(*serial);
  const auto content = pattern(1000, 1);
  std::vector<std::byte> got(1000);
  for (const bool damaged : {false, true}) {
    const message_id id{.channel = 1, .step = damaged ? 1U : 0U};
    const auto op = a.net->receive(link, id, got);
    data.socket.write(data.chunk(id, damaged ? 1 : 0, content));
    auto damage = content;
    if (damaged) damage[500] ^= std::byte{4};
    data.socket.write(damage);
    const auto outcome = a.net->wait(op, soon());
    if (!damaged) {
      REQUIRE(outcome);
      CHECK((got == content));
    } else {
      REQUIRE_FALSE(outcome);
      CHECK(outcome.error().code == errc::peer_lost);
      CHECK(outcome.error().message.find("checksum") != std::string::npos);
    }
  }
}
