// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/deadline.hpp>

#include "support/catch.hpp"

#include <chrono>

using namespace causeway;
using namespace causeway::net;
using namespace std::chrono_literals;

TEST_CASE("arrival statistics: follow RFC 6298 step by step", "[net][fast]") {
  arrival_statistics s{{.floor = 0ns, .cap = 1h}};
  s.observe(800ms);
  CHECK(seconds(s.mean()) == Approx(0.8));
  CHECK(seconds(s.deviation()) == Approx(0.4));
  CHECK(seconds(s.patience()) == Approx(0.8 + 4 * 0.4));
  s.observe(1600ms);  // deviation 3/4 * 0.4 + 1/4 * 0.8, then mean 7/8 * 0.8 + 1/8 * 1.6
  CHECK(seconds(s.deviation()) == Approx(0.5));
  CHECK(seconds(s.mean()) == Approx(0.9));
}

TEST_CASE("arrival statistics: without observations the cap is the answer", "[net][fast]") {
  const arrival_statistics s{{.floor = 1s, .cap = 30s}};
  CHECK(s.patience() == 30s);
  CHECK(s.deadline(time_point{5s}) == time_point{35s});
}

TEST_CASE("arrival statistics: steady arrivals end at the floor, wild ones at the cap", "[net][fast]") {
  arrival_statistics steady{{.floor = 1s, .cap = 30s}};
  arrival_statistics wild{{.floor = 1s, .cap = 30s}};
  for (int i = 0; i < 200; ++i) {
    steady.observe(100ms);
    wild.observe(i % 2 == 0 ? 0s : 60s);
  }
  CHECK(steady.patience() == 1s);
  CHECK(wild.patience() == 30s);
  CHECK(seconds(steady.mean()) == Approx(0.1));
}

TEST_CASE("arrival statistics: a wait in vain makes the next one longer, up to the cap", "[net][fast]") {
  arrival_statistics s{{.floor = 1s, .cap = 30s}};
  for (int i = 0; i < 50; ++i) s.observe(2s);
  duration before = s.patience();
  for (int i = 0; i < 20; ++i) {
    s.overdue(before);
    CHECK(s.patience() >= before);
    before = s.patience();
  }
  CHECK(before == 30s);
}

TEST_CASE("arrival statistics: absurd times neither overflow nor go negative", "[net][fast]") {
  arrival_statistics s{{.floor = 0ns, .cap = duration::max()}};
  s.observe(-5s);
  CHECK(s.mean() == 0ns);
  for (int i = 0; i < 100; ++i) s.observe(duration::max());
  CHECK(s.patience() > 0ns);
}
