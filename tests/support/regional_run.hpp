// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_REGIONAL_RUN_HPP
#define CAUSEWAY_TESTS_SUPPORT_REGIONAL_RUN_HPP

// A run of peers that come and go and that each say in which region they are. Its parameters tell how often each sample
// counts in what training came to.

#include <causeway/optim/sgd.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/counting.hpp"
#include "support/elastic.hpp"
#include "support/elastic_end.hpp"

namespace support {

struct regional_run {
  std::vector<std::uint32_t> regions{0, 0, 1, 1};  ///< of each peer
  std::uint32_t fewest = 2;
  std::uint64_t record_samples = 32;
  elastic_options options{.peers = 4, .steps_per_round = 8, .rounds = 4};
  std::function<void(elastic_run&)> during{};

  std::map<std::uint32_t, std::vector<std::int32_t>> trained{};  ///< each peer's samples
  std::vector<std::string> lines{};
  std::vector<float> parameters{};
  std::uint64_t bytes = 0;
  std::size_t records = 0;

  [[nodiscard]] causeway::collective::region_label label(std::uint32_t region) const {
    return {.own = region, .fewest = fewest};
  }

  /// `policy(region)` of each peer.
  void run(const auto& policy) {
    const std::uint64_t samples = options.rounds * options.peers * options.batch * options.steps_per_round;
    options.size = static_cast<std::int64_t>(samples);
    options.trace = [this](std::string_view text) { lines.emplace_back(text); };
    options.watches = [this](std::uint32_t host, std::span<const std::int32_t> tokens, auto) {
      trained[host].insert(trained[host].end(), tokens.begin(), tokens.end());
    };
    elastic_run* all = nullptr;
    const auto make = [&](causeway::environment env, causeway::trainer_options to, std::int64_t size) {
      std::uint32_t host = 0;
      while (all->id(host) != env.group->identity()) ++host;
      const auto trainers =
          elastic_trainers<causeway::optim::sgd, counting>([&policy, region = regions[host]] { return policy(region); });
      return trainers(std::move(env), to, size);
    };
    elastic_run cluster{make, options};
    all = &cluster;
    parameters = alike_at_the_end(cluster, options, during);
    bytes = cluster.bytes_sent();
    records = cluster.commits().size();
  }

  /// One peer dies at its n-th call of the network, and comes back a second later. Gives the calls that it made.
  std::uint64_t run_with_death(std::uint32_t victim, std::uint64_t n, const auto& policy) {
    std::uint64_t calls = 0;
    elastic_run* all = nullptr;
    options.dies_at_call = [&](std::uint32_t host) {
      if (host != victim || calls++ != n) return false;
      all->world().after(std::chrono::seconds{1}, [all, victim] { all->world().restart(victim); });
      return true;
    };
    during = [&](elastic_run& cluster) { all = &cluster; };
    run(policy);
    return calls;
  }

  /// How often a sample counts in what training came to.
  [[nodiscard]] double count_of(std::int32_t sample) const {
    return -double{parameters[static_cast<std::size_t>(sample)]} * 2 / 0.05;
  }
  [[nodiscard]] bool all_count(double least, double most) const {
    for (std::int32_t t = 0; t < std::ssize(parameters); ++t) {
      if (count_of(t) < least - 1e-3 || count_of(t) > most + 1e-3) return false;
    }
    return true;
  }
  [[nodiscard]] std::ptrdiff_t counted_twice() const {
    std::ptrdiff_t all = 0;
    for (std::int32_t t = 0; t < std::ssize(parameters); ++t) all += count_of(t) > 1.999 ? 1 : 0;
    return all;
  }
  /// Twice count only samples of these peers.
  [[nodiscard]] bool twice_only(const std::vector<std::uint32_t>& hosts) {
    for (std::int32_t t = 0; t < std::ssize(parameters); ++t) {
      const auto has = [&](std::uint32_t h) { return std::count(trained[h].begin(), trained[h].end(), t) > 0; };
      if (count_of(t) > 1.001 && std::none_of(hosts.begin(), hosts.end(), has)) return false;
    }
    return true;
  }
  [[nodiscard]] std::ptrdiff_t said(std::string_view what) const {
    return std::count_if(lines.begin(), lines.end(),
                         [&](const std::string& l) { return l.find(what) != std::string::npos; });
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_REGIONAL_RUN_HPP
