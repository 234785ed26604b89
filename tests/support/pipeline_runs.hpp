// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_PIPELINE_RUNS_HPP
#define CAUSEWAY_TESTS_SUPPORT_PIPELINE_RUNS_HPP

// Pipelines of a fixed set of peers, stopped anywhere and broken anywhere: as support/conformance.hpp, for peers that hold
// stages.

#include <causeway/net/memory_transport.hpp>
#include <causeway/train/environment.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/pipelines.hpp"

namespace support {

class pipeline_runs {
 public:
  using histories = std::vector<peer_history>;
  using make_trainer = trainer_runs::make_trainer;

  /// `make(environment)` gives a peer's trainer. Peers go on from a common step, or from the beginning of a common round,
  /// where they have not all made the same steps.
  template <class Make>
  pipeline_runs(Make make, pipeline_case shape, bool by_rounds = false)
      : make_{held<Make>{std::move(make)}}, shape_{shape}, by_rounds_{by_rounds} {}

  [[nodiscard]] std::uint32_t peers() const { return shape_.ranks * shape_.replicas; }

  /// One peer, from `from` until it has taken `until` steps; says what came of it.
  peer_history run_peer(causeway::environment env, const saved_state* from, std::uint64_t until) const {
    const auto place = causeway::parallel::place_in({.ranks = shape_.ranks}, env.transport.self(), env.transport.size());
    peer_history h;
    const auto t = make_(std::move(env));
    if (from != nullptr) t->load(*from);
    auto outcome = t->start();
    const auto remember = [&] {
      const std::uint64_t at = by_rounds_ ? t->rounds() : t->steps();
      if (!h.rounds.contains(at)) h.rounds[at] = t->save();
    };
    if (outcome) remember();
    while (outcome && t->steps() < until) {
      outcome = t->step(token_batch{place->replica, t->steps(), shape_.sequences}.view());
      if (outcome) remember();
    }
    if (outcome && until == shape_.steps) outcome = t->finish();
    h.finished = outcome.has_value();
    if (!outcome) h.error = outcome.error().text();
    h.step = t->steps();
    h.parameters.assign(t->parameters().begin(), t->parameters().end());
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

  /// Where `victim` is lost at any of its network operations, or from `first` on at one of `every`, all peers come back,
  /// and go on from a common step with the same bits.
  void check_losses(std::uint32_t victim, std::uint64_t every = 1, std::uint64_t first = 0) const {
    const auto reference = run();
    for_each_loss(victim, every, first,
                  [&](const std::vector<saved_state>& from) { same_end(reference, run(from, shape_.steps)); });
  }

  /// The same for pipelines whose micro-batches in flight are not saved: they go on with the same bits whenever they go on
  /// from there, and who ended with the same parameters does so again.
  void check_losses_in_flight(std::uint32_t victim, std::uint64_t every = 1, std::uint64_t first = 0) const {
    const auto reference = run();
    for_each_loss(victim, every, first, [&](const std::vector<saved_state>& from) {
      const auto resumed = run(from, shape_.steps);
      same_end(from.empty() ? reference : run(from, shape_.steps), resumed);
      for (std::size_t peer = shape_.ranks; peer < resumed.size(); ++peer) {
        const bool alike = reference[peer].parameters == reference[peer - shape_.ranks].parameters;
        CHECK(alike == (resumed[peer].parameters == resumed[peer - shape_.ranks].parameters));
      }
    });
  }

  /// The same where it follows from who is quicker what peers exchange: they go on, and end with the same parameters as the
  /// other peers of their stage.
  void check_losses_out_of_step(std::uint32_t victim, std::uint64_t every = 1, std::uint64_t first = 0) const {
    for_each_loss(victim, every, first, [&](const std::vector<saved_state>& from) {
      const auto resumed = run(from, shape_.steps);
      for (std::size_t peer = 0; peer < resumed.size(); ++peer) {
        INFO("peer " << peer << ": " << resumed[peer].error);
        REQUIRE(resumed[peer].finished);
        CHECK((resumed[peer].parameters == resumed[peer % shape_.ranks].parameters));
      }
    });
  }

 private:
  template <class Make>
  struct held {
    Make make;
    std::unique_ptr<tested_trainer> operator()(causeway::environment env) const {
      const auto whole = [&] { return make(std::move(env)); };
      return std::unique_ptr<tested_trainer>{new held_tested_trainer<decltype(whole())>{whole}};
    }
  };

  // `goes_on(states)`: of the newest step, or round, that all hold; none: the beginning. Not again with those that it had
  // last.
  template <class GoesOn>
  void for_each_loss(std::uint32_t victim, std::uint64_t every, std::uint64_t first, GoesOn&& goes_on) const {
    std::optional<std::vector<saved_state>> tried;
    for (std::uint64_t n = first;; n += every) {
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
      if (tried != states) goes_on(states);
      tried = std::move(states);
    }
  }

  make_trainer make_;
  pipeline_case shape_;
  bool by_rounds_;
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_PIPELINE_RUNS_HPP
