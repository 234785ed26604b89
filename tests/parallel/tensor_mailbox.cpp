// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/tensor_mailbox.hpp>

#include <causeway/sim/world.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/first_link.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;

net::message_id numbered(std::uint64_t n) { return {.channel = 7 * 16, .epoch = 0, .step = n}; }

}  // namespace

TEST_CASE("tensor mailbox: what was expected comes with what it is for; what breaks or is too long does not",
          "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::vector<tensor_mailbox<std::string>::arrival> got;
  std::vector<std::string> waits;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      support::first_link events;
      const auto fabric = p.make_fabric(h + 1);
      fabric->attach(&events);
      if (h == 0) fabric->dial(world.address(1));
      p.sleep(1s);
      tensor_mailbox<std::string> mailbox{*fabric};
      if (h == 0) {
        for (std::uint64_t n = 0; n < 3; ++n) {
          mailbox.send(*events.link, numbered(n), std::make_shared<const std::vector<std::byte>>(2 + n, std::byte{5}));
        }
        CHECK(mailbox.sends_to(*events.link) == 3);
        CHECK(mailbox.sends_to(*events.link + 1) == 0);
        p.sleep(1s);
        CHECK(mailbox.collect().empty());
        CHECK(mailbox.sends_to(*events.link) == 0);
      } else {
        for (std::uint64_t n = 0; n < 4; ++n) mailbox.expect(*events.link, numbered(n), "the " + std::to_string(n), 3);
        p.sleep(1s);
        CHECK(mailbox.any_done());
        for (auto& a : mailbox.collect()) got.push_back(std::move(a));
        CHECK(mailbox.receives() == 1);
        mailbox.each_expected([&](net::peer_index, const std::string& what) { waits.push_back(what); });
        mailbox.clear();
        CHECK(mailbox.receives() == 0);
      }
      p.sleep(1s);
      fabric->attach(nullptr);
    });
  }
  REQUIRE(world.run());
  REQUIRE(got.size() == 2);
  CHECK((got[0].what == "the 0" && got[0].bytes->size() == 2));
  CHECK((got[1].what == "the 1" && *got[1].bytes == std::vector(3, std::byte{5})));
  CHECK(waits == std::vector<std::string>{"the 3"});
}

}  // namespace causeway::parallel
