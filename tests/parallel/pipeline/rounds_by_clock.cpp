// SPDX-License-Identifier: Apache-2.0
// Rounds by the clock in pipelines, on virtual time: all stages of one go by its first stage's clock, as a peer that holds
// the whole model goes by its own.
#include <causeway/axis/every_seconds.hpp>

#include <causeway/optim/sgd.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/sim/world.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/pipelines.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// Two replicas, of which the first makes a step in 10 ms and the second in 20, until they have made 15 and 7.
struct clock_case {
  std::uint32_t ranks = 2;            ///< 1: whole models
  std::vector<double> clock_rates{};  ///< of the hosts
  std::vector<support::saved_state> from{};
};

/// What a peer has to show.
struct seen_peer {
  std::map<std::string, std::vector<float>> parameters;  ///< by name
  std::vector<std::uint64_t> steps_at;                   ///< how many it had made when each round was over
  std::vector<support::saved_state> states;              ///< after the start, and after each step
  std::vector<std::uint64_t> rounds;                     ///< that it had committed then
};

template <class Trainer>
void live(Trainer& t, sim::process& process, std::uint64_t replica, seen_peer& me) {
  support::detail::check(t.start());
  const auto remember = [&] {
    me.states.push_back(support::save(t));
    me.rounds.push_back(t.context().round());
    while (me.steps_at.size() < t.context().round()) me.steps_at.push_back(t.context().step());
  };
  remember();
  while (t.context().step() < (replica == 0 ? 15 : 7)) {
    process.compute(replica == 0 ? 10ms : 20ms);
    (void)support::detail::valued(t.step(support::token_batch{replica, t.context().step(), 4}.view()));
    remember();
  }
  support::detail::check(t.finish());
  support::detail::collect(t.model().parameters(), me.parameters);
}

template <class MakeComm>
std::vector<seen_peer> run(const MakeComm& comm, const clock_case& c) {
  const support::pipeline_case shape{.ranks = c.ranks, .replicas = 2, .micro_batches = 2, .sequences = 4};
  const auto o = support::small_gpt(2);
  std::vector<seen_peer> all(2 * c.ranks);
  sim::world world{{.link = {.latency = 10us}}};
  std::vector<sim::host_index> hosts;
  for (std::size_t p = 0; p < all.size(); ++p) hosts.push_back(world.add_host({}));
  for (std::size_t p = 0; p < c.clock_rates.size(); ++p) world.set_clock_rate(hosts[p], c.clock_rates[p]);
  for (const auto host : hosts) {
    world.boot(host, [&, host](sim::process& process) {
      environment env;
      auto lines = support::detail::valued(process.make_transport(hosts));
      env.transport = net::any_transport{std::move(*lines)};
      env.clock = process.clock();
      const auto lives = [&](auto trainer) {
        if (!c.from.empty()) support::load(trainer, c.from[host]);
        live(trainer, process, host / c.ranks, all[host]);
      };
      if (c.ranks > 1) {
        return lives(support::stage_trainer(o, shape, std::move(env), comm(), [](const parallel::pipeline_options& with) {
          return parallel::pipeline<>{with};
        }));
      }
      auto model = support::detail::valued(nn::gpt::create(o, kernels::cpu_backend{1}));
      lives(make_trainer(std::move(*model), std::move(env), support::trainer_options_for(shape), comm(), optim::adamw{},
                         parallel::data_parallel{{.micro_batches = 2}}));
    });
  }
  if (!world.run()) throw std::runtime_error{"some peer waits for ever"};
  return all;
}

constexpr auto a_edit = [] {
  return presets::make(presets::a_edit_options{.seconds = 0.035, .fewest_steps = 5, .warm_up = 2, .threshold = 1});
};
constexpr auto mean = [] {
  return comm::rounds{axis::every_seconds{{.seconds = 0.035, .fewest_steps = 5}}, axis::outer<optim::sgd>{1.0F},
                      axis::split_mean<>{}};
};
constexpr auto late = [] {
  return comm::rounds{axis::every_seconds{{.seconds = 0.035, .fewest_steps = 5}}, axis::one_round_late{},
                      axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = 0.9F}}}, axis::split_mean<>{}};
};
void of_rows(auto&& check) {
  SECTION("weighted by samples") { check(mean); }
  SECTION("a round late") { check(late); }
}
void of_all(auto&& check) {
  SECTION("A-EDiT") { check(a_edit); }
  of_rows(check);
}

}  // namespace

TEST_CASE("pipeline: pipelines that meet by the clock make of a model what peers make that hold all of it",
          "[parallel][fast]") {
  of_rows([](auto comm) {  // layers of A-EDiT, whose norms count, are others where a model is cut
    const auto whole = run(comm, {.ranks = 1});
    const auto cut = run(comm, {.ranks = 2});
    CHECK(whole[0].steps_at.size() >= 3);
    CHECK(whole[0].steps_at != whole[1].steps_at);
    for (std::size_t p = 0; p < cut.size(); ++p) {
      INFO("peer " << p);
      CHECK(cut[p].steps_at == whole[p / 2].steps_at);
      for (const auto& [name, values] : cut[p].parameters) CHECK((values == whole[0].parameters.at(name)));
    }
  });
}

TEST_CASE("pipeline: stages whose clocks run fast, or slowly, go by that of the first", "[parallel][fast]") {
  of_all([](auto comm) {
    const auto even = run(comm, {});
    const auto uneven = run(comm, {.clock_rates = {1, 1.8, 1, 0.4}});
    for (std::size_t p = 0; p < even.size(); ++p) {
      CHECK(even[p].steps_at.size() >= 3);
      CHECK(uneven[p].steps_at == even[p].steps_at);
      CHECK((uneven[p].parameters == even[p].parameters));
      CHECK((uneven[p].parameters == uneven[p % 2].parameters));
    }
  });
}

TEST_CASE("pipeline: pipelines that meet by the clock go on from any checkpoint with the same bits", "[parallel][fast]") {
  of_all([](auto comm) {
    const auto before = run(comm, {});
    // The quick one makes two steps while the other one makes one; they are stopped between two of the latter's.
    for (std::uint64_t slow = 0; slow <= 7; ++slow) {
      INFO("stopped after step " << slow << " of the slow one");
      clock_case c;
      for (std::size_t p = 0; p < before.size(); ++p) {
        const auto& of = before[p];
        std::size_t at = p < 2 ? 0 : slow;
        // Of the quick one the last step of the slow one's round, as many steps after its beginning as there was time for.
        if (p < 2) {
          const std::uint64_t round = before[2].rounds[slow];
          const std::uint64_t began = round == 0 ? 0 : of.steps_at[round - 1];
          const std::uint64_t slow_began = round == 0 ? 0 : before[2].steps_at[round - 1];
          at = began + 2 * (slow - slow_began);
          while (of.rounds[at] > round) --at;
        }
        c.from.push_back(of.states[at]);
      }
      const auto after = run(comm, c);
      for (std::size_t p = 0; p < before.size(); ++p) CHECK((after[p].parameters == before[p].parameters));
    }
  });
}
