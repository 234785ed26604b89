// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/dialer.hpp>

#include <string>
#include <vector>

#include "cluster.hpp"
#include "support/catch.hpp"

using namespace cluster;
using lines = std::vector<std::string>;

namespace {

/// Boots a fabric with the id 10 + host that dials `addresses` at its start and then does nothing for `life`.
void boot_dialer(sim::world& w, sim::host_index host, lines addresses, lines& told, duration life = 60s) {
  w.boot(host, [addresses, &told, life](sim::process& p) {
    const auto f = p.make_fabric(10 + p.host());
    diary d{*f};
    for (const auto& a : addresses) f->dial(a);
    p.sleep(life);
    told = d.lines();
  });
}

}  // namespace

TEST_CASE("dialer: addresses are a host's name and a number", "[sim][fast]") {
  sim::world w;
  w.add_host();
  sim::host_options named;
  named.name = "tokyo";
  w.add_host(named);
  const auto& net = w.shared().net;
  CHECK(sim::detail::parse_address(net, "host-0:1").host == 0);
  CHECK(sim::detail::parse_address(net, "tokyo:17").host == 1);
  CHECK(sim::detail::parse_address(net, "tokyo:17").port == 17);
  for (const char* bad : {"", "tokyo", "tokyo:", ":1", "tokyo:x", "tokyo:1x", "tokyo:99999999999", "kyoto:1"}) {
    CAPTURE(bad);
    CHECK(sim::detail::parse_address(net, bad).host == sim::no_host);
  }
  CHECK(w.address(1) == "tokyo:1");
}

TEST_CASE("dialer: both sides learn id and address; one and a half round trips there, two here", "[sim][fast]") {
  sim::world w{exact(10ms)};
  add_hosts(w, 2);
  std::vector<diary::entry> entries[2];
  std::string addresses[2];
  for (const sim::host_index h : {0U, 1U}) {
    w.boot(h, [&](sim::process& p) {
      const auto f = p.make_fabric(10 + p.host());
      diary d{*f};
      if (p.host() == 0) f->dial("host-1:1");
      p.sleep(1s);
      CHECK(f->is_up(0));
      entries[p.host()] = d.entries;
      addresses[p.host()] = d.last_address;
    });
  }
  w.run();
  REQUIRE(entries[0].size() == 1);
  REQUIRE(entries[1].size() == 1);
  CHECK(entries[0][0].what == "up 11");
  CHECK(entries[0][0].when.since_start - 40ms < 1us);  // but for the bytes of the address
  CHECK(entries[1][0].what == "up 10");
  CHECK(entries[1][0].when.since_start - 30ms < 1us);
  CHECK(addresses[0] == "host-1:1");
  CHECK(addresses[1] == "host-0:1");
}

TEST_CASE("dialer: dialling twice, or a peer that is up, changes nothing", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  lines told[2];
  boot_dialer(w, 1, {}, told[1]);
  w.boot(0, [&](sim::process& p) {
    const auto f = p.make_fabric(10);
    diary d{*f};
    f->dial("host-1:1");
    f->dial("host-1:1");
    p.sleep(1s);
    f->dial("host-1:1");
    p.sleep(1s);
    told[0] = d.lines();
  });
  w.run();
  CHECK(told[0] == lines{"up 11"});
  CHECK(told[1] == lines{"up 10", "down 10"});
}

TEST_CASE("dialer: two peers that dial each other end with one connection, whatever the timing", "[sim][fast]") {
  for (int offset = -60; offset <= 60; ++offset) {
    auto options = exact(10ms);
    options.connect_delay_max = 3ms;
    options.seed = static_cast<std::uint64_t>(offset + 100);
    sim::world w{options};
    add_hosts(w, 2);
    int open = 0;
    for (const sim::host_index h : {0U, 1U}) {
      w.boot(h, [&, offset, h](sim::process& p) {
        const auto f = p.make_fabric(h == 0 ? 99 : 11);
        diary d{*f};
        p.sleep_till(at(100ms + (h == 0 ? offset * 1ms : 0ms)));
        f->dial(h == 0 ? "host-1:1" : "host-0:1");
        p.sleep_till(at(5s));
        if (h == 0) open = static_cast<int>(w.shared().net.wires().open_connections());
        CHECK(d.lines() == lines{h == 0 ? "up 11" : "up 99"});
        CHECK(f->is_up(0));
        p.sleep_till(at(6s));
      });
    }
    CAPTURE(offset);
    CHECK(w.run());
    CHECK(open == 1);
    CHECK(w.shared().net.wires().open_connections() == 0);
  }
}

TEST_CASE("dialer: nobody there, nobody called so, or ourselves: unreachable", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 3);
  lines told;
  boot_dialer(w, 0, {"host-0:1", "nowhere:1", "nonsense", "host-1:1"}, told);
  w.run();
  CHECK(told == lines{"unreachable host-0:1", "unreachable nowhere:1", "unreachable nonsense", "unreachable host-1:1"});
}

TEST_CASE("dialer: a stopped peer takes the connection but does not answer", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  lines told[2];
  boot_dialer(w, 1, {}, told[1]);
  boot_dialer(w, 0, {"host-1:1"}, told[0], 30s);
  w.after(0s, [&] { w.stop(1); });
  SECTION("too long") {
    w.at(at(20s), [&] { w.resume(1); });
    w.run();
    CHECK(told[0] == lines{"unreachable host-1:1"});
    CHECK(told[1].empty());
  }
  SECTION("for a moment") {
    w.at(at(5s), [&] { w.resume(1); });
    w.run();
    CHECK(told[0] == lines{"up 11"});
    CHECK(told[1] == lines{"up 10", "down 10"});
  }
}

TEST_CASE("dialer: a peer that was killed and comes back is met anew, before its death was noticed too", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  lines told[2];
  boot_dialer(w, 0, {}, told[0], 30s);
  boot_dialer(w, 1, {"host-0:1"}, told[1], 20s);
  bool silent = GENERATE(false, true);
  w.at(at(10s), [&] {
    if (!silent) return w.kill(1);
    w.power_off(1);
  });
  w.at(at(10s), [&] { w.restart(1); });
  w.run();
  CHECK(told[0] == lines{"up 11", "down 11", "up 11"});
  CHECK(told[1] == lines{"up 10"});
}

TEST_CASE("dialer: whoever dials before the owner is attached waits for it", "[sim][fast]") {
  sim::world w;
  add_hosts(w, 2);
  lines told[2];
  boot_dialer(w, 0, {"host-1:1"}, told[0], 10s);
  w.boot(1, [&](sim::process& p) {
    const auto f = p.make_fabric(11);
    p.sleep(5s);
    diary d{*f};
    CHECK(d.lines().empty());  // attach never calls back at once
    p.sleep(1s);
    told[1] = d.lines();
  });
  w.run();
  CHECK(told[0] == lines{"up 11", "down 11"});
  CHECK(told[1] == lines{"up 10"});
}
