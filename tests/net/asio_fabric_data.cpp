// SPDX-License-Identifier: Apache-2.0
// Data over a fabric: epochs that end, receives that are given up, and what else waits at the time.
#include <causeway/net/asio_fabric.hpp>

#include "support/catch.hpp"
#include "support/fabric_peers.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

using namespace support;

TEST_CASE("fabric: a new epoch ends the operations of older ones at once, on any thread", "[net][fast]") {
  fabric_options options;
  options.transport.unexpected_bytes = std::size_t{1} << 20U;
  options.transport.socket_buffer = std::size_t{1} << 20U;
  fabric_pair pair{options};
  const auto sent = pattern(30'000'000, 1);  // more than the kernel and b take
  std::vector<std::byte> buffer(100);
  std::vector<std::byte> later(100);
  std::vector<operation> ops{pair.a.net->receive(pair.to_b, in_epoch(4), buffer),
                             pair.a.net->send(pair.to_b, in_epoch(5), sent)};
  const auto stays = pair.a.net->receive(pair.to_b, in_epoch(6), later);
  std::atomic<bool> waiting{false};
  std::vector<errc> ends;
  std::thread trainer{[&] {
    waiting = true;
    for (const operation op : ops) ends.push_back(pair.a.net->wait(op, soon()).error().code);
  }};
  while (!waiting) std::this_thread::yield();
  pair.a.net->locked([&] { pair.a.net->cancel_before(6); });
  trainer.join();
  CHECK((ends == std::vector<errc>{errc::cancelled, errc::cancelled}));
  CHECK(pair.a.net->wait(pair.a.net->send(pair.to_b, in_epoch(5), sent), soon()).error().code == errc::cancelled);
  // What b still sends of the old epochs is dropped and counted; the new epoch goes on.
  const auto rejected = pair.a.net->stats().frames_rejected;
  const auto note = pattern(100, 2);
  for (const std::uint32_t epoch : {4U, 5U, 6U}) {
    REQUIRE(pair.b.net->wait(pair.b.net->send(pair.to_a, in_epoch(epoch), note), soon()));
  }
  REQUIRE(pair.a.net->wait(stays, soon()));
  CHECK((later == note));
  CHECK((buffer == std::vector<std::byte>(100)));
  CHECK(pair.a.net->stats().frames_rejected == rejected + 2);
  CHECK(pair.a.links[pair.to_b].downs == 0);
}

TEST_CASE("fabric: an epoch that is over stays over when the link is made again", "[net][fast]") {
  fabric_pair pair;
  pair.a.net->locked([&] {
    pair.a.net->cancel_before(6);
    pair.a.net->close(pair.to_b, "again");
  });
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].downs == 1; }));
  pair.b.dial(pair.a.net->address());
  pair.b.wait_up(1);
  pair.a.wait_up(2);
  const auto note = pattern(100, 2);
  std::vector<std::byte> buffer(100);
  const auto in = pair.a.net->receive(pair.to_b, in_epoch(6), buffer);
  for (const std::uint32_t epoch : {5U, 6U}) {
    REQUIRE(pair.b.net->wait(pair.b.net->send(pair.to_a, in_epoch(epoch), note), soon()));
  }
  REQUIRE(pair.a.net->wait(in, soon()));
  CHECK(pair.a.net->stats().frames_rejected == 1);
}

TEST_CASE("fabric: what is said in a lasting epoch goes on while views end", "[net][fast]") {
  fabric_pair pair;
  const auto note = pattern(100, 3);
  std::vector<std::byte> buffer(100), late(100);
  const auto in = pair.a.net->receive(pair.to_b, in_epoch(lasting_epoch(7)), buffer);
  pair.a.net->locked([&] { pair.a.net->cancel_before(6); });
  REQUIRE(pair.b.net->wait(pair.b.net->send(pair.to_a, in_epoch(lasting_epoch(7)), note), soon()));
  REQUIRE(pair.a.net->wait(in, soon()));
  CHECK((buffer == note));
  const auto over = pair.a.net->receive(pair.to_b, in_epoch(lasting_epoch(7)), late);
  const auto of_a_view = pair.a.net->receive(pair.to_b, in_epoch(6), buffer);
  pair.a.net->locked([&] { pair.a.net->cancel_before(lasting_epoch(8)); });
  CHECK(pair.a.net->wait(over, soon()).error().code == errc::cancelled);
  REQUIRE(pair.b.net->wait(pair.b.net->send(pair.to_a, in_epoch(6), note), soon()));
  CHECK(pair.a.net->wait(of_a_view, soon()));
}

