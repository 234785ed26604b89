// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_parts.hpp>

#include <causeway/sim/world.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

TEST_CASE("swarm parts: they hear from the network once they listen, and others notice when they are gone",
          "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  (void)world.add_host();
  (void)world.add_host();
  bool silent_before = false, met = false, gone = false;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      parallel::swarm_options o{.run = 5, .stage = h, .stages = 2};
      if (h == 1) o.dial = {world.address(0)};
      auto fabric = p.make_fabric(h + 1);
      auto parts = std::make_unique<parallel::swarm_parts>(fabric, std::move(o), stage::routing::least_load{}, log_sink{});
      const auto sees = [&parts](net::peer_id id) {
        return parts->my.with_lock([&] { return parts->my.directory.link_to(id).has_value(); });
      };
      p.sleep(2s);
      if (h == 0) silent_before = !sees(2);
      parts->listen();
      p.sleep(5s);
      if (h == 0) met = sees(2);
      if (h == 0) p.sleep(30s);
      if (h == 0) gone = !sees(2);
      parts.reset();  // and then nobody is told of what the fabric hears
      p.sleep(1s);
    });
  }
  REQUIRE(world.run());
  CHECK(silent_before);
  CHECK(met);
  CHECK(gone);
}
