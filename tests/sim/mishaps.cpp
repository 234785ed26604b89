// SPDX-License-Identifier: Apache-2.0
// What befalls messages, clocks, disks and resources of a simulated world.
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "support/catch.hpp"

using namespace cluster;
using lines = std::vector<std::string>;

namespace {

/// Host 0 posts "0", "1", ... to host 1 every 10 ms, from second 1 to second 3, and dials it again whenever the link ends.
struct chatter {
  explicit chatter(sim::world& w) {
    add_hosts(w, 2);
    w.boot(0, [this](sim::process& p) { talk(p); });
    w.boot(1, [this](sim::process& p) {
      const auto f = p.make_fabric(11);
      diary d{*f};
      p.sleep_till(at(10s));
      heard = d.lines();
      why = d.last_error.message;
      downs = d.downs;
    });
  }

  void talk(sim::process& p) {
    const auto f = p.make_fabric(10);
    diary d{*f};
    for (int i = 0; p.now() < at(3s); ++i) {
      if (!f->is_up(0)) f->dial("host-1:1");
      p.sleep(10ms);
      f->post(0, bytes_of(std::to_string(i)));
    }
    p.sleep_till(at(10s));
    said_downs = d.downs;
  }

  [[nodiscard]] std::vector<int> numbers() const {
    std::vector<int> all;
    for (const std::string& line : heard) {
      if (line.find(' ') == std::string::npos) all.push_back(std::stoi(line));
    }
    return all;
  }

  lines heard;
  std::string why;
  int downs = 0;
  int said_downs = 0;
};

std::uint64_t history_of(double chance, sim::mishap what) {
  sim::world w{{.seed = 4}};
  chatter c{w};
  w.at(at(1s), [&] { w.set_mishap(0, 1, what, chance); });
  w.run();
  return w.history_hash();
}

}  // namespace

TEST_CASE("mishaps: a damaged message is never heard, its link ends on both sides", "[sim][fast]") {
  sim::world w;
  chatter c{w};
  w.at(at(1s), [&] { w.set_mishap(0, 1, sim::mishap::damage, 0.1); });
  w.at(at(2s), [&] { w.set_mishap(0, 1, sim::mishap::damage, 0); });
  CHECK(w.run());
  CHECK(c.downs > 3);
  CHECK(c.said_downs == c.downs);
  const auto got = c.numbers();
  CHECK(std::is_sorted(got.begin(), got.end()));
  CHECK(std::set<int>(got.begin(), got.end()).size() == got.size());
  CHECK(got.back() > 150);  // it came back
}

TEST_CASE("mishaps: no memory for a message ends its link, whoever sent it", "[sim][fast]") {
  sim::world w;
  chatter c{w};
  w.at(at(1s), [&] { w.set_no_memory(1, 1); });
  w.at(at(1s + 15ms), [&] { w.set_no_memory(1, 0); });
  CHECK(w.run());
  CHECK(c.downs == 1);
  CHECK(c.numbers().back() > 150);
}

TEST_CASE("mishaps: a repeated message comes again within five seconds, also after a reconnect", "[sim][fast]") {
  sim::world w;
  chatter c{w};
  w.at(at(1s), [&] { w.set_mishap(0, 1, sim::mishap::repeat, 1); });
  w.at(at(1200ms), [&] { w.set_mishap(0, 1, sim::mishap::repeat, 0); });
  w.at(at(1500ms), [&] { w.lose_stream(0, 1); });
  CHECK(w.run());
  auto got = c.numbers();
  CHECK_FALSE(std::is_sorted(got.begin(), got.end()));
  CHECK(c.downs == 1);
  const auto last_up = std::find(c.heard.rbegin(), c.heard.rend(), "up 10").base();
  const auto of_the_first = [](const std::string& line) {
    return line.find(' ') == std::string::npos && std::stoi(line) < 125;
  };
  CHECK(std::any_of(last_up, c.heard.end(), of_the_first));
  std::sort(got.begin(), got.end());
  CHECK(std::adjacent_find(got.begin(), got.end()) != got.end());
}

