// SPDX-License-Identifier: Apache-2.0
// Presets of pipelines, against references of their papers and authors' code
// (tests/golden/traces/make_traces_pipelines.py): parameters after every step, and orders of work.

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/plan/dtfm.hpp>
#include <causeway/plan/timeline.hpp>
#include <causeway/presets/gossip.hpp>
#include <causeway/presets/pipelines.hpp>
#include <causeway/stage/routing_flow.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/cluster.hpp"
#include "support/traced_pipelines.hpp"

using namespace causeway;
using presets::make;

namespace {

/// All peers train as the trace says; the largest relative error of any of them in any step. `make_policy()` gives a peer's
/// pipeline, `shape` its ranks and cuts.
double replay(const support::trace& t, const parallel::pipeline_options& shape, auto make_policy) {
  const auto numbers = support::numbers_of(t);
  const auto peers = static_cast<std::uint32_t>(t.numbers("replicas")[0]) * shape.ranks;
  std::vector<double> worst(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    const auto place = parallel::place_in(shape, peer, peers).value();
    support::linear_stages model{numbers, parallel::part_of(shape, place, numbers->blocks()).value()};
    trainer_options o;
    o.learning_rate = optim::constant{t.learning_rate()};
    o.clip_norm = 0;
    auto trainer = make_trainer(std::move(model), std::move(env), o, comm::every_step<>{}, make_policy(),
                                optim::sgd{{.momentum = t.numbers("momentum")[0]}});
    if (!trainer.start()) throw std::runtime_error{"start"};
    for (std::uint64_t s = 0; s < static_cast<std::uint64_t>(t.numbers("steps")[0]); ++s) {
      const std::uint64_t which = support::batch_of(t, s);
      support::token_batch b{place.replica, which, static_cast<std::int64_t>(t.numbers("sequences")[0])};
      for (auto& sample : b.samples) sample += 1000 * which;
      if (const auto report = trainer.step(b.view()); !report) throw std::runtime_error{report.error().text()};
      worst[peer] = std::max(worst[peer], support::distance(t, trainer.model().parameters(), s + 1));
    }
  });
  return *std::max_element(worst.begin(), worst.end());
}

parallel::pipeline_options shape_of(const auto& options) {
  return {.micro_batches = options.micro_batches, .ranks = options.ranks};
}

}  // namespace

TEST_CASE("traces: Varuna", "[presets][trace][fast]") {
  const support::trace t{"varuna"};
  const presets::varuna_options o{.micro_batches = 4, .ranks = 3};
  CHECK(replay(t, shape_of(o), [&] { return make(o); }) < 1e-5);
  CHECK(support::orders(stage::varuna{}.make(4, 8).value()) == support::orders(t));
}

TEST_CASE("traces: NoLoCo's routes through stages", "[presets][trace][fast]") {
  const support::trace t{"noloco_routes"};
  const auto numbers = support::numbers_of(t);
  const std::uint32_t replicas = 4, ranks = 2, micro_batches = 4;
  const std::uint64_t steps = 6;
  const parallel::random_routes routes{replicas, ranks, trainer_options{}.seed};
  std::vector<float> drawn;
  for (std::uint64_t s = 0; s < steps; ++s) {
    for (std::uint32_t m = 0; m < micro_batches; ++m) {
      for (const std::uint32_t to : routes.next(s, m, 0)) drawn.push_back(static_cast<float>(to));
    }
  }
  REQUIRE(drawn == t.numbers("routes"));
  std::vector<double> worst(replicas * ranks);
  support::run_cluster(replicas * ranks, [&](std::uint32_t peer, environment env) {
    const parallel::pipeline_options shape{.micro_batches = micro_batches, .ranks = ranks, .random_routes = true};
    const auto place = parallel::place_in(shape, peer, replicas * ranks).value();
    support::linear_stages model{numbers, parallel::part_of(shape, place, numbers->blocks()).value()};
    trainer_options o;
    o.learning_rate = optim::constant{t.learning_rate()};
    o.clip_norm = 0;
    auto trainer =
        make_trainer(std::move(model), std::move(env), o,
                     make(presets::noloco_options{.local_steps = 3, .outer = {.alpha = 0.5F, .beta = 0.7F, .gamma = 0.9F}}),
                     parallel::pipeline<>{shape}, optim::sgd{{.momentum = t.numbers("momentum")[0]}});
    if (!trainer.start()) throw std::runtime_error{"start"};
    for (std::uint64_t s = 0; s < steps; ++s) {
      const support::token_batch b{place.replica, s, static_cast<std::int64_t>(t.numbers("sequences")[0])};
      if (const auto report = trainer.step(b.view()); !report) throw std::runtime_error{report.error().text()};
      auto& store = trainer.model().parameters();
      for (std::size_t i = 0; i < store.segments().size(); ++i) {
        const auto name = store.segments()[i].name + " " + std::to_string(place.replica) + " " + std::to_string(s + 1);
        worst[peer] = std::max(worst[peer], support::relative_error(t.numbers(name), store.value(i)));
      }
    }
  });
  const double error = *std::max_element(worst.begin(), worst.end());
  CAPTURE(error);
  CHECK(error < 1e-5);
}

