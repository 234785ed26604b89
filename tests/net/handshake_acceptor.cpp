// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/handshake_acceptor.hpp>

#include "support/catch.hpp"
#include "support/fabric_peers.hpp"
#include "support/few_descriptors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace support;

namespace {

/// The fabric still makes links.
void still_serves(fabric_peer& peer) {
  fabric_peer other{777};
  other.dial(peer.net->address());
  other.wait_up(peer.net->id());
  peer.wait_up(777);
  other.net->close();
  REQUIRE(until(*peer.net, [&] { return !peer.link_to(777).has_value(); }));
}

/// What one costs in this process, the accepting side not counted.
rlim_t descriptors_of_a_raw_peer() {
  const auto nobody_accepts = open_listener({});
  const rlim_t before = open_descriptors();
  const raw_peer probe{nobody_accepts->address()};
  return open_descriptors() - before;
}

}  // namespace

TEST_CASE("handshake acceptor: a peer made by hand becomes a link when it keeps to the protocol", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9};
  CHECK(b.connect() == 1);
  CHECK(b.them.id == 5);
  const peer_index to_b = a.wait_up(9);
  CHECK(a.links[to_b].address == "127.0.0.1:1");
  b.socket.write(b.control("hello", 0));
  REQUIRE(until(*a.net, [&] { return a.links[to_b].control.size() == 1; }));
  CHECK(a.links[to_b].control[0] == "hello");
  a.post(to_b, "hi");
  std::vector<std::byte> body;
  auto h = b.socket.read(&body);
  while (h && h->kind == frame_kind::heartbeat) h = b.socket.read(&body);
  REQUIRE(h);
  CHECK(h->kind == frame_kind::control);
  CHECK(h->chunk_length == 2);
}

TEST_CASE("handshake acceptor: the smaller id's answer may come late, as may the larger's", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer small{a.net->address(), 3};
  small.say_meet();
  REQUIRE(small.hear_meet());
  std::vector<std::byte> body;
  const auto h = small.socket.read(&body);
  REQUIRE(h);
  CHECK(h->kind == frame_kind::want);
  const auto theirs = net::detail::wish::decode(body);
  REQUIRE(theirs);
  CHECK(theirs->nonce == small.nonce);
  CHECK(theirs->last == 0);
  still_serves(a);
  CHECK_FALSE(a.link_to(3).has_value());
  small.socket.write(raw_fabric_peer::frame(frame_kind::take, net::detail::decision{small.them.nonce, 41}.encode()));
  a.wait_up(3);
}

TEST_CASE("handshake acceptor: wrong runs, twins and nonsense are refused with a reason", "[net][fast]") {
  fabric_peer a{5};
  const auto refusal = [&](const std::vector<std::byte>& first) {
    raw_fabric_peer b{a.net->address(), 9};
    b.socket.write(first);
    CHECK_FALSE(b.hear_meet());
    REQUIRE(b.refusal);
    return *b.refusal;
  };
  raw_fabric_peer good{a.net->address(), 9};
  auto introduction = good.introduction();
  const auto meet = [&] { return raw_fabric_peer::frame(frame_kind::meet, introduction.encode()); };
  CHECK(refusal(raw_fabric_peer::frame(frame_kind::meet, introduction.encode(), test_run + 1)).code == errc::wrong_run);
  CHECK(refusal(raw_fabric_peer::frame(frame_kind::hello, introduction.encode())).code == errc::protocol);
  CHECK(refusal(raw_fabric_peer::frame(frame_kind::meet, {})).code == errc::corrupt);
  CHECK(refusal(raw_fabric_peer::frame(frame_kind::stream, {})).code == errc::corrupt);
  const net::detail::stream_request nobodys{{9, 500, 1}, 0};
  CHECK(refusal(raw_fabric_peer::frame(frame_kind::stream, nobodys.encode())).code == errc::not_found);
  introduction.id = 0;
  CHECK(refusal(meet()).code == errc::protocol);
  introduction.id = 5;
  CHECK(refusal(meet()).message.find("two peers have the id 5") != std::string::npos);
  introduction.id = 9;
  introduction.chunk = 1;
  CHECK(refusal(meet()).code == errc::protocol);
  introduction.chunk = 1U << 20U;
  introduction.streams = 65;
  CHECK(refusal(meet()).code == errc::protocol);
  CHECK(a.links.empty());
  still_serves(a);
}

TEST_CASE("handshake acceptor: a refusal names no run, and says what to do", "[net][fast]") {
  constexpr std::uint64_t secret = 7'123'456'789;
  fabric_options options;
  options.run_id = secret;
  fabric_peer a{5, options};
  const auto kind = GENERATE(frame_kind::meet, frame_kind::stream, frame_kind::hello);
  const std::uint64_t run = GENERATE(0U, 1U);
  raw_peer stranger{*parse_endpoint(a.net->address())};
  stranger.write(raw_fabric_peer::frame(kind, {}, run));
  std::vector<std::byte> text;
  const auto answer = stranger.read(&text);
  REQUIRE(answer);
  CHECK(answer->kind == frame_kind::refused);
  CHECK(answer->run_id == 0);
  const error why = net::detail::read_refusal("", text);
  CHECK(why.message.find(std::to_string(secret)) == std::string::npos);
  CHECK(why.message.find(kind == frame_kind::hello ? "join it with" : "check the name and the seed") != std::string::npos);
}

