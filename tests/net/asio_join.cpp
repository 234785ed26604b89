// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_join.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace support;

namespace {

/// A port on which nobody listens any more.
endpoint deserted_port() { return open_listener({})->address(); }

/// A host made of a plain socket: takes one connection, reads the hello, answers with `bytes`, and hangs up.
error join_at_false_host(const std::vector<std::byte>& bytes) {
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor{io, {asio::ip::address_v4::loopback(), 0}};
  const endpoint at = net::detail::to_endpoint(acceptor.local_endpoint());
  std::optional<error> outcome;
  std::thread joining{[&] {
    auto m = join(at, test_options());
    if (!m) outcome = m.error();
  }};
  {
    asio::ip::tcp::socket socket = acceptor.accept();
    std::vector<std::byte> hello(header_bytes);
    asio::read(socket, asio::buffer(hello));
    hello.resize(decode_header(hello)->chunk_length);
    asio::read(socket, asio::buffer(hello));
    asio::write(socket, asio::buffer(bytes));
  }
  joining.join();
  REQUIRE(outcome);
  return *outcome;
}

std::vector<std::byte> frame(frame_kind kind, std::span<const std::byte> body, std::uint64_t run = test_run) {
  frame_header h;
  h.kind = kind;
  h.run_id = run;
  h.chunk_length = static_cast<std::uint32_t>(body.size());
  const header_block block = encode_header(h);
  std::vector<std::byte> bytes{block.begin(), block.end()};
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

}  // namespace

TEST_CASE("join: says when nobody answers, and why", "[net][fast]") {
  auto options = test_options();
  options.deadline = steady_clock{}.now() + std::chrono::seconds{1};
  const endpoint at = deserted_port();
  const auto outcome = join(at, options);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::unreachable);
  CHECK(outcome.error().where == at.text());
  CHECK(outcome.error().message.find("refused") != std::string::npos);
}

TEST_CASE("join: keeps dialling until the host is there", "[net][fast]") {
  const endpoint at = deserted_port();
  std::optional<result<membership>> joined;
  std::thread joining{[&] { joined.emplace(join(at, test_options())); }};
  auto listening = open_listener(at);
  if (!listening) {  // somebody else was given this port meanwhile: nothing to test against
    joining.detach();
    FAIL("the port was taken");
  }
  auto hosted = host(std::move(*listening), 2, {}, test_options());
  joining.join();
  REQUIRE(hosted);
  REQUIRE(*joined);
  CHECK((*joined)->transport.self() == 1);
}

TEST_CASE("join: another run's host tells the joiner what to check", "[net][fast]") {
  auto listening = open_listener({});
  const endpoint at = listening->address();
  std::atomic<bool> stop{false};
  std::thread hosting{[&] {
    auto options = test_options();
    options.stop = &stop;
    (void)host(std::move(*listening), 2, {}, options);
  }};
  auto options = test_options();
  options.run_id = 1234;
  const auto outcome = join(at, options);
  stop = true;
  hosting.join();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::wrong_run);
  CHECK(outcome.error().message.find("check the name and the seed of the run") != std::string::npos);
}

TEST_CASE("join: can be stopped while it waits", "[net][fast]") {
  std::atomic<bool> stop{true};
  auto options = test_options();
  options.stop = &stop;
  CHECK(join(deserted_port(), options).error().code == errc::cancelled);
}

TEST_CASE("join: a host that hangs up, lies or babbles gives an error", "[net][fast]") {
  CHECK(join_at_false_host({}).code == errc::peer_lost);
  CHECK(join_at_false_host(std::vector<std::byte>(200)).code == errc::protocol);
  CHECK(join_at_false_host(frame(frame_kind::go, {})).code == errc::protocol);
  CHECK(join_at_false_host(frame(frame_kind::refused, pattern(3, 1))).code == errc::protocol);
  byte_writer seat;
  seat.put(std::uint32_t{5}).put(std::uint32_t{2}).put(std::uint32_t{1});
  CHECK(join_at_false_host(frame(frame_kind::accepted, seat.bytes())).code == errc::protocol);
  byte_writer good;
  good.put(std::uint32_t{1}).put(std::uint32_t{2}).put(std::uint32_t{2});
  CHECK(join_at_false_host(frame(frame_kind::accepted, good.bytes(), 99)).code == errc::wrong_run);
  auto then_table = frame(frame_kind::accepted, good.bytes());
  const auto table = frame(frame_kind::table, net::detail::address_table{1, 1, {endpoint{}}}.encode());
  then_table.insert(then_table.end(), table.begin(), table.end());
  CHECK(join_at_false_host(then_table).code == errc::protocol);  // one address for two peers
}

TEST_CASE("join: random answers of a host are survived", "[net][fast]") {
  std::mt19937_64 random{9};
  for (int round = 0; round < 50; ++round) {
    auto bytes =
        frame(static_cast<frame_kind>(5 + random() % 9), pattern(random() % 60, static_cast<std::uint32_t>(random())));
    if (round % 2 == 0) bytes[random() % bytes.size()] ^= std::byte{4};
    CHECK_FALSE(join_at_false_host(bytes).message.empty());
  }
}
