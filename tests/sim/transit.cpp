// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/transit.hpp>

#include <map>
#include <memory>
#include <vector>

#include "cluster.hpp"
#include "support/catch.hpp"

using namespace cluster;

namespace {

/// Messages that hosts send at second 1 and the times after it at which they were there.
struct transfer {
  sim::host_index from = 0;
  sim::host_index to = 0;
  std::size_t bytes = 0;
  duration took{0};
};

/// All sent at second 1, each in a step of its own. `meanwhile` may change the world before it runs.
template <class F>
void run(sim::world& w, std::vector<transfer>& all, const F& meanwhile) {
  boot_peers(w, w.hosts(), [&all](sim::process& p, sim::transport& net) {
    std::map<std::size_t, std::pair<net::operation, std::vector<std::byte>>> ops;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const transfer& t = all[i];
      net::message_id id = some_id;
      id.step = i;
      auto& [op, bytes] = ops[i];
      if (t.to == p.host()) {
        bytes.resize(t.bytes);
        op = net.receive(t.from, id, bytes);
      }
      if (t.from == p.host()) {
        bytes.resize(t.bytes, std::byte{42});
        op = net.send(t.to, id, bytes);
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {  // list what a host receives in the order of arrival
      if (all[i].to != p.host()) continue;
      const auto moved = net.wait(ops[i].first, no_deadline);
      REQUIRE(moved);
      CHECK(*moved == all[i].bytes);
      CHECK((all[i].bytes == 0 || ops[i].second.back() == std::byte{42}));
      all[i].took = p.now().since_start - 1s;
    }
    p.sleep(100s);
  });
  w.at(at(500ms), [&] { meanwhile(w); });
  w.run();
}

void run(sim::world& w, std::vector<transfer>& all) {
  run(w, all, [](sim::world&) {});
}

sim::host_options with_rates(double up, double down) {
  sim::host_options o;
  o.up_bytes_per_s = up;
  o.down_bytes_per_s = down;
  return o;
}

}  // namespace

TEST_CASE("transit: one message takes latency plus bytes over bandwidth, exactly", "[sim][fast]") {
  const auto [up, down, rate] = GENERATE(table<double, double, double>({{125e6, 125e6, 125e6},
                                                                        {1e6, 125e6, 1e6},
                                                                        {125e6, 1e6, 1e6},
                                                                        {sim::unlimited, 1e6, 1e6},
                                                                        {sim::unlimited, sim::unlimited, sim::unlimited}}));
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1000}, std::size_t{65536}, std::size_t{1000000}}) {
    CAPTURE(up, down, bytes);
    sim::world w{exact(20ms)};
    w.add_host(with_rates(up, 1e3));
    w.add_host(with_rates(1e3, down));
    std::vector<transfer> all{{0, 1, bytes}};
    run(w, all);
    CHECK(all[0].took == 20ms + sim::detail::transfer_time(static_cast<double>(bytes), rate));
  }
}

TEST_CASE("transit: a header counts on the wire", "[sim][fast]") {
  auto options = exact(1ms);
  options.header_bytes = 80;
  sim::world w{options};
  add_hosts(w, 2, with_rates(1e6, 1e6));
  std::vector<transfer> all{{0, 1, 920}};
  run(w, all);
  CHECK(all[0].took == 1ms + 1ms);
}

TEST_CASE("transit: a line's own rate holds for each connection, and leaves the uplink to others", "[sim][fast]") {
  sim::world w{exact(10ms)};
  add_hosts(w, 3, with_rates(1e6, 1e6));
  sim::link_options slow;
  slow.latency = 10ms;
  slow.bytes_per_s = 2e5;
  w.set_link(0, 1, slow);
  std::vector<transfer> all{{0, 1, 1000000}, {0, 2, 800000}};
  run(w, all);
  CHECK(all[0].took == 5s + 10ms);
  // Four fifths of the uplink are left, up to one piece of the other flow at the end.
  CHECK(all[1].took >= 1s + 10ms - 66ms);
  CHECK(all[1].took <= 1s + 10ms + 66ms);
}

TEST_CASE("transit: two flows share an uplink, and a downlink", "[sim][fast]") {
  // Pieces of 50 000 bytes take turns. The first flow has sent one before the second is there, so it ends two before.
  auto options = exact(10ms);
  options.piece_bytes = 50000;
  for (const bool at_sender : {true, false}) {
    CAPTURE(at_sender);
    sim::world w{options};
    add_hosts(w, 3, with_rates(1e6, 1e6));
    std::vector<transfer> all{{0, 1, 500000}, {0, 2, 500000}};
    if (!at_sender) all = {{1, 0, 500000}, {2, 0, 500000}};
    run(w, all);
    if (at_sender) CHECK(all[0].took == 900ms + 10ms);
    if (!at_sender) CHECK(all[0].took >= 900ms + 10ms);
    CHECK(all[1].took == 1000ms + 10ms);
  }
}

TEST_CASE("transit: opposite directions do not share", "[sim][fast]") {
  sim::world w{exact(10ms)};
  add_hosts(w, 2, with_rates(1e6, 1e6));
  std::vector<transfer> all{{0, 1, 500000}, {1, 0, 500000}};
  run(w, all);
  CHECK(all[0].took == 510ms);
  CHECK(all[1].took == 510ms);
}

