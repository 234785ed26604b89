// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/host_clock.hpp>

#include "support/catch.hpp"

#include <chrono>
#include <memory>

namespace cw = causeway;
using namespace std::chrono_literals;

namespace {

struct ticking {
  std::shared_ptr<cw::time_point> world = std::make_shared<cw::time_point>();
  cw::sim::host_clock clock{world};
  void at(cw::duration since_start) { *world = {since_start}; }
};

}  // namespace

TEST_CASE("host clock: shows the world's time as long as nothing is wrong with it", "[sim][fast]") {
  ticking t;
  t.at(7s + 3ns);
  CHECK(t.clock.now() == cw::time_point{7s + 3ns});
  CHECK(t.clock.world({9s}) == cw::time_point{9s});
  CHECK(t.clock.world(cw::no_deadline) == cw::no_deadline);
}

TEST_CASE("host clock: runs fast from the moment it is told to, and keeps what it has gained", "[sim][fast]") {
  ticking t;
  t.at(100s);
  t.clock.set_rate(1.01);
  CHECK(t.clock.now() == cw::time_point{100s});
  t.at(200s);
  CHECK(t.clock.now() == cw::time_point{201s});
  t.clock.set_rate(1);
  t.at(300s);
  CHECK(t.clock.now() == cw::time_point{301s});
  const auto copy = t.clock;
  t.clock.jump(30s);
  CHECK(copy.now() == cw::time_point{331s});
}

TEST_CASE("host clock: a deadline has come at the moment that it names, and not before", "[sim][fast]") {
  ticking t;
  for (const double rate : {1.01, 0.99, 3.0, 0.333}) {
    t.clock.set_rate(rate);
    for (int i = 1; i < 200; ++i) {
      const cw::time_point wanted = t.clock.now() + cw::duration{i * 7'919'333};
      const cw::time_point when = t.clock.world(wanted);
      REQUIRE(t.clock.local(when) >= wanted);
      REQUIRE(t.clock.local(when + -2ns) <= wanted);
    }
    t.at(t.world->since_start + 1234567ns);
  }
  t.clock.jump(10s);
  CHECK(t.clock.world(t.clock.now() + -1s) == *t.world);
}
