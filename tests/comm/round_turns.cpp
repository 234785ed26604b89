// SPDX-License-Identifier: Apache-2.0
// Turns without faults; with faults: tests/presets/elastic.cpp, tests/hunt.

#include <causeway/comm/round_turns.hpp>

#include <causeway/optim/adamw.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "support/as_if_fixed.hpp"
#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/elastic.hpp"
#include "support/unsent_rows.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;

using support::as_if_fixed;
using support::farthest;

TEST_CASE("round turns: without faults peers that may come and go do what fixed ones do, bit for bit", "[comm][fast]") {
  as_if_fixed([] { return make(presets::diloco_options{.local_steps = 3}); });
  const auto streaming = [] {
    return make(presets::streaming_diloco_options{.local_steps = 9, .blocks_in_fragment = 2, .overlap_steps = 2});
  };
  as_if_fixed<support::blocky>(streaming, 4);
  const auto chosen = [] {
    return make(presets::cocodc_options{.local_steps = 9, .blocks_in_fragment = 2, .overlap_steps = 2});
  };
  as_if_fixed<support::blocky>(chosen, 4);
  // Who is drawn among fixed peers trains alone, so all are; and rows count by shares here, by samples there.
  as_if_fixed([] { return make(presets::fedavg_options{.local_steps = 3, .share = 1.0}); }, 37, 1e-5F);
  as_if_fixed([] { return make(presets::photon_options{.local_steps = 3, .share = 1.0, .outer_momentum = 0.5F}); }, 37,
              1e-5F);
  as_if_fixed([] {
    return make(presets::co_learning_options{.rounds = {.local_steps = 2, .most = 6, .factor = 2, .tolerance = 0.5}});
  });
  as_if_fixed([] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 512}); });
  as_if_fixed([] { return make(presets::demo_options{.k = 32, .momentum = 0.9F}); });
  as_if_fixed([] { return support::unsent_rows(8); });
  as_if_fixed<support::blocky>([] { return make(presets::power_sgd_options{.rank = 2}); }, 4);
  as_if_fixed([] { return make(presets::sparta_options{.share = 0.1}); });
  as_if_fixed([] { return make(presets::ravnest_options{.local_steps = 3, .clusters = {}}); }, 37, 0, 5);
  const auto des_loc = [] {
    return make(presets::des_loc_options{.parameters_every = 2, .first_moment_every = 4, .second_moment_every = 6});
  };
  as_if_fixed<support::quadratic, optim::adamw>(des_loc);
}

TEST_CASE("round turns: rows that are applied a round late are so with a changing set of peers, too", "[comm][fast]") {
  as_if_fixed([] { return comm::rounds{axis::every{3}, axis::one_round_late{}, axis::gather_mean<>{}}; });
  as_if_fixed([] {  // what came says how long rounds are from then on
    const axis::growing grows{{.local_steps = 2, .most = 8, .factor = 2, .tolerance = 0.5}};
    return comm::rounds{grows, axis::one_round_late{}, axis::gather_mean<>{}};
  });
  as_if_fixed([] {
    presets::distro_options o;
    o.momentum = 0.9F;
    return make(o);
  });
  // The early part goes another way: equal up to rounding.
  as_if_fixed([] { return make(presets::eager_diloco_options{.local_steps = 3, .outer_momentum = 0.5F}); }, 37, 1e-4F);
}

TEST_CASE("round turns: without faults gossip among peers that may come and go is gossip among fixed ones",
          "[comm][fast]") {
  as_if_fixed([] { return make(presets::noloco_options{.local_steps = 3}); }, 37, 0, 5);
  // Rows count by shares here, by samples there.
  as_if_fixed<support::blocky>([] { return make(presets::bacombo_options{.local_steps = 3, .segments = 2}); }, 4, 1e-5F, 4);
  as_if_fixed([] { return make(presets::moshpit_sgd_options{.local_steps = 3, .side = 2, .dimensions = 1}); }, 37, 0, 4);
  const auto overlapped = [] {
    return comm::rounds{axis::every{4},          axis::random_groups{2}, axis::pseudo_gradient_and_anchor{},
                        axis::gossip_nesterov{}, axis::gather_mean<>{},  axis::delayed{2, 0.5F}};
  };
  as_if_fixed(overlapped, 37, 0, 4);
}

