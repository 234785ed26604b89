// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_NETWORKS_HPP
#define CAUSEWAY_TESTS_SUPPORT_NETWORKS_HPP

// A policy whose exchanges wait for all peers gives the same bits whatever carries the messages: the in-process network,
// TCP on this machine, and the simulator with lines that are slow, jittery and lossy, between peers of unequal speed.

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/blocky.hpp"
#include "support/conformance.hpp"
#include "support/other_networks.hpp"

namespace support {

namespace detail {

/// Trains one peer to the end and gives its parameters.
template <class Inner, class M, class MakePolicy, class BeforeStep>
std::vector<float> trained(std::uint32_t peer, causeway::environment env, MakePolicy make, std::uint64_t steps,
                           BeforeStep before_step) {
  causeway::trainer_options options;
  options.learning_rate = causeway::optim::constant{0.05F};
  auto trainer = causeway::make_trainer(trained_as<M>{M{}}, std::move(env), options, make(), Inner{});
  const auto check = [](const auto& outcome) {
    if (!outcome) throw std::runtime_error{outcome.error().text()};
  };
  check(trainer.start());
  for (std::uint64_t s = 0; s < steps; ++s) {
    before_step();
    const auto tokens = tokens_of(peer, s);
    check(trainer.step({tokens, tokens, 1}));
  }
  check(trainer.finish());
  const auto values = trainer.model().parameters().values();
  return {values.begin(), values.end()};
}

}  // namespace detail

template <class Inner = causeway::optim::adamw, class M = blocky, class MakePolicy>
void check_networks(MakePolicy make, std::uint32_t peers = 4, std::uint64_t steps = 7) {
  using result_list = std::vector<std::vector<float>>;
  const auto nothing = [] {};

  result_list memory(peers);
  run_cluster(peers, [&](std::uint32_t p, causeway::environment env) {
    memory[p] = detail::trained<Inner, M>(p, std::move(env), make, steps, nothing);
  });

  result_list tcp(peers);
  run_over_tcp(peers, [&](std::uint32_t p, causeway::environment env) {
    tcp[p] = detail::trained<Inner, M>(p, std::move(env), make, steps, nothing);
  });

  result_list simulated(peers);
  std::vector<double> speeds;
  for (std::uint32_t p = 0; p < peers; ++p) speeds.push_back(1.0 + p);
  run_simulated(speeds, 11, [&](std::uint32_t p, causeway::environment env, causeway::sim::process& process) {
    const auto compute = [&] { process.compute(std::chrono::milliseconds{100}); };
    simulated[p] = detail::trained<Inner, M>(p, std::move(env), make, steps, compute);
  });

  const bool over_tcp = tcp == memory;
  const bool on_the_simulator = simulated == memory;
  CHECK(over_tcp);
  CHECK(on_the_simulator);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_NETWORKS_HPP
