// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/fabric.hpp>

#include <string>
#include <vector>

#include "cluster.hpp"
#include "support/catch.hpp"

using namespace cluster;
using lines = std::vector<std::string>;

namespace {

/// Two connected fabrics: `left(process, fabric, diary)` on host 0, `right` on host 1, from second 1 on.
template <class Left, class Right>
void boot_pair(sim::world& w, Left left, Right right) {
  if (w.hosts() == 0) add_hosts(w, 2);
  w.boot(0, [left](sim::process& p) {
    const auto f = p.make_fabric(10);
    diary d{*f};
    f->dial("host-1:1");
    p.sleep_till(at(1s));
    REQUIRE(f->is_up(0));
    left(p, *f, d);
  });
  w.boot(1, [right](sim::process& p) {
    const auto f = p.make_fabric(11);
    diary d{*f};
    p.sleep_till(at(1s));
    REQUIRE(f->is_up(0));
    right(p, *f, d);
  });
}

template <class Left, class Right>
void run_pair(sim::world& w, Left left, Right right) {
  boot_pair(w, left, right);
  CHECK(w.run());
}

std::string code(const auto& outcome) { return outcome ? "ok" : std::string{to_string(outcome.error().code)}; }

net::message_id in_epoch(std::uint32_t epoch, std::uint64_t step = 1) {
  return {.channel = 1, .epoch = epoch, .step = step};
}

}  // namespace

TEST_CASE("fabric: control messages of every size come in order, while the other side computes", "[sim][fast]") {
  sim::world w;
  lines sent;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{70000}, net::max_post_bytes, std::size_t{5}}) {
    sent.push_back(std::string(size, static_cast<char>('a' + sent.size())));
  }
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary&) {
        for (const auto& s : sent) f.post(0, bytes_of(s));
        p.sleep(1s);
        CHECK(f.stats().frames_sent == sent.size());
      },
      [&](sim::process& p, net::fabric& f, diary& d) {
        p.compute(1s);
        lines got = d.lines();
        got.erase(got.begin());
        CHECK(got == sent);
        CHECK(f.stats().frames_received == sent.size());
      });
}

TEST_CASE("fabric: bulk lets control and data pass", "[sim][fast]") {
  sim::world_options o;
  o.link.bytes_per_s = 1e5;
  sim::world w{o};
  duration control{0};
  duration data{0};
  duration bulk{0};
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary&) {
        const std::vector<std::byte> big(200000);
        f.post(0, std::vector<std::byte>(500000), true);
        const auto op = f.send(0, some_id, big);
        f.post(0, bytes_of("quick"));
        REQUIRE(f.wait(op, no_deadline));
        p.sleep(20s);
      },
      [&](sim::process& p, net::fabric& f, diary& d) {
        std::vector<std::byte> room(200000);
        REQUIRE(f.wait(f.receive(0, some_id, room), no_deadline));
        data = p.now().since_start - 1s;
        REQUIRE(f.block([&] { return d.entries.size() == 3; }, no_deadline));
        bulk = p.now().since_start - 1s;
        control = d.time_of("quick") - 1s;
      });
  CHECK(control < 600ms);  // behind pieces that are on the wire
  CHECK(data < 3s);
  CHECK(bulk > 7s);
}

TEST_CASE("fabric: block asks after every event, wait and block keep their deadlines", "[sim][fast]") {
  sim::world w;
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary&) {
        p.sleep(2s);
        f.post(0, bytes_of("now"));
        p.sleep(20s);
      },
      [&](sim::process& p, net::fabric& f, diary& d) {
        const auto seen = f.block([&] { return d.saw("now"); }, at(10s));
        REQUIRE(seen);
        CHECK(*seen);
        CHECK(p.now() > at(3s));
        CHECK(p.now() < at(3100ms));
        const auto never = f.block([] { return false; }, at(5s));
        REQUIRE(never);
        CHECK_FALSE(*never);
        CHECK(p.now() == at(5s));
        std::vector<std::byte> room(8);
        const auto op = f.receive(0, some_id, room);
        CHECK(f.describe_waits() == "receive from peer 0 (channel 32, epoch 1, step 7, 8 bytes) since 0.000 s\n");
        CHECK(code(f.wait(op, at(6s))) == "timeout");
        CHECK(p.now() == at(6s));
        CHECK(f.describe_waits().empty());
        CHECK(code(f.wait(op, at(7s))) == "invalid_argument");  // was waited for
      });
}

TEST_CASE("fabric: wake_at wakes once, at the last time asked for", "[sim][fast]") {
  sim::world w;
  w.add_host();
  w.boot(0, [](sim::process& p) {
    const auto f = p.make_fabric(1);
    diary d{*f};
    f->wake_at(at(5s));
    f->wake_at(at(3s));
    p.sleep(4s);
    CHECK(d.time_of("wake") == 3s);
    f->wake_at(at(6s));
    f->wake_at(no_deadline);
    p.sleep(10s);
    f->wake_at(at(1s));  // the past: as soon as can be
    CHECK(d.entries.size() == 1);
    p.sleep(1s);
    CHECK(d.lines() == lines{"wake", "wake"});
  });
  CHECK(w.run());
}

