// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/stage/recovery_redundant_forward.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

namespace causeway {

using namespace std::chrono_literals;

namespace {

using support::elastic_world;
using support::elastic_world_options;
using support::with;

TEST_CASE("elastic pipelines: with peers that stay, the losses and parameters of the unsplit model",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  elastic_world w{o, with(stage::recovery::regroup{2})};
  w.boot();
  w.run();
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    INFO(w.at(h).error);
    CHECK(w.at(h).finished);
    CHECK(w.at(h).received == 0);
  }
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

TEST_CASE("elastic pipelines: a peer killed at any network call costs nothing that was committed",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.victim = GENERATE(0U, 3U);
  const auto calls = [&] {
    elastic_world w{o, with(stage::recovery::regroup{2})};
    w.boot();
    w.run();
    return w.at(o.victim).calls;
  };
  o.dies_at = UINT64_MAX;
  const std::uint64_t all = calls();
  const auto whole = elastic_world{o, with(stage::recovery::regroup{2})}.unsplit();
  for (std::uint64_t n = 75; n < all; n += 3) {
    o.dies_at = n;
    elastic_world w{o, with(stage::recovery::regroup{2})};
    w.wanted = 3;
    w.boot();
    w.run();
    CAPTURE(n, o.victim);
    std::string errors;
    for (std::uint32_t h = 0; h < o.hosts; ++h) errors += w.at(h).error;
    CHECK(errors.empty());
    CHECK(w.finished() >= 3);
    CHECK(w.distance(whole) < 5e-5);
  }
}

// A spare peer, which has no block, can be the only one that some have not heard from when others vote for the step.
TEST_CASE("elastic pipelines: a step that somebody has voted for is taken by all whose gradient is complete",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.layers = 6;
  o.victim = 0;
  o.dies_at = UINT64_MAX;
  const auto recovery = with(stage::recovery::redundant_forward{3});
  std::map<std::uint64_t, std::uint64_t> calls;  // before each step
  std::function<void(std::uint64_t)> count;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host == 0) count(step);
  };
  elastic_world calm{o, recovery};
  count = [&](std::uint64_t step) { calls[step] = calm.at(0).calls; };
  calm.boot();
  calm.run();
  const auto whole = calm.unsplit();
  REQUIRE(calm.at(0).layouts.at(1).find(calm.at(0).id) == nullptr);
  o.before_step = {};
  for (std::uint64_t n = calls.at(2); n < calm.at(0).calls; ++n) {
    CAPTURE(n);
    o.dies_at = n;
    elastic_world w{o, recovery};
    w.wanted = 3;
    w.boot();
    w.run();
    CHECK(support::errors_of(w, o.hosts).empty());
    CHECK(w.finished() == 3);
    CHECK(w.distance(whole) < 5e-5);
  }
}

TEST_CASE("elastic pipelines: a peer that comes late makes another pipeline possible", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.late = {3};
  o.steps = 8;
  std::function<void()> come;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host == 0 && step == 2) come();
  };
  elastic_world w{o, with(stage::recovery::regroup{2})};
  come = [&] { w.boot(3); };
  w.boot();
  w.run();
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    INFO(w.at(h).error);
    CHECK(w.at(h).finished);
  }
  CHECK(w.at(0).layouts.at(1).replicas.size() == 1);
  CHECK(w.at(0).layouts.at(8).replicas.size() == 2);
  std::uint64_t received = 0;
  for (std::uint32_t h = 0; h < o.hosts; ++h) received += w.at(h).received;
  CHECK(received == 4);  // the second pipeline, once
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

TEST_CASE("elastic pipelines: a killed peer that comes back, at any time, ends with the others or after them",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.victim = 3;
  o.dies_at = GENERATE(150U, 200U);
  for (o.back_after = 10ms; o.back_after < 3s; o.back_after += o.back_after / 3) {
    CAPTURE(o.dies_at, o.back_after.count());
    elastic_world w{o, with(stage::recovery::regroup{2})};
    w.boot();
    w.run(10min);
    CHECK(support::errors_of(w, o.hosts).empty());
    CHECK(w.finished() == o.hosts);
  }
}