namespace {

/// Four peers, and one that comes when they have trained for a while. Gives the distances of
/// what the peers train on to the parameters that the run began with: the others' when it came, and its first.
template <class MakePolicy>
std::pair<float, float> join_gossip(MakePolicy policy) {
  support::elastic_options o{.peers = 5, .expected = 4, .rounds = 40};
  std::vector<float> begin;
  float others = 0, first = 0;
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t>, std::span<const float> parameters) {
    if (begin.empty()) begin.assign(parameters.begin(), parameters.end());
    const float gone = farthest(begin, parameters);
    if (host == 4 && first == 0) first = gone;
    if (host != 4 && first == 0) others = gone;
  };
  support::elastic_cluster<MakePolicy> cluster{policy, o};
  for (std::uint32_t host = 0; host < 4; ++host) cluster.boot(host);
  cluster.run(5s);
  cluster.boot(4);
  const bool all = cluster.run(10min);
  INFO(cluster.error(0));
  REQUIRE(all);
  REQUIRE(!cluster.violation());
  for (std::uint32_t i = 1; i < 5; ++i) {
    const bool same = cluster.parameters(i) == cluster.parameters(0);
    CHECK(same);
  }
  return {others, first};
}

}  // namespace

TEST_CASE("round turns: who joins gossip begins with the parameters of a peer that it met", "[comm][fast]") {
  const auto check = [](auto policy) {
    const auto [others, first] = join_gossip(policy);
    CHECK(others > 0.6F);
    CHECK(first > 0.7F * others);
    CHECK(first < 1.4F * others);
  };
  check([] { return make(presets::noloco_options{.local_steps = 3}); });
  check([] { return make(presets::moshpit_sgd_options{.local_steps = 3, .side = 3, .dimensions = 2}); });
  check([] { return make(presets::bacombo_options{.local_steps = 3, .segments = 1}); });
}

TEST_CASE("round turns: after the death of all, gossip goes on with each peer's own parameters", "[comm][fast]") {
  support::elastic_options o{.peers = 4, .rounds = 40};
  std::vector<std::vector<float>> before(4), after(4);
  bool back = false;
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t>, std::span<const float> parameters) {
    auto& life = back ? after : before;
    if (!back || life[host].empty()) life[host].assign(parameters.begin(), parameters.end());
  };
  const auto policy = [] { return make(presets::noloco_options{.local_steps = 3}); };
  support::elastic_cluster<decltype(policy)> cluster{policy, o};
  cluster.boot();
  cluster.run(5s);
  for (std::uint32_t host = 0; host < 4; ++host) cluster.world().kill(host);
  back = true;
  for (std::uint32_t host = 0; host < 4; ++host) cluster.world().restart(host);
  REQUIRE(cluster.run(10min));
  REQUIRE(!cluster.violation());
  for (std::uint32_t host = 0; host < 4; ++host) {
    INFO("peer " << host);
    CHECK(farthest(before[host], after[host]) < 1.0F);  // three steps lie between, at most
    CHECK(farthest(after[host], after[(host + 1) % 4]) > 0);
  }
}

