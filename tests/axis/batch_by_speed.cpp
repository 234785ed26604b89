// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/batch_by_speed.hpp>

#include <causeway/axis/content.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/sgd.hpp>

#include <limits>
#include <numeric>
#include <vector>

#include "support/elastic.hpp"
#include "support/simulated_runs.hpp"

using namespace causeway;

namespace {

std::vector<std::size_t> sequences_of(std::uint32_t total, const std::vector<double>& speeds) {
  return axis::batch_by_speed{{.sequences = total}}.sequences_for(speeds);
}

auto gradients_by_speed(std::uint32_t total) {
  return [total] {
    return comm::rounds{axis::batch_by_speed{{.sequences = total}}, axis::gradient{}, axis::split_mean<>{}};
  };
}

}  // namespace

TEST_CASE("batch by speed: each batch is a multiple, if one is wanted", "[axis][fast]") {
  const axis::batch_by_speed fours{{.sequences = 24, .multiple = 4}};
  CHECK(fours.sequences_for({4, 1}) == std::vector<std::size_t>{20, 4});
  CHECK(fours.check(1));
  CHECK_FALSE(axis::batch_by_speed{{.sequences = 22, .multiple = 4}}.check(1));
  CHECK_FALSE(axis::batch_by_speed{{.multiple = 0}}.check(1));
}

TEST_CASE("batch by speed: batches are in proportion to speed, add up, and none is empty", "[axis][fast]") {
  CHECK(sequences_of(12, {4, 4, 4}) == std::vector<std::size_t>{4, 4, 4});
  CHECK(sequences_of(20, {4, 1}) == std::vector<std::size_t>{16, 4});
  CHECK(sequences_of(3, {100, 1, 1}) == std::vector<std::size_t>{1, 1, 1});
  CHECK(sequences_of(10, {1e9, 1}) == std::vector<std::size_t>{9, 1});
  for (std::uint32_t total = 5; total < 40; ++total) {
    const auto all = sequences_of(total, {0.3, 1, 2.5, 1, 7});
    CHECK(std::accumulate(all.begin(), all.end(), std::size_t{0}) == total);
  }
}

TEST_CASE("batch by speed: the peers' parts of a batch follow each other", "[axis][fast]") {
  struct one_of_three {
    std::uint32_t index;
    [[nodiscard]] std::uint32_t self() const { return index; }
    static std::uint32_t peers() { return 3; }
    static bool exchanges_at_once() { return false; }
    static double own_share() { return 1.0 / 3; }
  };
  std::uint32_t before = 0;
  for (std::uint32_t p = 0; p < 3; ++p) {
    axis::batch_by_speed trigger{{.sequences = 11}};
    one_of_three context{p};
    REQUIRE(trigger.open(context));
    CHECK(trigger.sequences_before() == before);
    before += trigger.sequences();
  }
  CHECK(before == 11);
}

TEST_CASE("batch by speed: what is not known counts as the mean of the others", "[axis][fast]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(sequences_of(16, {0, 0, nan, -1}) == std::vector<std::size_t>{4, 4, 4, 4});
  CHECK(sequences_of(13, {1, INFINITY, 3}) == sequences_of(13, {1, 2, 3}));
}

TEST_CASE("batch by speed: options that cannot work are refused", "[axis][fast]") {
  CHECK(axis::batch_by_speed{}.check(1));
  CHECK_FALSE(axis::batch_by_speed{{.local_steps = 0}}.check(1));
  const auto make = gradients_by_speed(2);
  support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{make, {.peers = 3, .steps = 1}};
  const auto run = runs.run();
  REQUIRE(run.peers[0].error);
  CHECK(run.peers[0].error->code == errc::invalid_argument);
}

TEST_CASE("batch by speed: peers of unequal speed take a step in the same time", "[axis][fast]") {
  // 20 sequences of 20 ms, or of 80 ms. In the first step both have 10, then 16 and 4: 320 ms.
  const auto make = gradients_by_speed(20);
  support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{
      make, {.peers = 2, .steps = 8, .speeds = {1, 0.25}, .latency = std::chrono::milliseconds{1}}};
  const auto run = runs.run();
  support::all_alike(run);
  CHECK(seconds(run.peers[0].trained - run.peers[0].began) == Approx(0.8 + 7 * 0.32).margin(0.05));
}

TEST_CASE("batch by speed: a step follows the mean over all sequences, however they are divided", "[axis][fast]") {
  constexpr float rate = 0.25F;
  constexpr std::size_t length = 4;
  const auto make = gradients_by_speed(20);
  support::simulated_runs<optim::sgd, support::blocky, decltype(make)> runs{
      make, {.peers = 2, .steps = 3, .speeds = {1, 0.25}, .learning_rate = rate, .tokens = length}};
  const auto run = runs.run();
  // θ ← θ − rate·(θ − mean of the tokens' centres)
  support::blocky start;
  const auto& first = start.parameters().segments().front();
  for (std::int64_t i = first.offset; i < first.offset + first.size(); ++i) {
    double value = double(start.parameters().values()[static_cast<std::size_t>(i)]);
    for (std::uint64_t step = 0; step < 3; ++step) {
      double mean = 0;
      for (std::uint32_t peer = 0; peer < 2; ++peer) {
        const std::size_t sequences = step == 0 ? 10 : peer == 0 ? 16 : 4;
        for (const std::int32_t t : support::tokens_of(peer, step, sequences * length)) {
          mean += double(support::quadratic::centre(t, i)) / (20 * length);
        }
      }
      value -= double(rate) * (value - mean);
    }
    CHECK(double(run.peers[0].parameters[static_cast<std::size_t>(i)]) == Approx(value).margin(1e-5));
  }
}

TEST_CASE("batch by speed: peers that come and go divide a step's batch among those who are there", "[axis][fast]") {
  using namespace std::chrono_literals;
  support::elastic_options o{.peers = 4, .expected = 3, .batch = 1, .steps_per_round = 40, .rounds = 12};
  std::vector<std::vector<std::size_t>> batches(4);  // of each host, as far as its samples at hand were enough
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t> tokens, std::span<const float>) {
    batches[host].push_back(tokens.size());
  };
  support::elastic_cluster cluster{gradients_by_speed(21), o};
  const double speeds[]{1, 2, 4, 1};
  for (std::uint32_t host = 0; host < 4; ++host) cluster.world().set_speed(host, speeds[host]);
  const auto divided = [&](std::initializer_list<std::uint32_t> hosts) {
    std::vector<std::size_t> last;
    for (const std::uint32_t host : hosts) last.push_back(batches[host].back());
    return last;
  };
  for (std::uint32_t host = 0; host < 3; ++host) cluster.boot(host);
  cluster.run(3s);
  CHECK(batches[0].front() == 7);
  CHECK(divided({0, 1, 2}) == std::vector<std::size_t>{3, 6, 12});
  cluster.world().kill(2);
  cluster.run(10s);
  CHECK(divided({0, 1}) == sequences_of(21, {1, 2}));
  cluster.boot(3);
  cluster.run(13s);
  CHECK(divided({0, 1, 3}) == sequences_of(21, {1, 2, 1}));
  cluster.run(10min);
  CHECK(!cluster.violation());
  CHECK(cluster.finished() == 3);
  CHECK(cluster.parameters(3) == cluster.parameters(0));
}
