// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_CONFORMANCE_HPP
#define CAUSEWAY_TESTS_SUPPORT_CONFORMANCE_HPP

// What every communication policy must show, whoever wrote it:
// - the same run twice gives the same bits;
// - stopping at any step, saving, loading and going on gives the bits of the run that did not stop;
// - when any one network operation of any peer fails for good, every peer comes back with an error instead of hanging, and
//   resuming all peers from the newest round that all of them hold gives the bits of the run without a failure.
// Use: `support::check_communication_policy([] { return my_policy{...}; });` from a test case.

#include <causeway/io/archive.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/train/checkpoint.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/quadratic.hpp"

namespace support {

struct conformance_options {
  std::uint32_t peers = 3;
  std::uint64_t steps = 7;
};

/// Everything that a peer would write to its checkpoint, as one verified file in memory.
using saved_state = std::vector<std::byte>;

template <class Trainer>
saved_state save(Trainer& trainer) {
  saved_state bytes;
  const auto sections = causeway::save_state(trainer, causeway::io::cereal_archiver{});
  if (!sections) throw std::runtime_error{sections.error().text()};
  const auto sink = [&](std::span<const std::byte> part) -> causeway::result<void> {
    bytes.insert(bytes.end(), part.begin(), part.end());
    return {};
  };
  const auto written = causeway::io::write_sections(sink, {}, *sections);
  if (!written) throw std::runtime_error{written.error().text()};
  return bytes;
}

template <class Trainer>
void load(Trainer& trainer, const saved_state& bytes) {
  const auto file = causeway::io::section_file::parse(bytes, "memory");
  if (!file) throw std::runtime_error{file.error().text()};
  const auto outcome = causeway::restore_state(trainer, *file, causeway::io::cereal_archiver{});
  if (!outcome) throw std::runtime_error{outcome.error().text()};
}

/// What one peer has to show after (part of) a run.
struct peer_history {
  std::vector<float> parameters;
  std::map<std::uint64_t, saved_state> rounds;  ///< newest state of every round held
  std::uint64_t step = 0;
  bool finished = false;
  std::string error;
  bool resumable = true;  ///< the state after an error is one that can be saved
};

template <class Inner, class MakePolicy, class M = quadratic>
class policy_runs {
 public:
  policy_runs(MakePolicy make, conformance_options options) : make_{make}, options_{options} {}

  using trainer_type = causeway::trainer<M, Inner, decltype(std::declval<MakePolicy>()())>;

  /// Every peer runs from its state in `from` (none: the beginning) until it has taken `until` steps, or fails.
  std::vector<peer_history> run(causeway::net::memory_network& network, const std::vector<saved_state>& from,
                                std::uint64_t until, bool finish) {
    std::vector<peer_history> history(options_.peers);
    run_cluster(network, options_.peers, [&](std::uint32_t peer, causeway::environment env) {
      trainer_type trainer = make_trainer(std::move(env));
      if (!from.empty()) load(trainer, from[peer]);
      run_peer(trainer, peer, until, finish, history[peer]);
    });
    return history;
  }

  std::vector<peer_history> run(const std::vector<saved_state>& from, std::uint64_t until, bool finish) {
    causeway::net::memory_network network{options_.peers};
    return run(network, from, until, finish);
  }

 private:
  trainer_type make_trainer(causeway::environment env) {
    causeway::trainer_options options;
    options.learning_rate = causeway::optim::constant{0.05F};
    return causeway::make_trainer(M{}, std::move(env), options, make_(), Inner{});
  }

  void run_peer(trainer_type& trainer, std::uint32_t peer, std::uint64_t until, bool finish, peer_history& h) {
    auto outcome = trainer.start();
    const auto remember = [&] { h.rounds[trainer.context().round()] = save(trainer); };
    if (outcome) remember();
    while (outcome && trainer.context().step() < until) {
      const auto tokens = tokens_of(peer, trainer.context().step());
      const auto report = trainer.step({tokens, tokens, 1});
      if (!report) {
        outcome = report.error();
      } else {
        remember();
      }
    }
    if (outcome && finish) outcome = trainer.finish();
    h.finished = outcome.has_value();
    if (!outcome) h.error = outcome.error().text();
    if (h.finished) remember();
    h.step = trainer.context().step();
    const auto values = trainer.model().parameters().values();
    h.parameters.assign(values.begin(), values.end());
  }

  MakePolicy make_;
  conformance_options options_;
};

/// The newest round that all peers hold, if there is one.
inline std::optional<std::uint64_t> common_round(const std::vector<peer_history>& history) {
  for (auto it = history[0].rounds.rbegin(); it != history[0].rounds.rend(); ++it) {
    const auto holds = [&](const peer_history& h) { return h.rounds.contains(it->first); };
    if (std::all_of(history.begin(), history.end(), holds)) return it->first;
  }
  return std::nullopt;
}

inline void same_end(const std::vector<peer_history>& a, const std::vector<peer_history>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO("peer " << i << ": " << a[i].error << b[i].error);
    REQUIRE(a[i].finished);
    REQUIRE(b[i].finished);
    const bool same = a[i].parameters == b[i].parameters;  // the values would fill the screen
    CHECK(same);
  }
}

template <class Inner = causeway::optim::adamw, class M = quadratic, class MakePolicy>
void check_communication_policy(MakePolicy make, conformance_options options = {}) {
  policy_runs<Inner, MakePolicy, M> runs{make, options};
  const auto reference = runs.run({}, options.steps, true);
  same_end(reference, runs.run({}, options.steps, true));

  for (std::uint64_t stop = 0; stop <= options.steps; ++stop) {
    INFO("stopped after step " << stop);
    const auto first = runs.run({}, stop, false);
    std::vector<saved_state> states;
    for (const auto& h : first) states.push_back(h.rounds.rbegin()->second);
    same_end(reference, runs.run(states, options.steps, true));
  }

  for (std::uint32_t victim = 0; victim < options.peers; ++victim) {
    for (std::uint64_t n = 0;; ++n) {
      INFO("peer " << victim << " is lost at its network operation " << n);
      causeway::net::memory_network network{options.peers};
      network.kill_at(victim, n);
      const auto broken = runs.run(network, {}, options.steps, true);
      if (std::all_of(broken.begin(), broken.end(), [](const auto& h) { return h.finished; })) break;  // n is past the end
      const auto round = common_round(broken);
      std::vector<saved_state> states;
      if (round) {
        for (const auto& h : broken) states.push_back(h.rounds.at(*round));
      }
      same_end(reference, runs.run(states, options.steps, true));
    }
  }
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_CONFORMANCE_HPP
