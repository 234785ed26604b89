// SPDX-License-Identifier: Apache-2.0
// What a client hears of servers, before and beside its requests.
#include <causeway/parallel/serving/block_server_directory.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "support/catch.hpp"
#include "support/tuned_gpt.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;
using swarm_type = support::served_gpt<>;

}  // namespace

TEST_CASE("block_server_directory: a client that knows one server learns of all, and how far they are",
          "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  swarm_type swarm{model, 40ms};
  for (std::int64_t first = 0; first < 6; ++first) swarm.add_server(first, 1);
  swarm.add_server(0, 6, 100us);
  swarm.add_client({}, [](sim::process& p, auto& client) {
    p.sleep(3s);
    const auto known = client.client().directory();
    CHECK(known.size() == 7);
    // Six hops there and back cost 0.96 s; the slow one's computing less for a row, and more for a thousand.
    CHECK(known.route({0, 6}, {1}, p.now()) == stage::span_chain{{7, {0, 6}}});
    CHECK(known.route({0, 6}, {1000}, p.now()).size() == 6);
  });
  CHECK(swarm.run());
}

TEST_CASE("block_server_directory: servers that die are forgotten, and found again when they are back",
          "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  swarm_type swarm{model};
  swarm.add_server(0, 6);
  swarm.add_server(0, 6);
  swarm.add_client({}, [&](sim::process& p, auto& client) {
    p.sleep(2s);
    CHECK(client.client().directory().size() == 2);
    swarm.world.kill(0);
    swarm.world.kill(1);
    p.sleep(2s);
    CHECK(client.client().directory().size() == 0);
    const auto there = client.client().wait_for_blocks(p.now() + 5s);
    REQUIRE(there);
    CHECK_FALSE(*there);
    swarm.world.restart(1);
    CHECK(support::valued(client.client().wait_for_blocks(p.now() + 60s)));
    CHECK(client.client().directory().size() == 1);
  });
  CHECK(swarm.run());
}

TEST_CASE("block_server_directory: a server of another run, or of another model, is not heard", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  swarm_type swarm{model};
  swarm.add_server(0, 6);
  const auto other = swarm.add_server([](auto& o) { o.first = 0, o.blocks = 6, o.run = 6; });
  swarm.add_client({.client = {.run = 5, .dial = {"host-0:1", "host-" + std::to_string(other) + ":1"}}},
                   [](sim::process& p, auto& client) {
                     p.sleep(5s);
                     CHECK(client.client().directory().size() == 1);
                   });
  CHECK(swarm.run());
}

}  // namespace causeway::parallel
