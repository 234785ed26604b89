// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_SIMULATED_RUNS_HPP
#define CAUSEWAY_TESTS_SUPPORT_SIMULATED_RUNS_HPP

// Training runs on the simulator, for policies whose result depends on when messages arrive: in virtual time that is always
// the same moment. With it goes what such a policy must show, whoever wrote it:
// - the same run twice gives the same bits at the same moments, and all peers end with the same parameters;
// - peers that are restored from what each of them saved at any step, also at different steps, go on and end alike;
// - when a peer is killed at any of its network operations, the others go on without it; when it was a hub, they come back
//   with an error that names it.
// Use: `support::check_asynchronous_policy([] { return my_policy{...}; }, {.hubs = {0}});` from a test case.

#include <causeway/sim/world.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/blocky.hpp"
#include "support/conformance.hpp"

namespace support {

using namespace std::chrono_literals;

struct simulated_options {
  std::uint32_t peers = 3;
  std::uint64_t steps = 8;
  std::vector<double> speeds{};    ///< of the peers; beyond the list 1
  causeway::duration step = 20ms;  ///< of a peer with speed 1
  causeway::duration latency = 3ms;
  double bytes_per_s = 125e6;
  float learning_rate = 0.05F;
  std::uint64_t warmup = 0;                 ///< steps of the schedule to that rate
  std::size_t tokens = 4;                   ///< of a batch
  std::vector<std::uint64_t> more_steps{};  ///< of the peers, on top of `steps`
  std::vector<std::uint32_t> hubs{0};       ///< whose loss the others do not survive
  std::vector<std::uint32_t> regions{};     ///< of the peers; 400 ms lie between two of them. None: all in one
};

/// What one peer has to show.
struct simulated_peer {
  std::vector<float> parameters;
  std::vector<saved_state> states;  ///< after the start, and after each step
  std::optional<causeway::error> error;
  bool started = false;
  bool finished = false;
  std::uint64_t rounds = 0;            ///< that it had committed by then
  std::uint64_t sent = 0;              ///< bytes, until it had taken its last step
  std::vector<std::uint64_t> sent_to;  ///< of messages, without what goes around them, by receiver: likewise
  causeway::time_point began;          ///< when all peers had met
  causeway::time_point trained;        ///< when it had taken its last step
};

struct simulated_run {
  std::vector<simulated_peer> peers;
  std::uint64_t history = 0;
};

/// A peer that is to be killed when it is about to begin its `operation`th network operation.
struct killing {
  std::uint32_t victim = UINT32_MAX;
  std::uint64_t operation = 0;
};

namespace detail {

/// Counts sends, receives and waits, and kills the process at one of them. A wait in the past only cancels, and may be that
/// of a destructor, in which a process cannot be killed.
class mortal_transport {
 public:
  mortal_transport(causeway::sim::transport below, causeway::sim::world& world, causeway::sim::process& process,
                   std::optional<std::uint64_t> last, std::vector<std::uint64_t>& sent_to)
      : below_{std::move(below)}, world_{&world}, process_{&process}, left_{last}, sent_to_{&sent_to} {}

  [[nodiscard]] causeway::net::peer_index self() const { return below_.self(); }
  [[nodiscard]] std::uint32_t size() const { return below_.size(); }
  causeway::net::operation send(causeway::net::peer_index to, const causeway::net::message_id& id,
                                std::span<const std::byte> bytes) {
    count();
    (*sent_to_)[to] += bytes.size();
    return below_.send(to, id, bytes);
  }
  causeway::net::operation receive(causeway::net::peer_index from, const causeway::net::message_id& id,
                                   std::span<std::byte> room) {
    count();
    return below_.receive(from, id, room);
  }
  causeway::result<std::size_t> wait(causeway::net::operation op, causeway::time_point deadline) {
    if (deadline > process_->now()) count();
    return below_.wait(op, deadline);
  }
  [[nodiscard]] bool done(causeway::net::operation op) const { return below_.done(op); }
  bool wait_any(std::span<const causeway::net::operation> ops, causeway::time_point deadline) {
    count();
    return below_.wait_any(ops, deadline);
  }
  [[nodiscard]] causeway::traffic stats() const { return below_.stats(); }

 private:
  void count() {
    if (!left_ || (*left_)-- != 0) return;
    world_->kill(process_->host());
    process_->sleep(1h);  // it does not come back
  }

