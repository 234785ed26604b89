// SPDX-License-Identifier: Apache-2.0
// ctest:
// A cluster on virtual time, in one thread: six peers train with the code of a real run, lines break and peers die, and the
// same seed gives the same run, bit for bit.
// usage: 06_simulate [SEED]
#include <causeway/elastic.hpp>
#include <causeway/sim.hpp>
#include <causeway/train.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "several_peers.hpp"

using namespace causeway;
using namespace std::chrono_literals;

constexpr std::uint32_t hosts = 6;
constexpr std::uint64_t run_id = 7, per_step = 4, steps_per_round = 5, rounds = 12;

struct cluster {
  explicit cluster(std::uint64_t seed) : world{{.seed = seed, .link = {.latency = 40ms, .bytes_per_s = 2e6}}} {
    for (std::uint32_t i = 0; i < hosts; ++i) world.add_host({.speed = i == 5 ? 0.5 : 1.0});
  }

  result<void> live(sim::process& p) {
    const auto id = member_identity(p.storage(), "member", run_id, mix(run_id, p.host() + 1, p.incarnation()) | 1U);
    member_options o;
    o.protocol.run = run_id;
    o.protocol.expected = hosts;
    o.protocol.quota = per_step * steps_per_round;
    o.protocol.budget = hosts * per_step * steps_per_round * rounds;
    o.secret = mix(run_id, p.host(), p.incarnation());
    for (std::uint32_t i = 0; i < hosts && p.host() + p.incarnation() > 1; ++i) {  // the first one founds the run
      if (i != p.host()) o.dial.push_back(world.address(i));
    }
    o.journal = [this](const membership::event& e) { note(e); };
    CAUSEWAY_ASSIGN(auto group, member::make(p.make_fabric(id), p.storage(), o, p.log()));
    data::byte_tokenizer bytes;
    CAUSEWAY_ASSIGN(auto batches,
                    data::batcher::make(data::tokenize(bytes, counted_text()), {.context_length = 16}, per_step));
    const nn::gpt_options small{.layers = 1, .heads = 2, .width = 16, .context = 16, .vocabulary = 256};
    CAUSEWAY_ASSIGN(auto model, nn::gpt::create(small, kernels::cpu_backend{1}));
    environment env{.clock = p.clock(), .log = p.log(), .group = group};
    auto trainer = make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{1e-2F}},
                                comm::periodic<>{{.local_steps = steps_per_round}}, fault::quorum{});
    CAUSEWAY_TRY(trainer.start());
    for (;;) {
      CAUSEWAY_ASSIGN(const auto samples, trainer.draw(per_step));
      if (samples.empty()) break;  // all of the run's are trained
      p.compute(200ms);            // what a step takes on a host of speed 1
      CAUSEWAY_ASSIGN(const auto step, trainer.step(batches.of(samples)));
      loss[p.host()] = step.loss;
    }
    if (++ended == hosts) world.end_run();
    p.sleep(1h);  // helps those who are behind
    return {};
  }

  void note(const membership::event& e) {
    if (e.what != membership::event::commit || !states.try_emplace(e.round, e.hash).second) return;
    std::printf("%6.1f s  round %2llu, %zu members\n", seconds(e.at_time.since_start),
                static_cast<unsigned long long>(e.round), e.members.size());
  }

  void run() {
    for (std::uint32_t i = 0; i < hosts; ++i) {
      world.boot(i, [this](sim::process& p) {
        const auto outcome = live(p);
        if (!outcome) std::printf("host %u: %s\n", p.host(), outcome.error().text().c_str());
      });
    }
    world.at(time_point{6s}, [this] { world.kill(2); });                           // a process dies
    world.at(time_point{9s}, [this] { world.restart(2); });                        // and comes back
    world.at(time_point{11s}, [this] { world.partition({0, 1}, {2, 3, 4, 5}); });  // two are cut off, the leader too
    world.at(time_point{17s}, [this] { world.heal_all(); });
    world.run_until(time_point{10min});
  }

  std::map<std::uint64_t, std::uint64_t> states;  // of each round, the hash of the shared parameters
  std::map<std::uint32_t, double> loss;
  std::uint32_t ended = 0;
  sim::world world;  // last: its processes use the rest
};

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  cluster first{seed}, again{seed};
  first.run();
  std::puts("the same once more:");
  again.run();
  const bool same = first.states == again.states && first.world.history_hash() == again.world.history_hash();
  std::printf("%u of %u peers ended, loss %.3f; the second run is %s\n", first.ended, hosts, first.loss[0],
              same ? "the same" : "another");
  return first.ended == hosts && first.states.size() > 8 && first.loss[0] < 4 && same ? 0 : 1;  // log 256 is 5.5
}
