// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/transfer/transfer.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "membership/transfer/transfer_net.hpp"
#include "support/catch.hpp"

using namespace transfer_test;

TEST_CASE("state transfer: a state arrives from one, two and five holders", "[membership][fast]") {
  for (const std::size_t donors : {1U, 2U, 5U}) {
    for (const std::size_t floats : {1U, 65'536U, 65'537U, 700'001U}) {
      fetch f{donors, floats};
      f.start();
      CHECK(f.run() == status::complete);
      const auto p = f.progress();
      CHECK(p.bytes_done == p.bytes_total);
      CHECK(p.bytes_total == f.taker->image.bytes());
      CHECK((p.bad == 0 && p.unasked == 0 && p.overdue == 0));
      f.check_whole();
    }
  }
}

TEST_CASE("state transfer: nothing is fetched where nothing differs", "[membership][fast]") {
  fetch f{1};
  f.taker->fill(7);
  f.taker->counter = 5;
  f.start();
  CHECK(f.taking().state() == status::complete);
  CHECK(f.net.posted == 0);
  CHECK(f.taking().commit(f.taker->image).has_value());
}

TEST_CASE("state transfer: one percent changed is one percent fetched", "[membership][fast]") {
  fetch f{2, 13'000'000};  // 199 chunks
  f.taker->values = f.net.at(1).values;
  f.taker->values[1'000'000] += 1;
  f.taker->counter = 5;
  f.taker->values[7'000'000] += 1;
  f.taker->image.touch();
  f.start();
  CHECK(f.run() == status::complete);
  CHECK(f.progress().bytes_done == 2 * default_chunk_bytes);
  const std::uint64_t moved = f.net.way(1, me).bytes + f.net.way(2, me).bytes;
  CHECK(static_cast<double>(moved) < 1.02 * 0.01 * static_cast<double>(f.taker->image.bytes()) + 4096);
  f.check_whole();
}

TEST_CASE("state transfer: three holders of different speeds together are as quick as their sum", "[membership][fast]") {
  for (const duration delay : {0ms, 25ms, 100ms}) {
    fetch f{3, 15'000'000};
    const double rates[] = {1e6, 3e6, 6e6};
    for (net::peer_id id = 1; id <= 3; ++id) f.net.set_line(me, id, rates[id - 1], delay);
    f.start();
    CHECK(f.run() == status::complete);
    const double bound = static_cast<double>(f.taker->image.bytes()) / 10e6;
    CAPTURE(seconds(delay), seconds(f.net.now.since_start), bound);
    CHECK(seconds(f.net.now.since_start) < 1.1 * bound);
    CHECK(static_cast<double>(f.progress().bytes_wasted) < 0.03 * static_cast<double>(f.taker->image.bytes()));
    f.net.run();
    for (net::peer_id id = 1; id <= 3; ++id) CHECK(f.giving(id).outstanding() == 0);
    f.check_whole();
  }
}

TEST_CASE("state transfer: a long quick line is filled", "[membership][fast]") {
  fetch f{1, 25'000'000};
  f.net.set_line(me, 1, 50e6, 50ms);  // 5 MB fit on it there and back
  f.start();
  CHECK(f.run() == status::complete);
  CHECK(seconds(f.net.now.since_start) < 1.3 * static_cast<double>(f.taker->image.bytes()) / 50e6);
}

TEST_CASE("state transfer: a manifest of many pieces", "[membership][fast]") {
  fetch f{2, 2'000'000};
  for (const net::peer_id id : {1U, 2U}) {
    f.net.at(id).remake(64);  // 125,001 chunks, five pieces
    f.net.at(id).offer(1);
    f.goal = f.net.at(id).state(1);
  }
  f.taker->values = f.net.at(1).values;
  f.taker->values[1'234'567] += 1;
  f.taker->remake(64);
  f.start();
  CHECK(f.run() == status::complete);
  CHECK(f.progress().bytes_done == 64 + f.taker->image.chunk_size(f.taker->image.chunks() - 1));
  f.check_whole();
}

TEST_CASE("state transfer: the only holder may be very slow", "[membership][fast]") {
  fetch f{1, 400'000};
  f.net.set_line(me, 1, 10e3, 20ms);  // 26 seconds for a chunk
  f.start();
  CHECK(f.run() == status::complete);
  CHECK(f.progress().bytes_wasted < 3 * default_chunk_bytes);
  CHECK(seconds(f.net.now.since_start) < 1.3 * static_cast<double>(f.taker->image.bytes()) / 10e3);
  f.check_whole();
}

TEST_CASE("state transfer: holders come and go while it runs", "[membership][fast]") {
  fetch f{3, 5'000'000};
  f.holders = {1};
  f.start();
  f.net.at_time(time_point{500ms}, [&] { f.taking().holders(std::vector<net::peer_id>{2}, f.net.now); });
  f.net.at_time(time_point{900ms}, [&] { f.taking().holders(std::vector<net::peer_id>{2, 3}, f.net.now); });
  CHECK(f.run() == status::complete);
  CHECK(f.net.way(3, me).bytes > 1'000'000);
  CHECK(f.net.now < time_point{2s});
  f.check_whole();
}

TEST_CASE("state transfer: a fetch that was ended is acknowledged to the last message, and goes on where it was",
          "[membership][fast]") {
  fetch f{2, 6'000'000};
  f.start();
  f.net.run([&] { return f.progress().bytes_total > 0 && 2 * f.progress().bytes_done > f.progress().bytes_total; });
  f.taking().stop();
  CHECK(f.taking().state() == status::idle);
  f.net.run();
  CHECK(f.giving(1).outstanding() == 0);
  CHECK(f.giving(2).outstanding() == 0);
  f.start();
  CHECK(f.run() == status::complete);
  CHECK(f.progress().bytes_done == f.progress().bytes_total);
  const std::uint64_t sent = f.giving(1).counted().bytes_sent + f.giving(2).counted().bytes_sent;
  CHECK(sent < f.progress().bytes_total * 6 / 5);
  f.check_whole();
}

TEST_CASE("state transfer: chunks of another state do not get into the next fetch", "[membership][fast]") {
  fetch f{2, 3'000'000};
  f.start();
  f.net.run([&] { return f.progress().bytes_total > 0 && 2 * f.progress().bytes_done > f.progress().bytes_total; });
  for (const net::peer_id id : {1U, 2U}) {
    f.giving(id).withdraw();
    f.net.at(id).fill(99);
    f.net.at(id).offer(2);
    f.goal = f.net.at(id).state(2);
  }
  f.start();
  CHECK(f.run() == status::complete);
  REQUIRE(f.taking().commit(f.taker->image));
  CHECK(f.taker->state(2) == f.goal);
}

TEST_CASE("state transfer: many joiners are served alike", "[membership][fast]") {
  constexpr std::size_t joiners = 8;
  virtual_net net{1'000'000};
  peer& source = net.add(1);
  source.fill(7);
  source.offer(1);
  const state_name goal = source.state(1);
  const net::peer_id from[] = {1};
  for (net::peer_id id = 10; id < 10 + joiners; ++id) {
    peer& p = net.add(id);
    net.set_line(1, id, 10e6, 10ms);
    (void)p.state(0);
    p.transfer.taking.start(goal, from, p.image, net.now);
  }
  std::size_t most = 0;
  std::map<net::peer_id, time_point> ended;
  net.run([&] {
    most = std::max(most, source.transfer.giving.outstanding());
    for (net::peer_id id = 10; id < 10 + joiners; ++id) {
      if (net.at(id).transfer.taking.state() == status::complete) ended.emplace(id, net.now);
    }
    return ended.size() == joiners;
  });
  CHECK(ended.size() == joiners);
  CHECK(most <= transfer_options{}.outstanding_total + joiners * default_chunk_bytes);
  CHECK(ended.at(17) - ended.at(10) < 100ms);
}

TEST_CASE("state transfer: a hundred thousand random messages do no harm to either side", "[membership][fast]") {
  fetch f{3, 300'000, {.outstanding_per_peer = 1U << 20U, .outstanding_total = 2U << 20U}};
  rng random{5};
  f.net.on_post = [&](net::peer_id from, net::peer_id, std::vector<std::byte>&) { return from == me || from == 1; };
  f.start();
  std::vector<std::byte> chunk(default_chunk_bytes);
  for (int i = 0; i < 100'000; ++i) {
    transfer_message m{.kind = static_cast<transfer_kind>(0x80 + random.below(7)),
                       .what = random.below(4) == 0 ? state_name{random.below(4), random.next()} : f.goal,
                       .index = random.below(3) == 0 ? random.next() : random.below(8),
                       .ticket = random.next(),
                       .newest = random.below(3),
                       .content = std::span{chunk}.first(random.below(40) == 0 ? chunk.size() : random.below(64))};
    auto bytes = encode(m);
    if (random.below(3) == 0) bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1U << random.below(8));
    const net::peer_id from = random.below(2) == 0 ? 2 : 3;
    (void)f.net.at(1).transfer.message(from, bytes, f.net.now);
    (void)f.taker->transfer.message(from, bytes, f.net.now);
    if (i % 100 == 0) f.net.run([] { return false; }, f.net.now + 1ms);
    REQUIRE(f.giving(1).outstanding() <= (2U << 20U) + 3 * default_chunk_bytes);
    REQUIRE(f.taking().state() != status::failed);
  }
  f.net.cut(1, 2);
  f.net.cut(1, 3);
  CHECK(f.run() == status::complete);
  f.check_whole();
}
