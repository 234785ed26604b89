// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_CONFORMANCE_HPP
#define CAUSEWAY_TESTS_SUPPORT_CONFORMANCE_HPP

// What every policy must show, whoever wrote it:
// - the same run twice gives the same bits;
// - stopping at any step, saving, loading and going on gives the bits of the run that did not stop;
// - when any one network operation of any peer fails for good, every peer comes back with an error instead of hanging, and
//   resuming all peers from the newest round that all of them hold gives the bits of the run without a failure.
// A parallelism policy besides: it adds to the gradients, its loss is the mean that it gives without gradients, and the
// parameters are those of data parallelism but for the order of sums. A fault policy: it commits what succeeded.
// Use, from a test case: `support::check_communication_policy([] { return my_policy{...}; });`, and likewise
// `check_parallelism_policy` and `check_fault_policy`, for policies with a fixed set of peers.

#include <causeway/comm/every_step.hpp>
#include <causeway/io/archive.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/train/checkpoint.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/quadratic.hpp"

namespace support {

struct conformance_options {
  std::uint32_t peers = 3;
  std::uint64_t steps = 7;
  std::int64_t sequences = 1;  ///< in each batch
};

/// Everything that a peer would write to its checkpoint, as one verified file in memory.
using saved_state = std::vector<std::byte>;

template <class Trainer>
saved_state save(Trainer& trainer) {
  saved_state bytes;
  const auto sections = causeway::save_state(trainer, causeway::io::archiver{});
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
  const auto outcome = causeway::restore_state(trainer, *file, causeway::io::archiver{});
  if (!outcome) throw std::runtime_error{outcome.error().text()};
}

/// What one peer has to show after (part of) a run.
struct peer_history {
  std::vector<float> parameters;
  std::map<std::uint64_t, saved_state> rounds;  ///< newest state of every round held
  std::uint64_t step = 0;
  bool finished = false;
  std::string error;
};

/// What the suite asks of a trainer, whatever its policies: so that the suite is compiled once for all of them.
class tested_trainer {
 public:
  tested_trainer() = default;
  tested_trainer(const tested_trainer&) = delete;
  tested_trainer& operator=(const tested_trainer&) = delete;
  virtual ~tested_trainer() = default;

  virtual causeway::result<void> start() = 0;
  virtual causeway::result<void> step(const causeway::batch& b) = 0;
  virtual causeway::result<void> finish() = 0;
  virtual std::uint64_t steps() = 0;
  virtual std::uint64_t rounds() = 0;
  virtual std::span<const float> parameters() = 0;
  virtual saved_state save() = 0;
  virtual void load(const saved_state& bytes) = 0;
};

template <class Trainer>
class held_tested_trainer final : public tested_trainer {
 public:
  template <class Make>
  explicit held_tested_trainer(Make&& make) : trainer_{make()} {}

  causeway::result<void> start() override { return trainer_.start(); }
  causeway::result<void> step(const causeway::batch& b) override {
    CAUSEWAY_TRY(trainer_.step(b));
    return {};
  }
  causeway::result<void> finish() override { return trainer_.finish(); }
  std::uint64_t steps() override { return trainer_.context().step(); }
  std::uint64_t rounds() override { return trainer_.context().round(); }
  std::span<const float> parameters() override { return trainer_.model().parameters().values(); }
  saved_state save() override { return support::save(trainer_); }
  void load(const saved_state& bytes) override { support::load(trainer_, bytes); }

 private:
  Trainer trainer_;
};

class trainer_runs {
 public:
  using make_trainer = std::function<std::unique_ptr<tested_trainer>(causeway::environment)>;

  /// `make(environment)` gives a peer's trainer.
  template <class Make>
  trainer_runs(Make make, conformance_options options)
      : make_{[make](causeway::environment env) -> std::unique_ptr<tested_trainer> {
          const auto whole = [&] { return make(std::move(env)); };
          return std::unique_ptr<tested_trainer>{new held_tested_trainer<decltype(whole())>{whole}};
        }},
        options_{options} {}

  [[nodiscard]] std::unique_ptr<tested_trainer> make(causeway::environment env) const { return make_(std::move(env)); }

  /// Every peer runs from its state in `from` (none: the beginning) until it has taken `until` steps, or fails.
  std::vector<peer_history> run(causeway::net::memory_network& network, const std::vector<saved_state>& from,
                                std::uint64_t until, bool finish) {
    std::vector<peer_history> history(options_.peers);
    run_cluster(network, options_.peers, [&](std::uint32_t peer, causeway::environment env) {
      const auto trainer = make_(std::move(env));
      if (!from.empty()) trainer->load(from[peer]);
      run_peer(*trainer, peer, until, finish, history[peer]);
    });
    return history;
  }

  std::vector<peer_history> run(const std::vector<saved_state>& from, std::uint64_t until, bool finish) {
    causeway::net::memory_network network{options_.peers};
    return run(network, from, until, finish);
  }