TEST_CASE("fabric: a closed link is down on both sides and can be dialled again, as the same link", "[sim][fast]") {
  sim::world w;
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary& d) {
        std::vector<std::byte> room(8);
        const auto op = f.receive(0, some_id, room);
        f.close(0, "enough of you");
        CHECK(d.downs == 0);  // later
        CHECK_FALSE(f.is_up(0));
        CHECK(code(f.wait(op, no_deadline)) == "peer_lost");
        CHECK(d.downs == 1);
        CHECK(d.last_error.message == "enough of you");
        CHECK(code(f.wait(f.send(0, some_id, room), no_deadline)) == "peer_lost");
        p.sleep(1s);
        f.dial("host-1:1");
        p.sleep(1s);
        CHECK(d.lines() == lines{"up 11", "down 11", "up 11"});
        CHECK(f.is_up(0));
      },
      [&](sim::process& p, net::fabric& f, diary& d) {
        std::vector<std::byte> room(8);
        CHECK(code(f.wait(f.receive(0, some_id, room), no_deadline)) == "peer_lost");
        CHECK(d.last_error.code == errc::peer_lost);
        CHECK(d.last_error.message == "enough of you");
        p.sleep(2500ms);
        CHECK(d.lines() == lines{"up 10", "down 10", "up 10", "down 10"});
        CHECK_FALSE(f.is_up(0));
      });
}

TEST_CASE("fabric: a killed peer is down after one latency, its operations end", "[sim][fast]") {
  sim::world w{exact(30ms)};
  w.at(at(5s), [&] { w.kill(1); });
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary& d) {
        std::vector<std::byte> room(8);
        CHECK(code(f.wait(f.receive(0, some_id, room), no_deadline)) == "peer_lost");
        CHECK(p.now() == at(5030ms));
        CHECK(d.time_of("down 11") == 5030ms);
      },
      [&](sim::process& p, net::fabric&, diary&) { p.sleep(100s); });
}

TEST_CASE("fabric: what a peer sent before it left can still be received", "[sim][fast]") {
  sim::world w;
  run_pair(
      w,
      [&](sim::process&, net::fabric& f, diary&) {
        const std::vector<std::byte> big(1000000, std::byte{7});
        REQUIRE(f.wait(f.send(0, some_id, big), no_deadline));
      },
      [&](sim::process& p, net::fabric& f, diary& d) {
        p.sleep(5s);
        CHECK(d.saw("down 10"));
        std::vector<std::byte> room(1000000);
        CHECK(code(f.wait(f.receive(0, some_id, room), no_deadline)) == "ok");
        CHECK(room.back() == std::byte{7});
        CHECK(code(f.wait(f.receive(0, some_id, room), no_deadline)) == "peer_lost");
      });
}

TEST_CASE("fabric: messages that nobody asks for stop their sender at the limit, control goes on", "[sim][fast]") {
  sim::world_options o;
  o.kept_bytes = 1 << 20;
  sim::world w{o};
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary&) {
        const std::vector<std::byte> message(100000);
        std::vector<net::operation> ops;
        for (std::uint64_t i = 0; i < 50; ++i) ops.push_back(f.send(0, in_epoch(1, i), message));
        p.sleep(5s);
        CHECK(f.stats().frames_sent < 25);
        f.post(0, bytes_of("still there"));
        for (const auto op : ops) CHECK(code(f.wait(op, no_deadline)) == "ok");
        CHECK(p.now() > at(10s));
      },
      [&](sim::process& p, net::fabric& f, diary& d) {
        std::vector<std::byte> room(100000);
        p.sleep_till(at(10s));
        CHECK(d.saw("still there"));
        CHECK(static_cast<sim::fabric&>(f).kept_bytes() < 2'500'000);
        // The last first: a receive that is open lets everything in that may be before its message.
        CHECK(code(f.wait(f.receive(0, in_epoch(1, 49), room), no_deadline)) == "ok");
        for (std::uint64_t i = 0; i < 49; ++i) CHECK(code(f.wait(f.receive(0, in_epoch(1, i), room), no_deadline)) == "ok");
        CHECK(static_cast<sim::fabric&>(f).kept_bytes() == 0);
      });
}

