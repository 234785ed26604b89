// SPDX-License-Identifier: Apache-2.0
// Every preset that tolerates peers that come and go, under fault::quorum, on the simulator, every event checked.

#include <causeway/comm/rounds.hpp>
#include <causeway/comm/stacked.hpp>
#include <causeway/optim/dion.hpp>
#include <causeway/optim/nadam.hpp>
#include <causeway/optim/snoo.hpp>
#include <causeway/optim/sparse_steps.hpp>
#include <causeway/presets/asynchronous.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/modular.hpp>
#include <causeway/presets/overlapped.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "support/blocky.hpp"
#include "support/catch.hpp"
#include "support/elastic.hpp"
#include "support/elastic_presets.hpp"
#include "support/rows_by_clock.hpp"
#include "support/unsent_rows.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using presets::make;

namespace {

struct given_dion : optim::dion {
  given_dion() : optim::dion{optim::dion_options{.given = true}} {}
};

struct quick_snoo : optim::snoo<> {
  quick_snoo() : optim::snoo<>{optim::snoo_options{.local_steps = 2}} {}
};

/// Of one preset: its peers' policies, and the model that they train.
struct elastic_check {
  using cluster_type = support::elastic_run;

  cluster_type::make_trainer policy;
  std::function<support::test_model()> model;
  std::int64_t size;
  std::uint64_t steps = 3;  ///< that a member has samples for
  bool by_path = false;     ///< peers end with models of their own, which share modules

  void all_is_well(cluster_type& cluster, std::uint32_t peers) const {
    INFO(cluster.violation().value_or("no violation"));
    REQUIRE(!cluster.violation());
    REQUIRE(cluster.finished() == peers);
    CHECK(cluster.checker().samples().done() == cluster.budget());
    if (by_path) same_modules(cluster, peers);
    for (std::uint32_t i = 1; i < peers && !by_path; ++i) {
      const bool same = cluster.parameters(i) == cluster.parameters(0);
      CHECK(same);
    }
    for (std::uint32_t i = 0; i < peers; ++i) {
      const std::vector<float>& shared = cluster.shared_parameters(i);
      const bool same = shared.empty() || shared == cluster.parameters(i);
      CHECK(same);
    }
  }

  /// Of each level there are two versions at most, whoever has them; what is not in a block all have alike.
  void same_modules(cluster_type& cluster, std::uint32_t peers) const {
    support::test_model m = this->model();
    std::map<int, std::set<std::vector<float>>> versions;
    for (std::uint32_t peer = 0; peer < peers; ++peer) {
      std::map<int, std::vector<float>> levels;
      for (const parameter_segment& s : m.parameters().segments()) {
        const auto values = std::span{cluster.parameters(peer)}.subspan(static_cast<std::size_t>(s.offset),
                                                                        static_cast<std::size_t>(s.size()));
        auto& level = levels[s.block < 0 || s.block == size ? 0 : 1 + s.block / 2];
        level.insert(level.end(), values.begin(), values.end());
      }
      for (auto& [level, values] : levels) versions[level].insert(std::move(values));
    }
    for (const auto& [level, all] : versions) CHECK(all.size() <= (level == 0 ? 1U : 2U));
  }

  /// Five peers; one dies around an exchange and comes back, one is cut off for a while.
  void at_points_of_a_round() {
    for (const auto* point : {"before_ready", "entered", "exchanged", "voted"}) {
      INFO("killed at " << point);
      int passed = 0;
      bool died = false;
      sim::world* world = nullptr;
      support::elastic_options o{.peers = 5, .steps_per_round = steps, .rounds = 60, .size = size};
      o.dies_at = [&](std::uint32_t host, std::string_view at) {
        if (host != 2 || died || at != point || ++passed != 3) return false;
        died = true;
        world->after(1s, [&] { world->restart(2); });
        return true;
      };
      cluster_type cluster{policy, o};
      world = &cluster.world();
      cluster.boot();
      cluster.run(2s);
      world->partition({4}, {0, 1, 2, 3});
      cluster.run(4s);
      world->heal({4}, {0, 1, 2, 3});
      cluster.run(10min);
      CHECK(died);
      CHECK(world->now() > time_point{6s});  // all of that happened before the end
      all_is_well(cluster, 5);
    }
  }

