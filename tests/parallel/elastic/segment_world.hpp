// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_SEGMENT_WORLD_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_SEGMENT_WORLD_HPP

// Worlds of recoveries whose pipelines are cut apart, where a policy exchanges gradients range by range.

#include <causeway/parallel/elastic/block_segments.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_templates.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "support/catch.hpp"

namespace support {

/// What becomes of lost stages, beside what makes a policy.
template <class Policy>
struct with_redundant : Policy {
  static auto recovery() { return causeway::stage::recovery::redundant{2}; }
};
template <class Policy>
struct with_redundant_forward : Policy {
  static auto recovery() { return causeway::stage::recovery::redundant_forward{2}; }
};
template <class Policy>
struct with_templates : Policy {
  static auto recovery() { return three_block_templates(); }
};

/// Five peers make two pipelines, of two stages and of three.
inline elastic_world_options five_peers() {
  elastic_world_options o;
  o.hosts = 5;
  o.layers = 6;
  o.micro_batches = 4;
  o.steps = 6;
  return o;
}
template <class Policy>
elastic_world_options world_of() {
  constexpr bool templates = std::is_same_v<decltype(Policy::recovery()), causeway::stage::recovery::templates>;
  return templates ? five_peers() : two_pipelines();
}

/// Whether a peer had several ranges to exchange in some step.
inline bool was_cut_apart(any_elastic_world& w, const elastic_world_options& o) {
  for (std::uint32_t h = 0; h < o.hosts; ++h) {
    for (const auto& [step, layout] : w.at(h).layouts) {
      const auto segments = causeway::parallel::segments_of(layout, o.layers);
      const auto own =
          std::count_if(segments.begin(), segments.end(), [&](const auto& s) { return s.is_computed_by(w.at(h).id); });
      if (own > 1) return true;
    }
  }
  return false;
}

/// Whoever is lost, at `kills` network calls all over the run.
template <class Policy, class Check>
void whoever_is_killed(std::uint64_t kills, const Check& check) {
  auto o = world_of<Policy>();
  std::vector<distinct_calls> calls;
  undisturbed_gradients<Policy>(o, &calls);
  std::uint64_t apart = 0;
  for (std::uint32_t victim = 0; victim < o.hosts; ++victim) {
    const std::uint64_t from = (victim == 0 ? 2 : 1) * founded;
    for (std::uint64_t k = 0; k < kills; ++k) {
      o.victim = victim;
      o.dies_at = from + victim + k * (calls[victim].count() - from) / kills;
      o.back_after = k % 2 == 0 ? causeway::duration{0} : std::chrono::milliseconds{200};
      INFO("host " << victim << " is killed at call " << o.dies_at);
      gradient_world<Policy> w{o};
      w.wanted = o.hosts - 1;
      w.boot();
      w.run();
      CHECK(errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= o.hosts - 1);
      check(w, o);
      apart += was_cut_apart(w, o) ? 1 : 0;
    }
  }
  CHECK(apart > 0);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_SEGMENT_WORLD_HPP
