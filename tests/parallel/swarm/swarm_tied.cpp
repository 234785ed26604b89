// SPDX-License-Identifier: Apache-2.0
// A language model whose output layer is the token table, in whole simulated swarms: whoever is killed, and whenever, the
// run comes to the unsplit model, and both ends hold the same bits of the table after every step.
#include <causeway/parallel/swarm.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/parallel/tied_table.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "parallel/swarm/swarm_world.hpp"
#include "support/catch.hpp"
#include "support/swarm_gpt.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// The table as the peers of each end have it, by the step that left it so.
struct table_notes {
  std::map<std::uint64_t, std::set<std::vector<float>>> first, last;

  void note(std::uint64_t step, bool is_first, std::span<const float> table) {
    (is_first ? first : last)[step].emplace(table.begin(), table.end());
  }
  [[nodiscard]] bool equal() const {
    for (const auto& [step, bits] : first) {
      if (bits.size() != 1) return false;
      const auto other = last.find(step);
      if (other != last.end() && other->second != bits) return false;
    }
    return std::all_of(last.begin(), last.end(), [](const auto& l) { return l.second.size() == 1; });
  }
  /// Steps that both ends were seen after.
  [[nodiscard]] std::size_t steps() const {
    return static_cast<std::size_t>(
        std::count_if(first.begin(), first.end(), [this](const auto& f) { return last.contains(f.first); }));
  }
};

/// Sums in every step, and notes the table. A world runs in one thread.
struct noted_steps {
  static inline table_notes notes;

  template <class Codec, class Router, class Model, class Body>
  static result<void> take(support::swarm_seat seat, Router router, Model model, const support::swarm_schedule& s,
                           Body&& body) {
    const bool first = seat.options.stage == 0;
    const auto noted = [&](auto& trainer, auto& peer) {
      trainer.observe([&trainer, first](const step_report& r) {
        const auto table = parallel::table_in(trainer.model(), trainer.context().parameters());
        if (!table.empty()) notes.note(r.step, first, table);
      });
      return body(trainer, peer);
    };
    return support::take_seat<Codec>(std::move(seat), std::move(router), std::move(model), s, noted);
  }
};

template <bool tie>
struct large_table : support::gpt_job {
  [[nodiscard]] model_type make(nn::model_part part, const support::block_seconds& = {}) const {
    auto o = gpt_job::make({}).options();
    o.vocabulary = 5000;
    o.tie = tie;
    return model_type::create(o, kernels::cpu_backend{1}, std::move(part)).value();
  }
};

struct tied_llama_job : support::gpt_job {
  using model_type = nn::llama;
  [[nodiscard]] model_type make(nn::model_part part, const support::block_seconds& = {}) const {
    nn::llama_options o;
    o.layers = blocks, o.heads = 2, o.kv_heads = 1, o.width = 16, o.hidden = 24, o.context = 8, o.vocabulary = 29;
    o.tie = true;
    return model_type::create(o, kernels::cpu_backend{1}, std::move(part)).value();
  }
};

template <class Job = support::tied_gpt_job, class Codec = stage::plain>
using tied_swarm = support::swarm_world<stage::routing::least_load, Job, Codec, noted_steps>;

support::swarm_world_options stages_of(std::vector<std::vector<double>> speeds, std::uint64_t steps = 3) {
  support::swarm_world_options o{.speeds = std::move(speeds), .steps = steps, .blocks_per_stage = 1};
  o.rate = support::gpt_rate;
  o.clip_norm = support::gpt_clip_norm;
  return o;
}

template <class World>
void check_like_unsplit(World& swarm, std::uint32_t except = support::nobody, double most = 1e-5, double least = -1) {
  support::all_like_unsplit(swarm, except, most, least);
  CHECK(noted_steps::notes.equal());
}

/// Kills `victim`, with those others, at its network calls from, from + by, ...; all are started again after `back`, or
/// never (0).
void kill_at_every(support::swarm_world_options o, std::uint32_t victim, std::uint64_t from, std::uint64_t by,
                   const std::vector<std::uint32_t>& with = {}, duration back = 1500ms) {
  o.victim = victim;
  o.die_with = with;
  o.back_after = back;
  const bool for_good = o.once_committed = back == 0s;
  const auto calls = support::calls_of_victim<tied_swarm<>>(o);
  const auto want = tied_swarm<>{o}.unsplit();
  for (std::uint64_t n = from;; n = calls.after(n, by)) {
    INFO("host " << victim << " is killed at its network call " << n << ", with " << Catch::Detail::stringify(with));
    o.dies_at = n;
    noted_steps::notes = {};
    tied_swarm<> swarm{o};
    swarm.wanted = swarm.hosts() - (for_good ? 1 : 0);
    swarm.boot();
    swarm.run(2min);
    if (swarm.at(victim).calls <= n) return;  // it has outlived the run
    support::all_like(swarm, want, for_good ? victim : support::nobody, 1e-5);
    CHECK(noted_steps::notes.equal());
  }
}

}  // namespace

