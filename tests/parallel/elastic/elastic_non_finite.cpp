// SPDX-License-Identifier: Apache-2.0
// One peer of elastic pipelines comes to values that are not finite: the others lay them out without it, and it comes back.

#include <causeway/stage/recovery_redundant_forward.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::elastic_world, support::elastic_world_options, support::errors_of, support::with;

namespace {

/// Parameters of `victim` become not-a-numbers before that step, all of them or one in the middle.
elastic_world_options spoilt(std::uint32_t victim, std::uint64_t at, bool all) {
  elastic_world_options o;
  o.steps = 5;
  o.evaluations = 1;
  o.spoils = [=, done = false](std::uint32_t host, std::uint64_t step, parameter_store& store) mutable {
    if (host != victim || step != at || std::exchange(done, true)) return;
    const auto values = store.view().values;
    if (all) std::fill(values.begin(), values.end(), NAN);
    values[values.size() / 2] = NAN;
  };
  return o;
}

template <class Recovery>
void goes_on(const elastic_world_options& o, const Recovery& recovery) {
  elastic_world w{o, with(recovery)};
  w.boot();
  w.run(10min);
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  CHECK(w.distance(w.unsplit()) < 5e-5);
}

}  // namespace

TEST_CASE("elastic pipeline: a not-a-number on one peer costs an attempt, and its blocks come from others",
          "[parallel][elastic]") {
  for (const std::uint32_t victim : {0U, 1U, 3U}) {
    for (const bool all : {true, false}) {
      INFO("host " << victim << (all ? ", all parameters" : ", one parameter"));
      goes_on(spoilt(victim, 2, all), stage::recovery::regroup{2});  // two pipelines of two stages
    }
  }
}

TEST_CASE("elastic pipeline: a not-a-number with redundant computation", "[parallel][elastic]") {
  for (const std::uint32_t victim : {0U, 2U}) {
    INFO("host " << victim);
    goes_on(spoilt(victim, 2, true), stage::recovery::redundant_forward{4});
  }
}

TEST_CASE("elastic pipeline: what only the spoilt peer had is lost with it, and the run goes back to what is saved",
          "[parallel][elastic]") {
  elastic_world_options o = spoilt(1, 3, true);
  o.store_every = 2;
  o.evaluations = 0;
  elastic_world w{o, with(stage::recovery::regroup{4})};
  w.boot();
  w.run(10min);
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == o.hosts);
  CHECK(w.distance(w.unsplit()) < 5e-5);
  std::uint64_t back = 0;
  for (std::uint32_t h = 0; h < o.hosts; ++h) back += w.at(h).went_back;
  CHECK(back > 0);
}
