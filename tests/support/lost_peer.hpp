// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_LOST_PEER_HPP
#define CAUSEWAY_TESTS_SUPPORT_LOST_PEER_HPP

// What three peers trained on, and from which parameters, when one of them is lost for good: enough to make each step and
// each exchange again by hand, in double precision.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/elastic.hpp"

namespace support {

using doubles = std::vector<double>;

inline double distance(const doubles& a, const doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}
inline double length(const doubles& a) { return distance(a, doubles(a.size())); }

/// The small models: 37 values in one vector, or four blocks.
template <class M>
inline constexpr std::int64_t size_of = std::is_same_v<M, quadratic> ? 37 : 4;
template <class M>
M small_model() {
  return M{static_cast<std::conditional_t<std::is_same_v<M, quadratic>, std::int64_t, int>>(size_of<M>)};
}

/// Where the parameters of a model lie in its flat buffer; the rest is padding. By fragments of whole blocks, of which the
/// first is of what is in no block.
template <class M>
std::vector<std::vector<std::size_t>> places_by_block() {
  M model = small_model<M>();
  std::vector<std::vector<std::size_t>> all(1);
  for (const causeway::parameter_segment& s : model.parameters().segments()) {
    const bool inside = s.block >= 0 && s.block < size_of<M> && std::is_same_v<M, blocky>;
    const std::size_t block = inside ? static_cast<std::size_t>(s.block) + 1 : 0;
    if (all.size() <= block) all.resize(block + 1);
    for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) all[block].push_back(static_cast<std::size_t>(i));
  }
  return all;
}
template <class M>
std::vector<std::size_t> all_places() {
  std::vector<std::size_t> all;
  for (const auto& part : places_by_block<M>()) all.insert(all.end(), part.begin(), part.end());
  return all;
}

template <class M>
doubles first_parameters() {
  M model = small_model<M>();
  const auto values = model.parameters().values();
  return {values.begin(), values.end()};
}

/// The mean gradient of a step, no longer than 1.
template <class M>
doubles gradient_at(const doubles& at, const std::vector<std::int32_t>& tokens) {
  doubles gradient(at.size());
  for (const std::int32_t t : tokens) {
    for (const std::size_t i : all_places<M>()) {
      const auto centre = double{quadratic::centre(t, static_cast<std::int64_t>(i))};
      gradient[i] += (at[i] - centre) / static_cast<double>(tokens.size());
    }
  }
  const double longer = std::max(1.0, length(gradient));
  for (double& g : gradient) g /= longer;
  return gradient;
}

/// What a peer was about to train on, and from where.
struct logged_step {
  std::vector<std::int32_t> tokens;
  doubles before;
};

/// The step of a cluster's trainers with SGD.
template <class M>
doubles stepped(const logged_step& step) {
  const doubles gradient = gradient_at<M>(step.before, step.tokens);
  doubles to = step.before;
  for (std::size_t i = 0; i < to.size(); ++i) to[i] -= 0.05 * gradient[i];
  return to;
}

using peer_logs = std::map<std::uint32_t, std::vector<logged_step>>;

/// Three peers, of which the third dies for good when it enters its `fatal`-th exchange.
template <class M, class Inner = causeway::optim::sgd, class MakePolicy>
peer_logs logs_of_three(MakePolicy policy, int fatal = 4, std::uint64_t steps_per_round = 3,
                        const std::vector<double>& speeds = {}) {
  peer_logs logs;
  int passed = 0;
  elastic_options o{.peers = 3, .steps_per_round = steps_per_round, .rounds = 10, .size = size_of<M>};
  o.dies_at = [&](std::uint32_t host, std::string_view at) { return host == 2 && at == "entered" && ++passed == fatal; };
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t> tokens, std::span<const float> parameters) {
    logs[host].push_back({{tokens.begin(), tokens.end()}, {parameters.begin(), parameters.end()}});
  };
  elastic_cluster<MakePolicy, Inner, M> cluster{policy, o};
  for (std::uint32_t host = 0; host < speeds.size(); ++host) cluster.world().set_speed(host, speeds[host]);
  cluster.boot();
  cluster.run(std::chrono::minutes{5});
  INFO(cluster.violation().value_or("no violation"));
  CHECK(!cluster.violation());
  CHECK(cluster.finished() == 2);
  return logs;
}

/// What one peer put into an exchange after so many steps, and what it went on from.
struct exchanged {
  doubles put_in;
  double samples = 0;
  std::uint32_t steps = 0;
  doubles got;
};

/// The exchanges of a peer whose results it waited for: where a step does not begin with what the step before made.
template <class M>
std::vector<exchanged> exchanges_of(const std::vector<logged_step>& steps) {
  std::vector<exchanged> all;
  exchanged now;
  for (const logged_step& s : steps) {
    if (now.steps > 0 && distance(now.put_in, s.before) > 1e-4) {
      now.got = s.before;
      all.push_back(std::exchange(now, {}));
    }
    now.samples += static_cast<double>(s.tokens.size());
    ++now.steps;
    now.put_in = stepped<M>(s);
  }
  return all;
}

/// Nesterov's momentum, or plain momentum, in double precision.
struct outer_by_hand {
  double rate = 1, momentum = 0;
  bool nesterov = false;
  doubles velocity{};

  /// The change of value i by a pseudo-gradient.
  double step(std::size_t i, double gradient) {
    if (velocity.size() <= i) velocity.resize(i + 1);
    velocity[i] = momentum * velocity[i] + gradient;
    return -rate * (nesterov ? gradient + momentum * velocity[i] : velocity[i]);
  }
};

/// Makes each exchange again: `update(shared, of those who were in it)` is what it must have changed the shared parameters
/// to. `within`: the largest share of the change that rounding may be off by.
template <class M, class MakePolicy, class Update>
void check_exchanges(MakePolicy policy, Update update, double within, std::uint64_t steps_per_round = 3,
                     const std::vector<double>& speeds = {}) {
  const peer_logs logs = logs_of_three<M>(policy, 4, steps_per_round, speeds);
  std::vector<std::vector<exchanged>> of;
  for (const auto& [host, steps] : logs) of.push_back(exchanges_of<M>(steps));
  // At the end of a run peers of unequal speed may have samples for other numbers of exchanges.
  const std::size_t before = of[2].size(), all = speeds.empty() ? of[0].size() : std::min(of[0].size(), of[1].size());
  REQUIRE(before >= 2);
  REQUIRE(all > before + 2);
  REQUIRE((of[1].size() == all || !speeds.empty()));
  doubles shared = first_parameters<M>();
  for (std::size_t k = 0; k < all; ++k) {
    INFO("exchange " << k);
    std::vector<exchanged> present;
    for (std::size_t host = 0; host < (k < before ? 3U : 2U); ++host) present.push_back(of[host][k]);
    const doubles next = update(shared, present);
    const doubles& got = of[0][k].got;
    CHECK(distance(got, next) < within * distance(shared, next));
    CHECK(got == of[1][k].got);
    shared = got;
  }
}

/// Weighted by samples.
inline doubles mean_of(const std::vector<exchanged>& present) {
  doubles mean(present.front().put_in.size());
  double samples = 0;
  for (const exchanged& e : present) samples += e.samples;
  for (const exchanged& e : present) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += e.samples / samples * e.put_in[i];
  }
  return mean;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_LOST_PEER_HPP