TEST_CASE("mishaps: what an earlier process said does not come on a later one's connection", "[sim][fast]") {
  sim::world w;
  chatter c{w};
  w.at(at(1s), [&] { w.set_mishap(0, 1, sim::mishap::repeat, 1); });
  w.at(at(1200ms), [&] { w.set_mishap(0, 1, sim::mishap::repeat, 0); });
  w.at(at(1300ms), [&] { w.restart(0); });
  CHECK(w.run());
  const auto last_up = std::find(c.heard.rbegin(), c.heard.rend(), "up 10").base();
  std::vector<int> after;
  for (auto at = last_up; at != c.heard.end(); ++at) {
    if (at->find(' ') == std::string::npos) after.push_back(std::stoi(*at));
  }
  REQUIRE(after.size() > 50);
  CHECK(std::is_sorted(after.begin(), after.end()));
  CHECK(std::adjacent_find(after.begin(), after.end()) == after.end());
}

TEST_CASE("mishaps: reordered messages all come, in another order", "[sim][fast]") {
  sim::world w;
  chatter c{w};
  w.at(at(1s), [&] { w.set_mishap(0, 1, sim::mishap::reorder, 0.3); });
  CHECK(w.run());
  auto got = c.numbers();
  CHECK_FALSE(std::is_sorted(got.begin(), got.end()));
  std::sort(got.begin(), got.end());
  CHECK(std::adjacent_find(got.begin(), got.end()) == got.end());
  CHECK(got.size() > 190);
  CHECK(c.downs == 0);
}

TEST_CASE("mishaps: what does not happen leaves the history as it is, what does repeats itself", "[sim][fast]") {
  for (const auto what : {sim::mishap::damage, sim::mishap::repeat, sim::mishap::reorder}) {
    CHECK(history_of(0.2, what) == history_of(0.2, what));
    CHECK(history_of(0.2, what) != history_of(0.3, what));
  }
}

TEST_CASE("mishaps: altered data arrives whole, with another value in it", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  w.set_mishap(0, 1, sim::mishap::alter, 1);
  boot_peers(w, 2, [](sim::process& p, sim::transport& t) {
    std::vector<float> mine(100, 1.5F);
    std::vector<float> theirs(100);
    const auto get = t.receive(1 - t.self(), some_id, std::as_writable_bytes(std::span{theirs}));
    const auto put = t.send(1 - t.self(), some_id, std::as_bytes(std::span{mine}));
    REQUIRE(t.wait(put, at(20s)));
    REQUIRE(t.wait(get, at(20s)));
    CHECK((theirs == mine) == (p.host() == 0));
    theirs.back() = 1.5F;
    CHECK(theirs == mine);
  });
  CHECK(w.run());
}

TEST_CASE("mishaps: when one of its streams ends, data is lost, control still comes, then the link ends", "[sim][fast]") {
  sim::world_options o;
  o.link.latency = 50ms;
  sim::world w{o};
  add_hosts(w, 2);
  std::string sent;
  lines heard;
  w.boot(0, [&](sim::process& p) {
    const auto f = p.make_fabric(10);
    diary d{*f};
    f->dial("host-1:1");
    p.sleep_till(at(1s));
    const std::vector<std::byte> big(64 << 20);
    const auto op = f->send(0, some_id, big);
    f->post(0, bytes_of("vote"));
    w.lose_stream(0, 1);
    f->post(0, bytes_of("late"));
    const auto outcome = f->wait(op, at(20s));
    sent = outcome ? "ok" : std::string{to_string(outcome.error().code)};
    CHECK(p.now() < at(2s));
  });
  w.boot(1, [&](sim::process& p) {
    const auto f = p.make_fabric(11);
    diary d{*f};
    std::vector<std::byte> buffer(64 << 20);
    p.sleep_till(at(1s));
    const auto got = f->wait(f->receive(0, some_id, buffer), at(20s));
    CHECK(got.error().code == errc::peer_lost);
    heard = d.lines();
  });
  CHECK(w.run());
  CHECK(sent == "peer_lost");
  CHECK(heard == lines{"up 10", "vote", "late", "down 10"});
}

TEST_CASE("mishaps: a clock that runs fast meets its deadlines sooner, one that jumps at once", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 1);
  std::vector<duration> woke;
  w.boot(0, [&](sim::process& p) {
    const auto f = p.make_fabric(10);
    diary d{*f};
    f->wake_at(p.now() + 101s);
    p.sleep(101s);
    woke.push_back(w.now().since_start);
    CHECK(d.saw("wake"));
    p.compute(5s);  // the work itself takes as long as ever
    woke.push_back(w.now().since_start);
    f->wake_at(p.now() + 60s);
    p.sleep(60s);
    woke.push_back(w.now().since_start);
    CHECK(f->now() == p.now());
    p.sleep(1ms);
    CHECK(d.time_of("wake") > duration{0});
    CHECK(d.lines().size() == 2);
  });
  w.set_clock_rate(0, 1.01);
  w.at(at(105s), [&] { w.set_clock_rate(0, 1); });
  w.at(at(110s), [&] { w.jump_clock(0, 1h); });
  CHECK(w.run());
  CHECK(woke == std::vector<duration>{100s, 105s, 110s});
}

