// SPDX-License-Identifier: Apache-2.0
// Swarms whose peers take local steps, with policies whose rounds follow how far the whole model moves.
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"
#include "support/cluster.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// A round of two steps, then of four, with a rate that falls in each of them. In the first the whole model moves by 0.166,
/// its stages by 0.164 and 0.175: one of them would decide otherwise.
struct co_learning {
  [[nodiscard]] static auto policy() {
    return make(
        presets::co_learning_options{{.local_steps = 2, .most = 6, .factor = 2, .tolerance = 0.167, .cycle_end = 0.5F}});
  }
};
/// A fragment in every second step; which one goes by what moved most.
struct cocodc {
  [[nodiscard]] static auto policy() {
    return make(presets::cocodc_options{.local_steps = 8, .exchanges = 4, .blocks_in_fragment = 2, .overlap_steps = 1});
  }
};

/// Two peers have a half of every batch each.
struct in_halves {
  static constexpr std::size_t models = 2;
  static std::size_t of(std::uint64_t, std::uint32_t m) { return m / 4; }
};

/// What two peers that hold the whole model come to, with these halves.
template <class Options>
support::named_parameters of_whole_models(const support::swarm_world_options& o) {
  support::named_parameters named;
  std::mutex mutex;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    const support::timed_job job{o.blocks_per_stage * static_cast<std::int64_t>(o.speeds.size())};
    trainer_options to;
    to.learning_rate = optim::constant{o.rate};
    to.clip_norm = o.clip_norm;
    const std::int64_t half = o.micro_batches / 2;
    auto t = make_trainer(job.make(nn::model_part{}), std::move(env), to, Options::policy(), optim::sgd{},
                          parallel::data_parallel{{.micro_batches = half}});
    REQUIRE(t.start());
    for (std::uint64_t s = 0; s < o.steps; ++s) {
      const auto b = job.batch({.micro_batches = o.micro_batches, .seed = o.seed}, s);
      REQUIRE(t.step(b.view().slice(half * peer, half)));
    }
    REQUIRE(t.finish());
    const std::lock_guard lock{mutex};
    if (peer == 0) named = support::parameters_of(t.model().parameters());
  });
  return named;
}

template <class Options>
void comes_to_whole_models(std::uint64_t steps) {
  auto o = support::two_pairs();
  o.steps = steps;
  CHECK(support::off_by_hand<support::preset_rounds<Options>, in_halves>(o, of_whole_models<Options>(o)) < 1e-5);
}

/// A run of whole rounds, whichever policy says how long they are: 2, 4, 4 and 4 steps, or 2 for each fragment.
support::swarm_world_options whole_rounds(std::uint64_t steps = 14) {
  auto o = support::two_stages();
  o.local_steps = 6, o.steps = steps;
  return o;
}

/// All peers of a stage are lost together, and come back with their disks. How many network calls the victim made.
template <class Rounds>
std::uint64_t stages_decide_alike(support::swarm_world_options o, std::uint32_t stage) {
  o.die_with = {3 * stage + 1, 3 * stage + 2};
  o.back_after = 1500ms;
  support::round_notes notes;
  support::local_seat_of<Rounds>::notes = &notes;
  support::local_swarm_of<Rounds> swarm{o};
  swarm.boot();
  swarm.run(2min);
  support::local_seat_of<Rounds>::notes = nullptr;
  stages_agree(swarm);
  CHECK(notes.decided.size() > 1);
  for (const auto& [step, all] : notes.decided) {
    INFO("step " << step);
    CHECK(all.size() == 1);
  }
  return swarm.at(3 * stage).calls;
}

/// When the first of them passes `point` in the second exchange.
template <class Rounds>
void stages_decide_alike(std::uint32_t stage, std::string_view point) {
  INFO("stage " << stage << " is lost at " << point);
  auto o = whole_rounds(10);
  int exchanges = 0;
  bool died = false;
  o.dies_passing = [&](std::uint32_t host, std::string_view at) {
    if (host != 3 * stage) return false;
    if (at == "exchanged") ++exchanges;
    return exchanges == 2 && at == point && !std::exchange(died, true);
  };
  (void)stages_decide_alike<Rounds>(o, stage);
  CHECK(died);
}

/// At every `every`th network call of the first of them.
template <class Rounds>
void stages_decide_alike_whenever(std::uint64_t every, const support::swarm_world_options& with) {
  for (const std::uint32_t stage : {0U, 1U}) {
    auto o = with;
    o.victim = 3 * stage;
    const auto calls = support::calls_of_victim<support::local_swarm_of<Rounds>>(o);
    for (std::uint64_t n = 0;; n = calls.after(n, every)) {
      INFO("stage " << stage << " is lost at network call " << n);
      o.dies_at = n;
      if (stages_decide_alike<Rounds>(o, stage) <= n) break;
    }
  }
}

}  // namespace

TEST_CASE("local swarm: rounds grow by how much the whole model moves", "[parallel][fast]") {
  comes_to_whole_models<co_learning>(14);
}

// The run does not end in the step in which a fragment is applied: peers that come and go exchange what that moved since no
// more, fixed ones do.
TEST_CASE("local swarm: the fragment that has changed most in the whole model is next", "[parallel][fast]") {
  comes_to_whole_models<cocodc>(GENERATE(12U, 14U));
}

// Its sums are made again, of what each of its peers has moved since, and come to other numbers than others have heard.
TEMPLATE_TEST_CASE("local swarm: stages decide by the same numbers, whichever of them is lost behind the barrier",
                   "[parallel][local_swarm]", co_learning, cocodc) {
  for (const char* const point : {"exchanged", "before_store", "voted", "committed"}) {
    for (const std::uint32_t stage : {0U, 1U}) stages_decide_alike<support::preset_rounds<TestType>>(stage, point);
  }
}

TEMPLATE_TEST_CASE("local swarm: rounds that follow the model go on whoever is lost, and let others in",
                   "[parallel][local_swarm]", co_learning, cocodc) {
  using rounds = support::preset_rounds<TestType>;
  support::trains_through_losses<rounds>(0.3, whole_rounds(), 23);
  support::lets_newcomers_in<rounds>(18, whole_rounds());
  support::goes_on_from_checkpoints<rounds>(0.7, whole_rounds());
}

TEMPLATE_TEST_CASE("local swarm: and follow it whoever is lost at every single network call",
                   "[parallel][local_swarm][slow][every_call]", co_learning, cocodc) {
  support::trains_through_losses<support::preset_rounds<TestType>>(0.3, whole_rounds(6), 1);
}

TEMPLATE_TEST_CASE("local swarm: and decide alike whenever a whole stage is lost",
                   "[parallel][local_swarm][slow][every_call]", co_learning, cocodc) {
  stages_decide_alike_whenever<support::preset_rounds<TestType>>(1, whole_rounds(4));
}
