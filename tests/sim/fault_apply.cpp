// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/fault_apply.hpp>

#include <causeway/io/file_storage.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/world.hpp>

#include "support/catch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cw = causeway;
namespace io = causeway::io;
namespace sim = causeway::sim;
using sim::fault_plan;

namespace {

// Writes down what it is asked for. Runs what was scheduled in the order it was.
struct recording_world {
  using host_set = std::vector<std::uint32_t>;
  std::vector<std::pair<cw::time_point, std::function<void()>>> events;
  std::vector<std::string> calls;

  [[nodiscard]] std::uint32_t hosts() const { return 8; }
  void at(cw::time_point when, std::function<void()> what) { events.emplace_back(when, std::move(what)); }
  void run() {
    for (const auto& [when, what] : events) what();
  }
  void one(const char* what, std::uint32_t host) { calls.push_back(std::string{what} + ' ' + std::to_string(host)); }
  void kill(std::uint32_t h) { one("kill", h); }
  void power_off(std::uint32_t h) { one("power_off", h); }
  void restart(std::uint32_t h) { one("restart", h); }
  void stop(std::uint32_t h) { one("stop", h); }
  void resume(std::uint32_t h) { one("resume", h); }
  void set_speed(std::uint32_t h, double speed) {
    calls.push_back("speed " + std::to_string(h) + ' ' + std::to_string(speed));
  }
  void sets(const char* what, const host_set& a, const host_set& b, bool one_way) {
    calls.push_back(std::string{what} + ' ' + sim::detail::host_list(a) + '|' + sim::detail::host_list(b) +
                    (one_way ? " one way" : ""));
  }
  void partition(const host_set& a, const host_set& b, bool one_way = false) { sets("partition", a, b, one_way); }
  void heal(const host_set& a, const host_set& b, bool one_way = false) { sets("heal", a, b, one_way); }
  void lose_stream(std::uint32_t a, std::uint32_t b) {
    calls.push_back("lose_stream " + std::to_string(a) + ' ' + std::to_string(b));
  }
  void set_mishap(std::uint32_t from, std::uint32_t to, sim::mishap what, double chance) {
    constexpr std::array names{"damage", "alter", "repeat", "reorder"};
    calls.push_back(std::string{names.at(static_cast<std::size_t>(what))} + ' ' + std::to_string(from) + '>' +
                    std::to_string(to) + ' ' + std::to_string(chance));
  }
  void number(const char* what, std::uint32_t h, double n) {
    calls.push_back(std::string{what} + ' ' + std::to_string(h) + ' ' + std::to_string(n));
  }
  void set_clock_rate(std::uint32_t h, double rate) { number("clock_rate", h, rate); }
  void jump_clock(std::uint32_t h, cw::duration d) { number("clock_jump", h, cw::seconds(d)); }
  void limit_connections(std::uint32_t h, std::uint64_t most) { number("descriptors", h, static_cast<double>(most)); }
  void set_no_memory(std::uint32_t h, double chance) { number("no_memory", h, chance); }
  void wait_for_disk(std::uint32_t h, cw::duration d) { number("disk", h, cw::seconds(d)); }
  void slow_link(std::uint32_t from, std::uint32_t to, double rate) {
    calls.push_back("slow " + std::to_string(from) + '>' + std::to_string(to) + ' ' + std::to_string(rate));
  }
};

}  // namespace

TEST_CASE("fault apply: every fault of a world becomes the call that makes it", "[sim][fast]") {
  recording_world world;
  const auto plan =
      fault_plan::parse(
          "9 speed 1 2\n1 kill 1,2\n2 power_off 3\n3 restart 1\n4 stop 1\n5 resume 1\n6 partition 0,1 | 2\n"
          "7 heal 0,1 | 2\n7.1 block 0 | 1\n7.2 unblock 0 | 1\n8 slow_link 0 | 1 1000\n8.1 slow_link 0 | 1 0\n")
          .value();
  REQUIRE(sim::apply(plan, world));
  CHECK(world.calls.empty());
  CHECK(world.events.front().first == cw::time_point{std::chrono::seconds{1}});
  world.run();
  CHECK(world.calls == std::vector<std::string>{"kill 1", "kill 2", "power_off 3", "restart 1", "stop 1", "resume 1",
                                                "partition 0,1|2", "heal 0,1|2", "partition 0|1 one way",
                                                "heal 0|1 one way", "slow 0>1 1000.000000", "slow 1>0 1000.000000",
                                                "slow 0>1 inf", "slow 1>0 inf", "speed 1 2.000000"});
}

TEST_CASE("fault apply: faults of messages, clocks and resources too", "[sim][fast]") {
  recording_world world;
  REQUIRE(sim::apply(fault_plan::parse("1 damage 0 | 1,0 0.5\n2 alter 0 | 2 1\n3 repeat 1 | 0 0.25\n4 reorder 1 | 0 2\n"
                                       "5 lose_stream 0 | 3\n6 clock_rate 1 1.01\n7 clock_jump 2 30\n8 descriptors 3 4\n"
                                       "9 no_memory 4 0.125\n10 clock_rate 1 1\n11 damage 0 | 1 0\n")
                         .value(),
                     world));
  world.run();
  CHECK(world.calls == std::vector<std::string>{"damage 0>1 0.500000", "alter 0>2 1.000000", "repeat 1>0 0.250000",
                                                "reorder 1>0 1.000000", "lose_stream 0 3", "clock_rate 1 1.010000",
                                                "clock_jump 2 30.000000", "descriptors 3 4.000000", "no_memory 4 0.125000",
                                                "clock_rate 1 1.000000", "damage 0>1 0.000000"});
}

