// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ROUTING_BY_CHANCE_HPP
#define CAUSEWAY_STAGE_ROUTING_BY_CHANCE_HPP

// Routers that choose stage by stage: the peer with the least expected load (SWARM), or any (NoLoCo).

#include <causeway/core/rng.hpp>
#include <causeway/stage/routing.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

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

  CAUSEWAY_DECL explicit least_load(least_load_options options = {});

  void begin(const step_size&, const roster&) {}

  CAUSEWAY_DECL [[nodiscard]] net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t);

  [[nodiscard]] bool runs(const step_size&, std::uint32_t, std::uint32_t) const noexcept { return true; }

  /// Accumulated so far; 0 for a peer that was never seen.
  CAUSEWAY_DECL [[nodiscard]] double load(std::uint32_t stage, net::peer_id id) const;

 private:
  // Who is new enters, who has gone is forgotten: when it comes back it is new.
  CAUSEWAY_DECL void admit(std::uint32_t stage, const roster& known);

  // Before anybody of the stage has shown its speed, loads count micro-batches. From then on they are seconds: else who got
  // one more of the first would get nothing for as long as the others take to make up for whole seconds.
  CAUSEWAY_DECL void take_unit(std::uint32_t stage, const roster& known);

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

  CAUSEWAY_DECL [[nodiscard]] net::peer_id choose(const roster& known, std::uint32_t stage, std::uint32_t micro_batch);

  [[nodiscard]] bool runs(const step_size&, std::uint32_t, std::uint32_t) const noexcept { return true; }

 private:
  random_options options_;
  std::uint64_t step_ = 0;
  std::uint64_t choices_ = 0;
};
static_assert(Router<random>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/routing_by_chance.ipp>
#endif

#endif  // CAUSEWAY_STAGE_ROUTING_BY_CHANCE_HPP
