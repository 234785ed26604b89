// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_link.hpp>

#include <causeway/net/asio_accept.hpp>
#include <causeway/net/asio_listener.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace support;

namespace {

constexpr std::size_t chunk = std::size_t{1} << 20U;
const message_id talk{.channel = 1, .epoch = 0, .step = 5, .parent = 9};
const message_id other{.channel = 2, .epoch = 0, .step = 5, .parent = 9};

bool untouched(const std::vector<std::byte>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

TEST_CASE("link: a peer that dies in the middle of a message is named at once", "[net][fast]") {
  half_real pair;
  std::vector<std::byte> buffer(3 * chunk);
  const auto op = pair.transport->receive(1, talk, buffer);
  pair.peer->write(data_header(talk, 0, 3 * chunk, 0, chunk), pattern(chunk / 2, 1));
  pair.peer->reset();
  const auto outcome = pair.transport->wait(op, soon());
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::peer_lost);
  CHECK(outcome.error().where == "peer 1");
}

TEST_CASE("link: garbage costs its speaker the connection, and is counted", "[net][fast]") {
  auto options = test_options();
  const log_lines log;
  options.transport.log = log.sink();
  half_real pair{options};
  const int what = GENERATE(range(0, 7));
  CAPTURE(what);
  frame_header h = data_header(talk, 0, 100, 0, 100);
  std::vector<std::byte> bytes(header_bytes);
  if (what == 1) h.run_id = 78;
  if (what == 2) h.sender = 0;
  if (what == 3) h.kind = frame_kind::hello;
  if (what == 4) h.chunk_length = 99;
  if (what == 5) h.flags = 2;
  if (what != 0) encode_header(h, bytes.data());
  if (what == 6) bytes[30] ^= std::byte{1};
  std::vector<std::byte> buffer(100);
  const auto op = pair.transport->receive(1, talk, buffer);
  pair.peer->write(bytes);
  const auto outcome = pair.transport->wait(op, soon());
  CHECK(outcome.error().code == errc::peer_lost);
  CHECK(outcome.error().message.find("dropped") == 0);
  CHECK(pair.transport->stats().frames_rejected == 1);
  CHECK(log.text().find("peer 1: dropped: ") != std::string::npos);
  pair.peer->read_to_end();
}

TEST_CASE("link: random streams of frames and noise are survived", "[net][fast]") {
  std::mt19937_64 random{3};
  for (int round = 0; round < 30; ++round) {
    half_real pair;
    std::vector<std::byte> buffer(2 * chunk);
    const auto op = pair.transport->receive(1, talk, buffer);
    std::vector<std::byte> stream;
    for (int part = 0; part < 6; ++part) {
      frame_header h = data_header(random() % 2 == 0 ? talk : other, random() % 3, random() % 5000, 0, 0);
      h.chunk_length = static_cast<std::uint32_t>(h.message_length);
      if (random() % 4 == 0) h.kind = static_cast<frame_kind>(1 + random() % 4);
      header_block block = encode_header(h);
      if (random() % 6 == 0) block[random() % header_bytes] ^= static_cast<std::byte>(1 + random() % 255);
      stream.insert(stream.end(), block.begin(), block.end());
      stream.insert(stream.end(), h.chunk_length, std::byte{1});
    }
    pair.peer->write(stream);
    pair.peer->reset();
    const auto outcome = pair.transport->wait(op, soon());  // it may have got a message, or lost the peer
    if (!outcome) CHECK((outcome.error().code == errc::peer_lost || outcome.error().code == errc::cancelled));
  }
}

TEST_CASE("link: chunks that come after a cancelled receive do not touch its buffer", "[net][fast]") {
  half_real pair;
  auto& t = *pair.transport;
  std::vector<std::byte> buffer(2 * chunk);
  const auto op = t.receive(1, talk, buffer);
  const auto body = pattern(chunk, 1);
  pair.peer->write(data_header(talk, 0, 2 * chunk, 0, chunk), std::span{body}.first(chunk / 2));
  // Until half a chunk is in the buffer: then the cancel comes in the middle of a chunk.
  while (t.stats().bytes_received < header_bytes + chunk / 2) std::this_thread::yield();
  CHECK(t.wait(op, steady_clock{}.now()).error().code == errc::timeout);
  std::fill(buffer.begin(), buffer.end(), std::byte{0});
  pair.peer->write(std::span{body}.subspan(chunk / 2));
  pair.peer->write(data_header(talk, 0, 2 * chunk, chunk, chunk), body);
  pair.peer->write(data_header(other, 1, 10, 0, 10), std::span{body}.first(10));
  std::vector<std::byte> next(10);
  REQUIRE(t.wait(t.receive(1, other, next), soon()));  // the stream is still framed
  CHECK((next == std::vector<std::byte>(body.begin(), body.begin() + 10)));
  CHECK(untouched(buffer));
}

TEST_CASE("link: bytes of a message that was given up on another stream touch nothing", "[net][fast]") {
  const std::uint32_t streams = GENERATE(2U, 3U, 16U);
  CAPTURE(streams);
  half_real pair{test_options(), streams};
  auto& t = *pair.transport;
  const std::size_t piece = net::detail::chunk_for(0, streams);
  const auto body = pattern(piece, 1);
  auto buffer = std::make_unique<std::vector<std::byte>>(streams * piece);
  const auto op = t.receive(1, talk, *buffer);
  // Every stream but the first is in the middle of a chunk when the first says that nothing more will come.
  for (std::uint32_t s = 1; s < streams; ++s) {
    const std::uint64_t before = t.stats().bytes_received;
    pair.stream(s).write(data_header(talk, 0, streams * piece, (s - 1) * piece, piece), std::span{body}.first(piece / 2));
    pair.until_received(before, header_bytes + piece / 2);
  }
  frame_header abort = data_header(talk, 0, streams * piece, (streams - 1) * piece, 0);
  abort.kind = frame_kind::abort;
  pair.stream(0).write(abort);
  CHECK(t.wait(op, soon()).error().code == errc::cancelled);
  buffer.reset();  // it is the caller's again
  std::vector<std::byte> retry(streams * piece);
  const auto again = t.receive(1, talk, retry);
  const std::uint64_t before = t.stats().bytes_received;
  for (std::uint32_t s = 1; s < streams; ++s) pair.stream(s).write(std::span{body}.subspan(piece / 2));
  pair.until_received(before, (streams - 1) * (piece - piece / 2));
  CHECK(untouched(retry));
  for (std::uint32_t s = 0; s < streams; ++s) {
    pair.stream(s).write(data_header(talk, 1, streams * piece, s * piece, piece), pattern(piece, s));
  }
  CHECK(*t.wait(again, soon()) == retry.size());
  for (std::uint32_t s = 0; s < streams; ++s) {
    CHECK(std::ranges::equal(std::span{retry}.subspan(s * piece, piece), pattern(piece, s)));
  }
}

TEST_CASE("link: a peer that takes back what another stream is receiving is dropped", "[net][fast]") {
  const std::uint32_t streams = GENERATE(2U, 16U);
  const bool wanted = GENERATE(true, false);
  CAPTURE(streams, wanted);
  half_real pair{test_options(), streams};
  auto& t = *pair.transport;
  const std::size_t piece = net::detail::chunk_for(0, streams);
  const auto body = pattern(piece, 1);
  std::vector<std::byte> buffer(2 * piece);
  operation op = 0;
  if (wanted) op = t.receive(1, talk, buffer);
  std::uint64_t before = t.stats().bytes_received;
  pair.stream(1).write(data_header(talk, 0, 2 * piece, 0, piece), std::span{body}.first(piece / 2));
  pair.until_received(before, header_bytes + piece / 2);
  before = t.stats().bytes_received;
  frame_header abort = data_header(talk, 0, 2 * piece, 0, 0);
  abort.kind = frame_kind::abort;
  pair.stream(0).write(abort);
  pair.until_received(before, header_bytes);
  pair.stream(1).write(std::span{body}.subspan(piece / 2));
  if (!wanted) op = t.receive(1, talk, buffer);
  CHECK(t.wait(op, soon()).error().code == errc::peer_lost);
  pair.stream(1).read_to_end();
}

TEST_CASE("link: the death of one of several streams ends every operation and frees every buffer", "[net][fast]") {
  const std::uint32_t streams = GENERATE(2U, 5U, 16U);
  const std::uint32_t dying = GENERATE(0U, 1U);
  CAPTURE(streams, dying);
  half_real pair{test_options(), streams};
  auto& t = *pair.transport;
  const std::size_t piece = net::detail::chunk_for(0, streams);
  const auto body = pattern(piece, 1);
  auto buffer = std::make_unique<std::vector<std::byte>>(streams * piece);
  const auto op = t.receive(1, talk, *buffer);
  for (std::uint32_t s = 0; s < streams; ++s) {
    const std::uint64_t before = t.stats().bytes_received;
    pair.stream(s).write(data_header(talk, 0, streams * piece, s * piece, piece), std::span{body}.first(piece / 2));
    pair.until_received(before, header_bytes + piece / 2);
  }
  pair.stream(dying).reset();
  CHECK(t.wait(op, soon()).error().code == errc::peer_lost);
  buffer.reset();
  for (std::uint32_t s = 0; s < streams; ++s) {
    if (s != dying) pair.stream(s).write(std::span{body}.subspan(piece / 2));
    if (s != dying) pair.stream(s).read_to_end();
  }
}

namespace {

/// An owner that has no memory left for control messages.
struct poor_owner final : net::detail::link_owner {
  std::string lost;
  void hear_lost(peer_index, const error& why) override { lost = why.text(); }
  void hear_control(peer_index, net::detail::control_message) override { throw std::bad_alloc{}; }
};

}  // namespace

TEST_CASE("link: a message that there is no memory for costs the link, not the process", "[net][fast]") {
  auto from = open_listener({});
  asio::io_context& io = *from->port->io;
  poor_owner owner;
  net::detail::link_context shared;
  shared.run_id = test_run;
  shared.owner = &owner;
  raw_peer peer{from->address()};
  std::vector<net::detail::tcp::socket> sockets;
  sockets.push_back(from->port->acceptor->accept());
  net::detail::link link{shared, {.sender = 9, .name = "peer 9", .chunk = chunk, .their_chunk = chunk}, std::move(sockets)};
  link.start_reading();
  const auto content = pattern(100, 1);
  frame_header h = data_header({}, 0, content.size(), 0, content.size());
  h.kind = frame_kind::control;
  h.sender = 9;
  net::detail::outgoing_frame out;
  out.begin(h, content, true);
  peer.write(out.header);
  peer.write(content);
  while (!link.lost()) io.run_one();
  CHECK(owner.lost.find("no memory") != std::string::npos);
  peer.read_to_end();
  io.poll();
  CHECK(link.at_rest());
}

TEST_CASE("link: a stream that comes after goodbye says goodbye, too", "[net][fast]") {
  auto from = open_listener({});
  asio::io_context& io = *from->port->io;
  net::detail::link_context shared;
  shared.run_id = test_run;
  const net::detail::link_identity who{.sender = 9, .name = "peer 9", .chunk = chunk, .their_chunk = chunk};
  raw_peer first{from->address()};
  std::vector<net::detail::tcp::socket> sockets;
  sockets.push_back(from->port->acceptor->accept());
  net::detail::link link{shared, who, std::move(sockets)};
  link.start_reading();
  link.say_goodbye();
  raw_peer second{from->address()};
  link.add_stream(from->port->acceptor->accept());
  for (raw_peer* peer : {&first, &second}) {
    const auto said = peer->read();
    REQUIRE(said.has_value());
    CHECK(said->kind == frame_kind::goodbye);
    frame_header answer = data_header({}, 0, 0, 0, 0);
    answer.kind = frame_kind::goodbye;
    answer.sender = 9;
    peer->write(answer);
  }
  while (!link.over()) io.run_one();
  io.poll();
  CHECK(link.at_rest());
}

TEST_CASE("link: a cancelled send leaves the stream framed, and the receiver is told", "[net][fast]") {
  half_real pair;
  auto& t = *pair.transport;
  {
    const auto large = pattern(40 * chunk, 1);  // more than the kernel takes while nobody reads
    const auto op = t.send(1, talk, large);
    CHECK(t.wait(op, steady_clock{}.now()).error().code == errc::timeout);
  }  // the bytes are gone before the rest of the chunk is written
  const auto small = pattern(10, 2);
  const auto after = t.send(1, other, small);
  bool sent = false;
  std::thread sender{[&] { sent = t.wait(after, soon()).has_value(); }};
  std::size_t data = 0;
  bool aborted = false;
  std::vector<std::byte> body;
  for (auto h = pair.peer->read(&body); h; h = pair.peer->read(&body)) {
    if (h->kind == frame_kind::abort) {
      aborted = true;
      CHECK(h->chunk_offset == data);
    }
    if (h->kind != frame_kind::data) continue;
    if (h->id == other) break;
    const auto expected = pattern(data + h->chunk_length, 1);
    CHECK(std::equal(body.begin(), body.end(), expected.begin() + static_cast<std::ptrdiff_t>(data)));
    data += h->chunk_length;
  }
  sender.join();
  CHECK(sent);
  CHECK(aborted);
  CHECK(data < 40 * chunk);
  CHECK((body == small));
}

TEST_CASE("link: what was given up by its sender ends the receive over several streams too", "[net][fast]") {
  auto options = test_options();
  options.streams_per_link = 4;
  auto peers = tcp_mesh(2, options);
  std::vector<std::byte> got(64 * chunk);
  {
    const auto large = pattern(64 * chunk, 1);
    CHECK(peers[0].wait(peers[0].send(1, talk, large), steady_clock{}.now()).error().code == errc::timeout);
  }
  CHECK(peers[1].wait(peers[1].receive(0, talk, got), steady_clock{}.now()).has_value() == false);
  const auto next = pattern(3 * chunk, 2);
  const auto in = peers[1].receive(0, other, got);
  const auto out = peers[0].send(1, other, next);
  bool sent = false;
  std::thread sender{[&] { sent = peers[0].wait(out, soon()).has_value(); }};
  CHECK(*peers[1].wait(in, soon()) == next.size());
  sender.join();
  CHECK(sent);
  got.resize(next.size());
  CHECK((got == next));
}

TEST_CASE("link: unwanted messages slow their sender down, and never the trainer", "[net][fast]") {
  auto options = test_options();
  options.transport.unexpected_bytes = 4 * chunk;
  auto peers = tcp_mesh(2, options);
  const auto unwanted = pattern(chunk, 1);
  const auto wanted = pattern(chunk, 2);
  std::vector<operation> ops;
  for (int i = 0; i < 12; ++i) ops.push_back(peers[0].send(1, other, unwanted));
  ops.push_back(peers[0].send(1, talk, wanted));
  std::size_t sent = 0;
  std::thread sender{[&] {
    for (const operation op : ops) sent += peers[0].wait(op, soon()).has_value() ? 1 : 0;
  }};
  std::vector<std::byte> got(chunk);
  REQUIRE(peers[1].wait(peers[1].receive(0, talk, got), soon()));  // behind three times the limit
  CHECK((got == wanted));
  for (int i = 0; i < 12; ++i) REQUIRE(peers[1].wait(peers[1].receive(0, other, got), soon()));
  CHECK((got == unwanted));
  sender.join();
  CHECK(sent == ops.size());
}

TEST_CASE("link: reading from a peer that nobody waits for stops at the limit and resumes", "[net][fast]") {
  auto options = test_options();
  options.transport.unexpected_bytes = chunk;
  half_real pair{options};
  std::thread writer{[&] {
    for (std::uint64_t i = 0; i < 40; ++i) pair.peer->write(data_header(other, i, chunk, 0, chunk), pattern(chunk, 1));
  }};
  std::vector<std::byte> got(chunk);
  for (int i = 0; i < 40; ++i) REQUIRE(*pair.transport->wait(pair.transport->receive(1, other, got), soon()) == chunk);
  writer.join();
  CHECK((got == pattern(chunk, 1)));
}

TEST_CASE("link: heartbeats keep an idle link alive, silence ends it", "[net][fast]") {
  auto options = test_options();
  options.transport.heartbeat = std::chrono::milliseconds{5};
  options.transport.silence = std::chrono::seconds{1};
  half_real pair{options};
  const auto first = pair.peer->read();
  REQUIRE(first);
  CHECK(first->kind == frame_kind::heartbeat);
  std::vector<std::byte> buffer(10);
  const auto outcome = pair.transport->wait(pair.transport->receive(1, talk, buffer), soon());
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::peer_lost);
  CHECK(outcome.error().message.find("nothing was heard from it") == 0);
}

TEST_CASE("link: a goodbye is answered", "[net][fast]") {
  half_real pair;
  frame_header bye;
  bye.kind = frame_kind::goodbye;
  bye.run_id = test_run;
  bye.sender = 1;
  pair.peer->write(bye);
  auto h = pair.peer->read();
  while (h && h->kind == frame_kind::heartbeat) h = pair.peer->read();
  REQUIRE(h);
  CHECK(h->kind == frame_kind::goodbye);
  CHECK_FALSE(pair.peer->read());
}
