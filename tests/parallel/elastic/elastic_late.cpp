// SPDX-License-Identifier: Apache-2.0
// Elastic pipelines with policies of gradients whose results are a step late.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/optim/clip.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/optim/sparse_steps.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/stage/recovery_reroute.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::elastic_world_options;
using support::gradient_world;
using support::parameters;
using support::undisturbed_gradients;

namespace {

/// Policies by what makes them, each with its inner optimizer.
struct late {
  static auto make() {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::one_round_late{}, axis::gather_mean<>{}};
  }
  static auto inner() { return optim::sgd{}; }
};
struct late_detours : late {
  static auto recovery() { return stage::recovery::reroute{2}; }
};
struct distro {
  static auto make() { return presets::make(presets::distro_options{{.k = 8}}); }
  static auto inner() { return optim::sgd{}; }
};
struct stella_train {
  static auto make() { return presets::make(presets::stella_train_options{.share = 0.5}); }
  static auto inner() { return optim::sparse_sgd{}; }
};
struct stella_adam : stella_train {
  static auto inner() { return optim::sparse_adam{}; }
};

elastic_world_options two_pipelines() {
  auto o = support::two_pipelines();
  o.clip_norm = 0;
  return o;
}

using layouts = std::map<std::uint64_t, stage::layout>;  // by step

/// Rows of one step: of each peer, for the blocks that it computed, and the micro-batches behind it.
struct row {
  nn::block_range blocks;
  double weight = 0;
  std::vector<float> gradient;  // of the whole model
};

/// Of a global batch what each assigned peer computes.
std::map<std::uint64_t, std::vector<std::size_t>> micro_batches_of(const stage::layout& l) {
  std::map<std::uint64_t, std::vector<std::size_t>> all;
  if (l.has_unassigned()) {
    const auto peers = l.assigned();
    const auto routes = l.routes();
    for (std::size_t m = 0; m < routes.size(); ++m) {
      for (const std::uint32_t at : routes[m]) all[peers[at]].push_back(m);
    }
    return all;
  }
  for (std::size_t r = 0; r < l.replicas.size(); ++r) {
    for (const stage::assignment& s : l.replicas[r].assignments) {
      for (std::uint32_t m = 0; m < l.replicas[r].micro_batches; ++m) all[s.peer].push_back(l.first_micro_batch(r) + m);
    }
  }
  return all;
}

/// What plain SGD comes to where each step is made of the rows of the step before, of those peers that are there still and
/// have the same blocks, weighted by the micro-batches behind them; of no rows at all if a stage has none.
parameters by_hand(const elastic_world_options& o, const layouts& taken) {
  auto model = *nn::gpt::create(support::small_gpt(o.layers), kernels::cpu_backend{1});
  auto& store = model.parameters();
  const auto of_blocks = [&](std::span<float> all, const nn::block_range& r) {
    return parallel::blocks_in(all, store.segments(), r, o.layers);
  };
  std::map<std::uint64_t, row> before;
  for (std::uint64_t step = 1; step <= o.steps; ++step) {
    const stage::layout& l = taken.at(step);
    const support::token_batch b{0, step - 1, o.micro_batches};
    std::map<std::uint64_t, row> now;
    std::vector<double> weights(static_cast<std::size_t>(o.layers));
    std::vector<float> sum(store.values().size());
    std::vector<std::vector<float>> gradients;
    for (std::int64_t m = 0; m < o.micro_batches; ++m) {
      const batch one = b.view().slice(m, 1);
      std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
      REQUIRE(model.forward_backward(one.inputs, one.targets, one.sequences, 1.0F / static_cast<float>(one.tokens()), 0));
      gradients.emplace_back(store.gradients().begin(), store.gradients().end());
    }
    for (const auto& [peer, computed] : micro_batches_of(l)) {
      const nn::block_range blocks = l.find(peer)->computes;
      std::vector<float> mean(sum.size());
      for (const std::size_t m : computed) {
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gradients[m][i] / static_cast<float>(computed.size());
      }
      now[peer] = {blocks, static_cast<double>(computed.size()), std::move(mean)};
      const auto had = before.find(peer);
      if (had == before.end() || !(had->second.blocks == blocks)) continue;
      const auto from = of_blocks(had->second.gradient, blocks), to = of_blocks(sum, blocks);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += static_cast<float>(had->second.weight) * from[i];
      for (std::int64_t k = blocks.first; k < blocks.last; ++k) weights[static_cast<std::size_t>(k)] += had->second.weight;
    }
    before = std::move(now);
    if (std::find(weights.begin(), weights.end(), 0.0) != weights.end()) continue;
    double squares = 0;
    for (std::int64_t k = 0; k < o.layers; ++k) {
      for (float& v : of_blocks(sum, {k, k + 1})) {
        v /= static_cast<float>(weights[static_cast<std::size_t>(k)]);
        squares += double{v} * v;
      }
    }
    const float rate = 0.01F * optim::clip_scale(static_cast<float>(std::sqrt(squares)), o.clip_norm);
    for (std::size_t i = 0; i < sum.size(); ++i) store.values()[i] -= rate * sum[i];
    store.touch();
  }
  parameters all;
  support::detail::collect(store, all);
  return all;
}

