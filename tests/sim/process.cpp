// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/process.hpp>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "support/catch.hpp"

using namespace cluster;

TEST_CASE("process: sleeping takes virtual time, working takes none", "[sim][fast]") {
  sim::world w;
  w.add_host();
  std::vector<duration> times;
  w.boot(0, [&](sim::process& p) {
    const any_clock clock = p.clock();
    times.push_back(clock.now().since_start);
    p.sleep(24h);
    times.push_back(clock.now().since_start);
    p.sleep(0s);
    p.sleep_till(at(1s));  // the past
    times.push_back(p.now().since_start);
  });
  CHECK(w.run());
  CHECK(times == std::vector<duration>{0s, 24h, 24h});
}

TEST_CASE("process: computing takes as long as the host is slow", "[sim][fast]") {
  sim::world w;
  sim::host_options slow;
  slow.speed = 0.25;
  w.add_host(slow);
  duration took{0};
  w.boot(0, [&](sim::process& p) {
    p.compute(1s);
    took = p.now().since_start;
    w.set_speed(0, 2);
    p.compute(1s);
  });
  w.run();
  CHECK(took == 4s);
  CHECK(w.now() == at(4500ms));
}

TEST_CASE("process: while stopped it computes nothing; its sleeps end meanwhile", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  duration slept{0};
  duration computed{0};
  w.boot(0, [&](sim::process& p) {
    p.sleep(10s);
    slept = p.now().since_start;
  });
  w.boot(1, [&](sim::process& p) {
    p.compute(10s);
    computed = p.now().since_start;
  });
  for (const sim::host_index h : {0U, 1U}) {
    w.at(at(5s), [&w, h] { w.stop(h); });
    w.at(at(25s), [&w, h] { w.resume(h); });
  }
  CHECK(w.run());
  CHECK(slept == 25s);
  CHECK(computed == 30s);
}

TEST_CASE("process: its random numbers are its own, and the same in every run", "[sim][fast]") {
  const auto draws = [](std::uint64_t seed) {
    sim::world_options o;
    o.seed = seed;
    sim::world w{o};
    add_hosts(w, 2);
    std::vector<std::uint64_t> all;
    for (const sim::host_index h : {0U, 1U}) {
      w.boot(h, [&, h](sim::process& p) {
        all.push_back(p.random().next());
        CHECK(p.host() == h);
        if (p.incarnation() == 1) w.restart(h);
        p.sleep(1s);
      });
    }
    w.run();
    return all;
  };
  const auto first = draws(1);
  REQUIRE(first.size() == 4);
  CHECK(std::set<std::uint64_t>(first.begin(), first.end()).size() == 4);
  CHECK(draws(1) == first);
  CHECK(draws(2) != first);
}

TEST_CASE("process: a kill unwinds it out of whatever it blocks in", "[sim][fast]") {
  const std::string where = GENERATE(as<std::string>{}, "sleep", "compute", "block", "wait", "transport");
  CAPTURE(where);
  sim::world w;
  add_hosts(w, 2);
  const auto token = std::make_shared<int>(0);
  bool went_on = false;
  long alive = 0;
  w.boot(1, [](sim::process& p) {
    const auto f = p.make_fabric(2);
    diary d{*f};
    p.sleep(100s);
  });
  w.boot(0, [&, token](sim::process& p) {
    const auto mine = token;
    const auto f = p.make_fabric(1);
    diary d{*f};
    f->dial("host-1:1");
    p.sleep(1s);
    REQUIRE(f->is_up(0));
    std::vector<std::byte> room(1000);
    if (where == "sleep") p.sleep(100s);
    if (where == "compute") p.compute(100s);
    if (where == "block") (void)f->block([] { return false; }, no_deadline);
    if (where == "wait") (void)f->wait(f->receive(0, some_id, room), no_deadline);
    if (where == "transport") (void)p.make_transport({0, 1});
    went_on = true;
  });
  w.at(at(5s), [&] {
    alive = token.use_count();
    w.kill(0);
  });
  w.at(at(6s), [&] {
    CHECK(token.use_count() == alive - 2);  // the program that ran, and its variable
    CHECK_FALSE(w.alive(0));
  });
  w.run();
  CHECK_FALSE(went_on);
}

