// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/every_seconds.hpp>

#include <causeway/axis/outer.hpp>
#include <causeway/axis/participation.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/stage_peers.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "support/elastic.hpp"
#include "support/lost_peer.hpp"
#include "support/named_loss.hpp"
#include "support/optimizer_cases.hpp"
#include "support/simulated_runs.hpp"
#include "support/traced_runs.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

constexpr auto mean_every = [](double seconds, std::uint64_t fewest) {
  return [=] {
    return comm::rounds{axis::every_seconds{{.seconds = seconds, .fewest_steps = fewest}}, axis::outer<optim::sgd>{1.0F},
                        axis::split_mean<>{}};
  };
};
using mean_type = decltype(mean_every(1.0, 1));
using runs_type = support::simulated_runs<optim::sgd, support::blocky, mean_type, true>;

/// The mean of one meeting is taken at the next one: of pseudo-gradients, or parameters.
constexpr auto late_every = [](double seconds, std::uint64_t fewest) {
  return [=] {
    return comm::rounds{axis::every_seconds{{.seconds = seconds, .fewest_steps = fewest}}, axis::one_round_late{},
                        axis::outer<optim::nesterov>{0.7F, optim::nesterov{{.momentum = 0.9F}}}, axis::split_mean<>{}};
  };
};
constexpr auto late_parameters_every = [](double seconds, std::uint64_t fewest) {
  return [=] {
    return comm::rounds{axis::every_seconds{{.seconds = seconds, .fewest_steps = fewest}}, axis::one_round_late{},
                        axis::parameters{}, axis::split_mean<>{}};
  };
};
/// `check(policy)`, whatever is exchanged, at once or late.
void of_all(double seconds, std::uint64_t fewest, auto&& check) {
  SECTION("at once") { check(mean_every(seconds, fewest)); }
  SECTION("a round late") { check(late_every(seconds, fewest)); }
  SECTION("parameters, a round late") { check(late_parameters_every(seconds, fewest)); }
}
template <class Policy>
auto runs_of(Policy policy, support::simulated_options options) {
  return support::simulated_runs<optim::sgd, support::blocky, Policy, true>{policy, std::move(options)};
}

/// What a trigger asks of a context, of a peer without others.
struct alone {
  struct hand {
    std::shared_ptr<time_point> at;
    [[nodiscard]] time_point now() const { return *at; }
  };
  std::shared_ptr<time_point> at = std::make_shared<time_point>();
  any_clock time{hand{at}};
  net::memory_network lines{1};
  net::any_transport network{lines.transport(0)};

  stage_peers of_model;
  any_clock& clock() { return time; }
  stage_peers& stages() { return of_model; }
  net::any_transport& transport() { return network; }
  static std::uint32_t peers() { return 1; }
  static collective::collective_options exchange_options() { return {}; }

  /// One step that ends then.
  void step(axis::every_seconds& trigger, duration moment, std::uint64_t steps, bool ended = false) {
    *at = {moment};
    REQUIRE(trigger.meet(*this, steps, ended));
    trigger.step_is_over();
  }
};

/// Speeds 1, 2 and 4: steps of 20, 10 and 5 ms. In 74 ms, of which an exchange takes two, they make 4, 8 and 15.
support::simulated_options unequal() {
  return {.peers = 3, .steps = 12, .speeds = {1, 2, 4}, .latency = 1ms, .more_steps = {0, 12, 33}};
}

}  // namespace

