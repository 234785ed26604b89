// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/fault_plan.hpp>

#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cw = causeway;
namespace sim = causeway::sim;
using sim::fault;
using sim::fault_kind;
using sim::fault_plan;
using namespace std::chrono_literals;

namespace {

cw::time_point at(cw::duration since_start) { return {since_start}; }

// Any plan at all, sensible or not.
fault_plan any_plan(std::uint64_t seed) {
  cw::rng draws{seed};
  fault_plan plan;
  for (std::uint64_t n = draws.below(20); n > 0; --n) {
    const auto kind = static_cast<fault_kind>(draws.below(sim::fault_names.size()));
    const auto some = [&] {
      std::vector<std::uint32_t> hosts;
      for (std::uint64_t i = 1 + draws.below(4); i > 0; --i) hosts.push_back(static_cast<std::uint32_t>(draws.below(100)));
      return hosts;
    };
    fault f{at(cw::duration{static_cast<std::int64_t>(draws.below(std::uint64_t{1} << (10 * draws.below(6) + 1)))}), kind,
            some()};
    if (sim::detail::between_hosts(kind)) f.others = some();
    if (sim::detail::has_amount(kind)) f.amount = static_cast<double>(draws.uniform()) * 1e9;
    plan.faults.push_back(std::move(f));
  }
  return plan;
}

}  // namespace

TEST_CASE("fault plan: prints as lines that a person can read and write", "[sim][fast]") {
  const fault_plan plan{{{at(0s), fault_kind::speed, {1, 2}, {}, 0.25},
                         {at(1500ms), fault_kind::kill, {3}},
                         {at(2s + 1ns), fault_kind::partition, {0, 1}, {2, 3}},
                         {at(3s), fault_kind::slow_link, {0}, {4}, 125000},
                         {at(60s), fault_kind::flip, {5}}}};
  const std::string text =
      "0 speed 1,2 0.25\n1.5 kill 3\n2.000000001 partition 0,1 | 2,3\n3 slow_link 0 | 4 125000\n60 flip 5\n";
  CHECK(plan.text() == text);
  CHECK(fault_plan::parse(text).value() == plan);
  CHECK(fault_plan::parse("# what went wrong\n\n  1.5   kill 3   # the third\r\n").value().faults ==
        std::vector{plan.faults[1]});
  CHECK(plan.hosts() == 6);
  CHECK(plan.end() == at(60s));
}

TEST_CASE("fault plan: any plan comes back from its text to the bit", "[sim][fast]") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const fault_plan plan = any_plan(seed);
    REQUIRE(fault_plan::parse(plan.text()).value() == plan);
  }
}

TEST_CASE("fault plan: what is wrong in a text is said with its line", "[sim][fast]") {
  const std::pair<std::string, std::string> cases[] = {
      {"1 kill", "wants: seconds"},
      {"x kill 1", "time in seconds is not a number"},
      {"-1 kill 1", "is not a number"},
      {"1. kill 1", "decimals"},
      {"1.0123456789 kill 1", "decimals"},
      {"9999999999 kill 1", "out of range"},
      {"1 explode 1", "does not know \"explode\""},
      {"1 kill one", "a host is not a number"},
      {"1 kill 1,,2", "a host is not a number"},
      {"1 kill 1000000", "numbered from 0"},
      {"1 kill 1 2", "more words"},
      {"1 partition 1", "wants other hosts"},
      {"1 partition 1 2", "wants other hosts"},
      {"1 speed 1", "wants an amount"},
      {"1 speed 1 -2", "out of range"},
      {"1 slow_link 1 | 2", "wants an amount"},
      {"1 slow_link 1 | 2 nan", "finite"},
  };
  for (const auto& [line, message] : cases) {
    const auto plan = fault_plan::parse("0 kill 1\n" + line, "plan.txt");
    INFO(line);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == cw::errc::bad_text);
    CHECK(plan.error().where == "plan.txt, line 2");
    INFO(plan.error().message);
    CHECK(plan.error().message.find(message) != std::string::npos);
  }
}

