// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/elastic_mirrors.hpp>

#include <causeway/comm/mirrors.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/elastic.hpp"
#include "support/elastic_end.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using codec = compress::sparse<compress::no_transform, compress::significant, compress::none>;

/// The gradient of a sample, whatever the parameters.
double pull_of(std::int32_t token, std::size_t i) {
  return static_cast<double>((static_cast<std::uint64_t>(token) * 7 + i * 3) % 11) / 32 - 5.0 / 32;
}

/// A model whose steps add up, in whatever order they are made.
class linear : public support::test_model {
 public:
  using self = linear;

  explicit linear(int size)
      : test_model{start(size),
                   [](parameter_store& store, tokens inputs, float scale, std::uint64_t) {
                     const float part = scale * static_cast<float>(inputs.size()) / 2;  // a batch may have one only
                     for (const std::int32_t t : inputs) {
                       for (std::size_t i = 0; i < 4; ++i) {
                         store.gradients()[i] += part * static_cast<float>(pull_of(t, i));
                       }
                     }
                     return 0.0;
                   },
                   [](parameter_store&, tokens) { return 0.0; }} {}

 private:
  static parameter_store start(int size) {
    parameter_store store;
    store.add("values", parameter_kind::vector, 1, size, -1);
    store.allocate();
    return store;
  }
};

/// Three peers and more, of which one can be killed, stopped or cut off.
template <class M = support::blocky>
struct mirrored_run {
  std::uint64_t record_samples = 48;
  std::uint32_t most_ahead = 2;
  float threshold = 0.05F;
  std::vector<double> speeds{1, 1, 1};
  support::elastic_options options{.peers = 3, .steps_per_round = 16, .rounds = 6, .size = 4};
  std::function<void(support::elastic_run&)> during{};

  std::vector<std::vector<std::vector<std::int32_t>>> trained{8};                          ///< each peer's batches
  std::vector<std::vector<time_point>> stepped = std::vector<std::vector<time_point>>(8);  ///< when, after computing
  std::vector<std::string> lines{};
  std::vector<float> parameters{};
  std::uint64_t bytes = 0;
  std::size_t records = 0;
  std::vector<time_point> committed{};

  void run() {
    const auto make = [this] {
      return comm::mirrors<codec>{{.most_ahead = most_ahead, .record_samples = record_samples},
                                  codec{compress::no_transform{}, compress::significant{{.first = threshold}}}};
    };
    sim::world* world = nullptr;
    options.trace = [this](std::string_view text) { lines.emplace_back(text); };
    options.watches = [&](std::uint32_t host, std::span<const std::int32_t> tokens, auto) {
      stepped[host].push_back(world->now());
      trained[host].emplace_back(tokens.begin(), tokens.end());
    };
    support::elastic_cluster<decltype(make), optim::sgd, M> cluster{make, options};
    world = &cluster.world();
    for (std::uint32_t host = 0; host < speeds.size(); ++host) world->set_speed(host, speeds[host]);
    parameters = support::alike_at_the_end(cluster, options, during);
    bytes = cluster.bytes_sent();
    records = cluster.commits().size();
    for (const auto& [round, hash] : cluster.commits()) committed.push_back(cluster.committed_at(round));
  }
  [[nodiscard]] std::vector<double> gaps(std::uint32_t host, std::size_t first = 0) const {
    std::vector<double> all;
    for (std::size_t i = first + 1; i < stepped[host].size(); ++i)
      all.push_back(seconds(stepped[host][i] - stepped[host][i - 1]));
    return all;
  }
  /// Samples of a peer's steps after one moment, up to another.
  [[nodiscard]] std::vector<std::int32_t> between(time_point begin, time_point end, std::uint32_t host) const {
    std::vector<std::int32_t> all;
    for (std::size_t i = 0; i < stepped[host].size(); ++i) {
      const time_point t = stepped[host][i];
      if (t > begin && t <= end) all.insert(all.end(), trained[host][i].begin(), trained[host][i].end());
    }
    return all;
  }
  [[nodiscard]] std::ptrdiff_t said(std::string_view what) const {
    return std::count_if(lines.begin(), lines.end(),
                         [&](const std::string& l) { return l.find(what) != std::string::npos; });
  }
};

