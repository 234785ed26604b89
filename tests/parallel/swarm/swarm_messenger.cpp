// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_messenger.hpp>

#include <causeway/sim/world.hpp>

#include <chrono>
#include <string>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

struct talker final : parallel::swarm_messenger {
  explicit talker(sim::process& p) : swarm_messenger{p.make_fabric(1), {.run = 5, .stage = 1, .stages = 3}, {}} {}
  using swarm_messenger::addresses_, swarm_messenger::describe_swarm, swarm_messenger::coordinates_,
      swarm_messenger::followed_, swarm_messenger::learn, swarm_messenger::own_status, swarm_messenger::serving_,
      swarm_messenger::directory_;
};

}  // namespace

TEST_CASE("swarm messenger: a peer says who is missing and where it stands itself", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  (void)world.add_host();
  world.boot(0, [&](sim::process& p) {
    talker t{p};
    CHECK(t.describe_swarm().find("stage 0 is served by nobody") != std::string::npos);
    CHECK(t.describe_swarm().find("stage 2 is served by nobody") != std::string::npos);
    CHECK(t.describe_swarm().find("stage 1 is served by nobody") == std::string::npos);  // by itself
    CHECK(t.describe_swarm().find("nobody coordinates yet") != std::string::npos);
    t.directory_.up(9, 0, "", p.now());
    parallel::swarm_wire::status s;
    s.serving = 1;
    t.directory_.take(9, s, p.now());
    t.followed_ = {9, 4};
    CHECK(t.describe_swarm().find("stage 0 is served by nobody") == std::string::npos);
    CHECK(t.describe_swarm().find("peer 9 coordinates") != std::string::npos);
    CHECK(t.own_status().stage == 1);
    CHECK(t.own_status().term == 4);
    CHECK(t.own_status().serving == 0);
    parallel::swarm_wire::addresses many;
    for (std::size_t i = 0; i < 2 * parallel::swarm_wire::most_addresses; ++i)
      many.list.push_back("x:" + std::to_string(i));
    t.learn(many);
    CHECK(t.addresses_.size() == parallel::swarm_wire::most_addresses);  // a talkative stranger fills no memory
  });
  REQUIRE(world.run());
}