  causeway::sim::transport below_;
  causeway::sim::world* world_;
  causeway::sim::process* process_;
  std::optional<std::uint64_t> left_;
  std::vector<std::uint64_t>* sent_to_;
};

}  // namespace detail

/// `Saves`: peers keep what they would write to a checkpoint after every step (which costs compile time).
template <class Inner, class M, class MakePolicy, bool Saves = false>
class simulated_runs {
 public:
  using policy_type = decltype(std::declval<const MakePolicy&>()());
  using trainer_type = causeway::trainer<trained_as<M>, Inner, policy_type>;

  simulated_runs(MakePolicy make, simulated_options options) : make_{std::move(make)}, options_{std::move(options)} {}

  /// Every peer runs from its state in `from` (none: the beginning) until it has taken its steps, finishes, and ends; or
  /// ends with its first error.
  simulated_run run(const std::vector<saved_state>& from = {}, killing k = {}) {
    simulated_run all;
    all.peers.resize(options_.peers);
    causeway::sim::world_options world_options;
    world_options.link.latency = options_.latency;
    world_options.link.bytes_per_s = options_.bytes_per_s;
    causeway::sim::world world{world_options};
    for (const std::uint32_t a : options_.regions) {
      for (const std::uint32_t b : options_.regions) {
        if (a != b) world.set_region_link(a, b, {.latency = std::chrono::milliseconds{400}});
      }
    }
    std::vector<causeway::sim::host_index> hosts;
    for (std::uint32_t p = 0; p < options_.peers; ++p) {
      hosts.push_back(world.add_host({.speed = p < options_.speeds.size() ? options_.speeds[p] : 1.0,
                                      .region = p < options_.regions.size() ? options_.regions[p] : 0}));
    }
    for (const auto host : hosts) {
      const auto last = host == k.victim ? std::optional{k.operation} : std::nullopt;
      world.boot(host, [&, host, last](causeway::sim::process& process) {
        auto transport = process.make_transport(hosts);
        if (!transport) throw std::runtime_error{transport.error().text()};
        process.sleep_till({1s});
        causeway::environment env;
        std::vector<std::uint64_t> sent_to(options_.peers);
        env.transport =
            causeway::net::any_transport{detail::mortal_transport{std::move(*transport), world, process, last, sent_to}};
        env.clock = process.clock();
        auto trainer = make_trainer(std::move(env));
        if constexpr (Saves) {
          if (!from.empty()) load(trainer, from[host]);
        }
        live(trainer, process, all.peers[host], sent_to);
      });
    }
    if (!world.run()) throw std::runtime_error{"some peer waits for ever"};
    all.history = world.history_hash();
    return all;
  }

 private:
  trainer_type make_trainer(causeway::environment env) {
    causeway::trainer_options options;
    options.learning_rate =
        causeway::optim::warmup_cosine{options_.learning_rate, options_.warmup, options_.warmup, 1.0F};  // constant then
    options.clip_norm = 0;
    return causeway::make_trainer(trained_as<M>{M{}}, std::move(env), options, make_(), Inner{});
  }

  void live(trainer_type& trainer, causeway::sim::process& process, simulated_peer& me,
            const std::vector<std::uint64_t>& sent_to) {
    const std::uint32_t peer = process.host();
    const std::uint64_t steps = options_.steps + (peer < options_.more_steps.size() ? options_.more_steps[peer] : 0);
    auto outcome = trainer.start();
    me.started = outcome.has_value();
    me.began = process.now();
    if (outcome) remember(trainer, me);
    while (outcome && trainer.context().step() < steps) {
      std::uint32_t sequences = 1;
      if constexpr (requires { trainer.comm().trigger().sequences(); }) sequences = trainer.comm().trigger().sequences();
      process.compute(options_.step * sequences);
      const auto tokens = tokens_of(peer, trainer.context().step(), options_.tokens * sequences);
      const auto report = trainer.step({tokens, tokens, sequences});
      if (report) {
        remember(trainer, me);
      } else {
        outcome = report.error();
      }
    }
    me.trained = process.now();
    me.rounds = trainer.context().round();
    me.sent = trainer.context().transport().stats().bytes_sent;
    me.sent_to = sent_to;
    if (outcome) outcome = trainer.finish();
    me.finished = outcome.has_value();
    if (!outcome) me.error = outcome.error();
    const auto values = trainer.model().parameters().values();
    me.parameters.assign(values.begin(), values.end());
  }