  /// One peer, whatever its network.
  void run_peer(tested_trainer& trainer, std::uint32_t peer, std::uint64_t until, bool finish, peer_history& h) const {
    auto outcome = trainer.start();
    const auto remember = [&] { h.rounds[trainer.rounds()] = trainer.save(); };
    if (outcome) remember();
    while (outcome && trainer.steps() < until) {
      const auto tokens = tokens_of(peer, trainer.steps(), static_cast<std::size_t>(4 * options_.sequences));
      outcome = trainer.step({tokens, tokens, options_.sequences});
      if (outcome) remember();
    }
    if (outcome && finish) outcome = trainer.finish();
    h.finished = outcome.has_value();
    if (!outcome) h.error = outcome.error().text();
    if (h.finished) remember();
    h.step = trainer.steps();
    const auto values = trainer.parameters();
    h.parameters.assign(values.begin(), values.end());
  }

 private:
  make_trainer make_;
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

/// What is asked of all policies. Gives what peers hold at the end.
inline std::vector<peer_history> check_trainer(trainer_runs runs, const conformance_options& options) {
  const auto reference = runs.run({}, options.steps, true);
  same_end(reference, runs.run({}, options.steps, true));

  for (std::uint64_t stop = 0; stop <= options.steps; ++stop) {
    INFO("stopped after step " << stop);
    const auto first = runs.run({}, stop, false);
    std::vector<saved_state> states;
    for (const auto& h : first) states.push_back(h.rounds.rbegin()->second);
    same_end(reference, runs.run(states, options.steps, true));
  }

  std::optional<std::vector<saved_state>> tried;  // states that peers went on from last: the same make the same run
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
      if (tried != states) same_end(reference, runs.run(states, options.steps, true));
      tried = std::move(states);
    }
  }
  return reference;
}

/// A trainer of `M` with these policies, and a learning rate of 0.05.
template <class M, class... Policies>
auto conforming_trainer(causeway::environment env, Policies... policies) {
  causeway::trainer_options options;
  options.learning_rate = causeway::optim::constant{0.05F};
  return causeway::make_trainer(trained_as<M>{M{}}, std::move(env), options, std::move(policies)...);
}

template <class Inner = causeway::optim::adamw, class M = quadratic, class MakePolicy>
void check_communication_policy(MakePolicy make, conformance_options options = {}) {
  const auto trainer_of = [make](causeway::environment env) {
    return conforming_trainer<M>(std::move(env), make(), Inner{});
  };
  check_trainer(trainer_runs{trainer_of, options}, options);
}

/// The policy must train all of the model on each peer. One that cuts it is held against the model that nobody cut, as
/// tests/presets/traces_pipelines.cpp does.
template <class M = quadratic, class MakePolicy>
void check_parallelism_policy(MakePolicy make, conformance_options options = {.sequences = 4}) {
  static_assert(!decltype(make())::traits.staged, "a policy that cuts the model needs a model that can be cut");
  const auto trainer_of = [&](causeway::environment env) {
    return conforming_trainer<M>(std::move(env), causeway::comm::every_step<>{}, make());
  };
  const auto ends = check_trainer(trainer_runs{trainer_of, options}, options);
  trainer_runs whole{
      [](causeway::environment env) { return conforming_trainer<M>(std::move(env), causeway::comm::every_step<>{}); },
      options};
  const auto expected = whole.run({}, options.steps, true);
  for (std::size_t peer = 0; peer < ends.size(); ++peer) {
    for (std::size_t i = 0; i < ends[peer].parameters.size(); ++i) {
      CHECK(ends[peer].parameters[i] == Approx(expected[peer].parameters[i]).margin(1e-5));
    }
  }

  auto alone = trainer_of({});
  REQUIRE(alone.start());
  const auto tokens = tokens_of(0, 0, static_cast<std::size_t>(4 * options.sequences));
  const causeway::batch b{tokens, tokens, options.sequences};
  const auto mean = alone.evaluate(b);
  REQUIRE(mean);
  alone.context().begin_compute();
  const auto loss = alone.parallel().forward_backward(alone.context(), b);
  REQUIRE(loss);
  CHECK(*loss == Approx(*mean));
  const auto gradients = alone.context().gradients();
  const std::vector<float> once{gradients.begin(), gradients.end()};
  REQUIRE(alone.parallel().forward_backward(alone.context(), b));
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(gradients[i] == Approx(2 * once[i]).margin(1e-6));
}

/// For policies with a fixed set of peers; support/elastic_presets.hpp has what is asked where they come and go.
template <class MakePolicy>
void check_fault_policy(MakePolicy make, conformance_options options = {}) {
  static_assert(decltype(make())::traits.produces == causeway::peers::fixed);
  const auto trainer_of = [&](causeway::environment env) {
    return conforming_trainer<quadratic>(std::move(env), causeway::comm::every_step<>{}, make());
  };
  const auto ends = check_trainer(trainer_runs{trainer_of, options}, options);
  for (const peer_history& h : ends) CHECK(h.step == options.steps);  // what succeeded is committed, once

  auto policy = make();
  auto alone = trainer_of({});
  const auto judged = policy.end_step(alone.context(), causeway::fail(causeway::errc::peer_lost, "peer 1", "gone"));
  CHECK((!judged || *judged != causeway::verdict::commit));  // nobody here has finished it
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_CONFORMANCE_HPP
