// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/modular.hpp>

#include "support/blocky.hpp"
#include "support/conformance.hpp"
#include "support/networks.hpp"

using namespace causeway;
using presets::make;
using support::blocky;

namespace {

presets::dipaco_options small_options() { return {.blocks_per_level = 2, .weights = {1, 2, 1, 3}, .local_steps = 3}; }

}  // namespace

TEST_CASE("presets: dipaco's peers differ for good, and may come and go where each has the whole model",
          "[presets][fast]") {
  STATIC_REQUIRE(presets::dipaco::traits.tolerates == peers::elastic);
  STATIC_REQUIRE_FALSE(presets::dipaco::traits.identical_replicas);
  STATIC_REQUIRE(presets::dipaco::traits.moves_with_blocks);
  STATIC_REQUIRE(presets::dipaco::traits.allows_late_steps);
  CHECK(make(presets::dipaco_options{}).trigger().local_steps == 500);
}

TEST_CASE("presets: dipaco passes the conformance suite", "[presets][fast]") {
  support::check_communication_policy<optim::adamw, blocky>([] { return make(small_options()); }, {.peers = 4});
}

TEST_CASE("presets: dipaco's peers hold the same modules where their paths meet, and others elsewhere", "[presets][fast]") {
  std::vector<std::vector<float>> ends(4);
  std::vector<parameter_segment> segments;
  support::run_cluster(4, [&](std::uint32_t peer, environment env) {
    auto t = make_trainer(support::test_model{blocky{4}}, std::move(env), {}, make(small_options()), optim::adamw{});
    if (!t.start()) throw std::runtime_error{"start"};
    for (std::uint64_t s = 0; s < 7; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      if (!t.step({tokens, tokens, 1})) throw std::runtime_error{"step"};
    }
    if (!t.finish()) throw std::runtime_error{"finish"};
    const auto values = t.model().parameters().values();
    ends[peer].assign(values.begin(), values.end());
    if (peer == 0) segments.assign(t.model().parameters().segments().begin(), t.model().parameters().segments().end());
  });
  const auto same = [&](const parameter_segment& s, std::size_t a, std::size_t b) {
    const auto first = ends[a].begin() + s.offset;
    return std::equal(first, first + s.size(), ends[b].begin() + s.offset);
  };
  for (const parameter_segment& s : segments) {
    INFO(s.name);
    const bool outside = s.block < 0 || s.block == 4, first = !outside && s.block < 2, second = !outside && s.block >= 2;
    CHECK(same(s, 0, 1) == (outside || first));
    CHECK(same(s, 2, 3) == (outside || first));
    CHECK(same(s, 0, 2) == (outside || second));
    CHECK(same(s, 1, 3) == (outside || second));
    CHECK(same(s, 0, 3) == outside);
  }
}

TEST_CASE("presets: dipaco's weights can change between rounds, as shards do", "[presets][fast]") {
  // The same three rounds; one policy is told its weights when it is made, the other after it began, one after a round.
  const auto end_of_first = [](std::vector<double> made, std::vector<double> told, std::uint64_t told_at) {
    std::vector<float> end;
    support::run_cluster(4, [&](std::uint32_t peer, environment env) {
      auto o = small_options();
      o.weights = made;
      auto t = make_trainer(support::test_model{blocky{4}}, std::move(env), {}, make(o), optim::adamw{});
      if (!t.start()) throw std::runtime_error{"start"};
      for (std::uint64_t s = 0; s < 9; ++s) {
        if (s == told_at) t.comm().group().weights = told;
        const auto tokens = support::tokens_of(peer, s);
        if (!t.step({tokens, tokens, 1})) throw std::runtime_error{"step"};
      }
      if (peer == 0) end.assign(t.model().parameters().values().begin(), t.model().parameters().values().end());
    });
    return end;
  };
  const std::vector<double> shards{1, 2, 1, 3}, alike{};
  const auto made = end_of_first(shards, shards, 0);
  CHECK(end_of_first(alike, shards, 0) == made);
  CHECK(end_of_first(alike, shards, 3) != made);
  CHECK(end_of_first(alike, shards, 3) != end_of_first(alike, alike, 3));
}

TEST_CASE("presets: dipaco refuses a model that its paths do not fit", "[presets][fast]") {
  support::run_cluster(4, [&](std::uint32_t, environment env) {
    auto t = make_trainer(support::test_model{blocky{6}}, std::move(env), {}, make(small_options()), optim::adamw{});
    const auto started = t.start();
    if (started || started.error().code != errc::invalid_argument) throw std::runtime_error{"three levels, paths of two"};
  });
}

TEST_CASE("presets: dipaco gives the same bits on every network", "[presets][net]") {
  support::check_networks([] { return make(small_options()); });
}
