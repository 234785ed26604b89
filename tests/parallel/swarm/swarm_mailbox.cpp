// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_mailbox.hpp>

#include <causeway/sim/world.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "support/catch.hpp"
#include "support/first_link.hpp"

using namespace causeway;
using namespace std::chrono_literals;

TEST_CASE("swarm mailbox: tensors arrive whole, shorter ones as they are; one that is too long does not",
          "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::vector<parallel::swarm_mailbox::arrival> got;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      support::first_link events;
      const auto fabric = p.make_fabric(h + 1);
      fabric->attach(&events);
      if (h == 0) fabric->dial(world.address(1));
      p.sleep(1s);
      parallel::swarm_mailbox mailbox{*fabric};
      const std::vector<std::size_t> lengths{3, 2, 4};
      for (std::uint32_t m = 0; m < 3; ++m) {
        const parallel::swarm_wire::tensor_announcement what{7, m, 1, m + 1};
        if (h == 0)
          mailbox.send(*events.link, what, std::make_shared<const std::vector<std::byte>>(lengths[m], std::byte{5}));
        if (h == 1) mailbox.expect(*events.link, what, 3);
      }
      p.sleep(1s);
      CHECK(mailbox.any_done());
      for (auto& a : mailbox.collect()) got.push_back(std::move(a));
      CHECK_FALSE(mailbox.any_done());
      p.sleep(1s);
      fabric->attach(nullptr);
    });
  }
  REQUIRE(world.run());
  REQUIRE(got.size() == 2);
  CHECK(got[0].what.micro_batch == 0);
  CHECK(got[0].what.backward == 1);
  CHECK(*got[0].bytes == std::vector(3, std::byte{5}));
  CHECK(got[1].bytes->size() == 2);
}
