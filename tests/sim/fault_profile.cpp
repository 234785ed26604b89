// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/fault_profile.hpp>

#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cw = causeway;
namespace sim = causeway::sim;
using sim::fault;
using sim::fault_kind;
using sim::fault_plan;
using namespace std::chrono_literals;

namespace {

std::size_t count(const fault_plan& plan, fault_kind kind) {
  return static_cast<std::size_t>(
      std::count_if(plan.faults.begin(), plan.faults.end(), [&](const fault& f) { return f.kind == kind; }));
}

// What is still broken when the plan is over.
struct wreck {
  std::set<std::uint32_t> down, stopped, full, slow;
  std::set<std::tuple<fault_kind, std::uint32_t, std::vector<std::uint32_t>>> amiss;  // of kinds that end with an amount
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> blocks;
  std::set<std::pair<std::uint32_t, std::uint32_t>> slow_lines;

  void take(const fault& f) {
    for (const std::uint32_t h : f.hosts) {
      if (f.kind == fault_kind::kill || f.kind == fault_kind::power_off) down.insert(h);
      if (f.kind == fault_kind::restart) down.erase(h);
      if (f.kind == fault_kind::stop) stopped.insert(h);
      if (f.kind == fault_kind::resume) stopped.erase(h);
      if (f.kind == fault_kind::disk_full) f.amount > 0 ? (void)full.insert(h) : (void)full.erase(h);
      const bool ends = sim::detail::opposite(f.kind) == f.kind;
      if (ends && f.amount != sim::detail::normal_amount(f.kind)) amiss.insert({f.kind, h, f.others});
      if (ends && f.amount == sim::detail::normal_amount(f.kind)) amiss.erase({f.kind, h, f.others});
      if (f.kind == fault_kind::speed) f.amount != 1 ? (void)slow.insert(h) : (void)slow.erase(h);
      for (const std::uint32_t o : f.others) {
        const bool cuts = f.kind == fault_kind::partition || f.kind == fault_kind::block;
        const bool opens = f.kind == fault_kind::heal || f.kind == fault_kind::unblock;
        const int change = cuts ? 1 : opens ? -1 : 0;
        blocks[{h, o}] += change;
        if (f.kind == fault_kind::partition || f.kind == fault_kind::heal) blocks[{o, h}] += change;
        if (f.kind == fault_kind::slow_link) {
          f.amount > 0 ? (void)slow_lines.insert({h, o}) : (void)slow_lines.erase({h, o});
        }
      }
    }
  }

  [[nodiscard]] bool mended() const {
    return down.empty() && stopped.empty() && full.empty() && amiss.empty() && slow.empty() && slow_lines.empty() &&
           std::all_of(blocks.begin(), blocks.end(), [](const auto& b) { return b.second == 0; });
  }
};

// Everything at once.
sim::fault_profile everything() {
  return {.kill_every = 10min,
          .stop_every = 15min,
          .partition_every = 20min,
          .one_way = 0.5,
          .slow_every = 10min,
          .stragglers = 0.3,
          .disk_every = 10min,
          .message_every = 10min,
          .alter_every = 10min,
          .slow_disk_every = 10min,
          .clock_every = 10min,
          .scarce_every = 10min};
}

}  // namespace

TEST_CASE("fault profile: a random plan mends what it breaks before its end", "[sim][fast]") {
  std::set<fault_kind> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto hosts = static_cast<std::uint32_t>(1 + seed % 9);
    const fault_plan plan = sim::random_plan(everything(), hosts, 1h, seed);
    wreck left;
    for (const fault& f : plan.faults) {
      REQUIRE(f.at >= cw::time_point{});
      REQUIRE(f.at < cw::time_point{1h});
      seen.insert(f.kind);
      left.take(f);
    }
    REQUIRE(left.mended());
    REQUIRE(plan.hosts() <= hosts);
    REQUIRE(
        std::is_sorted(plan.faults.begin(), plan.faults.end(), [](const fault& a, const fault& b) { return a.at < b.at; }));
    REQUIRE(fault_plan::parse(plan.text()).value() == plan);
  }
  CHECK(seen.size() == sim::fault_names.size());
}

TEST_CASE("fault profile: the same seed gives the same plan, another seed another, nothing gives nothing", "[sim][fast]") {
  CHECK(sim::random_plan(everything(), 8, 1h, 3) == sim::random_plan(everything(), 8, 1h, 3));
  CHECK_FALSE(sim::random_plan(everything(), 8, 1h, 3) == sim::random_plan(everything(), 8, 1h, 4));
  CHECK(sim::random_plan({}, 8, 1h, 3).faults.empty());
}

TEST_CASE("fault profile: another rate for one kind leaves the other kinds alone", "[sim][fast]") {
  auto profile = everything();
  const auto only_kills = [](const fault_plan& plan) {
    fault_plan kills;
    for (const fault& f : plan.faults) {
      if (f.kind == fault_kind::kill || f.kind == fault_kind::restart) kills.faults.push_back(f);
    }
    return kills;
  };
  const auto before = only_kills(sim::random_plan(profile, 8, 1h, 3));
  profile.stop_every = 1min;
  profile.partition_every = 0s;
  CHECK(only_kills(sim::random_plan(profile, 8, 1h, 3)) == before);
}