TEST_CASE("traces: DTFM", "[presets][trace][fast]") {
  const support::trace t{"dtfm"};
  plan::link_matrix links{6};
  for (std::size_t a = 0; a < 6; ++a) {
    for (std::size_t b = 0; b < 6; ++b) {
      if (a != b) links.set(a, b, {t.numbers("delay")[6 * a + b], t.numbers("bandwidth")[6 * a + b]});
    }
  }
  const auto found = plan::plan_dtfm(
      links, {.replicas = 2, .stages = 3, .stage_bytes = t.numbers("bytes")[0], .activation_bytes = t.numbers("bytes")[1]});
  REQUIRE(found);
  CHECK(found->cost.total() == Approx(t.numbers("cost")[0]).epsilon(1e-6));
  CHECK(found->cost.data_parallel == Approx(t.numbers("cost")[1]).epsilon(1e-6));
  CHECK(found->cost.pipeline == Approx(t.numbers("cost")[2]).epsilon(1e-6));
  const presets::dtfm_options o{.micro_batches = 4, .where = found->where};
  const parallel::pipeline_options shape{
      .micro_batches = 4, .ranks = 3, .placement = presets::detail::rows_of(found->where)};
  CHECK(replay(t, shape, [&] { return make(o); }) < 1e-5);
  CHECK(support::orders(stage::gpipe::make(3, 4).value()) == support::orders(t));
}

TEST_CASE("traces: AQ-SGD", "[presets][trace][fast]") {
  const support::trace t{"aq_sgd_pipeline"};
  const presets::aq_sgd_pipeline_options o{.micro_batches = 4, .ranks = 3};
  CHECK(replay(t, shape_of(o), [&] { return make(o); }) < 1e-5);
  CHECK(support::orders(stage::gpipe::make(3, 4).value()) == support::orders(t));
}

TEST_CASE("traces: CrossPipe", "[presets][trace][fast]") {
  const support::trace t{"crosspipe"};
  presets::crosspipe_options o{.micro_batches = 4, .ranks = 3};
  CHECK(replay(t, shape_of(o), [&] { return make(o); }) < 1e-5);
  const auto& s = t.numbers("seconds");
  for (int c = 0; t.has("best " + std::to_string(c)); ++c) {
    const auto& best = t.numbers("best " + std::to_string(c));
    const plan::edge_cost first{.latency = best[0], .bytes_forward = 1, .bytes_backward = 1, .bytes_per_second = 4};
    const plan::edge_cost second{.latency = 0.5, .bytes_forward = 1, .bytes_backward = 1, .bytes_per_second = 4};
    const plan::stage_costs costs{{{s[0], s[1], s[2]}, {s[3], s[4], s[5]}, {s[6], s[7], s[8]}}, {first, second}};
    const auto order = stage::crosspipe{costs, static_cast<std::uint32_t>(best[1])}.make(3, 3);
    REQUIRE(order);
    CAPTURE(best[0], best[1]);
    CHECK(plan::timeline_of(*order, costs)->makespan == Approx(best[2]));
  }
}

