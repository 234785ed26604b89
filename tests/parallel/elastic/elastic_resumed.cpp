// SPDX-License-Identifier: Apache-2.0
// A peer lost in the middle of a step of pipelines that keep their work: the others go on with it, to the bits of the
// undisturbed run where one pipeline adds up all gradients.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/presets/elastic_pipelines.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using support::elastic_world;
using support::elastic_world_options;
using support::errors_of;
using support::founded;

// Pipelines of three stages, as the preset makes them.
auto bamboo() {
  return [](const parallel::elastic_pipeline_options& o) {
    return presets::make(
        presets::bamboo_options{.micro_batches = o.micro_batches, .stages = 3, .storage = o.storage, .store_every = 1});
  };
}
using world = elastic_world<decltype(bamboo())>;

elastic_world_options options(std::uint32_t hosts) {
  elastic_world_options o;
  o.hosts = hosts;
  o.layers = 6;
  o.micro_batches = 6;
  return o;
}

// What a run without a loss comes to, and how often its victim calls the network.
std::pair<support::trained_model, std::uint64_t> undisturbed(elastic_world_options o) {
  const std::uint32_t victim = o.victim;
  o.victim = UINT32_MAX;
  world w{o, bamboo()};
  w.boot();
  w.run();
  REQUIRE(w.finished() == o.hosts);
  CHECK(w.distance(w.unsplit()) < 5e-5);
  support::trained_model all;
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    for (const auto& [name, values] : w.at(h).parameters) all.parameters[name] = values;
  }
  for (const auto& [step, loss] : w.at(0).losses) all.losses.push_back(loss);
  return {all, w.at(victim).calls};
}

// Kills the victim at every `every`th network call; gives how many attempts went on with a step.
std::uint64_t kill_everywhere(elastic_world_options o, std::uint64_t from, std::uint64_t every, double most) {
  const auto [whole, calls] = undisturbed(o);
  std::uint64_t resumed = 0;
  for (std::uint64_t n = from; n < calls; n += every) {
    o.dies_at = n;
    CAPTURE(o.victim, n);
    world w{o, bamboo()};
    w.wanted = o.hosts - 1;
    w.boot();
    w.run();
    CHECK(errors_of(w, o.hosts).empty());
    CHECK(w.finished() >= o.hosts - 1);
    CHECK(w.distance(whole) <= most);
    for (std::uint32_t h = 0; h < o.hosts; ++h) resumed += w.at(h).resumed;
  }
  return resumed;
}

// Kills the peers of these stages of host 0's pipeline while its third step is under way.
template <class World>
std::function<void(std::uint32_t, std::uint64_t)> kills_stages(World*& w, std::uint32_t hosts,
                                                               std::vector<std::int64_t> firsts,
                                                               std::chrono::milliseconds after) {
  auto done = std::make_shared<bool>(false);
  return [&w, hosts, firsts, after, done](std::uint32_t host, std::uint64_t step) {
    if (host != 0 || step != 2 || std::exchange(*done, true)) return;
    const stage::layout& l = w->at(0).layouts.at(2);
    stage::layout::place at;
    (void)l.find(w->at(0).id, &at);
    for (std::uint32_t h = 0; h < hosts; ++h) {
      stage::layout::place theirs;
      const auto* assignment = l.find(w->at(h).id, &theirs);
      if (assignment == nullptr || theirs.replica != at.replica) continue;
      if (std::find(firsts.begin(), firsts.end(), assignment->computes.first) == firsts.end()) continue;
      w->world().after(after, [&w, h] { w->world().kill(h); });
    }
  };
}

}  // namespace

TEST_CASE("bamboo: a peer killed at any network call leaves the bits of the undisturbed run", "[parallel][elastic][fast]") {
  auto o = options(3);
  o.clip_norm = 0;  // a norm is added up over peers, and rounded with their number
  o.victim = GENERATE(0U, 1U, 2U);
  CHECK(kill_everywhere(o, founded, 5, 0) > 10);
}

TEST_CASE("bamboo: of two pipelines each goes on with what it has done", "[parallel][elastic][fast]") {
  auto o = options(6);
  o.steps = 3;
  o.victim = GENERATE(0U, 2U, 5U);
  CHECK(kill_everywhere(o, 2 * founded, 23, 5e-5) > 2);
}

TEST_CASE("bamboo: a peer lost together with its shadow costs the step; another pipeline, or a disk, has the blocks",
          "[parallel][elastic][fast]") {
  auto o = options(GENERATE(5U, 6U));  // two are spare, or a second pipeline
  o.store_every = o.hosts == 5 ? 1 : 0;
  world* running = nullptr;
  const int after = GENERATE(20, 45, 70, 95);
  o.before_step = kills_stages(running, o.hosts, {2, 4}, std::chrono::milliseconds{after});
  world w{o, bamboo()};
  running = &w;
  w.wanted = o.hosts - 2;
  w.boot();
  w.run();
  CAPTURE(o.hosts, after);
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts - 2);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    if (w.at(h).finished) CHECK(w.at(h).layouts.at(o.steps).replicas.size() == 1);
  }
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

}  // namespace causeway
