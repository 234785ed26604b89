// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_host.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace support;

namespace {

/// A host of `peers` peers in a thread, stopped at the end of the test.
struct running_host {
  explicit running_host(std::uint32_t peers, rendezvous_options options = test_options()) {
    auto listening = open_listener({});
    at = listening->address();
    options.stop = &stop;
    options.transport.log = log.sink();
    options.progress = [this](const gathering& g) {
      joined = g.joined;
      connecting = g.connecting;
    };
    thread = std::thread{[this, peers, options, l = std::make_shared<listener>(std::move(*listening))] {
      outcome.emplace(host(std::move(*l), peers, {}, options));
    }};
  }
  ~running_host() { end(); }
  void end() {
    stop = true;
    if (thread.joinable()) thread.join();
  }
  void wait_until_joined(std::uint32_t n) const {
    while (joined != n) std::this_thread::yield();
  }

  endpoint at;
  log_lines log;
  std::atomic<bool> stop{false};
  std::atomic<bool> connecting{false};
  std::atomic<std::uint32_t> joined{0};
  std::optional<result<membership>> outcome;
  std::thread thread;
};

frame_header hello_header(std::size_t length, std::uint64_t run = test_run) {
  frame_header h;
  h.kind = frame_kind::hello;
  h.run_id = run;
  h.chunk_length = static_cast<std::uint32_t>(length);
  return h;
}

std::vector<std::byte> hello_body(peer_index wanted = net::detail::any_index, std::uint64_t model = 0) {
  return net::detail::hello{.model_hash = model, .wanted = wanted, .announce = {}, .port = 9, .has_bbr = 1}.encode();
}

/// Says hello by hand; the kind of the answer, and the refusal if it is one.
frame_kind say_hello(raw_peer& peer, const std::vector<std::byte>& body, error* refusal = nullptr,
                     std::uint64_t run = test_run) {
  peer.write(hello_header(body.size(), run), body);
  std::vector<std::byte> answer;
  const auto h = peer.read(&answer);
  REQUIRE(h);
  if (h->kind == frame_kind::refused && refusal != nullptr) *refusal = net::detail::read_refusal("host", answer);
  return h->kind;
}

}  // namespace

TEST_CASE("host: refuses another run and another model with the remedy", "[net][fast]") {
  auto options = test_options();
  options.model_hash = 1;
  running_host h{3, options};
  error why;
  raw_peer stranger{h.at};
  REQUIRE(say_hello(stranger, hello_body(), &why, 78) == frame_kind::refused);
  CHECK(why.code == errc::wrong_run);
  CHECK(why.message == "this address serves run 77, not run 78; use --run 77 or another address");
  raw_peer other_model{h.at};
  REQUIRE(say_hello(other_model, hello_body(net::detail::any_index, 2), &why) == frame_kind::refused);
  CHECK(why.code == errc::wrong_model);
  raw_peer same_model{h.at};
  CHECK(say_hello(same_model, hello_body(net::detail::any_index, 1)) == frame_kind::accepted);
}

TEST_CASE("host: an index is given once, and a seat that was left is free again", "[net][fast]") {
  running_host h{3};
  error why;
  {
    raw_peer first{h.at};
    REQUIRE(say_hello(first, hello_body(2)) == frame_kind::accepted);
    raw_peer second{h.at};
    REQUIRE(say_hello(second, hello_body(2), &why) == frame_kind::refused);
    CHECK(why.message.find("index 2 is taken") == 0);
    raw_peer third{h.at};
    REQUIRE(say_hello(third, hello_body(3), &why) == frame_kind::refused);
    CHECK(why.message.find("index 3 does not exist") == 0);
    h.wait_until_joined(2);
  }
  h.wait_until_joined(1);
  raw_peer again{h.at};
  CHECK(say_hello(again, hello_body(2)) == frame_kind::accepted);
  CHECK(h.log.text().find("peer 2 left before the run was complete") != std::string::npos);
}

TEST_CASE("host: a full run says so", "[net][fast]") {
  running_host h{2};
  raw_peer first{h.at};
  REQUIRE(say_hello(first, hello_body()) == frame_kind::accepted);
  raw_peer second{h.at};
  error why;
  REQUIRE(say_hello(second, hello_body(), &why) == frame_kind::refused);
  CHECK(why.message == "the run is full: all 2 peers are in");
}

TEST_CASE("host: strangers that speak nonsense do not disturb the others", "[net][fast]") {
  running_host h{3};
  raw_peer http{h.at};
  const std::string request =
      "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: a browser that is not a peer of ours\r\n\r\n";
  http.write(std::as_bytes(std::span{request.data(), request.size()}));
  raw_peer long_winded{h.at};
  long_winded.write(hello_header(5000), pattern(5000, 1));  // beyond what is parsed of a stranger
  raw_peer truncated{h.at};
  truncated.write(hello_header(3), pattern(3, 1));
  raw_peer silent{h.at};
  raw_peer vanishing{h.at};
  vanishing.reset();
  for (raw_peer* p : {&http, &long_winded, &truncated}) p->read_to_end();
  raw_peer good{h.at};
  CHECK(say_hello(good, hello_body()) == frame_kind::accepted);
  CHECK(h.log.text().find("does not speak Causeway's protocol") != std::string::npos);
}

TEST_CASE("host: more than 128 silent connections are turned away", "[net][fast]") {
  running_host h{3};
  std::vector<std::unique_ptr<raw_peer>> crowd;
  for (int i = 0; i < 129; ++i) crowd.push_back(std::make_unique<raw_peer>(h.at));
  crowd.back()->read_to_end();  // the last one is closed at once
  crowd.resize(100);
  // Once the host saw some of them go, there is room again.
  for (;;) {
    raw_peer good{h.at};
    good.write(hello_header(hello_body().size()), hello_body());
    if (good.read()) break;
  }
  SUCCEED();
}

TEST_CASE("host: a peer that leaves while the links are made ends the gathering for all", "[net][fast]") {
  running_host h{3};
  raw_peer first{h.at};
  REQUIRE(say_hello(first, hello_body(1)) == frame_kind::accepted);
  {
    raw_peer second{h.at};
    REQUIRE(say_hello(second, hello_body(2)) == frame_kind::accepted);
    for (auto frame = second.read(); frame && frame->kind != frame_kind::table;) frame = second.read();
  }
  std::vector<std::byte> body;
  auto frame = first.read(&body);
  while (frame && frame->kind != frame_kind::refused) frame = first.read(&body);
  REQUIRE(frame);
  const error why = net::detail::read_refusal("host", body);
  CHECK(why.code == errc::peer_lost);
  h.thread.join();
  REQUIRE_FALSE(*h.outcome);
  CHECK(h.outcome->error().where == "peer 2");
}

TEST_CASE("host: gives up at its deadline and on request", "[net][fast]") {
  auto options = test_options();
  options.deadline = steady_clock{}.now() + std::chrono::milliseconds{1};
  const auto late = host(*open_listener({}), 2, {}, options);
  CHECK(late.error().code == errc::timeout);
  CHECK(late.error().message == "only 1 of 2 peers joined before the deadline");
  running_host h{2};
  h.end();
  CHECK(h.outcome->error().code == errc::cancelled);
}