TEST_CASE("fault plan: garbage is refused or read, and never breaks", "[sim][fast]") {
  cw::rng draws{5};
  const std::string alphabet = "0123456789.,|# \n-ekilpartionshlw_";
  for (int i = 0; i < 3000; ++i) {
    std::string text = any_plan(static_cast<std::uint64_t>(i)).text();
    for (std::uint64_t n = 1 + draws.below(4); n > 0 && !text.empty(); --n) {
      text[draws.below(text.size())] = alphabet[draws.below(alphabet.size())];
    }
    const auto plan = fault_plan::parse(text);
    if (plan) REQUIRE(fault_plan::parse(plan->text()).value() == *plan);
  }
}

TEST_CASE("fault plan: a fault is left out together with what undoes it", "[sim][fast]") {
  const fault_plan plan = fault_plan::parse(
                              "0 kill 1\n1 partition 0 | 1\n2 kill 2\n3 restart 1\n4 restart 2\n5 heal 0 | 1\n"
                              "6 slow_link 0 | 1 10\n7 speed 1 3\n8 slow_link 0 | 1 0\n9 kill 1\n")
                              .value();
  CHECK(plan.without(0).text().find("0 kill 1\n1 part") == std::string::npos);
  CHECK(plan.without(0).faults.size() == 8);
  CHECK(plan.without(0).text().find("restart 1") == std::string::npos);
  CHECK(plan.without(1).text().find("heal") == std::string::npos);
  CHECK(plan.without(6).text().find("slow_link") == std::string::npos);
  CHECK(plan.without(7).faults.size() == 9);  // nothing sets host 1 back to its speed
  CHECK(plan.without(9).faults.size() == 9);  // nor starts it again
  CHECK(plan.is_undo(3));
  CHECK(plan.is_undo(8));
  CHECK_FALSE(plan.is_undo(0));
  CHECK_FALSE(plan.is_undo(6));
}

TEST_CASE("fault plan: shrinking leaves what matters, and every kill with its restart", "[sim][fast]") {
  fault_plan plan;
  for (std::uint32_t i = 0; i < 60; ++i) {
    plan.faults.push_back({at(1s * i), fault_kind::kill, {i % 7}});
    plan.faults.push_back({at(1s * i + 500ms), fault_kind::restart, {i % 7}});
  }
  std::size_t calls = 0;
  const fault_plan small = sim::shrink(plan, [&](const fault_plan& tried) {
    ++calls;
    // Fails if host 3 dies at 17 s or 24 s, and host 5 at 40 s; a restart that was lost would show.
    const auto dies = [&](std::uint32_t host, cw::duration when) {
      return std::any_of(tried.faults.begin(), tried.faults.end(), [&](const fault& f) {
        return f.kind == fault_kind::kill && f.hosts.front() == host && f.at == at(when);
      });
    };
    const auto count = [&](fault_kind kind) {
      return std::count_if(tried.faults.begin(), tried.faults.end(), [&](const fault& f) { return f.kind == kind; });
    };
    REQUIRE(count(fault_kind::kill) == count(fault_kind::restart));
    return (dies(3, 17s) || dies(3, 24s)) && dies(5, 40s);
  });
  CHECK(small.faults.size() == 4);
  CHECK(calls < 150);
  CHECK(sim::shrink(plan, [](const fault_plan&) { return false; }) == plan);
  CHECK(sim::shrink(plan, [](const fault_plan&) { return true; }).faults.empty());
  CHECK(sim::shrink(fault_plan{}, [](const fault_plan&) { return true; }).faults.empty());
}

TEST_CASE("fault plan: sorting keeps the order of one moment", "[sim][fast]") {
  fault_plan plan = fault_plan::parse("2 kill 0\n1 kill 1\n2 restart 0\n1 restart 1\n").value();
  plan.sort();
  CHECK(plan.text() == "1 kill 1\n1 restart 1\n2 kill 0\n2 restart 0\n");
}
