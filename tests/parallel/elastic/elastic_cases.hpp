// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_ELASTIC_CASES_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_ELASTIC_CASES_HPP

// What elastic pipelines of every kind of model go through: policies with the sizes of small worlds, and runs in which more
// happens than one death.

#include <causeway/stage/recovery_morph.hpp>
#include <causeway/stage/recovery_proactive.hpp>
#include <causeway/stage/recovery_templates.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_world.hpp"
#include "support/catch.hpp"

namespace support {

/// For five peers, of which one may be lost, that hold three blocks each.
inline causeway::stage::recovery::templates three_block_templates() {
  causeway::stage::recovery::templates_options t;
  t.failures = 1;
  t.most_peers = 5;
  t.kind.memory = 3;
  return causeway::stage::recovery::templates{t};
}

/// Peers hold two blocks of four, each of which takes as long as any other.
inline causeway::stage::recovery::morph two_block_morph() {
  causeway::stage::recovery::morph_options m;
  m.calibration = {{1}, std::vector<causeway::plan::cut_point>(4, {{1}, {2}, 0, 2, 0}), 0, {}, {}};
  m.device_memory = 4;
  return causeway::stage::recovery::morph{m};
}

inline causeway::stage::recovery::proactive two_block_proactive(std::uint64_t interval) {
  causeway::stage::recovery::proactive_options p;
  p.device_memory = 2;  // blocks
  p.interval = interval;
  return causeway::stage::recovery::proactive{p};
}

/// Three stages on four hosts, of which one dies between two steps.
inline elastic_world_options three_stages_lose_one(std::uint32_t victim, std::string& said) {
  elastic_world_options o;
  o.hosts = 4;
  o.layers = 6;
  o.steps = 6;
  o.victim = victim;
  o.dies_at = 200;
  o.trace = [&said](const std::string& line) { said += line + "\n"; };
  return o;
}

/// With neighbour_init: whether the stage between was made up, or the run stands for want of an end.
inline void check_made_up(any_elastic_world& w, const elastic_world_options& o, const std::string& said) {
  CAPTURE(said);
  CHECK(errors_of(w, o.hosts).empty());
  const auto* assignment = w.last_assignment(o.victim);
  const bool between = assignment != nullptr && assignment->computes.first > 0 && assignment->computes.last < o.layers;
  if (between || assignment == nullptr) {
    CHECK(w.finished() == 3);
    std::uint64_t made_up = 0;
    for (std::uint32_t h = 0; h < o.hosts; ++h) made_up += w.at(h).made_up;
    CHECK(made_up == (between ? 2 : 0));
  } else {
    CHECK(w.finished() == 0);
    CHECK(said.find("no peer that is there has them") != std::string::npos);
  }
}

/// Three stages whose state is saved every other step.
inline elastic_world_options saved_every_other_step() {
  elastic_world_options o;
  o.layers = 6;
  o.steps = 9;
  o.store_every = 2;
  return o;
}

/// The three that are left have gone back to what is saved, if the fourth had a stage that nobody else has.
inline void check_went_back(any_elastic_world& w, const elastic_world_options& o) {
  std::uint64_t went_back = 0;
  for (std::uint32_t h = 0; h < o.hosts; ++h) went_back += w.at(h).went_back;
  CHECK(went_back == (w.last_assignment(o.victim) != nullptr ? 3 : 0));
}

/// Peers that save every third step are all stopped in the sixth, and started again, but for `lost`. `make(options)` gives
/// the world; `check(world, options)` looks at it when the run is over.
template <class MakeWorld, class Check>
void stop_all_and_start_again(MakeWorld make, Check check, bool own_storages = false, std::uint32_t lost = UINT32_MAX) {
  elastic_world_options o;
  o.steps = 8;
  o.store_every = 3;
  o.own_storages = own_storages;
  const std::uint32_t left = lost < o.hosts ? o.hosts - 1 : o.hosts;
  any_elastic_world* all = nullptr;
  bool stopped = false;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host != 2 || step != 5 || std::exchange(stopped, true)) return;
    for (std::uint32_t h = 0; h < o.hosts; ++h) {
      all->world().after(std::chrono::milliseconds{1}, [&, h] { all->world().kill(h); });
      if (h != lost) all->world().after(std::chrono::seconds{5}, [&, h] { all->world().restart(h); });
    }
  };
  auto w = make(o);
  w.wanted = left;
  all = &w;
  w.boot();
  w.run();
  CHECK(stopped);
  CHECK(errors_of(w, o.hosts).empty());
  CHECK(w.finished() == left);
  for (std::uint32_t h = 0; h < o.hosts; ++h) CHECK((h == lost || w.at(h).went_back > 0));
  check(w, o);
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_ELASTIC_CASES_HPP