TEST_CASE("fault profile: the harsh profile has the rates it promises", "[sim][fast]") {
  constexpr std::uint32_t hosts = 100;
  const fault_plan plan = sim::random_plan(sim::harsh_profile(), hosts, 24h, 1);
  const std::size_t deaths = count(plan, fault_kind::kill) + count(plan, fault_kind::power_off);
  CHECK(count(plan, fault_kind::restart) == deaths);
  // A host lives 20 min and is down 105 s in the mean: 66.2 deaths a day.
  CHECK(static_cast<double>(deaths) / hosts == Approx(66.2).epsilon(0.03));
  CHECK(static_cast<double>(count(plan, fault_kind::partition)) == Approx(24.0 * 60 / 62).margin(12));
  for (const fault& f : plan.faults) {
    if (f.kind == fault_kind::speed && f.amount != 1) CHECK(f.amount == Approx(1.0 / 3));
  }
  CHECK(count(plan, fault_kind::speed) / 2 <= 12);
  for (std::size_t i = 0; i < plan.faults.size(); ++i) {
    if (plan.faults[i].kind != fault_kind::kill) continue;
    const auto back = std::find_if(plan.faults.begin() + static_cast<std::ptrdiff_t>(i), plan.faults.end(),
                                   [&](const fault& later) { return sim::undoes(later, plan.faults[i]); });
    const auto down = back->at - plan.faults[i].at;
    REQUIRE(down <= 180s);
    REQUIRE((down >= 30s || back->at == cw::time_point{24h - 1ns}));
  }
  const fault_plan calm = sim::random_plan(sim::datacentre_profile(), hosts, 24h, 1);
  CHECK(static_cast<double>(count(calm, fault_kind::restart)) == Approx(100).margin(35));
}

TEST_CASE("fault profile: lifetimes have their mean; those of a bathtub end early or late", "[sim][fast]") {
  for (const auto life : {sim::lifetime::memoryless, sim::lifetime::bathtub}) {
    cw::rng draws{1};
    double sum = 0;
    std::size_t early = 0;
    std::size_t middle = 0;
    constexpr std::size_t n = 20'000;
    double longest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double t = cw::seconds(sim::draw_lifetime(life, 100s, draws));
      sum += t;
      early += t < 25 ? 1 : 0;
      middle += t >= 50 && t < 150 ? 1 : 0;
      longest = std::max(longest, t);
    }
    CHECK(sum / n == Approx(100).epsilon(0.03));
    if (life == sim::lifetime::bathtub) {
      CHECK(static_cast<double>(early) / n == Approx(0.48).margin(0.02));
      CHECK(static_cast<double>(middle) / n < 0.02);
      CHECK(longest <= 199);
    }
  }
}

TEST_CASE("fault profile: a swizzle cuts off one after the other and connects them in another order", "[sim][fast]") {
  const std::vector<std::uint32_t> cut{1, 2, 3, 4, 5, 6};
  const fault_plan plan = sim::swizzle(cut, 8, cw::time_point{10s}, 12s, 4);
  REQUIRE(plan.faults.size() == 12);
  std::vector<std::uint32_t> down;
  std::vector<std::uint32_t> up;
  wreck left;
  for (std::size_t i = 0; i < 12; ++i) {
    const fault& f = plan.faults[i];
    CHECK(f.at == cw::time_point{10s + static_cast<int>(i) * 1s});
    CHECK(f.others.size() == 7);
    CHECK(f.kind == (i < 6 ? fault_kind::partition : fault_kind::heal));
    (i < 6 ? down : up).push_back(f.hosts.front());
    left.take(f);
    if (i == 5) CHECK_FALSE(left.mended());
  }
  CHECK(left.mended());
  CHECK(down != up);
  CHECK(std::is_permutation(down.begin(), down.end(), cut.begin()));
  CHECK(std::is_permutation(up.begin(), up.end(), cut.begin()));
  CHECK(sim::swizzle({}, 8, cw::time_point{}, 1s, 1).faults.empty());
}

TEST_CASE("fault profile: a trace of preemptions becomes a plan", "[sim][fast]") {
  const auto plan = sim::parse_preemptions("# spot\nseconds,host,event\n10.5,3,preempt\n5,2,preempt\n70,3,join\n").value();
  CHECK(plan.text() == "5 power_off 2\n10.5 power_off 3\n70 restart 3\n");
  const auto wrong = [](const std::string& text) { return sim::parse_preemptions(text, "t.csv").error(); };
  CHECK(wrong("10,1,preempt\n").where == "t.csv, line 1");
  CHECK(wrong("seconds,host,event\n1,1\n").message.find("three fields") != std::string::npos);
  CHECK(wrong("seconds,host,event\n1,1,leave\n").message.find("preempt or join") != std::string::npos);
  CHECK(wrong("seconds,host,event\nx,1,join\n").where == "t.csv, line 2");
}
