// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_message_handler.hpp>

#include <causeway/parallel/swarm/swarm_parts.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_fabric.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// Hears, and computes nothing.
struct listener : parallel::swarm_parts {
  listener(std::shared_ptr<net::fabric> fabric, parallel::swarm_options o, log_sink log = {})
      : parallel::swarm_parts{std::move(fabric), std::move(o), stage::routing::least_load{}, std::move(log)} {}
  /// What is known of the others.
  [[nodiscard]] std::size_t connected() {
    std::size_t n = 0;
    my.locked([&] {
      for (const auto& [id, p] : my.directory.peers()) n += p.up && p.said ? 1U : 0U;
    });
    return n;
  }
  /// As a peer that has its weights.
  void serve() {
    my.locked([this] { coordinator.begin(0, 1); });
  }
  [[nodiscard]] double delay(net::peer_id a, net::peer_id b) {
    return my.with_lock([&] { return coordinator.scheduler().link(a, b); });
  }
  void say(net::peer_id to, std::vector<std::byte> bytes) {
    my.locked([&] { my.fabric->post(*my.directory.link_to(to), std::move(bytes)); });
  }
  [[nodiscard]] bool knows(net::peer_id id) const { return my.directory.link_to(id).has_value(); }
};

parallel::swarm_options options_of(std::uint32_t stage) { return {.run = 5, .stage = stage, .stages = 3}; }

}  // namespace

TEST_CASE("swarm message handler: who is told one address finds all", "[parallel][fast]") {
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

TEST_CASE("swarm message handler: the coordinator learns how far the others are from each other", "[parallel][fast]") {
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

TEST_CASE("swarm message handler: announced tensors wait for their turn, and bytes that are none end the connection",
          "[parallel][fast]") {
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
        for (const std::uint64_t turn : {7U, 8U, 8U, 9U})
          l.say(2, encode(5, parallel::swarm_wire::tensor_announcement{turn, 0, 0, 1}));
        p.sleep(1s);
        l.say(2, std::vector<std::byte>(40, std::byte{200}));
      } else {
        l.my.micro_batches.begin(7, 4);
        p.sleep(500ms);
        for (const std::uint64_t turn : {7U, 8U, 9U}) {
          l.my.micro_batches.begin(turn, 4);
          const std::size_t without_order = l.handler.take_announcements().size();
          l.my.micro_batches.take(
              {turn, 0, 1, {1, 2, 3}, std::vector(3, parallel::swarm_wire::stage_need::usual), {0, 0, 0}});
          due.push_back(100 * without_order + l.handler.take_announcements().size());
        }
      }
      p.sleep(2s);
    });
  }
  REQUIRE(world.run());
  CHECK(due == std::vector<std::size_t>{1, 2, 1});
  CHECK(log.find("peer 1 is sent away") != std::string::npos);
}

namespace {

/// Control messages that each of so many idle peers posts in a heartbeat, once they know each other: of the coordinator,
/// and the most of another.
std::pair<double, double> posts_of_idle_peers(std::uint32_t peers) {
  constexpr int heartbeats = 10;
  sim::world world{{.seed = 1}};
  for (std::uint32_t h = 0; h < peers; ++h) (void)world.add_host();
  std::vector<std::uint64_t> posts(peers);
  std::uint32_t silent = 0;
  double coordinator = 0, other = 0;
  for (std::uint32_t h = 0; h < peers; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      auto o = options_of(h % 3);
      if (h > 0) o.dial = {world.address(0)};
      listener l{std::make_shared<support::counted_fabric>(
                     p.make_fabric(h + 1),
                     [&, h](support::fabric_call c) { posts[h] += c == support::fabric_call::post ? 1 : 0; }),
                 o, log_sink{[&](severity, std::string_view line) {
                   silent += line.find("silent") != std::string_view::npos ? 1U : 0U;
                 }}};
      l.listen();
      p.sleep(5s);
      l.serve();
      p.sleep(40s);
      const std::uint64_t before = posts[h];
      p.sleep(heartbeats * 1s);
      const double each = static_cast<double>(posts[h] - before) / heartbeats;
      (l.my.coordinates ? coordinator : other) = std::max(l.my.coordinates ? coordinator : other, each);
      CHECK(l.connected() == peers - 1);
      p.sleep(5s);
    });
  }
  REQUIRE(world.run());
  CHECK(silent == 0);
  return {coordinator, other};
}

}  // namespace

TEST_CASE("swarm message handler: in a heartbeat the coordinator speaks to all, everybody else to a few",
          "[parallel][fast]") {
  for (const std::uint32_t peers : {4U, 16U, 64U}) {
    const auto [coordinator, other] = posts_of_idle_peers(peers);
    INFO(peers << " peers: the coordinator posts " << coordinator << ", others " << other);
    CHECK(other <= 4 * 8);  // statuses and probes of eight, the coordinator's; echoes, at times of more than eight
    CHECK(coordinator <= peers + 2 * 8 + 2);
    CHECK(coordinator >= peers - 1);
  }
}

TEST_CASE("swarm message handler: who announces tensors without end is sent away, and nothing is set aside for it",
          "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::string log;
  std::size_t most = 0;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      auto o = options_of(h);
      o.dial = {world.address(1 - h)};
      o.micro_batches = 4;
      listener l{p.make_fabric(h + 1), o,
                 log_sink{[&](severity, std::string_view line) { log.append(line).append("\n"); }}};
      l.listen();
      p.sleep(1s);
      for (std::uint64_t n = 0; n < 40; ++n) {
        if (h == 0 && l.knows(2)) l.say(2, encode(5, parallel::swarm_wire::tensor_announcement{1, 0, 0, n}));
        if (h == 1) l.my.micro_batches.begin(1, 4);
        if (h == 1) CHECK(l.handler.take_announcements().empty());
        p.sleep(10ms);
        if (h == 1) most = std::max(most, l.handler.waiting_announcements());
      }
      p.sleep(1s);
    });
  }
  REQUIRE(world.run());
  CHECK(most == 8 * 4);
  CHECK(log.find("peer 1 is sent away: it announced more tensors than a turn has") != std::string::npos);
}

TEST_CASE("swarm message handler: orders come from the coordinator, and early ones are bounded", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::vector<std::size_t> kept;
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      auto o = options_of(2 * h);
      o.dial = {world.address(1 - h)};
      o.micro_batches = 4;
      listener l{p.make_fabric(h + 1), o};
      l.listen();
      p.sleep(1s);
      const auto order = [](std::uint64_t turn, std::uint32_t m) {
        return encode(5, parallel::swarm_wire::order{turn,
                                                     m,
                                                     (std::uint64_t{7} << 32U) + turn,
                                                     {1, 2, 2},
                                                     std::vector(3, parallel::swarm_wire::stage_need::usual),
                                                     {0, 0, 0}});
      };
      if (h == 0) l.say(2, order(9, 0));  // from somebody who does not coordinate
      p.sleep(100ms);
      if (h == 1) kept.push_back(l.coordinator.kept_orders());
      if (h == 0) l.say(2, encode(5, parallel::swarm_wire::claim{7}));
      for (std::uint64_t turn = 1; turn < 100 && h == 0; ++turn) {
        for (std::uint32_t m = 0; m < 9; ++m) l.say(2, order(turn, m));
      }
      p.sleep(100ms);
      if (h == 1) kept.push_back(l.coordinator.kept_orders());
      p.sleep(100ms);
    });
  }
  REQUIRE(world.run());
  CHECK(kept == std::vector<std::size_t>{0, 16});
}
