// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/local_swarm.hpp>

#include <causeway/optim/sgd.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"
#include "support/local_seat.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::all_like_unsplit, support::batch_set, support::nobody, support::stages_agree, support::three_stages;

namespace {

using sgd_swarm =
    support::swarm_world<stage::routing::least_load, support::timed_job, stage::plain, support::local_steps<optim::sgd>>;

support::swarm_world_options rounds_of(std::uint32_t local_steps, std::uint64_t steps) {
  support::swarm_world_options o = support::three_stages;
  o.local_steps = local_steps;
  o.steps = steps;
  return o;
}

/// The gradients of every micro-batch of the first round's steps alone, at the initial parameters: [micro-batch][block].
std::vector<std::vector<double>> first_gradients(const support::swarm_world_options& o) {
  const support::timed_job job{o.blocks_per_stage * static_cast<std::int64_t>(o.speeds.size())};
  auto model = job.make(nn::model_part{});
  std::vector<std::vector<double>> all;
  for (std::uint64_t step = 0; step < o.local_steps; ++step) {
    const auto b = job.batch({.micro_batches = o.micro_batches, .seed = o.seed}, step);
    for (std::int64_t m = 0; m < o.micro_batches; ++m) {
      auto g = model.parameters().gradients();
      std::fill(g.begin(), g.end(), 0.0F);
      const batch piece = b.view().slice(m, 1);
      (void)model.forward_backward(piece.inputs, piece.targets, 1, 1.0F / static_cast<float>(piece.tokens()), 0).value();
      auto& of = all.emplace_back();
      for (std::size_t i = 0; i < model.parameters().segments().size(); ++i) of.push_back(*model.parameters().gradient(i));
    }
  }
  return all;
}

/// A step on the micro-batches of `now` that are not in `before`.
void add_step(std::vector<double>& moved, const std::vector<std::vector<double>>& g, const batch_set& before,
              const batch_set& now) {
  const auto n = static_cast<double>(now.count() - before.count());
  for (std::uint32_t m = 0; m < now.size(); ++m) {
    if (!now.has(m) || before.has(m)) continue;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += g[m][i] / n;
  }
}

/// One round at a rate so small that gradients do not change within it: the outer step must be the weighted mean of what
/// peers say that they stepped on, and that must be every micro-batch once. Gives how far off the farthest block is, in
/// parts of what one micro-batch moves.
double first_round_is_off(sgd_swarm& swarm, const support::round_notes& notes, const support::swarm_world_options& o) {
  const auto g = first_gradients(o);
  double worst = 0;
  for (std::uint32_t stage = 0; stage < swarm.stages(); ++stage) {
    batch_set covered{static_cast<std::uint32_t>(g.size())};
    std::vector<double> mean(g[0].size(), 0.0);
    for (const batch_set& done : notes.put_in.at(stage)) {
      REQUIRE_FALSE(done.meets(covered));
      covered.unite(done);
      const auto who = std::find_if(notes.peers.begin(), notes.peers.end(),
                                    [&](const auto& p) { return p.stage == stage && p.offered == done; });
      REQUIRE(who != notes.peers.end());
      std::vector<double> moved(mean.size(), 0.0);
      batch_set before{done.size()};
      for (const batch_set& after : who->after) add_step(moved, g, std::exchange(before, after), after);
      add_step(moved, g, before, done);  // what was missing
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += moved[i] * done.count() / static_cast<double>(g.size());
    }
    REQUIRE(covered.count() == g.size());
    const std::uint32_t host = swarm.at(swarm.first(stage)).finished ? swarm.first(stage) : swarm.first(stage) + 1;
    for (const auto& [name, values] : swarm.at(host).parameters) {
      const auto block = static_cast<std::size_t>(std::stoi(name.substr(5)));
      const double begin = static_cast<double>(block % 3) * 0.25, moved = (begin - values[0]) / o.rate;
      worst = std::max(worst, std::abs(moved - mean[block]) / std::abs(mean[block]) * static_cast<double>(g.size()));
    }
  }
  return worst;
}

/// Kills `victim` at its network calls from, from + by, ...; started again after `back`, or never (0).
void kill_at_every(std::uint32_t victim, std::uint64_t from, std::uint64_t by, duration back,
                   const support::swarm_world_options& calm = rounds_of(3, 6)) {
  auto o = calm;
  o.victim = victim, o.back_after = back;
  const bool dies_for_good = o.once_committed = back == 0s;
  const auto calls = support::calls_of_victim<sgd_swarm>(o);
  for (std::uint64_t n = from;; n = calls.after(n, by)) {
    INFO("host " << victim << " is killed at its network call " << n);
    o.dies_at = n;
    sgd_swarm swarm{o};
    if (dies_for_good) swarm.wanted = swarm.hosts() - 1;
    swarm.boot();
    swarm.run(2min);
    if (swarm.at(victim).calls <= n) return;  // it has outlived the run
    stages_agree(swarm, dies_for_good ? victim : nobody);
  }
}

}  // namespace