TEST_CASE("fabric: calling off epochs frees both sides' operations and what is on its way", "[sim][fast]") {
  sim::world_options o;
  o.link.bytes_per_s = 1e6;
  sim::world w{o};
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary&) {
        const std::vector<std::byte> big(10000000, std::byte{1});
        const auto old = f.send(0, in_epoch(1), big);
        const auto newer = f.send(0, in_epoch(2), std::span{big}.first(1000));
        p.sleep(2s);
        f.cancel_before(2);
        CHECK(code(f.wait(old, no_deadline)) == "cancelled");
        CHECK(code(f.wait(newer, no_deadline)) == "ok");  // right behind what was called off
        CHECK(p.now() < at(3100ms));
        CHECK(code(f.wait(f.send(0, in_epoch(1), big), no_deadline)) == "cancelled");
        p.sleep(1s);
      },
      [&](sim::process& p, net::fabric& f, diary&) {
        std::vector<std::byte> room(10000000);
        const auto old = f.receive(0, in_epoch(1), room);
        CHECK(code(f.wait(f.receive(0, in_epoch(2), std::span{room}.first(1000)), no_deadline)) == "ok");
        CHECK(p.now() < at(3200ms));
        CHECK(code(f.wait(old, no_deadline)) == "cancelled");  // the sender gave it up
        p.sleep(1s);
      });
}

TEST_CASE("fabric: a send that timed out is not delivered", "[sim][fast]") {
  sim::world_options o;
  o.link.bytes_per_s = 1e6;
  sim::world w{o};
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary&) {
        const std::vector<std::byte> big(10000000);
        const auto first = f.send(0, in_epoch(1, 1), big);
        const auto second = f.send(0, in_epoch(1, 2), big);  // waits behind it
        CHECK(code(f.wait(second, at(1500ms))) == "timeout");
        CHECK(code(f.wait(first, at(2s))) == "timeout");
        p.sleep(20s);
      },
      [&](sim::process& p, net::fabric& f, diary&) {
        std::vector<std::byte> room(10000000);
        CHECK(code(f.wait(f.receive(0, in_epoch(1, 1), room), no_deadline)) == "cancelled");
        CHECK(p.now() < at(3s));
        CHECK(code(f.wait(f.receive(0, in_epoch(1, 2), room), at(15s))) == "timeout");
        p.sleep(10s);
      });
}

TEST_CASE("fabric: while its process is stopped nothing is told; then everything, in order", "[sim][fast]") {
  sim::world w;
  w.at(at(2s), [&] { w.stop(1); });
  w.at(at(30s), [&] { w.resume(1); });
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary&) {
        p.sleep_till(at(3s));
        for (int i = 0; i < 5; ++i) f.post(0, bytes_of(std::to_string(i)));
        p.sleep_till(at(10s));
      },
      [&](sim::process& p, net::fabric& f, diary& d) {
        f.wake_at(at(4s));
        REQUIRE(f.block([&] { return d.downs == 1; }, at(20s)));  // its deadline passes meanwhile too
        CHECK(p.now() == at(30s));
        CHECK(d.lines() == lines{"up 10", "0", "1", "2", "3", "4", "wake", "down 10"});
        CHECK(d.time_of("0") == 30s);
      });
}

TEST_CASE("fabric: a new connection may repeat the last control messages of the one before", "[sim][fast]") {
  sim::world_options o;
  o.repeat_after_reconnect = GENERATE(0.0, 1.0);
  sim::world w{o};
  run_pair(
      w,
      [&](sim::process& p, net::fabric& f, diary&) {
        f.post(0, bytes_of("one"));
        p.sleep(500ms);
        f.post(0, bytes_of("two"));
        f.close(0, "hiccup");  // "two" is lost on its way
        p.sleep(100ms);
        f.dial("host-1:1");
        p.sleep(1s);
      },
      [&](sim::process& p, net::fabric&, diary& d) {
        p.sleep(1500ms);
        const bool repeats = o.repeat_after_reconnect > 0;
        CHECK(d.lines() == (repeats ? lines{"up 10", "one", "down 10", "up 10", "one", "two"}
                                    : lines{"up 10", "one", "down 10", "up 10"}));
      });
}

TEST_CASE("fabric: a peer that sends one byte a second holds up nobody else", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 3);
  w.slow_link(2, 0, 1);
  int fast = 0;
  duration slow{0};
  w.boot(0, [&](sim::process& p) {
    const auto f = p.make_fabric(10);
    diary d{*f};
    REQUIRE(f->block([&] { return d.saw("slow"); }, no_deadline));
    slow = p.now().since_start;
    for (const auto& e : d.entries) fast += e.what == "fast" ? 1 : 0;
  });
  for (const sim::host_index h : {1U, 2U}) {
    w.boot(h, [h](sim::process& p) {
      const auto f = p.make_fabric(10 + h);
      diary d{*f};
      f->dial("host-0:1");
      while (!d.saw("up 10")) {
        if (d.saw("unreachable host-0:1")) return;
        p.sleep(100ms);
      }
      while (d.downs == 0) {
        f->post(0, bytes_of(h == 1 ? "fast" : "slow"));
        p.sleep(h == 1 ? 100ms : 100s);
      }
    });
  }
  w.run_until(at(20s));
  // Its very greeting takes longer than anybody waits for an answer.
  CHECK(slow == 0s);
  w.slow_link(2, 0, sim::unlimited);
  w.restart(2);
  CHECK(w.run());
  CHECK(slow > 20s);
  CHECK(slow < 30s);
  CHECK(fast >= 198);
}