  /// Of parameters, on samples that nobody trained on.
  [[nodiscard]] double loss(std::span<const float> parameters) const {
    support::test_model m = model();
    std::copy(parameters.begin(), parameters.end(), m.parameters().values().begin());
    std::vector<std::int32_t> tokens(200);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(1'000'000 + i);
    return *m.evaluate(tokens, tokens, 1) / 200;
  }
  /// Having lost or won a peer costs at most so much of what training gains.
  void trains_as_well(cluster_type& cluster, double calm) const {
    const double begin = loss(model().parameters().values());
    CHECK(calm < begin);
    CHECK(loss(cluster.parameters(0)) < calm + 0.1 * (begin - calm));
  }

  struct short_run {
    std::uint64_t calls = 0;  ///< of the network, by the victim
    support::distinct_calls distinct{};
    double loss = 0;
    time_point end;
  };

  /// Three peers of which the victim dies at its n-th call, and comes back a second later.
  short_run dies_at(std::uint32_t victim, std::uint64_t n, const short_run* calm = nullptr) {
    sim::world* world = nullptr;
    short_run found;
    support::elastic_options o{.peers = 3, .steps_per_round = steps, .rounds = 8, .size = size};
    o.dies_at_call = [&](std::uint32_t host) {
      if (host != victim || found.calls++ != n) return false;
      world->after(1s, [&, victim] { world->restart(victim); });
      return true;
    };
    cluster_type cluster{policy, o};
    world = &cluster.world();
    cluster.boot();
    cluster.run(10min);
    all_is_well(cluster, 3);
    found.end = world->now();
    found.loss = loss(cluster.parameters(0));
    found.distinct = cluster.distinct(victim);
    if (calm != nullptr) trains_as_well(cluster, calm->loss);
    return found;
  }
  void at_every_call(std::uint32_t victim = 1) {
    const short_run calm = dies_at(victim, std::uint64_t(-1));
    const std::uint64_t stride = std::max<std::uint64_t>(1, calm.calls / 120);
    for (std::uint64_t n = 0; n < calm.calls; n = calm.distinct.after(n, stride)) {
      INFO("peer " << victim << " killed at call " << n << " of " << calm.calls);
      dies_at(victim, n, &calm);
    }
  }

  /// A fourth peer joins three, at a time of the run.
  void joined_at_every_round() {
    const short_run calm = joined_at(0s);
    const duration end = calm.end.since_start;
    for (duration at = end / 16; at < end; at += end / 16) {
      INFO("joined at " << seconds(at) << " s");
      joined_at(at, &calm);
    }
  }
  short_run joined_at(duration at, const short_run* calm = nullptr) {
    support::elastic_options o{.peers = 4, .expected = 3, .steps_per_round = steps, .rounds = 8, .size = size};
    cluster_type cluster{policy, o};
    for (std::uint32_t host = 0; host < 3; ++host) cluster.boot(host);
    cluster.run(at);
    cluster.boot(3);
    cluster.run(10min);
    all_is_well(cluster, 4);
    if (calm != nullptr) trains_as_well(cluster, calm->loss);
    return {.loss = loss(cluster.parameters(0)), .end = cluster.world().now()};
  }
};

template <class M, class Inner, class MakePolicy>
elastic_check check_of(MakePolicy policy, std::int64_t size, std::uint64_t steps) {
  const auto model = [size] {
    return support::test_model{
        M{static_cast<std::conditional_t<std::is_same_v<M, support::quadratic>, std::int64_t, int>>(size)}};
  };
  return {support::elastic_trainers<Inner, M>(std::move(policy)), model, size, steps};
}

enum class how { at_points_of_a_round, at_every_call, joined_at_every_round };

/// Every preset that tolerates it, by name; a small model of blocks where it takes models apart.
struct all_presets {
  how what;
  std::vector<std::string> done{};

  template <class M = support::quadratic, class Inner = optim::sgd, class MakePolicy>
  void operator()(std::string name, MakePolicy policy, std::int64_t size = std::is_same_v<M, support::blocky> ? 4 : 200,
                  std::uint64_t steps = 3) {
    INFO(name);
    elastic_check check = check_of<M, Inner>(policy, size, steps);
    check.by_path = name == "dipaco";
    if (what == how::at_points_of_a_round) check.at_points_of_a_round();
    if (what == how::at_every_call) check.at_every_call();
    if (what == how::joined_at_every_round) check.joined_at_every_round();
    done.push_back(std::move(name));
  }