TEST_CASE("local swarm: rounds of one step of SGD are the swarm's every-batch sum", "[parallel][fast]") {
  sgd_swarm swarm{rounds_of(1, 3)};
  swarm.boot();
  swarm.run(2min);
  all_like_unsplit(swarm);
  const auto want = swarm.unsplit();
  for (std::size_t s = 0; s < want.losses.size(); ++s) CHECK(swarm.at(0).losses[s] == Approx(want.losses[s]).epsilon(1e-6));
}

TEST_CASE("local swarm: with one peer a stage, rounds of any length are the unsplit model's steps", "[parallel][fast]") {
  auto o = rounds_of(3, 6);
  o.speeds = {{1}, {1}, {1}};
  sgd_swarm swarm{o};
  swarm.boot();
  swarm.run(2min);
  all_like_unsplit(swarm);
}

TEST_CASE("local swarm: rounds are as long as the communication policy has them, up to a bound", "[parallel][fast]") {
  for (const std::uint32_t most : {5U, 3U, 2U}) {
    auto o = rounds_of(3, 6);
    o.speeds = {{1}, {1}, {1}}, o.most_local_steps = most;
    sgd_swarm swarm{o};
    swarm.boot();
    swarm.run(2min);
    if (most < 3) {
      CHECK(swarm.at(0).error.find("has no exchange") != std::string::npos);
    } else {
      all_like_unsplit(swarm);
    }
  }
}

TEST_CASE("local swarm: the peers of a stage are equal after every round", "[parallel][fast]") {
  sgd_swarm swarm{rounds_of(3, 6)};
  swarm.boot();
  swarm.run(2min);
  stages_agree(swarm);
}

TEST_CASE("local swarm: the peers of a stage exchange in one of H steps what a swarm does in every one",
          "[parallel][fast]") {
  sgd_swarm local{rounds_of(3, 6)};
  local.boot();
  local.run(2min);
  auto o = three_stages;
  o.steps = 6;
  support::swarm_world<> every_step{o};
  every_step.boot();
  every_step.run(2min);
  for (std::uint32_t h = 0; h < local.hosts(); ++h) {
    CHECK(local.at(h).exchanged > 0);
    CHECK(every_step.at(h).exchanged == 3 * local.at(h).exchanged);
  }
}

TEST_CASE("local swarm: a peer that comes in the middle of a round starts from the last exchange and helps at once",
          "[parallel][fast]") {
  auto o = rounds_of(4, 12);
  o.micro_batches = 16, o.block_seconds = 0.02, o.late = {8};
  support::round_notes notes;
  support::local_steps<optim::sgd>::notes = &notes;
  sgd_swarm swarm{o};
  swarm.boot();
  while (swarm.at(0).ends.size() < 5) swarm.world().run_until(time_point{swarm.world().now().since_start + 10ms});
  swarm.boot(8);
  swarm.run(5min);
  support::local_steps<optim::sgd>::notes = nullptr;
  stages_agree(swarm);
  CHECK(swarm.at(8).ends.size() < 12);
  const auto& late = notes.peers.back();
  CHECK(late.stage == 2);
  CHECK(late.offered.count() > 0);
}