TEST_CASE("handshake acceptor: garbage and lengths beyond the limit cost their speaker the connection", "[net][fast]") {
  fabric_peer a{5};
  std::mt19937_64 random{11};
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    raw_fabric_peer b{a.net->address(), 9};
    std::vector<std::byte> bytes(80 + random() % 300);
    for (std::byte& x : bytes) x = static_cast<std::byte>(random());
    if (round % 2 == 1) {
      const auto h =
          encode_header(raw_fabric_peer::header(frame_kind::meet, (std::size_t{4} << 10U) + 1 + random() % 60'000));
      std::copy(h.begin(), h.end(), bytes.begin());
    }
    b.socket.write(bytes);
    b.socket.read_to_end();
  }
  CHECK(a.links.empty());
  still_serves(a);
}

TEST_CASE("handshake acceptor: a connection dropped at any byte of its handshake leaves nothing behind", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer probe{a.net->address(), 9};
  const auto meet = raw_fabric_peer::frame(frame_kind::meet, probe.introduction().encode());
  for (std::size_t length = 0; length <= meet.size(); ++length) {
    CAPTURE(length);
    raw_fabric_peer b{a.net->address(), 9};
    b.socket.write(std::span{meet}.first(length));
    if (length == meet.size()) REQUIRE(b.hear_meet());
    length % 2 == 0 ? b.socket.reset() : b.socket.socket().close();
  }
  const std::size_t wish_length = header_bytes + net::detail::wish{}.encode().size();
  for (std::size_t length = 0; length < wish_length; ++length) {
    CAPTURE(length);
    raw_fabric_peer b{a.net->address(), 9};
    b.say_meet();
    REQUIRE(b.hear_meet());
    const auto want = raw_fabric_peer::frame(frame_kind::want, net::detail::wish{b.them.nonce, 0, 0}.encode());
    b.socket.write(std::span{want}.first(length));
    length % 2 == 0 ? b.socket.reset() : b.socket.socket().close();
  }
  still_serves(a);
  a.net->locked([&] { CHECK(a.links.size() == 1); });
}

TEST_CASE("handshake acceptor: a recorded handshake is of no use", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9};
  REQUIRE(b.connect() == 1);
  a.wait_up(9);
  // The same bytes again, on a new connection: the nonce in `want` is that of the first one.
  raw_fabric_peer replay{a.net->address(), 9};
  replay.say_meet();
  REQUIRE(replay.hear_meet());
  CHECK(replay.them.nonce != b.them.nonce);
  replay.them.nonce = b.them.nonce;
  replay.say_want(0, false);
  CHECK_FALSE(replay.hear_take().has_value());
  a.net->locked([&] { CHECK((a.order == std::vector<std::string>{"up 9"})); });
}

TEST_CASE("handshake acceptor: a slow handshake is cut at its deadline, byte by byte or not", "[net][fast]") {
  fabric_options options;
  const bool first_frame = GENERATE(true, false);
  options.handshake.frame = std::chrono::seconds{first_frame ? 1 : 60};
  options.handshake.handshake = std::chrono::seconds{first_frame ? 60 : 1};
  fabric_peer a{5, options};
  raw_fabric_peer b{a.net->address(), 9};
  if (first_frame) {
    const auto head = encode_header(raw_fabric_peer::header(frame_kind::meet, 50));
    b.socket.write(std::span{head}.first(79));
  } else {
    b.say_meet();
    REQUIRE(b.hear_meet());
  }
  b.socket.read_to_end();  // ends because the other side closes
  still_serves(a);
}

TEST_CASE("handshake acceptor: a crowd of silent connections locks nobody out, and those that go are told why",
          "[net][fast]") {
  fabric_options options;
  options.handshake.strangers = 3;
  fabric_peer a{5, options};
  std::vector<std::unique_ptr<raw_fabric_peer>> silent;
  for (int n = 0; n < 50; ++n) silent.push_back(std::make_unique<raw_fabric_peer>(a.net->address(), 9));
  CHECK_FALSE(silent.front()->hear_meet());
  REQUIRE(silent.front()->refusal);
  CHECK(silent.front()->refusal->code == errc::too_large);
  fabric_peer other{777};
  other.dial(a.net->address());
  other.wait_up(5);
  CHECK(other.unreachable.empty());
}

TEST_CASE("handshake acceptor: garbage fills no log", "[net][fast]") {
  const log_lines log;
  fabric_options options;
  options.transport.log = log.sink();
  fabric_peer a{5, options};
  for (int n = 0; n < 300; ++n) {
    raw_fabric_peer b{a.net->address(), 9};
    b.socket.write(std::vector<std::byte>(80, std::byte{1}));
    b.socket.read_to_end();
  }
  const std::string text = log.text();
  CHECK(std::count(text.begin(), text.end(), '\n') < 100);
  CHECK(text.find("dropped a connection during its handshake") != std::string::npos);
}

