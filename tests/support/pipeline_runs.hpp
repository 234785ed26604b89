// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_PIPELINE_RUNS_HPP
#define CAUSEWAY_TESTS_SUPPORT_PIPELINE_RUNS_HPP

// Pipelines of a fixed set of peers, stopped anywhere and broken anywhere: as support/conformance.hpp, for peers that hold
// stages.

#include <causeway/net/memory_transport.hpp>
#include <causeway/train/environment.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/pipelines.hpp"

namespace support {

/// `make(environment)` gives a peer's trainer.
template <class Make>
class pipeline_runs {
 public:
  using histories = std::vector<peer_history>;

  pipeline_runs(Make make, pipeline_case shape) : make_{std::move(make)}, shape_{shape} {}

  [[nodiscard]] std::uint32_t peers() const { return shape_.ranks * shape_.replicas; }

  /// One peer, from `from` until it has taken `until` steps; says what came of it.
  peer_history run_peer(causeway::environment env, const saved_state* from, std::uint64_t until) const {
    peer_history h;
    auto t = make_(std::move(env));
    if (from != nullptr) load(t, *from);
    auto outcome = t.start();
    const auto remember = [&] { h.rounds[t.context().step()] = save(t); };
    if (outcome) remember();
    while (outcome && t.context().step() < until) {
      const token_batch b{t.parallel().place().replica, t.context().step(), shape_.sequences};
      const auto report = t.step(b.view());
      if (!report) {
        outcome = report.error();
      } else {
        remember();
      }
    }
    if (outcome && until == shape_.steps) outcome = t.finish();
    h.finished = outcome.has_value();
    if (!outcome) h.error = outcome.error().text();
    const auto values = t.model().parameters().values();
    h.parameters.assign(values.begin(), values.end());
    return h;
  }

  histories run(causeway::net::memory_network& network, const std::vector<saved_state>& from, std::uint64_t until) const {
    histories all(peers());
    run_cluster(network, peers(), [&](std::uint32_t peer, causeway::environment env) {
      all[peer] = run_peer(std::move(env), from.empty() ? nullptr : &from[peer], until);
    });
    return all;
  }
  histories run(const std::vector<saved_state>& from, std::uint64_t until) const {
    causeway::net::memory_network network{peers()};
    return run(network, from, until);
  }
  histories run() const { return run({}, shape_.steps); }

  /// Stopped after any step, saved and loaded, they go on with the same bits.
  void check_stops() const {
    const auto reference = run();
    for (std::uint64_t stop = 0; stop < shape_.steps; ++stop) {
      INFO("stopped after step " << stop);
      std::vector<saved_state> states;
      for (const auto& h : run({}, stop)) states.push_back(h.rounds.rbegin()->second);
      same_end(reference, run(states, shape_.steps));
    }
  }

  /// Where `victim` is lost at any of its network operations, or at one of `every`, all peers come back, and go on from a
  /// common step with the same bits.
  void check_losses(std::uint32_t victim, std::uint64_t every = 1) const {
    const auto reference = run();
    for (std::uint64_t n = 0;; n += every) {
      INFO("peer " << victim << " is lost at its network operation " << n);
      causeway::net::memory_network network{peers()};
      network.kill_at(victim, n);
      const auto broken = run(network, {}, shape_.steps);
      if (std::all_of(broken.begin(), broken.end(), [](const auto& h) { return h.finished; })) break;  // n is past the end
      const auto step = common_round(broken);
      std::vector<saved_state> states;
      if (step) {
        for (const auto& h : broken) states.push_back(h.rounds.at(*step));
      }
      same_end(reference, run(states, shape_.steps));
    }
  }

 private:
  Make make_;
  pipeline_case shape_;
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_PIPELINE_RUNS_HPP
