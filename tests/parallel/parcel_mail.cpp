// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/parcel_mail.hpp>

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

TEST_CASE("parcel_mail: what was expected comes with what it is for; what breaks or is too long does not",
          "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::vector<parcel_mail<std::string>::arrival> got;
  std::vector<std::string> waits;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      support::first_link events;
      const auto fabric = p.make_fabric(h + 1);
      fabric->attach(&events);
      if (h == 0) fabric->dial(world.address(1));
      p.sleep(1s);
      parcel_mail<std::string> mail{*fabric};
      if (h == 0) {
        for (std::uint64_t n = 0; n < 3; ++n) {
          mail.send(*events.link, numbered(n), std::make_shared<const std::vector<std::byte>>(2 + n, std::byte{5}));
        }
        CHECK(mail.sends_to(*events.link) == 3);
        CHECK(mail.sends_to(*events.link + 1) == 0);
        p.sleep(1s);
        CHECK(mail.collect().empty());
        CHECK(mail.sends_to(*events.link) == 0);
      } else {
        for (std::uint64_t n = 0; n < 4; ++n) mail.expect(*events.link, numbered(n), "the " + std::to_string(n), 3);
        p.sleep(1s);
        CHECK(mail.any_done());
        for (auto& a : mail.collect()) got.push_back(std::move(a));
        CHECK(mail.receives() == 1);
        mail.each_expected([&](net::peer_index, const std::string& what) { waits.push_back(what); });
        mail.clear();
        CHECK(mail.receives() == 0);
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
