// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic_pipeline.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

// Peers that are told to go: what they hold is with others before they leave.

namespace causeway {
namespace {

using support::elastic_world;
using support::elastic_world_options;
using support::errors_of;
using support::founded;
using support::with;

// One pipeline of three stages and a spare peer; nothing is saved.
elastic_world_options three_stages() {
  elastic_world_options o;
  o.hosts = 4;
  o.layers = 6;
  o.steps = 6;
  return o;
}

}  // namespace

TEST_CASE("leaving: a peer that is told to go hands over the only copy of its stage", "[parallel][elastic][fast]") {
  elastic_world_options o = three_stages();
  const std::uint32_t leaver = GENERATE(0U, 1U, 2U, 3U);
  o.told_to_go = {{leaver, 3}};
  elastic_world w{o, with(stage::recovery::regroup{3})};
  w.wanted = 3;
  w.boot();
  w.run(std::chrono::minutes{2});
  CAPTURE(leaver);
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 3);
  CHECK(w.distance(w.unsplit()) < 5e-5);
  auto& me = w.at(leaver);
  CHECK(me.left);
  REQUIRE(me.layouts.contains(4));
  CHECK(me.layouts.rbegin()->first == 4);  // its last step, in which it computes nothing
  CHECK(me.layouts.at(4).find(me.id) == nullptr);
  std::uint64_t went_back = 0;
  for (std::uint32_t h = 0; h < o.hosts; ++h) went_back += w.at(h).went_back;
  CHECK(went_back == 0);
}

TEST_CASE("leaving: where the others cannot do without a peer, it computes on until it goes", "[parallel][elastic][fast]") {
  elastic_world_options o = three_stages();
  o.hosts = 3;
  o.told_to_go = {{1, 3}};
  elastic_world w{o, with(stage::recovery::regroup{3})};
  w.boot();
  w.run(std::chrono::minutes{2});
  CHECK(w.finished() == 0);  // the others wait for a peer
  auto& me = w.at(1);
  CHECK(me.left);
  CHECK(me.error.empty());
  REQUIRE(me.layouts.contains(4));
  CHECK(me.layouts.at(4).find(me.id) != nullptr);
}

TEST_CASE("leaving: all who are told in one step make it together and go", "[parallel][elastic][fast]") {
  elastic_world_options o = three_stages();
  for (std::uint32_t h = 0; h < o.hosts; ++h) o.told_to_go[h] = 3;
  elastic_world w{o, with(stage::recovery::regroup{3})};
  w.boot();
  w.run(std::chrono::minutes{2});
  CHECK(errors_of(w, o.hosts).empty());
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    CAPTURE(h);
    CHECK(w.at(h).left);
    REQUIRE(!w.at(h).layouts.empty());
    CHECK(w.at(h).layouts.rbegin()->first == 4);
  }
}

TEST_CASE("leaving: who is told when the others are too few does not wait for more", "[parallel][elastic][fast]") {
  elastic_world_options o = three_stages();
  o.told_to_go = {{0, 3}, {1, 4}, {2, 5}};
  elastic_world w{o, with(stage::recovery::regroup{3})};
  w.boot();
  w.run(std::chrono::minutes{2});
  CHECK(w.at(0).left);
  CHECK(w.at(1).left);
  CHECK(w.at(2).error.find("cannot hold the model") != std::string::npos);
  CHECK_FALSE(w.at(3).finished);
}

TEST_CASE("leaving: a peer may be lost while it hands over", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.steps = 6;
  o.victim = GENERATE(0U, 3U);
  o.told_to_go = {{o.victim, 3}};
  o.dies_at = UINT64_MAX;
  elastic_world quiet{o, with(stage::recovery::regroup{2})};
  quiet.wanted = 3;
  quiet.boot();
  quiet.run();
  const auto whole = quiet.unsplit();
  CHECK(quiet.finished() == 3);
  CHECK(quiet.distance(whole) < 5e-5);
  const std::uint64_t calls = quiet.at(o.victim).calls, kills = 15;
  for (std::uint64_t k = 0; k < kills; ++k) {
    o.dies_at = founded + k * (calls - founded) / kills;
    CAPTURE(o.victim, o.dies_at);
    elastic_world w{o, with(stage::recovery::regroup{2})};
    w.wanted = 3;
    w.boot();
    w.run();
    CHECK(errors_of(w, o.hosts).empty());
    CHECK(w.finished() == 3);
    CHECK(w.distance(whole) < 5e-5);
  }
}

TEST_CASE("leaving: a proactive pipeline plans and forecasts without who leaves", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 5;
  o.steps = 6;
  const std::uint32_t leaver = GENERATE(0U, 2U, 4U);
  o.told_to_go = {{leaver, 3}};
  std::vector<std::weak_ptr<pipeline_group>> groups;
  std::vector<std::size_t> counted;  // after the step in which it leaves, of every second step
  o.before_step = [&](std::uint32_t, std::uint64_t step) {
    for (const auto& group : groups) {
      const auto there = group.lock();
      if (step == 4 && there && there->record().step == 4) counted = there->record().history.counts();
    }
  };
  const auto recovery = support::two_block_proactive(2);
  support::any_elastic_world w{
      o, [&](const auto& world, const auto& group, environment env, parallel::elastic_pipeline_options options) {
        groups.push_back(group);
        auto trainer = support::elastic_trainer(world, group, std::move(env), with(recovery)(std::move(options)));
        return std::make_unique<support::elastic_peer_of<decltype(trainer)>>(std::move(trainer));
      }};
  w.wanted = 4;
  w.boot();
  w.run();
  CAPTURE(leaver);
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 4);
  CHECK(w.distance(w.unsplit()) < 5e-5);
  REQUIRE(w.at(leaver).layouts.contains(4));
  CHECK(w.at(leaver).layouts.at(4).find(w.at(leaver).id) == nullptr);
  CHECK(counted == std::vector<std::size_t>{5, 4});
}

}  // namespace causeway