  void local_updates() {
    (*this)("every_step", [] { return presets::every_step{}; });
    if (what == how::joined_at_every_round) {  // the optimizer's state is a newcomer's, too
      (*this).template operator()<support::quadratic, optim::nadam>("every_step", [] { return presets::every_step{}; });
      (*this).template operator()<support::quadratic, quick_snoo>("every_step", [] { return presets::every_step{}; });
    }
    (*this)("diloco", [] { return make(presets::diloco_options{.local_steps = 3}); });
    (*this)("open_diloco", [] { return make(presets::open_diloco_options{{.local_steps = 3}}); });
    (*this)("local_sgd", [] { return make(presets::local_sgd_options{.local_steps = 3}); });
    (*this)("intellect1", [] { return make(presets::intellect1_options{.local_steps = 3}); });
    (*this)("muloco", [] { return make(presets::muloco_options{.local_steps = 3}); });
    (*this)("fedavg", [] { return make(presets::fedavg_options{.local_steps = 3, .share = 0.5}); });
    (*this)("photon", [] { return make(presets::photon_options{.local_steps = 3, .share = 0.5, .outer_momentum = 0.5F}); });
    (*this).template operator()<support::blocky>(
        "edit", [] { return make(presets::edit_options{.local_steps = 2, .warm_up = 2, .threshold = 1}); });
    (*this)("co_learning", [] {
      return make(presets::co_learning_options{.rounds = {.local_steps = 2, .most = 3, .factor = 2, .tolerance = 0.05}});
    });
    (*this).template operator()<support::quadratic, optim::adamw>("des_loc", [] {
      return make(presets::des_loc_options{.parameters_every = 2, .first_moment_every = 4, .second_moment_every = 6});
    });
  }
  void overlapped() {
    (*this).template operator()<support::blocky>("streaming_diloco", [] {
      return make(presets::streaming_diloco_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 1});
    });
    // The next fragment is due before the last one has been applied.
    (*this).template operator()<support::blocky>("streaming_diloco", [] {
      return make(presets::streaming_diloco_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 5});
    });
    (*this).template operator()<support::blocky>("cocodc", [] {
      return make(presets::cocodc_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 2});
    });
    (*this)("eager_diloco", [] { return make(presets::eager_diloco_options{.local_steps = 3, .outer_momentum = 0.5F}); });
  }
  void compressed() {
    (*this)("sparse_loco", [] { return make(presets::sparse_loco_options{.local_steps = 3, .k = 8}); });
    (*this)("sparta", [] { return make(presets::sparta_options{.share = 0.1}); });
    (*this)("sparta_diloco",
            [] { return make(presets::sparta_diloco_options{.sparta = {.share = 0.1}, .local_steps = 3}); });
    (*this)("demo", [] { return make(presets::demo_options{.k = 4, .momentum = 0.9F}); });
    (*this)("distro", [] {
      presets::distro_options o;
      o.momentum = 0.9F;
      return make(o);
    });
    (*this)("gaia", [] { return make(presets::gaia_options{}); });
    (*this)("cocktail_sgd", [] { return make(presets::cocktail_sgd_options{.mask_share = 0.5, .k = 2048}); });
    (*this)("unsent rows", [] { return support::unsent_rows(64); });
    (*this)("dedloc", [] { return make(presets::dedloc_options{.batch = 12}); });
    (*this).template operator()<support::quadratic, optim::sparse_sgd>(
        "stella_train", [] { return make(presets::stella_train_options{.share = 0.5}); });
    (*this).template operator()<support::blocky>("power_sgd", [] { return make(presets::power_sgd_options{.rank = 2}); });
    (*this).template operator()<support::blocky, given_dion>("dion", [] { return make(presets::dion_options{.rank = 2}); });
  }
  void by_speed() {
    (*this)(
        "parameters by speed",
        [] {
          return comm::rounds{axis::batch_by_speed{{.local_steps = 2, .sequences = 10}}, axis::parameters{},
                              axis::split_mean<>{}};
        },
        200, 6);
    (*this)(
        "dlion", [] { return make(presets::dlion_options{.local_steps = 2, .sequences = 10}); }, 200, 6);
  }
  void by_clock() {
    (*this).template operator()<support::blocky>(
        "a_edit",
        [] { return make(presets::a_edit_options{.seconds = 0.09, .fewest_steps = 2, .warm_up = 2, .threshold = 1}); }, 4,
        8);
    (*this)("parameters by the clock", support::parameters_by_clock);
    (*this)("a round late by the clock", support::late_by_clock, 200, 12);
  }
  /// Two regions of those who are there, or where each peer says it is: they come and go with their peers.
  void regions() {
    (*this)("ravnest", [] { return make(presets::ravnest_options{.local_steps = 3, .clusters = {}}); });
    (*this)("ravnest", [begun = std::make_shared<std::uint32_t>(0)] {
      return make(presets::ravnest_options{.local_steps = 2, .clusters = {}, .label = {.own = (*begun)++ % 3}});
    });
    const auto hubs = [] {
      return make(presets::halos_options{.regions = {},
                                         .local_steps = 2,
                                         .pushes = 2,
                                         .region_learning_rate = 0.5F,
                                         .region_momentum = 0.5F,
                                         .region_period = 2,
                                         .global_learning_rate = 0.5F,
                                         .record_samples = 24});
    };
    (*this)("halos", hubs, 200, 8);  // the second peer is a region of its own
  }
  void gossip() {
    (*this)("noloco", [] { return make(presets::noloco_options{.local_steps = 3}); });
    (*this)("moshpit_sgd", [] { return make(presets::moshpit_sgd_options{.local_steps = 3, .side = 3, .dimensions = 2}); });
    (*this).template operator()<support::blocky>(
        "bacombo", [] { return make(presets::bacombo_options{.local_steps = 3, .segments = 2}); });
    (*this).template operator()<support::blocky>("netstorm",
                                                 [] { return make(presets::netstorm_options{.message_bytes = 32}); });
  }
  /// The hub, which is the founder at first, is killed too.
  void hubs() {
    const auto policy = [] {
      return make(presets::decoupled_diloco_options{.local_steps = 2,
                                                    .fragments = 2,
                                                    .overlap_steps = 1,
                                                    .outer_momentum = 0.5F,
                                                    .record_samples = 24,
                                                    .most_batch = 2});
    };
    (*this).template operator()<support::blocky>("decoupled_diloco", policy, 4, 8);
    if (what == how::at_every_call) check_of<support::blocky, optim::sgd>(policy, 4, 8).at_every_call(0);
    const auto waits = [] {
      return make(presets::async_local_sgd_options{
          .local_steps = 2, .period = 3, .outer_momentum = 0.5F, .percentile = 1, .record_samples = 24});
    };
    (*this)("async_local_sgd", waits, 200, 8);
    if (what == how::at_every_call) check_of<support::quadratic, optim::sgd>(waits, 200, 8).at_every_call(0);
  }
  void mirrors() {
    presets::gaia_asp_options o{.threshold = 0.05F, .most_ahead = 2, .record_samples = 24};
    const auto policy = [&o] { return make(o); };
    for (; o.label.fewest < 3; ++o.label.fewest) (*this)("gaia_asp", policy, 200, 8);  // and in two groups
  }
  void paths() {
    (*this).template operator()<support::blocky>("dipaco", [] {
      return make(presets::dipaco_options{.blocks_per_level = 2, .local_steps = 3, .outer_momentum = 0.5F});
    });
  }
  /// Two policies of one's own: parameters whole, a round within a round, and rows that are made before they are applied.
  void stacks() {
    (*this)("parameters and diloco", [] {
      return comm::stacked{comm::rounds{axis::every{2}, axis::parameters{}, axis::gather_mean<>{}},
                           make(presets::diloco_options{.local_steps = 3})};
    });
    (*this)("diloco in diloco", [] {
      return comm::stacked{make(presets::local_sgd_options{.local_steps = 2}),
                           make(presets::diloco_options{.local_steps = 4})};
    });
    (*this).template operator()<support::blocky>("sparta and streaming diloco", [] {
      return comm::stacked{
          make(presets::sparta_options{.share = 0.1}),
          make(presets::streaming_diloco_options{.local_steps = 6, .blocks_in_fragment = 2, .overlap_steps = 3})};
    });
  }
  void run() {
    local_updates();
    overlapped();
    compressed();
    gossip();
    by_speed();
    by_clock();
    regions();
    hubs();
    mirrors();
    paths();
    stacks();
  }
};

}  // namespace

TEST_CASE("presets: among peers that come and go, killed around an exchange, or cut off", "[presets][fast]") {
  all_presets all{how::at_points_of_a_round};
  all.run();
  for (const std::string_view name : support::elastic_presets) {
    CHECK(std::count(all.done.begin(), all.done.end(), name) > 0);
  }
}

TEST_CASE("presets: among peers that come and go, killed at every call of the network", "[presets][slow][every_call]") {
  all_presets{how::at_every_call}.run();
}

TEST_CASE("presets: among peers that come and go, joined at every round", "[presets][slow]") {
  all_presets{how::joined_at_every_round}.run();
}