TEST_CASE("swarm: a GPT with a tied table learns what the unsplit one does, with the same table at both ends",
          "[parallel][fast]") {
  const auto speeds =
      GENERATE(std::vector<std::vector<double>>{{1, 1}, {1, 1}}, std::vector<std::vector<double>>{{1, 1}, {1, 1, 1}, {1}},
               std::vector<std::vector<double>>{{1}, {1, 1, 1}});
  noted_steps::notes = {};
  tied_swarm<> swarm{stages_of(speeds, 4)};
  swarm.boot();
  swarm.run(2min);
  check_like_unsplit(swarm);
  CHECK(noted_steps::notes.steps() == 4);
  const auto want = swarm.unsplit();
  for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
    for (std::size_t s = 0; s < 4; ++s) CHECK(swarm.at(h).losses.at(s) == Approx(want.losses[s]).epsilon(1e-5));
  }
  for (std::size_t m = 0; m < 8; ++m) CHECK(swarm.distance(0, swarm.unsplit(m)) > 1e-3);  // one less would show
}

TEST_CASE("swarm: a tied table crosses once a step to the last stage, and once to each peer of the first",
          "[parallel][fast]") {
  const auto bytes_of = [](auto&& swarm) {
    swarm.boot();
    swarm.run(2min);
    std::vector<std::uint64_t> all(3);
    for (std::uint32_t h = 0; h < swarm.hosts(); ++h) {
      REQUIRE(swarm.at(h).finished);
      all[h / 2] += swarm.at(h).bytes;
    }
    return all;
  };
  const auto o = stages_of({{1, 1}, {1, 1}, {1, 1}});
  const auto tied = bytes_of(tied_swarm<large_table<true>>{o}), untied = bytes_of(tied_swarm<large_table<false>>{o});
  const double table = 3 * 4.0 * 5000 * 16;  // bytes in three steps, in two pieces each
  CHECK(double(tied[0] - untied[0]) / table == Approx(1).epsilon(0.02));
  CHECK(double(tied[1] - untied[1]) / table == Approx(0).margin(0.02));
  // Bytes are counted when a peer has finished, and the last step's table is given after that.
  CHECK(double(tied[2] - untied[2]) / table == Approx(2 * 2. / 3).epsilon(0.02));
}

TEST_CASE("swarm: a Llama with a tied table, and one whose boundaries are crossed in 8 bits", "[parallel][fast]") {
  noted_steps::notes = {};
  tied_swarm<tied_llama_job> exact{stages_of({{1, 1}, {1, 1}, {1}}, 4)};
  exact.boot();
  exact.run(2min);
  check_like_unsplit(exact);
  CHECK(noted_steps::notes.steps() == 4);
  noted_steps::notes = {};
  tied_swarm<tied_llama_job, stage::coded<compress::block_int8>> coded{stages_of({{1, 1}, {1, 1}, {1}}, 4)};
  coded.boot();
  coded.run(2min);
  check_like_unsplit(coded, support::nobody, 5e-3, 1e-6);
  CHECK(noted_steps::notes.steps() == 4);
}

TEST_CASE("swarm: a tied table outlives any peer of either end, and is summed once", "[parallel][fast]") {
  const auto o = stages_of({{1, 1}, {1, 1}});
  for (const std::uint32_t victim : {0U, 1U, 2U, 3U}) kill_at_every(o, victim, 7 + victim, 29);
}

TEST_CASE("swarm: a tied table outlives either end, if its peers come back with their disks", "[parallel][fast]") {
  const auto o = stages_of({{1, 1}, {1, 1}});
  for (const std::uint32_t victim : {0U, 1U}) kill_at_every(o, victim, 11 + victim, 31, {1 - victim});
  for (const std::uint32_t victim : {2U, 3U}) kill_at_every(o, victim, 11 + victim, 31, {5 - victim});
}

TEST_CASE("swarm: a tied table with a stage between outlives peers that do not come back", "[parallel][fast]") {
  const auto o = stages_of({{1, 1, 1}, {1}, {1, 1, 1}});
  for (const std::uint32_t victim : {1U, 4U, 6U}) kill_at_every(o, victim, 0, 43, {}, 0s);
}

// With every call it takes three times as long.
TEST_CASE("swarm: a tied table outlives whoever is killed, all along its network calls", "[parallel][slow][every_call]") {
  const auto two = stages_of({{1, 1}, {1, 1}}), alone = stages_of({{1}, {1}, {1}});
  for (const std::uint32_t victim : {0U, 1U, 2U, 3U}) {
    kill_at_every(two, victim, victim % 2, 2);
    kill_at_every(two, victim, 0, 7, {victim ^ 1U});                            // its mate
    kill_at_every(two, victim, 1, 7, {victim ^ 2U});                            // one of the other end
    kill_at_every(two, victim, 2, 7, {victim ^ 1U, victim ^ 2U, victim ^ 3U});  // everybody
  }
  for (const std::uint32_t victim : {0U, 1U, 2U}) kill_at_every(alone, victim, victim % 2, 2);
  for (const std::uint32_t victim : {0U, 2U}) kill_at_every(alone, victim, 1, 3, {2 - victim});
  const auto three = stages_of({{1, 1, 1}, {1}, {1, 1, 1}});
  for (const std::uint32_t victim : {1U, 4U, 6U}) kill_at_every(three, victim, 0, 11, {}, 0s);
}
