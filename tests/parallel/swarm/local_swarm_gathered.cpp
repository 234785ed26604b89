// SPDX-License-Identifier: Apache-2.0
// Swarms with a policy that gathers gradients until all peers together have enough samples (DeDLOC).
#include <causeway/presets/compressed.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "parallel/swarm/local_swarm_cases.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// A batch has eight samples, so a round has three steps: 17 are more than two have.
constexpr std::uint64_t round_steps = 3;
struct dedloc {
  [[nodiscard]] static auto policy() { return make(presets::dedloc_options{.batch = 17}); }
};
using gathering = support::preset_rounds<dedloc>;

/// Two rounds, and two steps that are left over when the run ends. The whole model's gradient is clipped.
support::swarm_world_options eight_steps() {
  auto o = support::two_stages();
  o.steps = 8, o.clip_norm = 0.05F, o.rate = 0.5F;
  return o;
}

/// The whole model makes one step for all samples of a round.
support::named_parameters in_whole_rounds(const support::swarm_world_options& o) {
  const support::timed_job job{o.blocks_per_stage * static_cast<std::int64_t>(o.speeds.size())};
  auto model = job.make(nn::model_part{});
  thread_pool pool{1};
  optim::sgd inner;
  inner.reset(model.parameters().length());
  bool clips = false;
  for (std::uint64_t first = 0; first < o.steps; first += round_steps) {
    const std::uint64_t last = std::min(first + round_steps, o.steps);
    const auto g = model.parameters().gradients();
    std::fill(g.begin(), g.end(), 0.0F);
    for (std::uint64_t step = first; step < last; ++step) {
      const auto b = job.batch({.micro_batches = o.micro_batches, .seed = o.seed}, step);
      const auto scale = 1.0F / static_cast<float>(b.view().tokens() * static_cast<std::int64_t>(last - first));
      for (std::int64_t m = 0; m < o.micro_batches; ++m) {
        const batch piece = b.view().slice(m, 1);
        (void)model.forward_backward(piece.inputs, piece.targets, 1, scale, 0).value();
      }
    }
    double squares = 0;
    for (const float v : g) squares += double{v} * v;
    const auto norm = static_cast<float>(std::sqrt(squares));
    clips = clips || norm > o.clip_norm;
    if (norm > o.clip_norm) {
      for (float& v : g) v *= o.clip_norm / norm;
    }
    inner.step(pool, model.parameters().view(), {.learning_rate = o.rate});
    model.parameters().touch();
  }
  CHECK(clips);
  return support::parameters_of(model.parameters());
}

template <class Swarm>
void check_all(Swarm& swarm, const support::named_parameters& whole, std::uint32_t but = support::nobody) {
  stages_agree(swarm, but);
  const auto began = support::beginning();
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    if (h != but) CHECK(support::off(whole, swarm.at(h).parameters, began) < 1e-5);
  }
}

/// A peer of either stage is killed at every `every`th network call, and comes back or does not.
void comes_to_whole_rounds(const support::swarm_world_options& with, std::uint64_t every) {
  const auto whole = in_whole_rounds(with);
  for (const auto& [victim, back] : {std::pair{1U, causeway::duration{0s}}, std::pair{4U, causeway::duration{1500ms}}}) {
    auto o = with;
    o.victim = victim, o.back_after = back;
    const bool for_good = o.once_committed = back == 0s;
    const auto calls = support::calls_of_victim<support::local_swarm_of<gathering>>(o);
    for (std::uint64_t n = victim;; n = calls.after(n, every)) {
      INFO("host " << victim << " is killed at its network call " << n);
      o.dies_at = n;
      support::local_swarm_of<gathering> swarm{o};
      if (for_good) swarm.wanted = swarm.hosts() - 1;
      swarm.boot();
      swarm.run(2min);
      if (swarm.at(victim).calls <= n) break;  // it has outlived the run
      check_all(swarm, whole, for_good ? victim : support::nobody);
    }
  }
}

}  // namespace

TEST_CASE("local swarm gathered: the parameters are those of one step for all samples of a round", "[parallel][fast]") {
  const auto o = eight_steps();
  support::local_swarm_of<gathering> swarm{o};
  swarm.boot();
  swarm.run(2min);
  check_all(swarm, in_whole_rounds(o));
  CHECK(swarm.at(0).losses.size() == o.steps);
}

TEST_CASE("local swarm gathered: so they are whoever is killed", "[parallel][local_swarm]") {
  comes_to_whole_rounds(eight_steps(), 37);
}

TEST_CASE("local swarm gathered: and at every single network call", "[parallel][local_swarm][slow][every_call]") {
  auto o = eight_steps();
  o.steps = 6;
  comes_to_whole_rounds(o, 1);
}

TEST_CASE("local swarm gathered: a peer may come in every step of a round", "[parallel][local_swarm]") {
  for (std::size_t step = 1; step < 7; ++step) {
    INFO("it comes after step " << step);
    auto o = eight_steps();
    o.steps = 12, o.late = {5};
    support::local_swarm_of<gathering> swarm{o};
    swarm.boot();
    while (swarm.at(0).ends.size() < step)
      swarm.world().run_until(causeway::time_point{swarm.world().now().since_start + 10ms});
    swarm.boot(5);
    swarm.run(5min);
    check_all(swarm, in_whole_rounds(o));
  }
}

TEST_CASE("local swarm gathered: all are stopped in a round, and go on from disks and checkpoints",
          "[parallel][local_swarm]") {
  support::goes_on_from_checkpoints<gathering>(1e-5, eight_steps());
}
