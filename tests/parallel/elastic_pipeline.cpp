// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic_pipeline.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "elastic_world.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

using support::elastic_world;
using support::elastic_world_options;
using support::with;

TEST_CASE("elastic pipelines: with peers that stay, the losses and parameters of the unsplit model", "[parallel][fast]") {
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

TEST_CASE("elastic pipelines: a peer killed at any network call costs nothing that was committed", "[parallel][fast]") {
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

TEST_CASE("elastic pipelines: a peer that comes late makes another pipeline possible", "[parallel][fast]") {
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

TEST_CASE("elastic pipelines: without anybody who has a block the run waits for one who has it", "[parallel][fast]") {
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

}  // namespace
}  // namespace causeway
