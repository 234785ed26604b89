// SPDX-License-Identifier: Apache-2.0
// What redundant computation costs, and what it saves when a peer is lost, on virtual time: blocks take exactly what they
// are said to take.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/timed_pipelines.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

constexpr std::uint32_t stages = 4;
constexpr std::int64_t micro_batches = 8;
constexpr std::uint64_t steps = 4, watched = 2;  // of which the third step may lose a peer
constexpr double unit = 0.1;                     // seconds of a forward, and of each half of a backward
constexpr double backward = 2 * unit;

struct loss_of_a_peer {
  std::int64_t stage = 0;
  double after = 0;  ///< seconds from when its peer begins the step
};

struct watched_step {
  double seconds = 0;                          ///< as the last of those who are left sees it
  std::map<std::int64_t, double> computed;     ///< by stage: seconds of compute of its peer in that step
  std::map<std::int64_t, float> parameters;    ///< by block, after the last step
  std::map<std::uint64_t, double> losses;      ///< by step
  std::map<std::uint64_t, std::size_t> peers;  ///< assigned, by step
  std::uint64_t resumed = 0;
};

/// One pipeline; some of its peers die in the middle of a step.
template <class Recovery>
watched_step watch(const Recovery& recovery, const std::vector<loss_of_a_peer>& lost = {}, std::uint32_t spare = 0) {
  const std::uint32_t hosts = stages + spare;
  watched_step all;
  const auto live = [&](sim::world& world, sim::process& p, auto& t, net::peer_id id, const double& computed) {
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < micro_batches; ++i) tokens.push_back(i);
    while (t.context().step() < steps) {
      const auto* assignment = t.parallel().layout().find(id);
      const std::uint64_t step = t.context().step();
      const std::int64_t stage = assignment != nullptr ? assignment->computes.first : -1;
      for (const loss_of_a_peer& l : lost) {
        if (step != watched || l.stage != stage) continue;
        world.after(std::chrono::microseconds{static_cast<std::int64_t>(l.after * 1e6)},
                    [&world, h = p.host()] { world.kill(h); });
      }
      const double before = computed;
      const time_point begin = p.now();
      const auto report = t.step({tokens, tokens, micro_batches});
      if (!report) throw std::runtime_error{report.error().text()};
      all.losses[step + 1] = report->loss;
      all.peers[step + 1] = t.parallel().layout().assigned().size();
      if (step != watched) continue;
      all.seconds = std::max(all.seconds, seconds(p.now() - begin));
      all.computed[stage] = computed - before;
    }
    all.resumed += t.parallel().resumed_attempts();
    const auto* assignment = t.parallel().layout().find(id);
    for (std::int64_t b = 0; assignment != nullptr && b < stages; ++b) {
      if (!assignment->computes.size() || b < assignment->computes.first || b >= assignment->computes.last) continue;
      const auto segments = t.model().parameters().segments();
      for (std::size_t i = 0; i < segments.size(); ++i) {
        if (segments[i].block == b) all.parameters[b] = *t.model().parameters().value(i);
      }
    }
  };
  const auto wanted = static_cast<std::uint32_t>(hosts - lost.size());
  support::run_timed_pipelines({hosts, wanted, stages, micro_batches, unit}, recovery, live);
  return all;
}

using stage::recovery::redundant;
using stage::recovery::redundant_forward;
using stage::recovery::repeat_forwards;

}  // namespace

TEST_CASE("redundant forward in time: in idle time it costs nothing, all of it little", "[parallel][elastic][fast]") {
  const auto state = watch(redundant{stages});
  const auto idle = watch(redundant_forward{stages, repeat_forwards::in_idle_time});
  const auto all = watch(redundant_forward{stages});
  const double theory = (micro_batches + stages - 1) * (unit + backward);
  CAPTURE(theory, state.seconds, idle.seconds, all.seconds);
  CHECK(state.seconds >= theory);
  CHECK(idle.seconds <= theory * 1.001);
  CHECK(all.seconds <= theory + unit * 1.01);  // one forward did not fit
  const double own = micro_batches * (unit + backward);
  for (std::int64_t s = 0; s < stages; ++s) {
    CHECK(state.computed.at(s) == Approx(own));
    CHECK(idle.computed.at(s) >= own + (micro_batches - 1) * unit * 0.999);
    CHECK(all.computed.at(s) == Approx(own + micro_batches * unit));
  }
  for (const watched_step* w : {&state, &idle, &all}) {
    CHECK(w->resumed == 0);
    CHECK(w->parameters == state.parameters);
    CHECK(w->losses == state.losses);
  }
}

TEST_CASE("redundant forward in time: a step that loses a peer goes on, and nothing is computed twice",
          "[parallel][elastic][fast]") {
  const auto whole = watch(redundant_forward{stages});
  const std::int64_t lost = GENERATE(0, 1, 2, 3);
  double tried_again = 0, went_on = 0;
  for (const double after : {0.35, 1.0, 1.75, 2.5, 3.2}) {
    const auto again = watch(redundant{stages}, {{lost, after}});
    for (const auto repeat : {repeat_forwards::all, repeat_forwards::in_idle_time}) {
      CAPTURE(lost, after, repeat);
      const auto on = watch(redundant_forward{stages, repeat}, {{lost, after}});
      CHECK(on.resumed == stages - 1);
      CHECK(on.peers.at(watched + 1) == stages - 1);
      CHECK(on.losses == whole.losses);  // the bits of the undisturbed run, from the step of the loss on
      CHECK(on.parameters == whole.parameters);
      const std::int64_t shadow = (lost + stages - 1) % stages;
      for (const auto& [s, seconds] : on.computed) {
        const double own = micro_batches * (unit + backward), repeated = micro_batches * unit;
        // Each of its own once, its successor's forwards at most once; who takes over makes the backwards besides.
        CHECK(seconds <= (own + repeated + (s == shadow ? micro_batches * backward : 0)) * 1.001);
        CHECK(seconds >= (s == shadow ? 2 * own : own) * 0.999);
      }
      CHECK(on.seconds < again.seconds + (after < 1 ? 2 * unit : 0));
      if (repeat == repeat_forwards::all) tried_again += again.seconds, went_on += on.seconds;
    }
  }
  CAPTURE(lost, tried_again / 5, went_on / 5);
  CHECK(went_on < 0.82 * tried_again);
}

TEST_CASE("redundant forward in time: two peers that are not each other's shadow may be lost in one step",
          "[parallel][elastic][fast]") {
  const auto whole = watch(redundant_forward{stages});
  const double later = GENERATE(0.0, 0.6, 1.3, 2.9);
  const std::int64_t first = GENERATE(0, 1);
  CAPTURE(later, first);
  const auto on = watch(redundant_forward{stages}, {{first, 1.0}, {first + 2, 1.0 + later}}, 1);
  CHECK(on.resumed >= 2);
  CHECK(on.peers.at(watched + 1) == stages - 2);
  CHECK(on.losses == whole.losses);
  CHECK(on.parameters == whole.parameters);
}

}  // namespace causeway
