// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ROUTING_BY_CHANCE_HPP
#define CAUSEWAY_STAGE_ROUTING_BY_CHANCE_HPP

// Routers that choose stage by stage: the peer with the least expected load (SWARM), or any (NoLoCo).

#include <causeway/core/rng.hpp>
#include <causeway/stage/routing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::stage::routing {

/// With which load a peer enters that was not there before.
enum class entry : std::uint8_t {
  at_minimum,  ///< tried at once (the SWARM code)
  at_maximum,  ///< only when the others have done as much (a descendant of it)
};

struct least_load_options {
  std::uint64_t seed = 1;
  entry newcomers = entry::at_minimum;
};

/// Stochastic wiring (Ryabinin et al., SWARM parallelism, ICML 2023, section 3.2: interleaved weighted round robin). Each
/// peer of a stage has an accumulated expected processing time; the least is taken, and grows by what a micro-batch is
/// expected to take there. So peers get micro-batches in proportion to their throughput. Ties are broken at random.
/// Cost of a choice: O(peers of the stage).
class least_load {
 public:
  static constexpr std::string_view name = "least_load";

  explicit least_load(least_load_options options = {}) : options_{options}, random_{options.seed, 0x6C6F6164} {}

  void begin(const step_size&, const roster&) {}

  [[nodiscard]] net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t) {
    const auto peers = known.usable(stage);
    if (peers.empty()) return nobody;
    admit(stage, known);
    take_unit(stage, known);
    std::map<net::peer_id, double>& load = loads_[stage];
    double least = std::numeric_limits<double>::infinity();
    for (const server& s : peers) least = std::min(least, load[s.id]);
    std::vector<net::peer_id> tied;
    for (const server& s : peers) {
      if (load[s.id] <= least) tied.push_back(s.id);
    }
    const net::peer_id chosen = tied.size() == 1 ? tied[0] : tied[static_cast<std::size_t>(random_.below(tied.size()))];
    load[chosen] += known.expected_seconds(stage, chosen);
    return chosen;
  }

  [[nodiscard]] bool runs(const step_size&, std::uint32_t, std::uint32_t) const noexcept { return true; }

  /// Accumulated so far; 0 for a peer that was never seen.
  [[nodiscard]] double load(std::uint32_t stage, net::peer_id id) const {
    const auto at = loads_.find(stage);
    if (at == loads_.end() || !at->second.contains(id)) return 0;
    return at->second.at(id);
  }

 private:
  // Who is new enters, who has gone is forgotten: when it comes back it is new.
  void admit(std::uint32_t stage, const roster& known) {
    std::map<net::peer_id, double>& load = loads_[stage];
    const auto all = known.at(stage);
    std::erase_if(load, [&](const auto& l) {
      return std::none_of(all.begin(), all.end(), [&](const server& s) { return s.id == l.first; });
    });
    double enter = 0;
    bool first = true;
    for (const auto& [id, l] : load) {
      enter = first ? l : options_.newcomers == entry::at_minimum ? std::min(enter, l) : std::max(enter, l);
      first = false;
    }
    for (const server& s : all) load.try_emplace(s.id, enter);
  }

  // Before anybody of the stage has shown its speed, loads count micro-batches. From then on they are seconds: else who got
  // one more of the first would get nothing for as long as the others take to make up for whole seconds.
  void take_unit(std::uint32_t stage, const roster& known) {
    const auto all = known.at(stage);
    const bool is_known = std::any_of(all.begin(), all.end(), [](const server& s) { return s.seconds > 0; });
    if (std::exchange(in_seconds_[stage], is_known) || !is_known) return;
    for (auto& [id, load] : loads_[stage]) load *= known.expected_seconds(stage, nobody);
  }

  least_load_options options_;
  rng random_;
  std::map<std::uint32_t, std::map<net::peer_id, double>> loads_;
  std::map<std::uint32_t, bool> in_seconds_;
};
static_assert(Router<least_load>);

struct random_options {
  std::uint64_t seed = 1;
};

/// Any peer of the stage, each as likely (NoLoCo, Kolehmainen et al., 2025: what mixes replicas between exchanges). The
/// choice is a function of (seed, step, stage, micro-batch, how often it was chosen again, who is there).
class random {
 public:
  static constexpr std::string_view name = "random";

  explicit random(random_options options = {}) : options_{options} {}

  void begin(const step_size& size, const roster&) { step_ = size.step; }

  [[nodiscard]] net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch) {
    const auto peers = known.usable(stage);
    if (peers.empty()) return nobody;
    rng draw{options_.seed, mix(step_, mix(stage, micro_batch), choices_++)};
    return peers[static_cast<std::size_t>(draw.below(peers.size()))].id;
  }

  [[nodiscard]] bool runs(const step_size&, std::uint32_t, std::uint32_t) const noexcept { return true; }

 private:
  random_options options_;
  std::uint64_t step_ = 0;
  std::uint64_t choices_ = 0;
};
static_assert(Router<random>);

}  // namespace causeway::inline CAUSEWAY_ABI::stage::routing

#endif  // CAUSEWAY_STAGE_ROUTING_BY_CHANCE_HPP
