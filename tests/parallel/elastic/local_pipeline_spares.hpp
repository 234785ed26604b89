// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_LOCAL_PIPELINE_SPARES_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_LOCAL_PIPELINE_SPARES_HPP

// Peers that rest while others train in pipelines, and are lost.

#include <algorithm>
#include <cstdint>

#include "parallel/elastic/local_pipeline_world.hpp"
#include "support/catch.hpp"

namespace support {

/// Of one peer more than the pipelines need each is killed at some network calls, as long as it rests when it is lost: the
/// parameters are those of a run without faults, or at most `most` off.
template <class Options>
void nobody_loses_anything(elastic_world_options o, std::uint64_t every, double most = 0) {
  ++o.hosts;
  const parameters quiet = undisturbed<Options>(o);
  std::uint64_t lost = 0;
  for (o.victim = 0; o.victim < o.hosts; ++o.victim) {
    for (o.dies_at = 2 * founded;; o.dies_at += every) {
      INFO("host " << o.victim << " is killed at call " << o.dies_at);
      local_world<Options> w{o};
      w.wanted = o.hosts - 1;
      w.boot();
      w.run();
      CHECK(errors_of(w, o.hosts).empty());
      CHECK(w.finished() >= o.hosts - 1);
      const auto rests = [&](const auto& noted) { return noted.second.find(w.at(o.victim).id) == nullptr; };
      const auto& layouts = w.at(o.victim == 0 ? 1 : 0).layouts;
      if (!std::all_of(layouts.begin(), layouts.end(), rests) || w.at(o.victim).calls <= o.dies_at) break;
      CHECK(off(holders_agree(w, o.hosts), quiet, o.layers) <= most);
      ++lost;
    }
  }
  CHECK(lost > 5);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_LOCAL_PIPELINE_SPARES_HPP