namespace {

/// What peers trained on between two sets of parameters, and how many samples each of them.
struct gathered_round {
  std::vector<float> parameters;  ///< before the step that it makes
  std::vector<std::int32_t> tokens;
  std::map<std::uint32_t, std::size_t> of;
};

/// Peers of which the last is four times as slow, without faults.
std::vector<gathered_round> gathered_rounds(std::uint64_t target) {
  support::elastic_options o{.peers = 3, .steps_per_round = target / 2, .rounds = 4, .size = 64};  // no padding
  std::vector<gathered_round> rounds;
  o.watches = [&](std::uint32_t host, std::span<const std::int32_t> tokens, std::span<const float> parameters) {
    const auto same = [&](const gathered_round& r) { return std::ranges::equal(r.parameters, parameters); };
    auto round = std::ranges::find_if(rounds, same);
    if (round == rounds.end()) {
      rounds.push_back({.parameters = {parameters.begin(), parameters.end()}, .tokens = {}, .of = {}});
      round = std::prev(rounds.end());
    }
    round->tokens.insert(round->tokens.end(), tokens.begin(), tokens.end());
    round->of[host] += tokens.size();
  };
  const auto policy = [=] { return make(presets::dedloc_options{.batch = target}); };
  support::elastic_cluster<decltype(policy)> cluster{policy, o};
  cluster.world().set_speed(2, 0.25);
  cluster.boot();
  REQUIRE(cluster.run(10min));
  REQUIRE(!cluster.violation());
  REQUIRE(cluster.checker().samples().done() == cluster.budget());
  return rounds;
}

}  // namespace

TEST_CASE("round turns: samples are gathered at each peer's pace until all have enough together", "[comm][fast]") {
  constexpr std::uint64_t target = 24;
  const auto rounds = gathered_rounds(target);
  REQUIRE(rounds.size() > 8);
  for (std::size_t i = 0; i + 1 < rounds.size(); ++i) {
    const gathered_round& r = rounds[i];
    std::vector<float> pull(r.parameters.size());
    for (const std::int32_t t : r.tokens) {
      for (std::size_t k = 0; k < pull.size(); ++k) {
        pull[k] += r.parameters[k] - support::quadratic::centre(t, static_cast<std::int64_t>(k));
      }
    }
    double squares = 0;
    for (float& p : pull) {
      p /= static_cast<float>(r.tokens.size());
      squares += static_cast<double>(p) * p;
    }
    const float rate = 0.05F * optim::clip_scale(static_cast<float>(std::sqrt(squares)), trainer_options{}.clip_norm);
    std::vector<float> next = r.parameters;
    for (std::size_t k = 0; k < next.size(); ++k) next[k] -= rate * pull[k];
    INFO("round " << i << " of " << r.tokens.size() << " samples");
    CHECK(farthest(next, rounds[i + 1].parameters) < 1e-5F);  // one step of all samples together
    if (i + 3 > rounds.size()) continue;                      // the last ones share out what is left
    CHECK(r.tokens.size() >= target);
    CHECK(r.tokens.size() <= target + 3 * 2);  // and the step that each peer was in
    CHECK(r.of.at(0) >= 2 * r.of.at(2));
  }
}

TEST_CASE("round turns: who comes too late for a round brings what it gathered to the next", "[comm][fast]") {
  // The last of four takes longer for a step than the others for a round and for waiting.
  support::elastic_options o{.peers = 4, .steps_per_round = 48, .rounds = 40, .warmup = 100};
  std::map<std::int32_t, int> trained;  // how often
  o.watches = [&](std::uint32_t, std::span<const std::int32_t> tokens, std::span<const float>) {
    for (const std::int32_t t : tokens) ++trained[t];
  };
  const auto policy = [] { return make(presets::dedloc_options{.batch = 96}); };
  support::elastic_cluster<decltype(policy)> cluster{policy, o};
  cluster.world().set_speed(3, 0.01);
  cluster.keep_history = true;
  cluster.boot();
  cluster.run(1min);
  REQUIRE(!cluster.violation());
  REQUIRE(cluster.commits().size() > 20);
  const auto again = [](const auto& sample) { return sample.second > 1; };
  CHECK(std::ranges::count_if(trained, again) == 0);
  std::set<std::uint64_t> late;  // rounds that it is in
  for (const std::string& line : cluster.history()) {
    const membership::event e = *membership::parse_event(line);
    CHECK(e.text != "diverged");  // its rate is that of the round that it came to
    if (e.what != membership::event::commit) continue;
    for (const auto& c : e.contributions) {
      if (c.peer == cluster.id(3)) late.insert(e.round);
    }
  }
  CHECK(late.size() > 8);
}