TEST_CASE("handshake acceptor: descriptors are kept for the disk; links stand, strangers are refused with the reason",
          "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9};
  REQUIRE(b.connect() == 1);
  const peer_index link = a.wait_up(9);
  {
    // A quarter of so small a limit is the reserve: the next connection would be in it.
    const held_files many{60};
    const few_descriptors few{next_descriptor() / 3};
    raw_fabric_peer late{a.net->address(), 8};
    CHECK_FALSE(late.hear_meet());
    REQUIRE(late.refusal);
    CHECK(late.refusal->code == errc::too_large);
    CHECK(late.refusal->message.find("as many connections as it may have") != std::string::npos);
    b.socket.write(b.control("hello", 0));
    REQUIRE(until(*a.net, [&] { return a.links[link].control.size() == 1; }));
  }
  still_serves(a);
}

TEST_CASE("handshake acceptor: without any descriptor it goes on, and takes those who waited", "[net][fast]") {
  const log_lines log;
  fabric_options options;
  options.transport.log = log.sink();
  fabric_peer a{5, options};
  std::optional<raw_fabric_peer> b;
  {
    const few_descriptors for_one_socket{descriptors_of_a_raw_peer()};
    b.emplace(a.net->address(), 9);
    while (log.text().find("cannot accept connections for now") == std::string::npos) std::this_thread::yield();
  }
  CHECK(b->connect() == 1);
  a.wait_up(9);
}

TEST_CASE("handshake acceptor: dials beyond the limit wait for their turn", "[net][fast]") {
  fabric_options options;
  options.handshake.dials = 1;
  fabric_peer a{5, options};
  std::vector<std::unique_ptr<fabric_peer>> others;
  for (peer_id id = 10; id < 15; ++id) others.push_back(std::make_unique<fabric_peer>(id));
  a.net->locked([&] {
    for (const auto& other : others) {
      a.net->dial(other->net->address());
      a.net->dial(other->net->address());
    }
    a.net->dial("nonsense");
  });
  for (peer_id id = 10; id < 15; ++id) a.wait_up(id);
  a.net->locked([&] { CHECK(a.links.size() == 5); });
}

TEST_CASE("handshake acceptor: links of peers that are gone are given to new ones", "[net][fast]") {
  fabric_options options;
  options.most_peers = 2;
  fabric_peer a{5, options};
  raw_fabric_peer stays{a.net->address(), 9};
  REQUIRE(stays.connect() == 1);
  const peer_index first = a.wait_up(9);
  for (peer_id id = 100; id < 104; ++id) {
    raw_fabric_peer b{a.net->address(), id};
    REQUIRE(b.connect());
    const peer_index link = a.wait_up(id);
    CHECK(link != first);
    b.socket.reset();
    REQUIRE(until(*a.net, [&] { return !a.link_to(id).has_value(); }));
  }
  raw_fabric_peer b{a.net->address(), 200};
  REQUIRE(b.connect());
  a.wait_up(200);
  raw_fabric_peer refused{a.net->address(), 201};
  refused.say_meet();
  CHECK_FALSE(refused.hear_meet());
  REQUIRE(refused.refusal);
  CHECK(refused.refusal->code == errc::too_large);
}

TEST_CASE("handshake acceptor: a peer whose program was started anew replaces its old connection", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9, 500};
  REQUIRE(b.connect() == 1);
  const peer_index link = a.wait_up(9);
  raw_fabric_peer again{a.net->address(), 9, 501};
  CHECK(again.connect() == 2);
  REQUIRE(until(*a.net, [&] { return a.links[link].ups == 2; }));
  CHECK((a.order == std::vector<std::string>{"up 9", "down 9", "up 9"}));
  CHECK(a.links[link].last_down == "its program was started anew");
  b.socket.read_to_end();
  a.post(link, "x");
  const auto h = again.socket.read();
  CHECK(h.has_value());
}

TEST_CASE("handshake acceptor: one-sided losses are mended, simultaneous connections are not", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9};
  REQUIRE(b.connect() == 1);
  const peer_index link = a.wait_up(9);
  // It has not heard of connection 1 yet, or still has it: declined.
  CHECK(raw_fabric_peer(a.net->address(), 9).connect(0, false) == 0);
  CHECK(raw_fabric_peer(a.net->address(), 9).connect(1, true) == 0);
  a.net->locked([&] { CHECK(a.links[link].ups == 1); });
  // It has lost connection 1, which we believe in.
  raw_fabric_peer anew{a.net->address(), 9};
  CHECK(anew.connect(1, false) == 2);
  REQUIRE(until(*a.net, [&] { return a.links[link].ups == 2; }));
  CHECK(a.links[link].downs == 1);
}
