// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/world.hpp>

#include <causeway/collective/all_reduce.hpp>

#include <dirent.h>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "support/catch.hpp"

using namespace cluster;
using lines = std::vector<std::string>;

namespace {

/// Everybody dials everybody, says a word now and then, and sends some data, for ever: something to disturb.
void gossip(sim::world& w, sim::process& p) {
  const auto f = p.make_fabric(100 + p.host());
  diary d{*f};
  std::vector<std::byte> out(20000);
  std::vector<std::byte> in(20000);
  for (std::uint64_t round = 0;; ++round) {
    for (sim::host_index h = 0; h < w.hosts(); ++h) {
      if (h != p.host() && p.random().below(4) == 0) f->dial(w.address(h));
    }
    for (net::peer_index link = 0; link < d.ids.size(); ++link) {
      if (!f->is_up(link)) continue;
      f->post(link, bytes_of("beat " + std::to_string(p.host())));
      if (p.random().below(3) != 0) continue;
      const net::message_id id{
          .channel = 1, .epoch = 1, .step = static_cast<std::uint64_t>(p.now().since_start / 1s) + round % 2};
      const auto sent = f->send(link, id, out);
      const auto got = f->receive(link, id, in);
      (void)f->wait(got, p.now() + 300ms);
      (void)f->wait(sent, p.now() + 300ms);
    }
    p.sleep(100ms + duration{static_cast<std::int64_t>(p.random().below(150000000))});
  }
}

/// A random fault at a random moment, and what ends it some time later.
void disturb(sim::world& w, rng& random) {
  const auto moment = [&] { return at(duration{static_cast<std::int64_t>(random.below(8'000'000'000))}); };
  const auto any = [&] { return static_cast<sim::host_index>(random.below(w.hosts())); };
  const time_point begin = moment();
  const time_point end = begin + (moment() - time_point{}) / 4;
  const auto a = any();
  const auto b = (a + 1 + static_cast<sim::host_index>(random.below(w.hosts() - 1))) % w.hosts();
  switch (random.below(6)) {
    case 0:
      w.at(begin, [&w, a] { w.kill(a); });
      w.at(end, [&w, a] { w.restart(a); });
      break;
    case 1:
      w.at(begin, [&w, a] { w.stop(a); });
      w.at(end, [&w, a] { w.resume(a); });
      break;
    case 2:
      w.at(begin, [&w, a, b] { w.partition({a}, {b}); });
      w.at(end, [&w, a, b] { w.heal({a}, {b}); });
      break;
    case 3:
      w.at(begin, [&w, a, b] { w.block(a, b); });
      w.at(end, [&w, a, b] { w.unblock(a, b); });
      break;
    case 4:
      w.at(begin, [&w, a, b] { w.slow_link(a, b, 1000); });
      w.at(end, [&w, a, b] { w.slow_link(a, b, sim::unlimited); });
      break;
    default: w.at(begin, [&w, a] { w.power_off(a); }); w.at(end, [&w, a] { w.restart(a); });
  }
}

struct fingerprint {
  std::uint64_t history = 0;
  std::uint64_t events = 0;
  friend bool operator==(const fingerprint&, const fingerprint&) = default;
};

fingerprint disturbed_run(std::uint64_t seed) {
  rng random{seed, 77};
  sim::world_options o;
  o.seed = seed;
  o.link.latency = duration{static_cast<std::int64_t>(1'000'000 + random.below(60'000'000))};
  o.link.jitter = 5ms;
  o.link.loss = random.below(2) == 0 ? 0.0 : 0.02;
  o.repeat_after_reconnect = 0.5;
  sim::world w{o};
  add_hosts(w, 3 + static_cast<std::uint32_t>(random.below(3)));
  for (sim::host_index h = 0; h < w.hosts(); ++h) w.boot(h, [&w](sim::process& p) { gossip(w, p); });
  for (int i = 0; i < 8; ++i) disturb(w, random);
  w.run_until(at(10s));
  return {w.history_hash(), w.event_count()};
}

std::size_t open_files() {
  std::size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (folder != nullptr && readdir(folder) != nullptr) ++count;
  if (folder != nullptr) closedir(folder);
  return count;
}

/// Pages of memory that this program occupies.
std::size_t resident() {
  std::ifstream file{"/proc/self/statm"};
  std::size_t all = 0;
  std::size_t here = 0;
  file >> all >> here;
  return here;
}

}  // namespace

TEST_CASE("world: two hundred disturbed runs, each twice: the same history to the last event", "[sim][fast]") {
  std::vector<std::uint64_t> histories;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const fingerprint first = disturbed_run(seed);
    CHECK(first == disturbed_run(seed));
    CHECK(first.events > 500);
    histories.push_back(first.history);
  }
  std::sort(histories.begin(), histories.end());
  CHECK(std::unique(histories.begin(), histories.end()) == histories.end());
}

TEST_CASE("world: run ends when nothing is left, and tells whether somebody waits for ever", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  w.boot(0, [](sim::process& p) { p.sleep(10s); });
  CHECK(w.run());
  CHECK(w.now() == at(10s));
  w.boot(1, [](sim::process& p) {
    const auto f = p.make_fabric(1);
    (void)f->block([] { return false; }, no_deadline);
  });
  CHECK_FALSE(w.run());
  CHECK(w.alive(1));
}

TEST_CASE("world: run_until includes its end, and sets the clock", "[sim][fast]") {
  sim::world w;
  int happened = 0;
  w.at(at(5s), [&] { ++happened; });
  w.at(at(5s + 1ns), [&] { ++happened; });
  CHECK(w.run_until(at(5s)));
  CHECK(happened == 1);
  CHECK_FALSE(w.run_for(10s));
  CHECK(happened == 2);
  CHECK(w.now() == at(15s));
  w.after(1s, [&] { w.end_run(); });
  w.after(2s, [&] { ++happened; });
  w.run();
  CHECK(happened == 2);
  CHECK(w.now() == at(16s));
}

TEST_CASE("world: a process may kill, restart and stop others and itself", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 3);
  lines log;
  const auto say = [&](sim::process& p, const std::string& what) {
    log.push_back(std::to_string(p.host()) + '.' + std::to_string(p.incarnation()) + ' ' + what);
  };
  w.boot(0, [&](sim::process& p) {
    p.sleep(1s);
    w.kill(1);
    w.stop(2);
    p.sleep(1s);
    w.restart(1);
    p.sleep(1s);
    w.resume(2);
    w.kill(0);
    say(p, "last words");
    p.sleep(1s);
    say(p, "never");
  });
  for (const sim::host_index h : {1U, 2U}) {
    w.boot(h, [&](sim::process& p) {
      p.sleep(2500ms);
      say(p, std::to_string(p.now().since_start / 100ms));
    });
  }
  CHECK(w.run());
  CHECK(log == lines{"0.1 last words", "2.1 30", "1.2 45"});
}

TEST_CASE("world: booting a host that runs replaces its process", "[sim][fast]") {
  sim::world w;
  w.add_host();
  lines log;
  w.boot(0, [&](sim::process& p) {
    p.sleep(10s);
    log.push_back("first");
  });
  w.at(at(3s), [&] {
    w.boot(0, [&](sim::process& p) {
      p.sleep(10s);
      log.push_back("second " + std::to_string(p.incarnation()));
    });
  });
  CHECK(w.run());
  CHECK(log == lines{"second 2"});
  CHECK(w.now() == at(13s));
}

TEST_CASE("world: a partition cuts off two sides, each goes on alone; heal joins them", "[sim][fast]") {
  const bool one_way = GENERATE(false, true);
  sim::world w;
  add_hosts(w, 4);
  std::vector<std::vector<std::size_t>> beats(4, std::vector<std::size_t>(3));
  for (sim::host_index h = 0; h < 4; ++h) {
    w.boot(h, [&w, &beats](sim::process& p) {
      const auto f = p.make_fabric(100 + p.host());
      diary d{*f};
      for (sim::host_index other = p.host() + 1; other < 4; ++other) f->dial(w.address(other));
      for (int i = 0; i < 30; ++i) {
        p.sleep(1s);
        for (net::peer_index link = 0; link < d.ids.size(); ++link) f->post(link, bytes_of("beat"));
      }
      for (const auto& e : d.entries) {
        // 10 s together, 10 s apart, 10 s together; what waited comes out within a second.
        const auto phase = static_cast<std::size_t>(e.when.since_start / 10s);
        if (e.what == "beat" && phase < 3) ++beats[p.host()][phase];
      }
      p.sleep(1s);
    });
  }
  w.at(at(10s - 1ns), [&] { w.partition({0, 1}, {2, 3}, one_way); });
  w.at(at(20s), [&] { w.heal({0, 1}, {2, 3}, one_way); });
  CHECK(w.run());
  for (sim::host_index h = 0; h < 4; ++h) {
    const bool deaf = !one_way || h >= 2;  // one way: the second side hears nothing of the first
    CHECK(beats[h][1] == (deaf ? 10U : 30U));
    CHECK(beats[h][0] + beats[h][1] + beats[h][2] == 3 * 29);  // the last ones are still on their way
  }
}

TEST_CASE("world: 256 peers sum around a ring", "[sim][fast]") {
  constexpr std::uint32_t n = 256;
  sim::world w;
  add_hosts(w, n);
  std::uint32_t right = 0;
  std::vector<sim::host_index> all(n);
  for (sim::host_index h = 0; h < n; ++h) all[h] = h;
  for (sim::host_index h = 0; h < n; ++h) {
    w.boot(h, [&](sim::process& p) {
      auto net = p.make_transport(all);
      REQUIRE(net);
      std::vector<float> values(n * 4, static_cast<float>(p.host()));
      collective::collective_options options;
      options.how = collective::algorithm::ring;
      REQUIRE(collective::all_reduce_sum(*net, some_id, std::span{values}, options));
      if (values.front() == n * (n - 1) / 2 && values.back() == n * (n - 1) / 2) ++right;
    });
  }
  CHECK(w.run());
  CHECK(right == n);
}

TEST_CASE("world: ten thousand boots and kills leave nothing behind", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 4);
  const auto program = [&w](sim::process& p) {
    std::vector<std::byte> some(10000);  // freed by the kill
    const auto f = p.make_fabric(100 + p.host());
    diary d{*f};
    for (sim::host_index h = 0; h < 4; ++h) {
      if (h != p.host()) f->dial(w.address(h));
    }
    for (;;) {
      for (net::peer_index link = 0; link < d.ids.size(); ++link) {
        if (f->is_up(link)) f->post(link, some);
      }
      (void)f->wait(f->receive(0, some_id, some), p.now() + 10ms);
      p.sleep(5ms);
    }
  };
  for (sim::host_index h = 0; h < 4; ++h) w.boot(h, program);
  rng random{5};
  const auto churn = [&](int kills) {
    for (int i = 0; i < kills; ++i) {
      const auto victim = static_cast<sim::host_index>(random.below(4));
      w.kill(victim);
      w.run_for(duration{static_cast<std::int64_t>(random.below(20'000'000))});
      w.restart(victim);
      w.run_for(duration{static_cast<std::int64_t>(random.below(60'000'000))});
    }
  };
  churn(500);
  const std::size_t before = resident();
  const std::size_t files = open_files();
  const std::size_t stacks = w.shared().stacks.mapped();
  const std::size_t events = w.shared().events.pending();
  churn(9500);
  CHECK(w.incarnation(0) + w.incarnation(1) + w.incarnation(2) + w.incarnation(3) == 10004);
  CHECK(open_files() == files);
  CHECK(w.shared().stacks.mapped() == stacks);
  CHECK(stacks <= 5);
  CHECK(w.shared().events.pending() < 4 * events + 100);
  CHECK(w.shared().net.wires().open_connections() <= 4 * 3);
#if !defined(CAUSEWAY_FIBER_ASAN) && !defined(CAUSEWAY_FIBER_TSAN)  // they keep freed memory for a while
  CHECK(resident() <= before + before / 50 + 100);
#else
  (void)before;
#endif
  for (sim::host_index h = 0; h < 4; ++h) w.kill(h);
  CHECK(w.run());
  CHECK(w.shared().net.wires().open_connections() == 0);
  CHECK(w.shared().stacks.free() == w.shared().stacks.mapped());
}
