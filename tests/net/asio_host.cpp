// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_host.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <algorithm>
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
    options.progress = [this](const rendezvous_progress& g) {
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
  CHECK(why.message.find("this address serves another run; check the name and the seed") == 0);
  raw_peer other_model{h.at};
  REQUIRE(say_hello(other_model, hello_body(net::detail::any_index, 2), &why) == frame_kind::refused);
  CHECK(why.code == errc::wrong_model);
  raw_peer same_model{h.at};
  CHECK(say_hello(same_model, hello_body(net::detail::any_index, 1)) == frame_kind::accepted);
}

TEST_CASE("host: a refusal names no run", "[net][fast]") {
  running_host h{3};
  raw_peer stranger{h.at};
  stranger.write(hello_header(hello_body().size(), 78), hello_body());
  std::vector<std::byte> text;
  const auto answer = stranger.read(&text);
  REQUIRE(answer);
  CHECK(answer->kind == frame_kind::refused);
  CHECK(answer->run_id == 0);
  CHECK(net::detail::read_refusal("", text).message.find(std::to_string(test_run)) == std::string::npos);
  raw_peer of_a_fabric{h.at};
  frame_header meet = hello_header(0);
  meet.kind = frame_kind::meet;
  of_a_fabric.write(meet);
  REQUIRE(of_a_fabric.read(&text));
  CHECK(net::detail::read_refusal("", text).message.find("fixed number of peers") != std::string::npos);
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

TEST_CASE("host: 300 silent connections lock nobody out, and write few lines", "[net][fast]") {
  running_host h{3};
  std::vector<std::unique_ptr<raw_peer>> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(std::make_unique<raw_peer>(h.at));
  raw_peer good{h.at};
  CHECK(say_hello(good, hello_body()) == frame_kind::accepted);
  crowd.front()->read_to_end();
  const std::string text = h.log.text();
  CHECK(std::count(text.begin(), text.end(), '\n') < 100);
}

TEST_CASE("host: when a peer leaves while the links are made its seat is free, and everybody starts over", "[net][fast]") {
  running_host h{3};
  raw_peer first{h.at};
  REQUIRE(say_hello(first, hello_body(1)) == frame_kind::accepted);
  std::vector<std::byte> body;
  const auto until_kind = [&body](raw_peer& peer, frame_kind kind) {
    auto frame = peer.read(&body);
    while (frame && frame->kind != kind) frame = peer.read(&body);
    REQUIRE(frame);
  };
  const auto token = [&] { return net::detail::address_table::decode(body)->token; };
  {
    raw_peer second{h.at};
    REQUIRE(say_hello(second, hello_body(2)) == frame_kind::accepted);
    until_kind(second, frame_kind::table);
  }
  until_kind(first, frame_kind::table);
  const std::uint64_t before = token();
  until_kind(first, frame_kind::accepted);
  h.wait_until_joined(2);
  raw_peer again{h.at};
  REQUIRE(say_hello(again, hello_body(2)) == frame_kind::accepted);
  until_kind(first, frame_kind::table);
  CHECK(token() != before);
}

TEST_CASE("host: the seat of a silent stranger is free again", "[net][fast]") {
  auto options = test_options();
  options.transport.heartbeat = std::chrono::milliseconds{50};
  options.transport.silence = std::chrono::seconds{2};
  running_host h{2, options};
  raw_peer stranger{h.at};
  REQUIRE(say_hello(stranger, hello_body(1)) == frame_kind::accepted);
  // It neither answers heartbeats nor makes a link; the run would wait for it for ever.
  stranger.read_to_end();
  h.wait_until_joined(1);
  CHECK(h.log.text().find("peer 1 left before the run was complete, its seat is free: it said nothing for too long") !=
        std::string::npos);
  options.stop = nullptr;
  options.transport.silence = std::chrono::seconds{10};
  const auto member = join(h.at, options);
  REQUIRE(member);
  h.thread.join();
  REQUIRE(*h.outcome);
}

TEST_CASE("host: a stranger who talks but makes no link is given up, and the others find each other", "[net][fast]") {
  auto options = test_options();
  options.transport.heartbeat = std::chrono::milliseconds{50};
  options.link_patience = std::chrono::seconds{2};
  running_host h{3, options};
  std::optional<result<membership>> honest;
  raw_peer stranger{h.at};
  REQUIRE(say_hello(stranger, hello_body(2)) == frame_kind::accepted);
  std::thread other{[&, options] { honest.emplace(join(h.at, options)); }};
  frame_header alive = hello_header(0);
  alive.kind = frame_kind::heartbeat;
  std::vector<std::byte> body;
  for (auto frame = stranger.read(&body); frame && frame->kind != frame_kind::refused; frame = stranger.read(&body)) {
    if (frame->kind == frame_kind::heartbeat) stranger.write(alive);
  }
  const error why = net::detail::read_refusal("host", body);
  CHECK(why.message.find("it made no link") != std::string::npos);
  const auto late = join(h.at, options);
  other.join();
  h.thread.join();
  CHECK(late);
  REQUIRE(honest);
  CHECK((*honest ? "" : honest->error().text()) == std::string{});
  REQUIRE(*h.outcome);
}

TEST_CASE("host: gives up at its deadline and on request", "[net][fast]") {
  auto options = test_options();
  options.deadline = steady_clock{}.now() + std::chrono::milliseconds{1};
  const auto late = host(*open_listener({}), 2, {}, options);
  CHECK(late.error().code == errc::timeout);
  CHECK(late.error().message == "only 1 of 2 peers joined before the deadline; missing: peer 1");
  running_host h{2};
  h.end();
  CHECK(h.outcome->error().code == errc::cancelled);
}
