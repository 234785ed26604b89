// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_conversation.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace support;
using namespace std::chrono_literals;

namespace {

/// A conversation with a plain socket, and what it reported.
struct talk {
  asio::io_context io;
  std::unique_ptr<raw_peer> other;
  net::detail::conversation_ptr us;
  std::optional<error> ended;
  std::optional<frame_header> heard;

  talk() {
    net::detail::tcp::acceptor acceptor{io, {asio::ip::address_v4::loopback(), 0}};
    other = std::make_unique<raw_peer>(net::detail::to_endpoint(acceptor.local_endpoint()));
    us = std::make_shared<net::detail::conversation>(acceptor.accept());
    us->on_end([this](const error& why) { ended = why; });
  }
  ~talk() {
    us->stop();
    io.restart();
    io.poll();
  }
  talk(const talk&) = delete;
  talk& operator=(const talk&) = delete;

  void listen(std::chrono::nanoseconds patience = 60s) {
    us->next(1000, patience, [this](const frame_header& h, auto) { heard = h; });
  }
  void run() {
    while (!ended && !heard && io.run_one() != 0) {
    }
  }
};

frame_header control(frame_kind kind, std::uint32_t length) {
  frame_header h;
  h.kind = kind;
  h.chunk_length = length;
  return h;
}

}  // namespace

TEST_CASE("conversation: last words are heard although nobody listens to ours any more", "[net][fast]") {
  talk t;
  t.other->write(control(frame_kind::refused, 0));
  t.other->reset();
  t.listen();
  t.us->say(frame_kind::heartbeat, test_run, 0, {});  // fails before the frame is read
  t.run();
  REQUIRE(t.heard);
  CHECK(t.heard->kind == frame_kind::refused);
  CHECK_FALSE(t.ended);
}

TEST_CASE("conversation: hears one frame and not a byte more", "[net][fast]") {
  talk t;
  t.other->write(control(frame_kind::hello, 1000), pattern(1000, 1));
  t.other->write(control(frame_kind::ready, 0));
  t.listen();
  t.run();
  REQUIRE(t.heard);
  CHECK(t.heard->kind == frame_kind::hello);
  auto socket = t.us->release();  // the second frame is still in it
  header_block block;
  asio::read(socket, asio::buffer(block));
  CHECK(decode_header(block)->kind == frame_kind::ready);
}

TEST_CASE("conversation: ends with the reason when the other side breaks a rule", "[net][fast]") {
  talk t;
  const int what = GENERATE(range(0, 5));
  CAPTURE(what);
  if (what == 0) t.other->write(control(frame_kind::hello, 1001));
  if (what == 1) t.other->write(control(frame_kind::goodbye, 0));
  if (what == 2) t.other->write(std::vector<std::byte>(header_bytes));
  if (what == 3) t.other->socket().close();
  t.listen(what == 4 ? std::chrono::nanoseconds{1ms} : std::chrono::nanoseconds{60s});
  t.run();
  REQUIRE(t.ended);
  const errc expected[] = {errc::too_large, errc::protocol, errc::protocol, errc::peer_lost, errc::timeout};
  CHECK(t.ended->code == expected[what]);
  CHECK(t.us->over());
}

TEST_CASE("conversation: a refusal arrives before the end", "[net][fast]") {
  talk t;
  t.us->refuse(fail(errc::wrong_model, "", "another model"));
  while (!t.us->over() && t.io.run_one() != 0) {
  }
  std::vector<std::byte> body;
  REQUIRE(t.other->read(&body));
  const error why = net::detail::read_refusal("host", body);
  CHECK(why.text() == "host: another model [wrong_model]");
  CHECK_FALSE(t.other->read());
}

TEST_CASE("conversation: refusals that make no sense are themselves an error", "[net][fast]") {
  CHECK(net::detail::read_refusal("host", {}).code == errc::protocol);
  byte_writer unknown;
  unknown.put(std::uint16_t{9999}).put_text("text");
  CHECK(net::detail::read_refusal("host", unknown.bytes()).code == errc::protocol);
}

TEST_CASE("dialer: remembers why nobody answered, and stops when told", "[net][fast]") {
  asio::io_context io;
  const endpoint nobody = open_listener({})->address();
  bool called = false;
  const auto d = std::make_shared<net::detail::dialer>(io, nobody, [&](const auto&) { called = true; });
  d->dial();
  while (d->last_failure().empty()) io.run_one();
  CHECK(d->busy());
  d->stop();
  io.run();
  CHECK_FALSE(called);
  CHECK_FALSE(d->busy());
}