TEST_CASE("traces: FusionLLM", "[presets][trace][fast]") {
  const support::trace t{"fusion_llm"};
  const presets::fusion_llm_options o{.micro_batches = 4, .ranks = 3, .ratio = 3, .speeds = {{1, 1.7}, {}}};
  CHECK(replay(t, shape_of(o), [&] { return make(o); }) < 1e-5);
  CHECK(support::orders(stage::gpipe::make(3, 4).value()) == support::orders(t));
}

TEST_CASE("traces: GWTF", "[presets][trace][fast]") {
  const support::trace t{"gwtf"};
  const auto name = [](std::size_t stage, std::size_t node) { return static_cast<net::peer_id>(10 * stage + node + 1); };
  for (int c = 0; t.has("cost " + std::to_string(c)); ++c) {
    stage::routing::roster known{3};
    for (std::uint32_t s = 0; s < 3; ++s) {
      const auto& seconds = t.numbers("seconds " + std::to_string(s));
      for (std::size_t i = 0; i < seconds.size(); ++i) {
        known.announced(name(s, i), s);
        known.measured(name(s, i), seconds[i]);
      }
    }
    for (std::size_t s = 0; s < 2; ++s) {
      const auto& links = t.numbers(support::trace::key("link", static_cast<std::uint64_t>(c), s));
      const std::size_t columns = known.at(static_cast<std::uint32_t>(s) + 1).size();
      for (std::size_t i = 0; i < links.size(); ++i) known.link(name(s, i / columns), name(s + 1, i % columns), links[i]);
    }
    stage::routing::min_cost_flow router;
    router.begin({0, 4, 3}, known);
    double cost = 0;
    std::map<net::peer_id, float> carried;
    for (std::uint32_t m = 0; m < 4; ++m) {
      net::peer_id before = stage::routing::nobody;
      for (std::uint32_t s = 0; s < 3; ++s) {
        const auto peer = router.choose(known, s, m);
        const double seconds = known.expected_seconds(s, peer);
        ++carried[peer];
        cost += (s == 1 ? 1.0 : 0.5) * seconds + (s > 0 ? known.link(before, peer) : 0);
        before = peer;
      }
    }
    CHECK(cost == Approx(t.numbers("cost " + std::to_string(c))[0]).epsilon(1e-6));
    for (std::size_t s = 0; s < 3; ++s) {
      const auto& capacity = t.numbers("capacity " + std::to_string(s));
      for (std::size_t i = 0; i < capacity.size(); ++i) CHECK(carried[name(s, i)] == capacity[i]);
    }
  }
}

TEST_CASE("traces: GWTF, where peers could carry more", "[presets][trace][fast]") {
  const support::trace t{"gwtf_spare"};
  const std::vector<std::vector<net::peer_id>> peers{{10, 11}, {20, 21, 22}, {30, 31}};
  stage::routing::roster known{3};
  std::size_t place = 0;
  std::map<net::peer_id, std::size_t> place_of;
  for (std::uint32_t s = 0; s < 3; ++s) {
    for (const net::peer_id id : peers[s]) {
      known.announced(id, s);
      known.measured(id, t.numbers("seconds")[place]);
      place_of[id] = place++;
    }
  }
  for (std::size_t s = 0; s < 2; ++s) {
    auto delay = t.numbers("delay " + std::to_string(s)).begin();
    for (const net::peer_id a : peers[s]) {
      for (const net::peer_id b : peers[s + 1]) known.link(a, b, *delay++);
    }
  }
  stage::routing::min_cost_flow router;
  const auto micro_batches = static_cast<std::uint32_t>(t.numbers("micro_batches")[0]);
  router.begin({0, micro_batches, 3}, known);
  double sum = 0;
  std::vector<float> carries(place);
  for (std::uint32_t m = 0; m < micro_batches; ++m) {
    net::peer_id before = 0;
    for (std::uint32_t s = 0; s < 3; ++s) {
      const net::peer_id at = router.choose(known, s, m);
      carries[place_of[at]] += 1;
      sum += double{t.numbers("seconds")[place_of[at]]};
      if (s > 0) sum += known.link(before, at);
      before = at;
    }
  }
  CHECK(carries == t.numbers("carries"));
  CHECK(std::abs(sum / t.numbers("best")[0] - 1) < 1e-5);
}
