// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_messenger.hpp>

#include <causeway/sim/world.hpp>

#include <chrono>
#include <cstdint>
#include <string>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

struct talker {
  explicit talker(sim::process& p) : my{p.make_fabric(1), {.run = 5, .stage = 1, .stages = 3}, {}} {}
  parallel::swarm_state my;
  parallel::swarm_messenger messenger{my};
};

}  // namespace

TEST_CASE("swarm messenger: a peer says who is missing and where it stands itself", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  (void)world.add_host();
  world.boot(0, [&](sim::process& p) {
    talker t{p};
    CHECK(t.messenger.describe().find("stage 0 is served by nobody") != std::string::npos);
    CHECK(t.messenger.describe().find("stage 2 is served by nobody") != std::string::npos);
    CHECK(t.messenger.describe().find("stage 1 is served by nobody") == std::string::npos);  // by itself
    CHECK(t.messenger.describe().find("nobody coordinates yet") != std::string::npos);
    t.my.directory.up(9, 0, "", p.now());
    parallel::swarm_wire::status s;
    s.serving = 1;
    t.my.directory.take(9, s, p.now());
    t.my.followed = {9, 4};
    CHECK(t.messenger.describe().find("stage 0 is served by nobody") == std::string::npos);
    CHECK(t.messenger.describe().find("peer 9 coordinates") != std::string::npos);
    CHECK(t.my.status().stage == 1);
    CHECK(t.my.status().term == 4);
    CHECK(t.my.status().serving == 0);
    parallel::swarm_wire::addresses many;
    for (std::size_t i = 0; i < 2 * parallel::swarm_wire::most_addresses; ++i)
      many.list.push_back("x:" + std::to_string(i));
    t.messenger.learn(many);
    CHECK(t.messenger.addresses() == parallel::swarm_wire::most_addresses);  // a talkative stranger fills no memory
  });
  REQUIRE(world.run());
}

TEST_CASE("swarm messenger: a peer is on the path of the first order that it takes in a round", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  (void)world.add_host();
  world.boot(0, [&](sim::process& p) {
    talker t{p};  // of batches of eight
    const auto order_of = [](std::uint32_t m, std::uint64_t turn) {
      parallel::swarm_wire::order o;
      o.turn = turn, o.micro_batch = m;
      return o;
    };
    t.my.micro_batches.begin(5, 8);
    CHECK(t.messenger.takes_path_of(order_of(7, 5)));  // all train one model
    CHECK(t.my.status().on_path == 0);
    t.my.paths = 2;
    CHECK(t.messenger.takes_path_of(order_of(0, 4)));  // of another turn, which nobody looks at
    CHECK(t.my.status().on_path == 0);
    CHECK(t.messenger.takes_path_of(order_of(7, 5)));
    CHECK(t.my.status().on_path == 1);
    CHECK(t.my.status().module_path == 1);
    CHECK_FALSE(t.messenger.takes_path_of(order_of(3, 5)));
    CHECK(t.messenger.takes_path_of(order_of(4, 5)));
    t.my.judges = true;  // shared parameters, which everybody has
    CHECK(t.messenger.takes_path_of(order_of(3, 5)));
    t.my.judges = false;
    t.my.begin_on_path();
    CHECK_FALSE(t.messenger.takes_path_of(order_of(3, 5)));  // the round goes on
    t.my.round_is_over(true);
    CHECK(t.my.last_round == 5);
    CHECK_FALSE(t.messenger.takes_path_of(order_of(3, 5)));  // and ends with its last turn
    t.my.begin_on_path();
    CHECK(t.my.status().module_path == 1);  // that it had
    CHECK(t.my.status().on_path == 0);
    CHECK(t.messenger.takes_path_of(order_of(3, 5)));
    CHECK(t.my.status().module_path == 0);
    t.my.begin_on_path();
    CHECK(t.my.status().on_path == 1);
  });
  REQUIRE(world.run());
}