TEST_CASE("elastic pipelines: without anybody who has a block the run waits for one who has it",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 3;
  o.steps = 6;
  o.victim = 2;
  o.dies_at = 140;
  std::string said;
  o.trace = [&](const std::string& line) { said += line + "\n"; };
  elastic_world w{o, with(stage::recovery::regroup{3})};
  w.boot();
  w.run(std::chrono::seconds{60});
  CHECK(w.finished() == 0);
  CHECK(said.find("waits: ") != std::string::npos);
}

// What the unsplit model comes to after so many steps.
std::vector<double> unsplit_evaluations(elastic_world_options o) {
  std::vector<double> all;
  const std::uint64_t steps = o.steps;
  for (o.steps = 0; o.steps <= steps; ++o.steps) {
    all.push_back(elastic_world{o, with(stage::recovery::regroup{2})}.unsplit().evaluated);
  }
  return all;
}

template <class World>
void check_evaluations(World& w, const std::vector<double>& want, std::uint32_t hosts) {
  for (std::uint32_t h = 0; h < hosts; ++h) {
    INFO("host " << h << ": " << w.at(h).error);
    CHECK(w.at(h).error.empty());
    for (const auto& [step, loss] : w.at(h).evaluated) CHECK(loss == Approx(want[step]).epsilon(1e-5));
  }
}

TEST_CASE("elastic pipelines: evaluations are those of the unsplit model, on all peers", "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.hosts = 5;  // one is spare
  o.steps = 3;
  o.evaluations = 2;
  elastic_world w{o, with(stage::recovery::regroup{2})};
  w.boot();
  w.run();
  check_evaluations(w, unsplit_evaluations(o), o.hosts);
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    CHECK(w.at(h).evaluated.size() == o.steps + 1);
    CHECK(w.at(h).missed == 0);
  }
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

TEST_CASE("elastic pipelines: a peer killed at any call of an evaluation or a step costs neither",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.steps = 3;
  o.evaluations = 1;
  o.victim = 1;
  const auto whole = elastic_world{o, with(stage::recovery::regroup{2})}.unsplit();
  const auto want = unsplit_evaluations(o);
  o.dies_at = UINT64_MAX;
  elastic_world calm{o, with(stage::recovery::regroup{2})};
  calm.boot();
  calm.run();
  std::uint64_t missed = 0;
  for (std::uint64_t n = 75; n < calm.at(1).calls; n += 5) {
    CAPTURE(n);
    o.dies_at = n;
    elastic_world w{o, with(stage::recovery::regroup{2})};
    w.wanted = 3;
    w.boot();
    w.run();
    CHECK(w.finished() >= 3);
    check_evaluations(w, want, o.hosts);
    CHECK(w.distance(whole) < 5e-5);
    for (std::uint32_t h = 0; h < o.hosts; ++h) missed += w.at(h).missed;
  }
  CHECK(missed == 0);  // who did not hear the outcome is told
}

TEST_CASE("elastic pipelines: who comes while others evaluate misses it at most, and holds nobody up",
          "[parallel][elastic][fast]") {
  elastic_world_options o;
  o.late = {3};
  o.steps = 6;
  o.evaluations = 2;
  std::function<void()> come;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host == 0 && step == 2) come();
  };
  elastic_world w{o, with(stage::recovery::regroup{2})};
  come = [&] { w.boot(3); };
  w.boot();
  w.run();
  check_evaluations(w, unsplit_evaluations(o), o.hosts);
  CHECK(w.finished() == o.hosts);
  for (const std::uint32_t h : {0U, 1U, 2U}) CHECK(w.at(h).missed == 0);
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

}  // namespace

}  // namespace causeway
