// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/flight.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"

#include <memory>
#include <vector>

using namespace causeway;
using namespace causeway::collective;

TEST_CASE("flight: what is under way when it goes is cancelled, and its buffer no longer written", "[collective][fast]") {
  net::memory_network network{2, {.kept_bytes = 0}};
  auto a = network.transport(0);
  auto b = network.transport(1);
  std::vector<net::scoped_operation> places;
  const std::vector<std::byte> text(8, std::byte{1});
  {
    auto buffer = std::make_unique<std::vector<std::byte>>(8);
    flight<net::memory_transport> ops{a, peer_threads::some_id, peer_threads::soon(), places, 2};
    ops.receive(0, 1, part{}, *buffer);
    ops.send(1, 1, part{1}, text);
  }  // the buffer is gone: a late message must find no receive, and the send must be withdrawn
  CHECK(b.wait(b.send(0, peer_threads::some_id, text), time_point{}).error().code == errc::timeout);
  net::message_id id = peer_threads::some_id;
  id.channel += 1;
  std::vector<std::byte> room(8);
  CHECK(b.wait(b.receive(0, id, room), time_point{}).error().code == errc::timeout);
}

TEST_CASE("flight: phases and chunks are messages of their own", "[collective][fast]") {
  net::memory_network network{2};
  auto a = network.transport(0);
  auto b = network.transport(1);
  std::vector<net::scoped_operation> places_a, places_b;
  flight<net::memory_transport> out{a, peer_threads::some_id, peer_threads::soon(), places_a, 3};
  flight<net::memory_transport> in{b, peer_threads::some_id, peer_threads::soon(), places_b, 3};
  const std::vector<std::byte> first(1), second(2), third(3);
  out.send(0, 1, part{0, 1}, second);
  out.send(1, 1, part{1, 0}, third);
  out.send(2, 1, part{0, 0}, first);
  std::vector<std::byte> room(30);
  in.receive(0, 0, part{0, 0}, std::span{room}.first(10));
  in.receive(1, 0, part{0, 1}, std::span{room}.subspan(10, 10));
  in.receive(2, 0, part{1, 0}, std::span{room}.subspan(20, 10));
  CHECK(*in.wait(0, 0) == 1);
  CHECK(*in.wait(1, 0) == 2);
  CHECK(*in.wait(2, 0) == 3);
  CHECK(*in.wait(2, 0) == 0);  // nothing there any more
  for (std::size_t place = 0; place < 3; ++place) CHECK(out.finish(place, 1));
}

TEST_CASE("flight: a message of another length than expected names its sender", "[collective][fast]") {
  net::memory_network network{2};
  auto a = network.transport(0);
  auto b = network.transport(1);
  std::vector<net::scoped_operation> places;
  std::vector<std::byte> room(8);
  const std::vector<std::byte> text(7);
  flight<net::memory_transport> in{b, peer_threads::some_id, peer_threads::soon(), places, 1};
  in.receive(0, 0, part{}, room);
  (void)a.send(1, peer_threads::some_id, text);
  const auto outcome = in.wait_exact(0, 0, 8);
  CHECK(outcome.error().code == errc::protocol);
  CHECK(outcome.error().where == "peer 0");
}
