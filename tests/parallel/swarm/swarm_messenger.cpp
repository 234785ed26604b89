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

struct talker final : parallel::swarm_messenger {
  explicit talker(sim::process& p) : swarm_messenger{p.make_fabric(1), {.run = 5, .stage = 1, .stages = 3}, {}} {}
  using swarm_messenger::addresses_, swarm_messenger::describe_swarm, swarm_messenger::coordinates_,
      swarm_messenger::followed_, swarm_messenger::learn, swarm_messenger::own_status, swarm_messenger::serving_,
      swarm_messenger::directory_, swarm_messenger::micro_batches_, swarm_messenger::paths_, swarm_messenger::judges_,
      swarm_messenger::takes_path_of, swarm_messenger::round_is_over, swarm_messenger::begin_on_path,
      swarm_messenger::last_round_;
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
    t.micro_batches_.begin(5, 8);
    CHECK(t.takes_path_of(order_of(7, 5)));  // all train one model
    CHECK(t.own_status().on_path == 0);
    t.paths_ = 2;
    CHECK(t.takes_path_of(order_of(0, 4)));  // of another turn, which nobody looks at
    CHECK(t.own_status().on_path == 0);
    CHECK(t.takes_path_of(order_of(7, 5)));
    CHECK(t.own_status().on_path == 1);
    CHECK(t.own_status().module_path == 1);
    CHECK_FALSE(t.takes_path_of(order_of(3, 5)));
    CHECK(t.takes_path_of(order_of(4, 5)));
    t.judges_ = true;  // shared parameters, which everybody has
    CHECK(t.takes_path_of(order_of(3, 5)));
    t.judges_ = false;
    t.begin_on_path();
    CHECK_FALSE(t.takes_path_of(order_of(3, 5)));  // the round goes on
    t.round_is_over(true);
    CHECK(t.last_round_ == 5);
    CHECK_FALSE(t.takes_path_of(order_of(3, 5)));  // and ends with its last turn
    t.begin_on_path();
    CHECK(t.own_status().module_path == 1);  // that it had
    CHECK(t.own_status().on_path == 0);
    CHECK(t.takes_path_of(order_of(3, 5)));
    CHECK(t.own_status().module_path == 0);
    t.begin_on_path();
    CHECK(t.own_status().on_path == 1);
  });
  REQUIRE(world.run());
}
