// SPDX-License-Identifier: Apache-2.0
// What a replica that takes steps of its own computes when one of its peers is lost in the middle of a step, on virtual
// time: blocks take exactly what they are said to take.
#include <causeway/parallel/elastic/kept_replica_step.hpp>

#include <causeway/parallel/local_pipeline.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "parallel/elastic/timed_pipelines.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

constexpr std::uint32_t stages = 4;
constexpr std::int64_t micro_batches = 8;
constexpr std::uint32_t of_round = 3;
constexpr std::uint64_t steps = 9, watched = 4;  // in the middle of the second round
constexpr double unit = 0.1;                     // seconds of a forward, and of each half of a backward
constexpr double backward = 2 * unit;

struct watched_run {
  double seconds = 0;                                          ///< of the watched step
  std::map<std::uint64_t, std::map<std::int64_t, double>> of;  ///< by step, stage: seconds of compute of its peer
  std::map<std::int64_t, float> parameters;                    ///< by block, after the last step
  std::map<std::uint64_t, double> losses;                      ///< by step
  std::uint64_t given_up = 0;
};

/// One pipeline, whose peer of stage `lost` dies in the watched step, `after` so many seconds. -1: nobody does.
template <class Recovery>
watched_run watch(const Recovery& recovery, std::int64_t lost = -1, double after = 0) {
  watched_run all;
  const auto live = [&](sim::world& world, sim::process& p, auto& t, net::peer_id id, const double& computed) {
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < micro_batches; ++i) tokens.push_back(i);
    while (t.context().step() < steps) {
      const auto* assignment = t.parallel().layout().find(id);
      const std::uint64_t step = t.context().step();
      const std::int64_t stage = assignment != nullptr ? assignment->computes.first : -1;
      if (step == watched && lost >= 0 && stage == lost) {
        world.after(std::chrono::microseconds{static_cast<std::int64_t>(after * 1e6)},
                    [&world, h = p.host()] { world.kill(h); });
      }
      const double before = computed;
      const time_point begin = p.now();
      const auto report = t.step({tokens, tokens, micro_batches});
      if (!report) throw std::runtime_error{report.error().text()};
      all.losses[step] = report->loss;
      all.of[step][stage] = computed - before;
      if (step == watched) all.seconds = std::max(all.seconds, seconds(p.now() - begin));
    }
    all.given_up += t.parallel().given_up_steps();
    const auto segments = t.model().parameters().segments();
    for (std::size_t i = 0; i < segments.size(); ++i) all.parameters[segments[i].block] = *t.model().parameters().value(i);
  };
  const auto pipelines_of = [&] {
    return parallel::local_pipeline<Recovery>{{.micro_batches = micro_batches, .steps = steps}, recovery};
  };
  const auto comm_of = [] { return presets::make(presets::diloco_options{.local_steps = of_round}); };
  support::run_timed_pipelines({stages, lost < 0 ? stages : stages - 1, stages, micro_batches, unit}, comm_of, pipelines_of,
                               live);
  return all;
}

using stage::recovery::redundant;
using stage::recovery::redundant_forward;
using stage::recovery::repeat_forwards;

}  // namespace

TEST_CASE("kept replica step: one that loses a peer goes on, and nothing is computed twice", "[parallel][elastic][fast]") {
  const auto whole = watch(redundant_forward{stages});
  CHECK(whole.parameters.size() == stages);
  CHECK(watch(redundant{stages}).parameters == whole.parameters);
  const double own = micro_batches * (unit + backward), repeated = micro_batches * unit;
  const std::int64_t lost = GENERATE(0, 1, 2, 3);
  const std::int64_t shadow = (lost + stages - 1) % stages;
  double tried_again = 0, went_on = 0;
  for (const double after : {0.35, 1.0, 1.75, 2.5, 3.2}) {
    tried_again += watch(redundant{stages}, lost, after).seconds;
    for (const auto repeat : {repeat_forwards::all, repeat_forwards::in_idle_time}) {
      CAPTURE(lost, after, repeat);
      const auto on = watch(redundant_forward{stages, repeat}, lost, after);
      CHECK(on.given_up == 0);
      CHECK(on.losses == whole.losses);  // the bits of the undisturbed run
      CHECK(on.parameters == whole.parameters);
      for (const auto& [s, seconds] : on.of.at(watched)) {
        // Each of its own once, its successor's forwards at most once; who takes over makes the backwards besides.
        CHECK(seconds <= (own + repeated + (s == shadow ? micro_batches * backward : 0)) * 1.001);
        CHECK(seconds >= (s == shadow ? 2 * own : own) * 0.999);
      }
      CHECK(on.of.at(watched + 1).at(shadow) == Approx(2 * own));  // until the round is over
      if (repeat == repeat_forwards::all) went_on += on.seconds;
    }
  }
  CAPTURE(lost, tried_again / 5, went_on / 5);
  CHECK(went_on < 0.9 * tried_again);
}

}  // namespace causeway