/// How far samples move the parameters of `linear`, at the rate of the runs and with batches of two.
std::vector<double> moved_by(const std::vector<std::int32_t>& samples, const std::vector<std::int32_t>& again = {}) {
  std::vector<double> sum(4, 0.0);
  for (const auto* some : {&samples, &again}) {
    for (const std::int32_t t : *some) {
      for (std::size_t i = 0; i < 4; ++i) sum[i] -= 0.05 / 2 * pull_of(t, i);
    }
  }
  return sum;
}
std::vector<std::int32_t> all_samples(const support::elastic_options& o) {
  std::vector<std::int32_t> all(o.rounds * o.peers * o.batch * o.steps_per_round);
  std::iota(all.begin(), all.end(), 0);
  return all;
}
bool is_near(const std::vector<float>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::abs(double{a[i]} - b[i]) > 2e-4) return false;  // a sample moves the parameters by 8e-4 and more
  }
  return true;
}

double longest(const std::vector<double>& gaps) { return *std::max_element(gaps.begin(), gaps.end()); }

}  // namespace

TEST_CASE("elastic mirrors: peers tell each other from one record to the next", "[comm][fast]") {
  mirrored_run<> told, alone;
  alone.threshold = 1e6F;
  told.run();
  alone.run();
  CHECK(told.records == alone.records);
  CHECK(told.bytes > alone.bytes);
  CHECK(told.parameters != alone.parameters);  // gradients were of what others had told
}

TEST_CASE("elastic mirrors: every sample counts once, told or not", "[comm][fast]") {
  for (const float threshold : {1e-9F, 0.3F, 1e6F}) {
    CAPTURE(threshold);
    mirrored_run<linear> r;
    r.threshold = threshold;
    r.run();
    CHECK(is_near(r.parameters, moved_by(all_samples(r.options))));
  }
}

TEST_CASE("elastic mirrors: who was cut off moves along what nobody has counted", "[comm][fast]") {
  for (const float threshold : {1e-9F, 1e6F}) {
    CAPTURE(threshold);
    mirrored_run<linear> r;
    r.threshold = threshold;
    r.during = [](support::elastic_run& cluster) {
      cluster.run(1s);
      cluster.world().partition({2}, {0, 1});
      cluster.run(1600ms);
      cluster.world().heal({2}, {0, 1});
    };
    r.run();
    CHECK(is_near(r.parameters, moved_by(all_samples(r.options))));
  }
}

TEST_CASE("elastic mirrors: a told update survives its sender's death", "[comm][fast]") {
  // Also where only one peer has heard the last ones: what it knows counts for all.
  for (const bool heard_by_one : {false, true}) {
    CAPTURE(heard_by_one);
    mirrored_run<linear> r;
    r.threshold = 1e-9F;
    std::vector<std::int32_t> told;
    r.during = [&](support::elastic_run& cluster) {
      cluster.run(1150ms);
      if (heard_by_one) cluster.world().partition({0}, {2});
      cluster.run(1265ms);  // 36 ms into a step: what it told at the end of the one before has arrived
      cluster.world().kill(2);
      told = r.between(cluster.last_commit(), cluster.world().now(), 2);
      cluster.world().after(1s, [&] {
        cluster.world().heal({0}, {2});
        cluster.world().restart(2);
      });
    };
    r.run();
    CHECK(told.size() == 12);
    CHECK(is_near(r.parameters, moved_by(all_samples(r.options), told)));  // others have been given its samples, too
  }
}

TEST_CASE("elastic mirrors: newcomers in each record", "[comm][fast]") {
  for (duration at = 100ms; at < 2s; at += 130ms) {
    for (const float threshold : {1e-9F, 1e6F}) {
      CAPTURE(seconds(at), threshold);
      mirrored_run<linear> r;
      r.threshold = threshold;
      r.record_samples = 24;
      r.options.expected = 2;
      r.options.rounds = 4;
      r.during = [&](support::elastic_run& cluster) {
        cluster.run(at);
        cluster.boot(2);
      };
      r.run();
      CHECK(is_near(r.parameters, moved_by(all_samples(r.options))));
      CHECK(!r.trained[2].empty());
    }
  }
}