TEST_CASE("every seconds: peers meet after so much time, and exchange if they made enough steps", "[axis][fast]") {
  alone peer;
  axis::every_seconds trigger{{.seconds = 1, .fewest_steps = 5}};
  *peer.at = {100s};
  REQUIRE(trigger.open(peer));
  peer.step(trigger, 100'900ms, 9);
  CHECK(trigger.exchanges() == 0);
  peer.step(trigger, 101s, 4);  // too few: only the time counts anew
  CHECK(trigger.exchanges() == 0);
  peer.step(trigger, 101'900ms, 5);
  CHECK(trigger.exchanges() == 0);
  peer.step(trigger, 102s, 5);
  CHECK(trigger.exchanges() == 1);
}

TEST_CASE("every seconds: who has ended meets at once, and the last meeting exchanges what there is", "[axis][fast]") {
  alone peer;
  axis::every_seconds trigger{{.seconds = 600, .fewest_steps = 100}};
  REQUIRE(trigger.open(peer));
  peer.step(trigger, 1s, 3);
  CHECK_FALSE(trigger.all_ended());
  peer.step(trigger, 2s, 3, true);
  CHECK(trigger.all_ended());
  CHECK(trigger.exchanges() == 1);
  peer.step(trigger, 3s, 0, true);
  CHECK(trigger.exchanges() == 1);  // there is nothing
}

TEST_CASE("every seconds: a run that goes on has the time that had passed", "[axis][fast]") {
  alone before, after;
  axis::every_seconds first{{.seconds = 1, .fewest_steps = 1}}, second{{.seconds = 1, .fewest_steps = 1}};
  REQUIRE(first.open(before));
  before.step(first, 700ms, 1);
  test::memory_archive archive;
  first.serialize(archive);
  archive.reading = true;
  second.serialize(archive);
  *after.at = {50s};
  REQUIRE(second.open(after));
  after.step(second, 50'299ms, 2);
  CHECK(second.exchanges() == 0);
  after.step(second, 50'300ms, 3);
  CHECK(second.exchanges() == 1);
}

TEST_CASE("every seconds: the mean is over steps, whoever made them, also when some have ended", "[axis][trace][fast]") {
  const support::traced_timing timing{.steps = {20ms, 30ms, 50ms}, .by_sequence = true, .latency = 100us};
  const auto replayed = [&](const char* name, auto policy) {
    return support::replay_in_any_order<optim::sgd>(support::trace{name}, policy, timing);
  };
  CHECK(replayed("every_seconds", mean_every(0.11, 20)) < 1e-5);
  CHECK(replayed("every_seconds_late", late_every(0.11, 20)) < 1e-5);
  CHECK(replayed("every_seconds_late_parameters", late_parameters_every(0.11, 20)) < 1e-5);
}

TEST_CASE("every seconds: peers of equal speed do what they do every so many steps", "[axis][fast]") {
  const support::simulated_options options{.peers = 3, .steps = 8};
  runs_type timed{mean_every(0.055, 9), options};  // three steps of 20 ms
  const auto counted = [] {                        // all are drawn: rows count by their samples
    return comm::rounds{axis::every{3}, axis::outer<optim::sgd>{1.0F}, axis::sampled_peers{1.0}, axis::split_mean<>{}};
  };
  support::simulated_runs<optim::sgd, support::blocky, decltype(counted)> steps{counted, options};
  const auto run = timed.run();
  support::all_alike(run);
  CHECK(run.peers[0].rounds == 2);
  CHECK(run.peers[0].parameters == steps.run().peers[0].parameters);
}

TEST_CASE("every seconds: on slow lines as many steps lie between two exchanges as on quick ones", "[axis][fast]") {
  const auto rounds_at = [](duration latency) {
    const support::simulated_options options{.peers = 3, .steps = 12, .latency = latency};
    return runs_type{mean_every(0.055, 1), options}.run().peers[0].rounds;  // three steps of 20 ms
  };
  CHECK(rounds_at(100us) == 4);
  CHECK(rounds_at(80ms) == 4);  // an exchange takes longer than the time between two
}

TEST_CASE("every seconds: what is taken at the next meeting takes no time of training", "[axis][fast]") {
  // An exchange takes 80 ms, and a meeting 40.
  const support::simulated_options options{.peers = 3, .steps = 24, .latency = 40ms};
  const auto time_of = [&](auto policy) {
    const auto run = runs_of(policy, options).run();
    CHECK(run.peers[0].rounds >= 3);
    return run.peers[0].trained - run.peers[0].began;
  };
  const duration at_once = time_of(mean_every(0.115, 1));
  CHECK(at_once > 24 * 20ms + 4 * 115ms);
  CHECK(time_of(late_every(0.115, 1)) < 24 * 20ms + 4 * 45ms);
  CHECK(time_of(late_parameters_every(0.115, 1)) < 24 * 20ms + 4 * 45ms);
}

TEST_CASE("every seconds: peers of unequal speed wait for a step of the slowest at most, and end alike", "[axis][fast]") {
  runs_type runs{mean_every(0.074, 27), unequal()};
  const auto run = runs.run();
  support::all_alike(run);
  CHECK(run.peers[0].rounds == 3);
  CHECK(runs.run().history == run.history);
  // Twelve steps of the slow peer; the others made two and almost four times as many meanwhile.
  for (const auto& peer : run.peers) CHECK(peer.trained - peer.began < 290ms);
}

TEST_CASE("every seconds: whoever ends early goes on meeting the others", "[axis][fast]") {
  of_all(0.072, 10, [](auto policy) {
    for (const std::uint32_t last : {0U, 1U, 2U}) {
      support::simulated_options options{.peers = 3, .steps = 6, .speeds = {1, 2, 4}, .more_steps = {0, 0, 0}};
      options.more_steps[last] = 30;
      support::all_alike(runs_of(policy, options).run());
    }
  });
}

TEST_CASE("every seconds: a run that was stopped at any meeting, or between two, ends with the bits of one that was not",
          "[axis][fast]") {
  of_all(0.074, 27, [](auto policy) {
    auto runs = runs_of(policy, unequal());
    const auto whole = runs.run();
    for (std::uint64_t stop = 0; stop <= 12; ++stop) {
      const std::uint64_t meeting = stop / 4, steps_of_slow = stop % 4;
      INFO("stopped " << steps_of_slow << " steps of the slowest after meeting " << meeting);
      std::vector<support::saved_state> states;
      const std::uint64_t steps[] = {4, 8, 15};
      for (std::uint32_t p = 0; p < 3; ++p) {
        states.push_back(whole.peers[p].states.at(meeting * steps[p] + (steps_of_slow << p)));
      }
      const auto rest = runs.run(states);
      support::all_alike(rest);
      CHECK(rest.peers[0].parameters == whole.peers[0].parameters);
    }
  });
}

TEST_CASE("every seconds: a lost peer ends the run of the others with its name", "[axis][fast]") {
  const support::simulated_options options{.peers = 3, .steps = 5, .speeds = {1, 2, 4}, .more_steps = {0, 3, 9}};
  of_all(0.035, 4, [&](auto policy) {
    auto runs = runs_of(policy, options);
    CHECK(support::others_name_the_lost(runs) > 20);
  });
}

TEST_CASE("every seconds: peers that come and go meet by the clock, and of a lost one the mean has nothing",
          "[axis][fast]") {
  // Steps of 100, 50 and 25 ms.
  std::vector<std::vector<std::uint32_t>> made;
  const auto mean = [&](const support::doubles&, const std::vector<support::exchanged>& present) {
    made.emplace_back();
    for (const support::exchanged& e : present) made.back().push_back(e.steps);
    return support::mean_of(present);
  };
  support::check_exchanges<support::quadratic>(mean_every(0.39, 9), mean, 1e-3, 40, {0.5, 1, 2});
  CAPTURE(made);
  for (std::size_t k = 0; k < made.size(); ++k) {
    CHECK(made[k][0] == 4);
    CHECK(made[k][1] == 8);
    CHECK((made[k].size() == 2 || made[k][2] == 15 || made[k][2] == 16));
  }
  CHECK(made.front().size() == 3);
  CHECK(made.back().size() == 2);
}

TEST_CASE("every seconds: peers that come and go take at each meeting what they had trained until the one before",
          "[axis][fast]") {
  const auto policy = [] {
    return comm::rounds{axis::every_seconds{{.seconds = 0.39, .fewest_steps = 9}}, axis::one_round_late{},
                        axis::outer<optim::sgd>{1.0F}, axis::split_mean<>{}};
  };
  const support::peer_logs logs = support::logs_of_three<support::quadratic>(policy, 4, 80, {0.5, 1, 2});
  // The first of each is of the time in which nobody has met yet; then come meetings.
  std::vector<std::vector<support::exchanged>> of;
  for (const auto& [host, steps] : logs) of.push_back(support::exchanges_of<support::quadratic>(steps));
  const support::doubles start = support::first_parameters<support::quadratic>();
  REQUIRE(of[2].size() == 3);  // it died on the way to the third meeting, when its row was to go out
  REQUIRE(std::min(of[0].size(), of[1].size()) > 8);
  CHECK(support::distance(of[0][0].got, start) == 0);
  for (std::size_t k = 1; k < 8; ++k) {
    INFO("meeting " << k);
    support::doubles next = of[0][k - 1].got;
    const support::doubles& from = k == 1 ? start : of[0][k - 2].got;
    double samples = 0;
    for (std::size_t host = 0; host < (k < 3 ? 3U : 2U); ++host) samples += of[host][k - 1].samples;
    for (std::size_t host = 0; host < (k < 3 ? 3U : 2U); ++host) {
      const support::exchanged& row = of[host][k - 1];
      CHECK(row.steps >= (2U << host));
      for (std::size_t i = 0; i < next.size(); ++i) next[i] += row.samples / samples * (row.put_in[i] - from[i]);
    }
    CHECK(support::distance(of[0][k].got, next) < 1e-3 * support::distance(of[0][k - 1].got, next));
    CHECK(of[0][k].got == of[1][k].got);
  }
}

TEST_CASE("every seconds: peers that come and go train on until they have made enough steps", "[axis][fast]") {
  std::vector<std::vector<std::uint32_t>> made;
  const auto mean = [&](const support::doubles&, const std::vector<support::exchanged>& present) {
    made.emplace_back();
    for (const support::exchanged& e : present) made.back().push_back(e.steps);
    return support::mean_of(present);
  };
  support::check_exchanges<support::quadratic>(mean_every(0, 12), mean, 1e-3, 20);
  CAPTURE(made);
  REQUIRE(made.size() > 12);
  // They hear of the twelfth step during the next one.
  CHECK(made.front() == std::vector<std::uint32_t>{5, 5, 5});
  CHECK(made[2] == std::vector<std::uint32_t>{5, 5});  // the third was lost in it, and the exchange was begun again
  for (std::size_t k = 3; k < 12; ++k) CHECK(made[k] == std::vector<std::uint32_t>{7, 7});
}

TEST_CASE("every seconds: who joins has made as many steps as the mean of the others, for its learning rate",
          "[axis][fast]") {
  support::elastic_options o{.peers = 4, .expected = 3, .steps_per_round = 30, .rounds = 12, .warmup = 100};
  std::vector<support::doubles> last(4);
  double others = 0;                          // when the newcomer has made its first steps
  std::vector<std::vector<double>> moved(4);  // by each peer, from step to step: its rate, as gradients are longer than 1
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t>, std::span<const float> parameters) {
    const support::doubles now(parameters.begin(), parameters.end());
    if (!last[host].empty()) moved[host].push_back(support::distance(last[host], now));
    last[host] = now;
    if (host == 3 && moved[3].size() == 4) others = *std::min_element(moved[0].end() - 4, moved[0].end());
  };
  support::elastic_cluster cluster{mean_every(0.2, 1), o};
  for (std::uint32_t host = 0; host < 3; ++host) cluster.boot(host);
  cluster.run(4s);
  cluster.boot(3);
  cluster.run(10min);
  REQUIRE(!cluster.violation());
  REQUIRE(cluster.finished() == 4);
  CHECK(cluster.parameters(3) == cluster.parameters(0));
  REQUIRE(moved[3].size() > 4);
  const double first = *std::min_element(moved[3].begin(), moved[3].begin() + 4);
  CAPTURE(others, first);
  CHECK(others > 10 * moved[0].front());
  CHECK(std::abs(first / others - 1) < 0.1);
}

TEST_CASE("every seconds: what cannot work is refused", "[axis][fast]") {
  CHECK(axis::every_seconds{{.seconds = -1}}.check(1).error().code == errc::invalid_argument);
  CHECK(axis::every_seconds{{.fewest_steps = 0}}.check(1).error().code == errc::invalid_argument);
  STATIC_REQUIRE(std::invoke_result_t<mean_type>::traits.tolerates == peers::elastic);
  STATIC_REQUIRE(std::invoke_result_t<mean_type>::traits.identical_replicas);
  STATIC_REQUIRE_FALSE(std::invoke_result_t<mean_type>::traits.rounds_by_steps);
  STATIC_REQUIRE(decltype(late_every(1.0, 1)())::traits.tolerates == peers::elastic);
  STATIC_REQUIRE(decltype(late_parameters_every(1.0, 1)())::traits.tolerates == peers::fixed);  // as with any trigger
}
