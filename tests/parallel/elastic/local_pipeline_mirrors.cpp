// SPDX-License-Identifier: Apache-2.0
// Pipelines whose replicas tell each other what they change, from one record to the next, at their own pace.
#include <causeway/presets/compressed.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "parallel/elastic/local_pipeline_spares.hpp"
#include "parallel/elastic/local_pipeline_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;

namespace {

/// Records of three steps of four sequences.
presets::gaia_asp_options every_three_steps(float threshold, std::uint32_t most_ahead) {
  return {.threshold = threshold, .most_ahead = most_ahead, .record_samples = 12};
}
struct mirrored {
  [[nodiscard]] static auto policy() { return make(every_three_steps(0.01F, 2)); }
};
/// All of each step is told, and nobody goes on without it.
struct in_step {
  [[nodiscard]] static auto policy() { return make(every_three_steps(1e-9F, 1)); }
};

/// A hub would mix what a lost replica told with others' changes.
struct grouped {
  [[nodiscard]] static auto policy() {
    return make(presets::gaia_asp_options{.label = {.fewest = 2}, .record_samples = 12});
  }
};

/// What both have moved in each step counts. Once step `lost` was made with what both had told before, of the one that is
/// lost nothing since the last record, and nothing later.
support::parameters by_hand(const support::elastic_world_options& o, std::uint64_t lost = UINT64_MAX,
                            std::size_t stays = 0) {
  std::vector<float> own, record;  // what the other one has moved since the last record, and that
  return support::two_models_by_hand(o, [=](std::uint64_t step, parameter_store& shared, const auto& models) mutable {
    const auto values = shared.values();
    if (record.empty()) record.assign(values.begin(), values.end());
    own.resize(values.size(), 0.0F);
    for (std::size_t i = 0; i < values.size(); ++i) {
      own[i] += models[stays][i] - values[i];
      values[i] = step < lost ? models[0][i] + models[1][i] - values[i] : record[i] + own[i];
      models[0][i] = models[1][i] = values[i];
    }
    if (step % support::steps_of_round != 0) return;
    record.assign(values.begin(), values.end());
    own.clear();
  });
}

}  // namespace

TEST_CASE("local pipeline: replicas that tell each other all of each step make the sum of two whole models",
          "[parallel][elastic][fast]") {
  const auto o = support::two_pipelines();
  CHECK(support::off(support::undisturbed<in_step>(o), by_hand(o), o.layers) < 1e-4);
}

TEST_CASE("local pipeline: groups of mirrors are refused", "[parallel][elastic][fast]") {
  support::local_world<grouped> w{support::two_pipelines()};
  w.boot();
  w.run();
  CHECK(w.at(0).error.find("what a lost peer told is taken back, which a hub has mixed") != std::string::npos);
}

// A peer of the other pipeline than host 0's is killed before the fifth step, which host 0 makes with all that was told.
TEST_CASE("local pipeline: what a lost replica told since the last record is taken back", "[parallel][elastic][fast]") {
  auto o = support::two_pipelines();
  o.steps = 6;
  support::any_elastic_world* all = nullptr;
  stage::layout::place place;  // of host 0
  bool done = false;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host != 0 || step != 4 || std::exchange(done, true)) return;
    const stage::layout& layout = all->at(0).layouts.rbegin()->second;
    REQUIRE(layout.find(all->at(0).id, &place) != nullptr);
    const std::uint64_t lost = layout.replicas[1 - place.replica].assignments.back().peer;
    for (std::uint32_t h = 1; h < 4; ++h) {
      if (all->at(h).id == lost) return all->world().kill(h);
    }
  };
  support::local_world<in_step> w{o};
  all = &w;
  w.wanted = 3;
  w.boot();
  w.run();
  REQUIRE(done);
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 3);
  CHECK(support::off(support::holders_agree(w, o.hosts), by_hand(o, 5, place.replica), o.layers) < 1e-4);
}

TEST_CASE("local pipeline: what replicas told each other stays told, whoever else is lost", "[parallel][elastic][fast]") {
  support::nobody_loses_anything<in_step>(support::two_pipelines(), 3, 1e-5);
}

TEST_CASE("local pipeline: replicas that tell each other what they change go on whoever is lost, and let others in",
          "[parallel][elastic]") {
  support::goes_on_whoever_is_killed<mirrored>(23, 0.03);
  support::lets_newcomers_in<mirrored>();
  support::goes_on_from_checkpoints<mirrored>();
  auto o = support::two_pipelines();
  o.steps = 15;
  support::spare_peers_take_over<mirrored>(o, 400, 61, [&](const auto& all, const auto& quiet) {
    CHECK(support::off(all, quiet, o.layers) < 0.6);  // with other moments
  });
  support::lost_stages_come_back<mirrored>(23);
}

TEST_CASE("local pipeline: and they do all along their network calls",
          "[parallel][elastic][local_pipeline][slow][every_call]") {
  support::goes_on_whoever_is_killed<mirrored>(2, 0.03);
}
