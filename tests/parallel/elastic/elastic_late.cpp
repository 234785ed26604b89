// SPDX-License-Identifier: Apache-2.0
// Elastic pipelines with policies of gradients whose results are a step late.
#include <causeway/parallel/elastic_pipeline.hpp>

#include <causeway/optim/sgd.hpp>
#include <causeway/optim/sparse_steps.hpp>
#include <causeway/presets/compressed.hpp>
#include <causeway/stage/recovery_reroute.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

#include "parallel/elastic/elastic_cases.hpp"
#include "parallel/elastic/gradient_world.hpp"
#include "parallel/elastic/late_steps.hpp"
#include "parallel/elastic/newcomers.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::elastic_world_options;
using support::gradient_world;
using support::late_steps_by_hand;
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

/// By the layouts of a host that made all steps. `quiet`: of a run in which all rows were sent.
void misses_the_rows_that_are_lost(auto& w, const elastic_world_options& o, const parameters& quiet) {
  CHECK(support::errors_of(w, o.hosts).empty());
  const parameters all = support::holders_agree(w, o.hosts);
  CHECK(support::off(all, late_steps_by_hand(o, w.at(0).layouts), o.layers) < 1e-4);
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
  CHECK(support::off(support::holders_agree(w, o.hosts), late_steps_by_hand(o, w.at(0).layouts), o.layers) < 1e-4);
}

TEST_CASE("elastic late: whoever comes, and has other blocks then, has no row of the step before",
          "[parallel][elastic][fast]") {
  support::newcomer_in_each_step<gradient_world<late>>(5, 9, [](auto& w, const auto& o) {
    support::make_two_pipelines(w, o);
    CHECK(support::off(support::holders_agree(w, o.hosts), late_steps_by_hand(o, w.at(0).layouts), o.layers) < 1e-4);
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
