// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_ask.hpp>
#include <causeway/net/asio_fabric.hpp>
#include <causeway/net/rendezvous.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace support;

namespace {

constexpr std::uint64_t long_item = 300'000;  // of several pieces, the last of them short

std::byte byte_at(std::uint64_t offset) { return static_cast<std::byte>(offset * 7 + offset / 251); }

/// Item 0 is three bytes, item 1 is long, item 2 ends too soon.
std::vector<std::byte> piece_of(std::uint32_t item, std::uint64_t offset) {
  if (item == 0) return std::vector<std::byte>(3, std::byte{42});
  const std::uint64_t length = item == 1 ? long_item : item == 2 ? 1000 : 0;
  std::vector<std::byte> piece;
  for (; offset < length && piece.size() < net::max_piece_bytes; ++offset) piece.push_back(byte_at(offset));
  return piece;
}

/// A fabric that tells newcomers something, or nothing.
std::shared_ptr<net::asio_fabric> talkative(net::piece_source pieces = piece_of) {
  net::fabric_options options;
  options.run_id = 77;
  options.id = 5;
  options.handshake.pieces = std::move(pieces);
  return *net::open_fabric(endpoint{}, std::move(options));
}

struct ignores final : net::fabric_events {
  void on_up(peer_index, net::peer_id, const std::string&) override {}
  void on_down(peer_index, const error&) override {}
  void on_unreachable(const std::string&, const error&) override {}
  void on_control(peer_index, std::span<const std::byte>) override {}
  void on_wake() override {}
};

net::inquiry_options in_time() { return {.deadline = steady_clock{}.now() + std::chrono::seconds{20}}; }

}  // namespace

TEST_CASE("ask: a stranger learns the run, and reads items in pieces", "[net][fast]") {
  const auto run = talkative();
  ignores events;
  run->attach(&events);
  auto there = net::inquiry::open(*net::parse_endpoint(run->address()), in_time());
  REQUIRE(there);
  CHECK(there->run_id() == 77);
  CHECK(there->about() == piece_of(0, 0));
  std::uint64_t at = 0;
  bool right = true;
  const auto outcome = there->read(1, 0, long_item, [&](std::span<const std::byte> piece) -> result<void> {
    for (const std::byte b : piece) right = right && b == byte_at(at++);
    return {};
  });
  CHECK(outcome);
  CHECK(right);
  CHECK(at == long_item);
  run->attach(nullptr);
}

TEST_CASE("ask: an item that ends too soon is no item", "[net][fast]") {
  const auto run = talkative();
  ignores events;
  run->attach(&events);
  auto there = net::inquiry::open(*net::parse_endpoint(run->address()), in_time());
  REQUIRE(there);
  const auto nothing = [](std::span<const std::byte>) -> result<void> { return {}; };
  CHECK(there->read(2, 0, 2000, nothing).error().code == errc::corrupt);
  auto again = net::inquiry::open(*net::parse_endpoint(run->address()), in_time());
  CHECK(again->read(9, 0, 1, nothing).error().code == errc::corrupt);
  run->attach(nullptr);
}

TEST_CASE("ask: a run that tells nothing says so", "[net][fast]") {
  const auto run = talkative({});
  ignores events;
  run->attach(&events);
  const auto there = net::inquiry::open(*net::parse_endpoint(run->address()), in_time());
  REQUIRE_FALSE(there);
  CHECK(there.error().code == errc::unsupported);
  run->attach(nullptr);
}

TEST_CASE("ask: a host answers while it waits, and nobody is seated by it", "[net][fast]") {
  auto at = open_listener({});
  const endpoint address = at->address();
  std::atomic<bool> stop{false};
  rendezvous_options options = test_options();
  options.run_id = 99;
  options.pieces = piece_of;
  options.stop = &stop;
  std::atomic<std::uint32_t> most{0};
  options.progress = [&](const net::rendezvous_progress& g) { most = std::max(most.load(), g.joined); };
  std::thread hosting{[&] { (void)net::host(std::move(*at), 2, {}, options); }};
  {
    auto there = net::inquiry::open(address, in_time());
    CHECK(there);
    if (there) CHECK(there->run_id() == 99);
  }
  stop = true;
  hosting.join();
  CHECK(most == 1);
}

TEST_CASE("ask: nobody there", "[net][fast]") {
  const endpoint deserted = open_listener({})->address();
  auto options = in_time();
  options.once = true;
  CHECK(net::inquiry::open(deserted, options).error().code == errc::unreachable);
  std::atomic<bool> stop{true};
  options.stop = &stop;
  options.once = false;
  CHECK(net::inquiry::open(deserted, options).error().code == errc::cancelled);
}