TEST_CASE("fault apply: a slow disk takes its time in the host that it belongs to", "[sim][fast]") {
  recording_world world;
  sim::disk disk;
  REQUIRE(sim::apply(fault_plan::parse("1 slow_disk 2 1000\n2 slow_sync 2 30\n3 slow_disk 2 0\n4 slow_sync 2 0\n").value(),
                     world, [&](std::uint32_t) { return &disk; }));
  const auto next = [&] {
    world.events.front().second();
    world.events.erase(world.events.begin());
    world.calls.clear();
    auto file = disk.create("f").value();
    REQUIRE(disk.write(file, std::vector<std::byte>(500)));
    REQUIRE(disk.sync(file));
    REQUIRE(disk.close(file));
    return world.calls;
  };
  CHECK(next() == std::vector<std::string>{"disk 2 0.500000"});
  CHECK(next() == std::vector<std::string>{"disk 2 0.500000", "disk 2 30.000000"});
  CHECK(next() == std::vector<std::string>{"disk 2 30.000000"});
  CHECK(next().empty());
}

TEST_CASE("fault apply: a plan that needs what the world has not is refused as a whole", "[sim][fast]") {
  recording_world world;
  CHECK(sim::apply(fault_plan::parse("1 kill 0\n2 kill 8\n").value(), world).error().message.find("host 8") !=
        std::string::npos);
  CHECK(sim::apply(fault_plan::parse("1 kill 0\n2 flip 3\n").value(), world).error().message.find("no disk") !=
        std::string::npos);
  CHECK(world.events.empty());
}

TEST_CASE("fault apply: disks fail as planned, and lose what was not synced when the power goes", "[sim][fast]") {
  recording_world world;
  std::vector<sim::disk> disks;
  for (std::uint64_t seed = 0; seed < 8; ++seed) disks.emplace_back(sim::disk_options{.seed = seed});
  const auto disk_of = [&](std::uint32_t host) { return &disks[host]; };
  REQUIRE(sim::apply(fault_plan::parse("1 fail_write 0 1\n1 fail_sync 1 1\n1 disk_full 2 4\n1 kill 3\n1 power_off 4\n"
                                       "1 flip 5\n2 restart 3,4\n2 disk_full 2 0\n")
                         .value(),
                     world, disk_of));
  for (sim::disk& d : disks) {
    io::basic_file_storage storage{d};
    REQUIRE(storage.write_atomic("durable", io::produce("x")));
    (void)d.create("not synced").value();
  }
  const std::size_t events = world.events.size();
  for (std::size_t i = 0; i < events - 3; ++i) world.events[i].second();
  const auto written = [&](std::size_t host) {
    return io::basic_file_storage{disks[host]}.write_atomic("next", io::produce("12345"));
  };
  CHECK(written(0).error().code == cw::errc::io_failed);
  CHECK(written(0));
  CHECK(written(1).error().message.find("fsync") != std::string::npos);
  CHECK(written(2).error().code == cw::errc::disk_full);
  CHECK(disks[5].read("durable").value().front() != std::byte{'x'});
  for (std::size_t i = events - 3; i < events; ++i) world.events[i].second();
  CHECK(written(2));
  CHECK(disks[3].read("not synced"));
  CHECK(disks[4].read("durable"));
  // Whether host 4 keeps the name is drawn; over eight seeds both happen.
  std::size_t kept = 0;
  for (sim::disk& d : disks) {
    d.crash();
    kept += d.read("not synced") ? 1 : 0;
  }
  CHECK(kept > 0);
  CHECK(kept < 8);
}

TEST_CASE("fault apply: a program in a simulated world comes back to its durable state", "[sim][fast]") {
  using namespace std::chrono_literals;
  sim::world world;
  sim::disk disk{{.seed = 9}};
  const auto host = world.add_host();
  world.set_storage(host, io::any_storage{io::basic_file_storage{disk}});
  std::vector<std::string> found;
  // Counts up in a file, a hundred times a second.
  world.boot(host, [&](sim::process& self) {
    io::any_storage storage = world.storage(host);
    int n = 0;
    if (const auto content = storage.read("run/count")) {
      n = std::stoi(std::string{reinterpret_cast<const char*>(content->data()), content->size()});
    }
    found.push_back(std::to_string(n));
    for (;;) {
      self.compute(10ms);
      if (storage.write_atomic("run/count", io::produce(std::to_string(n + 1)))) ++n;
    }
  });
  REQUIRE(sim::apply(fault_plan::parse("1.005 power_off 0\n2 restart 0\n3.005 kill 0\n4 restart 0\n4.5 fail_sync 0 1\n"
                                       "5.005 power_off 0\n6 restart 0\n")
                         .value(),
                     world, [&](std::uint32_t) { return &disk; }));
  world.run_until({7s});
  CHECK(found == std::vector<std::string>{"0", "100", "200", "299"});
}