TEST_CASE("transit: jitter delays but never reorders", "[sim][fast]") {
  auto options = exact(10ms);
  options.link.jitter = 50ms;
  sim::world w{options};
  add_hosts(w, 2);
  std::vector<transfer> all(200, transfer{0, 1, 10});
  run(w, all);
  duration last{0};
  duration spread{0};
  for (const transfer& t : all) {
    CHECK(t.took >= last);
    CHECK(t.took >= 10ms);
    CHECK(t.took <= 61ms);
    spread = std::max(spread, t.took - all.front().took);
    last = t.took;
  }
  CHECK(spread > 0ms);
}

TEST_CASE("transit: losses slow a transfer down to what the formula of Mathis says", "[sim][fast]") {
  // 1 %, 50 ms round trip: 356 240 bytes/s for one stream. Retransmissions delay its end a little more.
  auto options = exact(25ms);
  options.link.loss = 0.01;
  options.link.streams = GENERATE(1U, 4U);
  sim::world w{options};
  add_hosts(w, 2);
  std::vector<transfer> all{{0, 1, 3562400}};
  run(w, all);
  const double ideal = 10.0 / options.link.streams;
  CHECK(seconds(all[0].took) >= ideal);
  CHECK(seconds(all[0].took) <= ideal + 0.6);
}

TEST_CASE("transit: a lost packet costs a small message about one round trip", "[sim][fast]") {
  auto options = exact(25ms);
  options.link.loss = 0.2;
  sim::world w{options};
  add_hosts(w, 2);
  int late = 0;
  boot_peers(w, 2, [&](sim::process& p, sim::transport& net) {
    for (std::uint64_t i = 0; i < 500; ++i) {
      net::message_id id = some_id;
      id.step = i;
      std::vector<std::byte> byte(1);
      const time_point begin = p.now();
      if (p.host() == 0) {
        REQUIRE(net.wait(net.send(1, id, byte), no_deadline));
      } else {
        REQUIRE(net.wait(net.receive(0, id, byte), no_deadline));
        const duration took = p.now() - begin;
        CHECK((took < 26ms || took >= 75ms));
        if (took >= 75ms) ++late;
      }
      p.sleep_till(at(1s + static_cast<std::int64_t>(i + 1) * 2s));
    }
  });
  w.run();
  CHECK(late > 60);
  CHECK(late < 140);
}

TEST_CASE("transit: a slowed line carries a byte a second, and recovers", "[sim][fast]") {
  sim::world w{exact(10ms)};
  add_hosts(w, 2);
  std::vector<transfer> all{{0, 1, 1000}};
  SECTION("for ever") {
    run(w, all, [](sim::world& world) { world.slow_link(0, 1, 1); });
    CHECK(all[0].took == 1000s + 10ms);
  }
  SECTION("for 100 seconds") {
    run(w, all, [](sim::world& world) {
      world.slow_link(0, 1, 1);
      world.at(at(101s), [&world] { world.slow_link(0, 1, sim::unlimited); });
    });
    CHECK(all[0].took >= 100s + 10ms);
    CHECK(all[0].took <= 102s);
  }
}

TEST_CASE("transit: a fast sender has at most a window on its way to a slow receiver", "[sim][fast]") {
  // Without it, the small message behind 10 MB on another connection would wait 10 s in the receiver's downlink.
  sim::world w{exact(10ms)};
  w.add_host(with_rates(1e9, 1e9));
  w.add_host(with_rates(1e9, 1e6));
  w.add_host(with_rates(1e9, 1e9));
  duration big{0};
  duration small{0};
  boot_peers(w, 3, [&](sim::process& p, sim::transport& net) {
    std::vector<std::byte> bytes(10000000);
    std::vector<std::byte> byte(1);
    if (p.host() == 0) REQUIRE(net.wait(net.send(1, some_id, bytes), no_deadline));
    if (p.host() == 2) {
      p.sleep(3s);
      REQUIRE(net.wait(net.send(1, some_id, byte), no_deadline));
    }
    if (p.host() == 1) {
      const auto bulk = net.receive(0, some_id, bytes);
      REQUIRE(net.wait(net.receive(2, some_id, byte), no_deadline));
      small = p.now().since_start - 4s;
      REQUIRE(net.wait(bulk, no_deadline));
      big = p.now().since_start - 1s;
    }
  });
  w.run();
  CHECK(big >= 10s + 10ms);
  CHECK(big <= 10s + 60ms);
  CHECK(small >= 10ms);
  CHECK(small <= 400ms);
}

TEST_CASE("transit: what a black hole holds back comes out after it, within a second, in order", "[sim][fast]") {
  sim::world w{exact(10ms)};
  add_hosts(w, 2);
  std::vector<transfer> all{{0, 1, 100}, {0, 1, 100}, {1, 0, 100}};
  run(w, all, [](sim::world& world) {
    world.block(0, 1);
    world.at(at(31s), [&world] { world.unblock(0, 1); });
  });
  CHECK(all[0].took >= 30s);
  CHECK(all[0].took <= 31s + 20ms);
  CHECK(all[1].took >= all[0].took);
  CHECK(all[2].took == 10ms + 800ns);  // the other direction is open
}

TEST_CASE("transit: with acknowledgements in a black hole, a sender stops after a window", "[sim][fast]") {
  sim::world w{exact(10ms)};
  add_hosts(w, 2);
  std::vector<transfer> all{{0, 1, 20000000}};
  run(w, all, [](sim::world& world) {
    world.block(1, 0);
    world.at(at(31s), [&world] {
      CHECK(world.shared().net.at(1).down_free < at(1100ms));  // long silent
      world.unblock(1, 0);
    });
  });
  CHECK(all[0].took > 30s);
  CHECK(all[0].took < 33s);
}
