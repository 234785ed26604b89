// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm_hearing.hpp>

#include <causeway/sim/world.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using hearing = parallel::swarm_hearing<stage::routing::least_load>;

/// Hears, and computes nothing.
struct listener final : hearing {
  listener(std::shared_ptr<net::fabric> fabric, parallel::swarm_options o, log_sink log = {})
      : hearing{std::move(fabric), std::move(o), stage::routing::least_load{}, std::move(log)} {}
  ~listener() override { fabric_->attach(nullptr); }
  void listen() {
    fabric_->attach(this);
    fabric_->locked([this] { heartbeat(); });
  }
  /// What is known of the others.
  [[nodiscard]] std::size_t connected() {
    std::size_t n = 0;
    fabric_->locked([&] {
      for (const auto& [id, p] : table_.peers()) n += p.up && p.said ? 1U : 0U;
    });
    return n;
  }
  /// As a peer that has its weights.
  void serve() {
    fabric_->locked([this] { begin(0, 1); });
  }
  [[nodiscard]] double delay(net::peer_id a, net::peer_id b) {
    double d = 0;
    fabric_->locked([&] { d = driver_.known().link(a, b); });
    return d;
  }
  void say(net::peer_id to, std::vector<std::byte> bytes) {
    fabric_->locked([&] { fabric_->post(*table_.link_to(to), std::move(bytes)); });
  }
  using hearing::take_parcels, hearing::station_;
};

parallel::swarm_options options_of(std::uint32_t stage) { return {.run = 5, .stage = stage, .stages = 3}; }

}  // namespace

TEST_CASE("swarm hearing: who is told one address finds all", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 3; ++h) (void)world.add_host();
  std::vector<std::size_t> known(3);
  for (std::uint32_t h = 0; h < 3; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      auto o = options_of(h);
      if (h > 0) o.dial = {world.address(0)};
      listener l{p.make_fabric(h + 1), o};
      l.listen();
      p.sleep(5s);
      known[h] = l.connected();
      p.sleep(1s);
    });
  }
  REQUIRE(world.run());
  CHECK(known == std::vector<std::size_t>{2, 2, 2});
}

TEST_CASE("swarm hearing: the driver learns how far the others are from each other", "[parallel][fast]") {
  sim::world world{{.seed = 1, .link = {.latency = 10ms}}};
  for (int h = 0; h < 3; ++h) (void)world.add_host();
  world.set_link(1, 2, {.latency = 70ms});
  world.set_link(2, 1, {.latency = 70ms});
  double near = 0, far = 0;
  for (std::uint32_t h = 0; h < 3; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      auto o = options_of(h);
      if (h > 0) o.dial = {world.address(0)};
      listener l{p.make_fabric(h + 1), o};
      l.listen();
      l.serve();
      p.sleep(20s);
      if (h == 0) near = l.delay(1, 2), far = l.delay(2, 3);
      p.sleep(1s);
    });
  }
  REQUIRE(world.run());
  CHECK(near == Approx(0.01).epsilon(0.2));
  CHECK(far == Approx(0.07).epsilon(0.2));
}

TEST_CASE("swarm hearing: parcels wait for their turn, and bytes that are none end the connection", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::string log;
  std::vector<std::size_t> due;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      auto o = options_of(h);
      o.dial = {world.address(1 - h)};
      listener l{p.make_fabric(h + 1), o,
                 log_sink{[&](severity, std::string_view line) { log.append(line).append("\n"); }}};
      l.listen();
      p.sleep(1s);
      if (h == 0) {
        for (const std::uint64_t turn : {7U, 8U, 8U, 9U}) l.say(2, encode(5, parallel::swarm_wire::parcel{turn, 0, 0, 1}));
        p.sleep(1s);
        l.say(2, std::vector<std::byte>(40, std::byte{200}));
      } else {
        l.station_.begin(7, 4);
        p.sleep(500ms);
        for (const std::uint64_t turn : {7U, 8U, 9U}) {
          l.station_.begin(turn, 4);
          due.push_back(l.take_parcels().size());
        }
      }
      p.sleep(2s);
    });
  }
  REQUIRE(world.run());
  CHECK(due == std::vector<std::size_t>{1, 2, 1});
  CHECK(log.find("peer 1 is sent away") != std::string::npos);
}