TEST_CASE("local swarm: from disks and checkpoints it goes on where the last exchange ended", "[parallel][fast]") {
  auto o = rounds_of(3, 6);
  o.speeds = {{1}, {1}, {1}}, o.block_seconds = 0.05;
  support::step_checkpoints saved{.after = 4, .by_peer = {}};
  support::local_steps<optim::sgd>::checkpoints = &saved;
  sgd_swarm swarm{o};
  swarm.boot();
  while (saved.by_peer.size() < 3) swarm.world().run_until(time_point{swarm.world().now().since_start + 1ms});
  for (std::uint32_t h = 0; h < 3; ++h) swarm.world().kill(h);
  for (std::uint32_t h = 0; h < 3; ++h) swarm.world().restart(h);
  swarm.run(2min);
  support::local_steps<optim::sgd>::checkpoints = nullptr;
  all_like_unsplit(swarm);
  for (std::uint32_t h = 0; h < 3; ++h) CHECK(swarm.at(h).ends.size() == 7);  // the fourth step twice
}

// The others take no further turn by which a stage that comes back would see that they are through.
TEST_CASE("local swarm: a stage that is lost whole in the run's last exchange ends it without its share",
          "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 1U, 2U}) {
    INFO("stage " << victim << " is lost");
    auto o = rounds_of(3, 6);
    o.speeds = {{1}, {1}, {1}}, o.back_after = 1500ms;
    int exchanges = 0;
    o.dies_passing = [&](std::uint32_t host, std::string_view at) {
      return host == victim && at == "exchanged" && ++exchanges == 2;
    };
    sgd_swarm swarm{o};
    swarm.boot();
    swarm.run(2min);
    CHECK(exchanges == 3);  // again, when it is back
    CHECK(swarm.finished() == 3);
  }
}

TEST_CASE("local swarm: whoever is killed in a local step or in an exchange, the round is made", "[parallel][fast]") {
  kill_at_every(0, 7, 149, 1500ms);
  kill_at_every(1, 0, 151, 0s);
  kill_at_every(4, 0, 127, 0s);
  kill_at_every(8, 0, 109, 0s);
}

// Others wait for its work meanwhile, unless it says that it has something else to do; who is silent counts as lost at
// once.
TEST_CASE("local swarm: a peer that comes back while a round ends holds nobody up", "[parallel][fast]") {
  for (const std::uint32_t victim : {0U, 4U, 8U}) {
    for (std::uint64_t n = 446; n < 790; n += 37) {
      auto o = rounds_of(3, 15);
      o.victim = victim, o.dies_at = n, o.back_after = 1500ms;
      CAPTURE(victim, n);
      sgd_swarm swarm{o};
      swarm.boot();
      swarm.run(2min);
      REQUIRE(swarm.finished() == swarm.hosts());
      CHECK(support::longest_pause(swarm.at(3).ends) < 4s);
    }
  }
}

TEST_CASE("local swarm: what is stepped on is what counts, each micro-batch once, also what a lost peer had",
          "[parallel][fast]") {
  auto o = rounds_of(3, 3);
  o.rate = 1e-3F;
  std::size_t again = 0;
  for (std::uint64_t n = 0; n < 700; n += n == 0 ? 120 : 71) {  // 0: nobody is killed
    o.victim = n == 0 ? nobody : 1, o.dies_at = n, o.back_after = 1500ms;
    support::round_notes notes;
    support::local_steps<optim::sgd>::notes = &notes;
    sgd_swarm swarm{o};
    swarm.boot();
    swarm.run(2min);
    support::local_steps<optim::sgd>::notes = nullptr;
    INFO("killed at its network call " << n);
    stages_agree(swarm);
    CHECK(first_round_is_off(swarm, notes, o) < 0.2);
    for (const auto& p : notes.peers) again += p.after.size() == 3 && p.offered.count() > p.after[2].count() ? 1 : 0;
  }
  CHECK(again > 0);  // in some of these runs, micro-batches were computed again
}

TEST_CASE("local swarm: whoever is killed at any of its network calls and comes back",
          "[parallel][local_swarm][slow][every_call]") {
  auto o = rounds_of(2, 4);  // a step that ends a round and one that does not, in the first round and another
  o.micro_batches = 6;       // two for each peer of a stage
  for (const std::uint32_t victim : {0U, 1U, 2U, 4U, 8U}) kill_at_every(victim, 0, 1, 1500ms, o);
  for (const std::uint32_t victim : {1U, 2U, 4U, 8U}) kill_at_every(victim, 0, 1, 0s, o);
}