  static void remember(trainer_type& trainer, simulated_peer& me) {
    if constexpr (Saves) me.states.push_back(save(trainer));
  }

  MakePolicy make_;
  simulated_options options_;
};

/// How far blocky parameters are from those that minimise the loss of all tokens of `peers` peers in `steps` steps.
inline double distance_to_optimum(const std::vector<float>& parameters, std::uint32_t peers, std::uint64_t steps) {
  std::vector<double> best(parameters.size(), 0.0);
  double count = 0;
  for (std::uint32_t p = 0; p < peers; ++p) {
    for (std::uint64_t s = 0; s < steps; ++s) {
      for (const std::int32_t t : tokens_of(p, s)) {
        for (std::size_t i = 0; i < best.size(); ++i) best[i] += double(quadratic::centre(t, static_cast<std::int64_t>(i)));
        ++count;
      }
    }
  }
  double sum = 0;
  blocky shape;
  for (const auto& s : shape.parameters().segments()) {
    for (auto i = static_cast<std::size_t>(s.offset); i < static_cast<std::size_t>(s.offset + s.size()); ++i) {
      sum += (double(parameters[i]) - best[i] / count) * (double(parameters[i]) - best[i] / count);
    }
  }
  return std::sqrt(sum);
}

/// Everybody but `except` has finished, with the same bits.
inline void all_alike(const simulated_run& run, std::uint32_t except = UINT32_MAX) {
  const simulated_peer& first = run.peers[except == 0 ? 1 : 0];
  for (std::size_t p = 0; p < run.peers.size(); ++p) {
    if (p == except) continue;
    INFO("peer " << p << ": " << (run.peers[p].error ? run.peers[p].error->text() : ""));
    REQUIRE(run.peers[p].finished);
    CHECK(run.peers[p].parameters == first.parameters);
  }
}

/// `exact`: the policy waits for all peers in every exchange, so that a restored run is the same run.
template <class Inner = causeway::optim::adamw, class M = blocky, class MakePolicy>
void check_asynchronous_policy(MakePolicy make, simulated_options options = {}, bool exact = false) {
  simulated_runs<Inner, M, MakePolicy, true> runs{make, options};
  const simulated_run reference = runs.run();
  all_alike(reference);
  const simulated_run again = runs.run();
  CHECK(again.history == reference.history);
  CHECK(again.peers[0].parameters == reference.peers[0].parameters);

  for (std::uint64_t lag = 0; lag < 3; ++lag) {
    for (std::uint64_t stop = 0; stop <= options.steps; ++stop) {
      INFO("peers restored from their steps " << stop << ", each " << lag << " later than the one before");
      std::vector<saved_state> states;
      for (std::uint64_t p = 0; p < options.peers; ++p) {
        const auto& mine = reference.peers[p].states;
        const std::uint64_t behind = lag == 2 ? options.peers - 1 - p : lag * p;  // hubs ahead; hubs behind
        states.push_back(mine[std::min<std::uint64_t>(stop + behind, mine.size() - 1)]);
      }
      const simulated_run restored = runs.run(states);
      all_alike(restored);
      CHECK(restored.history == runs.run(states).history);
      if (exact && lag == 0) CHECK(restored.peers[0].parameters == reference.peers[0].parameters);
    }
  }

  for (std::uint32_t victim = 0; victim < options.peers; ++victim) {
    const bool is_hub = std::find(options.hubs.begin(), options.hubs.end(), victim) != options.hubs.end();
    for (std::uint64_t n = 0;; ++n) {
      INFO("peer " << victim << " is killed at its network operation " << n);
      const simulated_run broken = runs.run({}, {victim, n});
      if (broken.peers[victim].finished) break;  // n is past the end
      bool all_started = true;
      for (std::uint32_t p = 0; p < options.peers; ++p)
        all_started = all_started && (p == victim || broken.peers[p].started);
      if (is_hub || !all_started) {
        for (std::uint32_t p = 0; p < options.peers; ++p) {
          if (p == victim || broken.peers[p].finished) continue;
          REQUIRE(broken.peers[p].error);
          if (is_hub) CHECK(broken.peers[p].error->where.find("peer ") == 0);
        }
      } else {
        all_alike(broken, victim);
      }
    }
  }
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_SIMULATED_RUNS_HPP
