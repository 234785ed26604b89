// SPDX-License-Identifier: Apache-2.0
// What a lost peer's absence is to presets that average local updates: the mean is that of those who are there, weighted by
// what they trained on, and nothing else. Each step that a peer makes is made again here, by hand.

#include <causeway/presets/local_updates.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/elastic.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;
using doubles = std::vector<double>;

namespace {

double distance(const doubles& a, const doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// A step of the cluster's trainers: the mean gradient, no longer than 1, at the rate 0.05.
doubles stepped(const doubles& from, const std::vector<std::int32_t>& tokens) {
  doubles gradient(from.size()), to = from;
  for (const std::int32_t t : tokens) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto centre = double{support::quadratic::centre(t, static_cast<std::int64_t>(i))};
      gradient[i] += (from[i] - centre) / static_cast<double>(tokens.size());
    }
  }
  const double length = distance(gradient, doubles(from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) to[i] -= 0.05 * gradient[i] / std::max(1.0, length);
  return to;
}

/// What one peer put into an exchange, and what it went on from.
struct exchanged {
  doubles put_in;
  double samples = 0;
  doubles got;
};

/// Finds the exchanges of a peer in the parameters that it begins its steps with: where they are not those that its step
/// before made.
class peer_log {
 public:
  void before_step(const std::vector<std::int32_t>& tokens, doubles now) {
    if (!made_.empty() && distance(made_, now) > 1e-4) {
      exchanges.push_back({made_, samples_, now});
      samples_ = 0;
    }
    samples_ += static_cast<double>(tokens.size());
    made_ = stepped(now, tokens);
  }

  std::vector<exchanged> exchanges;

 private:
  doubles made_;
  double samples_ = 0;
};

/// Three peers, of which one dies for good before its fourth exchange.
template <class MakePolicy>
std::map<std::uint32_t, peer_log> logs_of(MakePolicy policy) {
  std::map<std::uint32_t, peer_log> logs;
  int passed = 0;
  support::elastic_options o{.peers = 3, .rounds = 10};
  o.dies_at = [&](std::uint32_t host, std::string_view at) { return host == 2 && at == "entered" && ++passed == 4; };
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t> tokens, std::span<const float> parameters) {
    logs[host].before_step({tokens.begin(), tokens.end()}, {parameters.begin(), parameters.begin() + 37});
  };
  support::elastic_cluster cluster{policy, o};
  cluster.boot();
  cluster.run(5min);
  INFO(cluster.violation().value_or("no violation"));
  CHECK(!cluster.violation());
  CHECK(cluster.finished() == 2);
  return logs;
}

/// The shared parameters of an outer optimizer: Nesterov's momentum, or plain momentum.
struct outer {
  double rate = 1, momentum = 0;
  bool nesterov = false;
};

/// `within`: of what an exchange changes, the largest share that its rounding may be off by.
template <class MakePolicy>
void check_means(MakePolicy policy, const outer& by = {}, double within = 1e-3) {
  auto logs = logs_of(policy);
  const std::size_t before = logs[2].exchanges.size(), all = logs[0].exchanges.size();
  REQUIRE(before >= 2);
  REQUIRE(all > before + 2);
  REQUIRE(logs[1].exchanges.size() == all);
  doubles shared, moved(37);
  for (std::int64_t i = 0; i < 37; ++i) shared.push_back(double{support::quadratic{}.parameters().value(0)[i]});
  for (std::size_t k = 0; k < all; ++k) {
    INFO("exchange " << k);
    doubles mean(37);
    double samples = 0;
    for (std::uint32_t host = 0; host < (k < before ? 3U : 2U); ++host) {
      const exchanged& e = logs[host].exchanges[k];
      samples += e.samples;
      for (std::size_t i = 0; i < 37; ++i) mean[i] += e.samples * e.put_in[i];
    }
    doubles next = shared;
    for (std::size_t i = 0; i < 37; ++i) {
      const double gradient = shared[i] - mean[i] / samples;
      moved[i] = by.momentum * moved[i] + gradient;
      next[i] -= by.rate * (by.nesterov ? gradient + by.momentum * moved[i] : moved[i]);
    }
    const doubles& got = logs[0].exchanges[k].got;
    CHECK(distance(got, next) < within * distance(shared, next));
    CHECK(got == logs[1].exchanges[k].got);
    shared = got;
  }
}

}  // namespace

TEST_CASE("absence: of a lost peer Local SGD's mean has nothing", "[presets][fast]") {
  check_means([] { return make(presets::local_sgd_options{.local_steps = 3}); });
}

TEST_CASE("absence: of a lost peer FedAvg's and Photon's mean of all has nothing", "[presets][fast]") {
  check_means([] { return make(presets::fedavg_options{.local_steps = 3, .share = 1.0}); });
  check_means(
      [] {
        return make(
            presets::photon_options{.local_steps = 3, .share = 1.0, .outer_learning_rate = 0.8F, .outer_momentum = 0.5F});
      },
      {.rate = 0.8, .momentum = 0.5, .nesterov = true});
}

TEST_CASE("absence: of a lost peer DiLoCo's pseudo-gradient has nothing, and its momentum is as it was",
          "[presets][fast]") {
  check_means([] { return make(presets::diloco_options{.local_steps = 3}); },
              {.rate = 0.7, .momentum = 0.9, .nesterov = true});
  check_means([] { return make(presets::open_diloco_options{{.local_steps = 3}}); },
              {.rate = 0.7, .momentum = 0.9, .nesterov = true}, 5e-3);
}