/// By the layouts of a host that made all steps. `quiet`: of a run in which all rows were sent.
void misses_the_rows_that_are_lost(auto& w, const elastic_world_options& o, const parameters& quiet) {
  CHECK(support::errors_of(w, o.hosts).empty());
  const parameters all = support::holders_agree(w, o.hosts);
  CHECK(support::off(all, by_hand(o, w.at(0).layouts), o.layers) < 1e-4);
  CHECK(support::off(all, quiet, o.layers) > 1e-2);
}

}  // namespace

TEMPLATE_TEST_CASE("elastic late: two pipelines make the steps of two whole models by the same policy",
                   "[parallel][elastic][fast]", late, distro, stella_train, stella_adam) {
  const auto o = two_pipelines();
  CHECK(support::off(undisturbed_gradients<TestType>(o), support::of_two_models<TestType>(o), o.layers) < 1e-5);
}

TEST_CASE("elastic late: whoever is lost between two steps, these are made of the rows that are left",
          "[parallel][elastic][fast]") {
  auto undisturbed = two_pipelines();
  undisturbed.steps = 7;
  const parameters quiet = undisturbed_gradients<late>(undisturbed);
  for (std::uint64_t at = 1; at < 6; ++at) {
    for (const std::uint32_t victim : {1U, 2U, 3U}) {
      INFO("host " << victim << " is killed before step " << at);
      auto o = undisturbed;
      std::function<void(std::uint32_t)> kill;
      o.before_step = [&](std::uint32_t host, std::uint64_t step) {
        if (host == victim && step == at && kill) std::exchange(kill, nullptr)(host);
      };
      gradient_world<late> w{o};
      kill = [&](std::uint32_t host) { w.world().after(0ms, [&w, host] { w.world().kill(host); }); };
      w.wanted = 3;
      w.boot();
      w.run();
      CHECK(w.finished() == 3);
      misses_the_rows_that_are_lost(w, o, quiet);
    }
  }
}

TEST_CASE("elastic late: where micro-batches take detours, rows count by those that went through their peer",
          "[parallel][elastic][fast]") {
  auto o = two_pipelines();
  o.hosts = 6;
  o.micro_batches = 7;
  o.steps = 7;
  const std::uint32_t victim = GENERATE(1U, 2U, 3U, 4U, 5U);
  std::function<void()> kill;
  o.before_step = [&](std::uint32_t host, std::uint64_t step) {
    if (host == victim && step == 2 && kill) std::exchange(kill, nullptr)();
  };
  gradient_world<late_detours> w{o};
  kill = [&] { w.world().after(0ms, [&w, victim] { w.world().kill(victim); }); };
  w.wanted = 5;
  w.boot();
  w.run();
  CHECK(support::errors_of(w, o.hosts).empty());
  CHECK(w.finished() == 5);
  const stage::layout& last = w.at(0).layouts.at(o.steps);
  CHECK(last.has_unassigned());
  CHECK(support::off(support::holders_agree(w, o.hosts), by_hand(o, w.at(0).layouts), o.layers) < 1e-4);
}

TEST_CASE("elastic late: whoever comes, and has other blocks then, has no row of the step before",
          "[parallel][elastic][fast]") {
  support::newcomer_in_each_step<gradient_world<late>>(5, 9, [](auto& w, const auto& o) {
    support::make_two_pipelines(w, o);
    CHECK(support::off(support::holders_agree(w, o.hosts), by_hand(o, w.at(0).layouts), o.layers) < 1e-4);
  });
}

TEMPLATE_TEST_CASE("elastic late: a peer may come in every step", "[parallel][elastic][fast]", distro, stella_train) {
  support::newcomer_in_each_step<gradient_world<TestType>>(5, 12, support::make_two_pipelines);
}

TEMPLATE_TEST_CASE("elastic late: all peers are stopped, and go on from checkpoints with the same bits",
                   "[parallel][elastic][fast]", distro, stella_train) {
  support::goes_on_with_the_same_bits<TestType>();
}

TEMPLATE_TEST_CASE("elastic late: a run whose peers are all stopped goes on from what is saved",
                   "[parallel][elastic][fast]", distro, stella_train) {
  support::stop_all_and_start_again([](const elastic_world_options& o) { return gradient_world<TestType>{o}; },
                                    [](auto& w, const elastic_world_options& o) { support::holders_agree(w, o.hosts); });
}

TEMPLATE_TEST_CASE("elastic late: the run goes on, whoever is killed at whichever network call",
                   "[parallel][elastic][fast]", distro, stella_train) {
  support::goes_on_by_gradients<TestType>(71);
}

TEMPLATE_TEST_CASE("elastic late: and at many more network calls", "[parallel][elastic][slow][every_call]", distro,
                   stella_train) {
  support::goes_on_by_gradients<TestType>(13);
}