TEST_CASE("fabric: a cancelled receive's buffer is free at once, also in the middle of its message", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9};
  const auto serial = b.connect();
  REQUIRE(serial);
  const peer_index link = a.wait_up(9);
  raw_fabric_peer data{a.net->address(), 9};
  data.open_stream(*serial);
  const auto content = pattern(100'000, 1);
  std::vector<std::byte> buffer(content.size());
  const auto in = a.net->receive(link, in_epoch(4), buffer);
  const auto half_of = [&](std::uint32_t epoch, bool second) {
    if (!second) data.socket.write(data.chunk(in_epoch(epoch), epoch - 4, content));
    data.socket.write(std::span{content}.subspan(second ? content.size() / 2 : 0, content.size() / 2));
  };
  const auto before = a.net->stats().bytes_received;
  half_of(4, false);
  while (a.net->stats().bytes_received < before + header_bytes + content.size() / 2) std::this_thread::yield();
  a.net->locked([&] { a.net->cancel_before(5); });
  std::vector<std::byte>{}.swap(buffer);  // the address sanitizer watches
  CHECK(a.net->wait(in, soon()).error().code == errc::cancelled);
  half_of(4, true);  // the rest is read and dropped
  std::vector<std::byte> next(content.size());
  const auto after = a.net->receive(link, in_epoch(5), next);
  half_of(5, false);
  half_of(5, true);
  REQUIRE(a.net->wait(after, soon()));
  CHECK((next == content));
  std::vector<std::byte> small(10);
  CHECK(a.net->wait(a.net->receive(link, in_epoch(4), small), soon()).error().code == errc::cancelled);
}

TEST_CASE("fabric: control messages pass data that nobody reads, and bulk waits behind it", "[net][fast]") {
  fabric_options options;
  options.transport.unexpected_bytes = std::size_t{1} << 20U;
  options.transport.socket_buffer = std::size_t{1} << 20U;
  fabric_pair pair{options};
  const auto sent = pattern(30'000'000, 1);
  const auto out = pair.a.net->send(pair.to_b, in_epoch(4), sent);  // b keeps 1 MiB of it and reads no further
  pair.a.post(pair.to_b, "bulk", true);
  pair.a.post(pair.to_b, "urgent");
  REQUIRE(until(*pair.b.net, [&] { return !pair.b.links[pair.to_a].control.empty(); }));
  CHECK(pair.b.links[pair.to_a].control[0] == "urgent");
  std::vector<std::byte> got(sent.size());
  REQUIRE(pair.b.net->wait(pair.b.net->receive(pair.to_a, in_epoch(4), got), soon()));
  CHECK((got == sent));
  REQUIRE(pair.a.net->wait(out, soon()));
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].control.size() == 2; }));
  CHECK(pair.b.links[pair.to_a].control[1] == "bulk");
}

TEST_CASE("fabric: data that does not move holds no bulk up, and is no sign of death", "[net][fast]") {
  fabric_options options;
  options.transport.unexpected_bytes = std::size_t{1} << 20U;
  options.transport.heartbeat = std::chrono::milliseconds{20};
  options.transport.silence = std::chrono::seconds{2};
  fabric_pair pair{options};
  const auto sent = pattern(30'000'000, 1);
  const auto out = pair.a.net->send(pair.to_b, in_epoch(4), sent);
  pair.a.post(pair.to_b, "bulk", true);
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].control.size() == 1; }));
  CHECK(pair.b.links[pair.to_a].control[0] == "bulk");
  pair.b.net->locked([&] { pair.b.net->wake_at(pair.b.net->now() + std::chrono::seconds{3}); });
  REQUIRE(until(*pair.b.net, [&] { return pair.b.wakes == 1; }));
  std::vector<std::byte> got(sent.size());
  REQUIRE(pair.b.net->wait(pair.b.net->receive(pair.to_a, in_epoch(4), got), soon()));
  CHECK((got == sent));
  REQUIRE(pair.a.net->wait(out, soon()));
}

TEST_CASE("fabric: work that blocks aside holds up neither data nor control messages, and its end is an event",
          "[net][fast]") {
  fabric_pair pair;
  std::promise<void> gate;
  std::vector<int> ends;
  pair.a.net->locked([&] {
    pair.a.net->aside([open = gate.get_future().share()] { open.wait(); }, [&] { ends.push_back(1); });
    pair.a.net->aside([] {}, [&] { ends.push_back(2); });
  });
  CHECK(passes(*pair.a.net, pair.to_b, *pair.b.net, pair.to_a, 70'000, 1));
  CHECK(passes(*pair.b.net, pair.to_a, *pair.a.net, pair.to_b, 70'000, 2));
  pair.b.post(pair.to_a, "hello");
  REQUIRE(until(*pair.a.net, [&] { return pair.a.links[pair.to_b].control.size() == 1; }));
  pair.a.net->locked([&] { CHECK(ends.empty()); });
  gate.set_value();
  REQUIRE(until(*pair.a.net, [&] { return ends.size() == 2; }));
  CHECK(ends == std::vector<int>{1, 2});
}

TEST_CASE("fabric: who detaches hears no more of work aside, and none is under way", "[net][fast]") {
  fabric_peer a{7};
  std::promise<void> gate;
  bool worked = false;
  bool told = false;
  a.net->locked([&] {
    a.net->aside(
        [&, open = gate.get_future().share()] {
          open.wait();
          worked = true;
        },
        [&] { told = true; });
  });
  gate.set_value();
  a.net->attach(nullptr);
  CHECK(worked);
  a.net->locked([&] { told = false; });  // it may have been told before
  CHECK_FALSE(a.net->block([&] { return told; }, a.net->now()).value());
}