TEST_CASE("elastic mirrors: nobody waits for who has no samples, or does not come on", "[comm][fast]") {
  mirrored_run<> r;
  r.record_samples = 90;
  r.speeds = {8, 1, 1};
  r.run();
  CHECK(longest(r.gaps(1)) < 0.2);
  mirrored_run<> held;
  held.record_samples = 90;
  held.speeds = {1, 1, 0.5};
  held.run();
  CHECK(*std::min_element(held.stepped[2].begin(), held.stepped[2].end()) < time_point{1h});
  const auto gaps = held.gaps(1, 6);
  CHECK(std::count_if(gaps.begin(), gaps.end(), [](double g) { return g > 0.09; }) > std::ssize(gaps) / 2);  // its pace
}

TEST_CASE("elastic mirrors: without a number of samples they say what to set", "[comm][fast]") {
  const auto make = [] { return comm::mirrors<codec>{}; };
  support::elastic_cluster<decltype(make), optim::sgd, support::blocky> cluster{make, {.peers = 1, .size = 4}};
  cluster.boot();
  cluster.run(500ms);
  CHECK(cluster.error(0).find("record_samples is 0, but peers come and go: say how many") != std::string::npos);
  const auto grouped = [] { return comm::mirrors<codec>{{.groups = {{0}}, .record_samples = 8}}; };
  support::elastic_cluster<decltype(grouped), optim::sgd, support::blocky> other{grouped, {.peers = 1, .size = 4}};
  other.boot();
  other.run(500ms);
  CHECK(other.error(0).find("groups name peers by their numbers, but peers come and go") != std::string::npos);
}

namespace {

/// Whether samples of a peer count that it told since a record: all up to one of its steps before it died.
bool has_told_some(const mirrored_run<linear>& r, std::uint32_t host, time_point died) {
  const auto all = all_samples(r.options);
  if (is_near(r.parameters, moved_by(all))) return true;
  std::vector<time_point> before{time_point{}};
  std::copy_if(r.committed.begin(), r.committed.end(), std::back_inserter(before), [&](time_point t) { return t < died; });
  for (std::size_t k = before.size() - std::min<std::size_t>(before.size(), 2); k < before.size(); ++k) {
    for (const time_point last : r.stepped[host]) {
      if (last <= died && is_near(r.parameters, moved_by(all, r.between(before[k], last, host)))) return true;
    }
  }
  return false;
}

/// Three peers, one of which dies at its n-th call of the network, and comes back a second later. Every sample counts once,
/// and what it had told once more, as far as somebody had heard it: not at all where it tells nothing.
std::uint64_t dies_at(std::uint32_t victim, std::uint64_t n, float threshold) {
  INFO("peer " << victim << " killed at call " << n << ", threshold " << threshold);
  std::uint64_t calls = 0;
  sim::world* world = nullptr;
  time_point died;
  mirrored_run<linear> r;
  r.threshold = threshold;
  r.record_samples = 24;
  r.options.steps_per_round = 8;
  r.options.dies_at_call = [&](std::uint32_t host) {
    if (host != victim || calls++ != n) return false;
    died = world->now();
    world->after(1s, [&, victim] { world->restart(victim); });
    return true;
  };
  r.during = [&](support::elastic_run& cluster) { world = &cluster.world(); };
  r.run();
  CHECK(has_told_some(r, victim, threshold < 1 ? died : time_point{}));
  return calls;
}

}  // namespace

TEST_CASE("elastic mirrors: killed at some calls of the network", "[comm][fast]") {
  const std::uint64_t calls = dies_at(1, UINT64_MAX, 1e-9F);
  for (std::uint64_t n = 3; n < calls; n += calls / 9) dies_at(1, n, n % 2 == 0 ? 1e-9F : 1e6F);
}

TEST_CASE("elastic mirrors: killed at every call of the network", "[comm][slow][every_call]") {
  for (const float threshold : {1e-9F, 1e6F}) {
    for (const std::uint32_t victim : {0U, 1U}) {
      const std::uint64_t calls = dies_at(victim, UINT64_MAX, threshold);
      for (std::uint64_t n = 0; n < calls; n += 1 + calls / 250) dies_at(victim, n, threshold);
    }
  }
}
