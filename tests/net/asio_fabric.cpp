// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_fabric.hpp>

#include "support/catch.hpp"
#include "support/fabric_peers.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace support;

namespace {

const message_id talk{.channel = 1, .epoch = 4, .step = 5, .parent = 9};

message_id in_epoch(std::uint32_t epoch, std::uint64_t step = 5) {
  return {.channel = 1, .epoch = epoch, .step = step, .parent = 9};
}

/// Sends from one fabric to the other and compares.
bool passes(fabric& from, peer_index to, fabric& at, peer_index of, std::size_t size, std::uint64_t step) {
  const auto sent = pattern(size, 3);
  std::vector<std::byte> got(size);
  const auto in = at.receive(of, in_epoch(4, step), got);
  const auto out = from.send(to, in_epoch(4, step), sent);
  std::thread other{[&] { CHECK(from.wait(out, soon())); }};
  const auto outcome = at.wait(in, soon());
  other.join();
  CHECK(outcome);
  return outcome && got == sent;
}

}  // namespace

TEST_CASE("fabric: a dial brings a link up on both sides, with ids and addresses", "[net][fast]") {
  fabric_peer a{7};
  fabric_peer b{1ULL << 60U};
  CHECK(a.net->address() != b.net->address());
  a.dial(b.net->address());
  const peer_index to_b = a.wait_up(b.net->id());
  const peer_index to_a = b.wait_up(7);
  CHECK(a.links[to_b].address == b.net->address());
  CHECK(b.links[to_a].address == a.net->address());
  bool up = false;
  a.net->locked([&] { up = a.net->is_up(to_b); });
  CHECK(up);
  a.net->locked([&] { up = a.net->is_up(to_b + 1); });
  CHECK_FALSE(up);
}

TEST_CASE("fabric: control messages arrive whole and in order, of every size", "[net][fast]") {
  fabric_pair pair;
  std::vector<std::string> sent;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{17'000}, max_post_bytes}) {
    sent.push_back(std::string(size, static_cast<char>('a' + sent.size())));
    pair.a.post(pair.to_b, sent.back());
  }
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].control.size() == sent.size(); }));
  CHECK((pair.b.links[pair.to_a].control == sent));
}

TEST_CASE("fabric: data passes in both directions over one stream and over three", "[net][fast]") {
  fabric_options options;
  options.streams_per_link = GENERATE(std::size_t{1}, std::size_t{3});
  options.transport.digest = GENERATE(false, true);
  CAPTURE(options.streams_per_link, options.transport.digest);
  fabric_pair pair{options};
  std::uint64_t step = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{70'000}, std::size_t{5'000'003}}) {
    CAPTURE(size);
    ++step;
    CHECK(passes(*pair.a.net, pair.to_b, *pair.b.net, pair.to_a, size, step));
    CHECK(passes(*pair.b.net, pair.to_a, *pair.a.net, pair.to_b, size, step));
  }
  CHECK(until(*pair.a.net, [&] { return true; }));
}
