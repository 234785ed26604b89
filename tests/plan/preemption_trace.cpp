// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/preemption_trace.hpp>

#include <cmath>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::plan;

TEST_CASE("made-up traces are the same for the same seed, and others for another", "[plan][fast]") {
  const trace_options o;
  CHECK(make_trace(o, 1) == make_trace(o, 1));
  CHECK_FALSE(make_trace(o, 1) == make_trace(o, 2));
}

TEST_CASE("made-up traces lose the share of instances that was asked for, several of one zone at a time", "[plan][fast]") {
  for (const double share : {0.10, 0.16, 0.33}) {
    trace_options o;
    o.hourly_loss_share = share;
    o.hours = 2000;
    o.bulk = 2;
    const preemption_trace t = make_trace(o, 3);
    const trace_summary s = summary_of(t);
    CHECK(s.hourly_loss_share == Approx(share).epsilon(0.05));  // some bulks find too few in their zone
    CHECK(static_cast<double>(s.losses) / static_cast<double>(s.bulks) == Approx(2).epsilon(0.05));
    for (std::size_t i = 1; i < t.events.size(); ++i) {
      const auto &a = t.events[i - 1], &b = t.events[i];
      REQUIRE(a.seconds <= b.seconds);
      if (!a.arrives && !b.arrives && a.seconds == b.seconds)
        REQUIRE(t.instances[a.instance].zone == t.instances[b.instance].zone);
      REQUIRE(std::abs(b.seconds * 1000 - std::round(b.seconds * 1000)) < 1e-3);
    }
  }
}

TEST_CASE("instances that are lost are replaced after the mean delay", "[plan][fast]") {
  trace_options o;
  o.hours = 2000;
  o.replacement = 1800;
  o.hourly_loss_share = 0.5;
  // In balance 0.5 n losses an hour of n live are half an hour each away: n + 0.25 n = 48.
  CHECK(summary_of(make_trace(o, 5)).mean_instances == Approx(48 / 1.25).epsilon(0.02));
}

TEST_CASE("a trace without losses has none", "[plan][fast]") {
  trace_options o;
  o.hourly_loss_share = 0;
  const trace_summary s = summary_of(make_trace(o, 1));
  CHECK(s.losses == 0);
  CHECK(s.fewest == 48);
  CHECK(s.most == 48);
  CHECK(s.mean_instances == Approx(48));
}

TEST_CASE("a summary counts what a trace says", "[plan][fast]") {
  const preemption_trace t{
      {{0, true, 0}, {0, true, 1}, {10, false, 0}, {10, false, 1}, {30, true, 0}}, {{"a", 0}, {"b", 0}}, {"z"}, 40};
  const trace_summary s = summary_of(t);
  CHECK(s.mean_instances == Approx((2 * 10 + 1 * 10) / 40.0));
  CHECK(s.fewest == 0);
  CHECK(s.most == 2);
  CHECK(s.losses == 2);
  CHECK(s.bulks == 1);
  CHECK(s.hourly_loss_share == Approx(2 * 3600 / 30.0));
}