TEST_CASE("mishaps: without descriptors nobody can dial or be dialled, what stands stays", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 3);
  lines dialler;
  w.boot(0, [&](sim::process& p) {
    const auto f = p.make_fabric(10);
    diary d{*f};
    f->dial("host-1:1");
    p.sleep_till(at(2s));
    f->dial("host-2:1");  // beyond the limit
    p.sleep_till(at(20s));
    CHECK(f->is_up(0));
    CHECK(d.last_error.message.find("too many open files") != std::string::npos);
    p.sleep_till(at(41s));
    dialler = d.lines();
  });
  for (const std::uint32_t host : {1U, 2U}) {
    w.boot(host, [host](sim::process& p) {
      const auto f = p.make_fabric(10 + host);
      diary d{*f};
      if (host == 2) {
        p.sleep_till(at(21s));
        f->dial("host-0:1");  // nobody takes it
        p.sleep_till(at(32s));
        CHECK(d.lines() == lines{"unreachable host-0:1"});
        f->dial("host-0:1");
      }
      p.sleep_till(at(41s));
    });
  }
  w.at(at(1s), [&] { w.limit_connections(0, 1); });
  w.at(at(32s), [&] { w.limit_connections(0, 0); });
  CHECK(w.run());
  CHECK(dialler == lines{"up 11", "unreachable host-2:1", "up 12"});
}

TEST_CASE("mishaps: who waits for its disk without the lock can be talked to, with it not", "[sim][fast]") {
  const bool with_lock = GENERATE(false, true);
  sim::world w;
  chatter c{w};
  sim::disk disk;
  disk.set_timing({.sync = 5s});
  disk.set_waiter([&](duration d) { w.wait_for_disk(1, d); });
  lines meanwhile;
  w.boot(1, [&](sim::process& p) {
    const auto f = p.make_fabric(11);
    diary d{*f};
    p.sleep_till(at(1500ms));
    auto file = disk.create("f").value();
    if (with_lock) f->locked([&] { CHECK(disk.sync(file)); });
    if (!with_lock) CHECK(disk.sync(file));
    CHECK(p.now() == at(6500ms));
    p.sleep_till(at(10s));
    const auto came = [&](duration from, duration to) {
      return std::count_if(d.entries.begin(), d.entries.end(),
                           [&](const diary::entry& e) { return e.when > at(from) && e.when < at(to); });
    };
    CHECK(came(1500ms, 6500ms) == (with_lock ? 0 : came(1500ms, 10s)));
    CHECK(came(1500ms, 10s) + came(6499ms, 6501ms) > 100);
  });
  CHECK(w.run());
}

TEST_CASE("mishaps: work aside holds nobody up, takes as long as its disk, and dies with its process", "[sim][fast]") {
  const bool dies = GENERATE(false, true);
  sim::world w;
  chatter c{w};
  sim::disk disk;
  disk.set_timing({.sync = 3s});
  disk.set_waiter([&](duration d) { w.wait_for_disk(1, d); });
  std::vector<duration> ends;
  w.boot(1, [&](sim::process& p) {
    const auto f = p.make_fabric(11);
    diary d{*f};
    p.sleep_till(at(1500ms));
    auto file = disk.create("f").value();
    f->locked([&] {
      for (int i = 0; i < 2; ++i) {
        f->aside([&] { CHECK(disk.sync(file)); }, [&] { ends.push_back(p.now().since_start); });
      }
    });
    CHECK(p.now() == at(1500ms));
    const std::size_t before = d.entries.size();
    p.sleep_till(at(3s));
    CHECK(d.entries.size() > before + 100);
    p.sleep_till(at(9s));
  });
  if (dies) w.at(at(5s), [&] { w.kill(1); });
  CHECK(w.run());
  CHECK(ends == (dies ? std::vector<duration>{4500ms} : std::vector<duration>{4500ms, 7500ms}));
}