TEST_CASE("process: destructors that would block while it is unwound do not", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  std::vector<std::string> log;
  struct stubborn {
    sim::process& p;
    net::fabric& f;
    std::vector<std::string>& log;
    ~stubborn() {
      std::vector<std::byte> room(8);
      p.sleep(10s);
      p.compute(10s);
      const auto moved = f.wait(f.receive(0, some_id, room), no_deadline);
      log.push_back(moved ? "moved" : std::string{to_string(moved.error().code)});
      const auto waited = f.block([] { return false; }, no_deadline);
      log.push_back(waited ? "waited" : std::string{to_string(waited.error().code)});
      f.dial("host-1:1");
      f.post(0, {});
      f.close(0, "");
      f.wake_at(at(100s));
      f.cancel_before(5);
    }
  };
  w.boot(0, [&](sim::process& p) {
    const auto f = p.make_fabric(1);
    const stubborn s{p, *f, log};
    p.sleep(100s);
  });
  w.at(at(5s), [&] { w.kill(0); });
  CHECK(w.run());
  CHECK(w.now() == at(5s));
  CHECK(log == std::vector<std::string>{"invalid_argument", "cancelled"});
}

TEST_CASE("process: one that catches everything is killed at its next blocking call", "[sim][fast]") {
  sim::world w;
  w.add_host();
  int caught = 0;
  w.boot(0, [&](sim::process& p) {
    for (int i = 0; i < 3; ++i) {
      try {
        p.sleep(100s);
      } catch (...) {
        ++caught;
      }
    }
    p.sleep(1s);
    caught = 100;
  });
  w.at(at(5s), [&] { w.kill(0); });
  CHECK(w.run());
  CHECK(caught == 3);
}

TEST_CASE("process: an exception out of its program comes out of the run", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  w.boot(0, [](sim::process& p) {
    p.sleep(1s);
    throw std::runtime_error{"bad luck"};
  });
  w.boot(1, [](sim::process& p) { p.sleep(10s); });
  CHECK_THROWS_WITH(w.run(), "bad luck");
  CHECK_FALSE(w.alive(0));
  CHECK(w.alive(1));
  CHECK(w.run());  // the others can go on
}

TEST_CASE("process: a fabric that outlives its process gives errors", "[sim][fast]") {
  const bool killed = GENERATE(true, false);
  std::shared_ptr<net::fabric> kept;
  {
    sim::world w;
    w.add_host();
    w.boot(0, [&](sim::process& p) {
      kept = p.make_fabric(1);
      if (killed) p.sleep(10s);
    });
    w.after(1s, [&] { w.kill(0); });
    w.run();
  }
  std::vector<std::byte> room(8);
  kept->attach(nullptr);
  kept->dial("host-0:1");
  kept->wake_at(at(3s));
  CHECK(kept->now() == at(1s));
  CHECK(kept->address() == "host-0:1");
  CHECK_FALSE(kept->is_up(0));
  CHECK_FALSE(kept->wait(kept->receive(0, some_id, room), no_deadline));
  CHECK_FALSE(kept->wait(kept->send(0, some_id, room), no_deadline));
  CHECK_FALSE(kept->block([] { return true; }, no_deadline));
  CHECK(kept->describe_waits().empty());
}

TEST_CASE("process: asked to stop, it is told so where it blocks in a fabric", "[sim][fast]") {
  sim::world w;
  w.add_host();
  std::string how;
  w.boot(0, [&](sim::process& p) {
    const auto f = p.make_fabric(1);
    p.sleep(10s);  // is not cut short
    CHECK(p.now() == at(10s));
    CHECK(p.asked_to_stop());
    const auto outcome = f->block([] { return false; }, no_deadline);
    if (!outcome) how = to_string(outcome.error().code);
  });
  w.at(at(5s), [&] { w.ask_to_stop(0); });
  CHECK(w.run());
  CHECK(how == "cancelled");
}

TEST_CASE("process: its disk stays, its log says who and when", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  std::vector<std::string> lines;
  w.set_log([&](time_point when, sim::host_index host, severity, std::string_view text) {
    lines.push_back(std::to_string(when.since_start / 1s) + ' ' + std::to_string(host) + ' ' + std::string{text});
  });
  w.boot(1, [&](sim::process& p) {
    auto disk = p.storage();
    if (p.incarnation() == 1) {
      REQUIRE(disk.write_atomic("a", io::produce("content")));
      p.sleep(100s);
    }
    const auto read = disk.read("a");
    REQUIRE(read);
    p.log()(severity::info, text_of(*read));
  });
  w.at(at(7s), [&] { w.restart(1); });
  CHECK(w.run());
  CHECK(lines == std::vector<std::string>{"7 1 content"});
  CHECK_FALSE(w.storage(0).read("a"));
}
