// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/served_models.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/trainer.hpp>

#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/conformance.hpp"
#include "support/tuned_gpt.hpp"

using namespace causeway;
using namespace std::chrono_literals;
using support::must;
using support::small_text;
using support::valued;

namespace {

trainer_options tuning() {
  trainer_options o;
  o.learning_rate = optim::constant{0.05F};
  return o;
}

/// Servers of the preset, two for every block.
class petals_world {
 public:
  explicit petals_world(nn::gpt& model) : model_{model} {
    for (std::uint32_t h = 0; h < 4; ++h) {
      world.add_host({});
      world.boot(h, [this, h](sim::process& p) {
        parallel::block_server_options o;
        o.run = 5, o.blocks = 3, o.first = h % 2 * 3, o.seed = h;
        if (h > 0) o.dial = {"host-0:1"};
        presets::petals_server server{
            p.make_fabric(h + 1), o,
            valued(stage::frozen_blocks<nn::gpt_family>::create(support::frozen_gpt, support::parameters_from(model_)))};
        must(server.open());
        (void)server.serve([] { return false; });
      });
    }
  }
  /// `use` gets what makes models, each with a fabric of its own. `tuning`: options of a preset.
  using maker = std::function<presets::petals_finetune()>;
  template <class Options>
  sim::host_index client(const Options& tuning, const std::function<void(sim::process&, const maker&)>& use) {
    const auto host = world.add_host({});
    ++unfinished_;
    world.boot(host, [this, host, tuning, use](sim::process& p) {
      net::peer_id id = 100 * host;
      use(p, [&] {
        Options o = tuning;
        o.fabric = p.make_fabric(++id);
        o.model = support::frozen_gpt;
        o.source = support::parameters_from(model_);
        o.client.run = 5;
        o.client.dial = {"host-0:1", "host-1:1"};
        auto model = valued(presets::make(o));
        model.initialize(2);
        return model;
      });
      --unfinished_;
    });
    return host;
  }
  bool run() {
    for (int s = 0; s < 3000 && unfinished_ > 0; ++s) world.run_for(1s);
    return unfinished_ == 0;
  }

  sim::world world{{.seed = 1, .link = {.latency = 20ms}}};

 private:
  nn::gpt& model_;
  int unfinished_ = 0;
};

const presets::petals_finetune_options prompts{.prompts = {.rows = 4}};
const presets::petals_lora_options adapters{.adapters = {.rank = 4, .alpha = 8}};

batch batch_of(const small_text& t) { return {t.in, t.out, support::sequences_each}; }

}  // namespace

TEST_CASE("presets: petals_finetune's prompts tell a frozen GPT its task, while servers come and go", "[presets][fast]") {
  auto model = support::pretrained_gpt(600);
  const auto loss_of = [&](int times, bool tagged) {
    const small_text t{1, times, tagged};
    return valued(model.evaluate(t.in, t.out, support::sequences_each)) / (support::tokens_each * support::sequences_each);
  };
  for (const int times : {3, 5}) {
    CHECK(loss_of(times, true) < 0.15);
    CHECK(loss_of(times, false) > 0.5);  // it does not know which of two
  }
  petals_world w{model};
  std::vector<double> losses;
  w.client(prompts, [&](sim::process&, const petals_world::maker& make) {
    auto trainer = make_trainer(make(), environment{}, tuning(), optim::adamw{});
    must(trainer.start());
    for (std::uint64_t s = 0; s < 120; ++s) {
      if (s % 30 == 10) w.world.kill(static_cast<std::uint32_t>(s / 30));
      if (s % 30 == 20) w.world.restart(static_cast<std::uint32_t>(s / 30));
      losses.push_back(valued(trainer.step(batch_of(small_text{1000 + s, 3}))).loss);
    }
  });
  REQUIRE(w.run());
  CHECK(losses.front() > 0.4);
  CHECK(losses.back() < 0.15);
}

namespace {

/// What a client of a preset ends with that goes on, and that is saved, made anew and loaded; and how many values it saved.
template <class Options>
void check_continued(const Options& what, std::size_t values) {
  auto model = support::pretrained_gpt(20);
  petals_world w{model};
  std::vector<float> straight, continued;
  w.client(what, [&](sim::process&, const petals_world::maker& make) {
    const auto steps = [](auto& trainer, std::uint64_t from, std::uint64_t to) {
      for (std::uint64_t s = from; s < to; ++s) (void)valued(trainer.step(batch_of(small_text{s, 3})));
      const auto all = trainer.model().parameters().values();
      return std::vector<float>{all.begin(), all.end()};
    };
    support::saved_state saved;
    {
      auto trainer = make_trainer(make(), environment{}, tuning(), optim::adamw{});
      must(trainer.start());
      (void)steps(trainer, 0, 4);
      saved = support::save(trainer);
      straight = steps(trainer, 4, 8);
    }
    auto other = make_trainer(make(), environment{}, tuning(), optim::adamw{});
    support::load(other, saved);
    must(other.start());
    continued = steps(other, 4, 8);
    CHECK(saved.size() > 3 * 4 * values);                                                // with AdamW's two moments
    CHECK(saved.size() < 4 * static_cast<std::size_t>(model.parameters().count()) / 2);  // nothing of the frozen model
  });
  REQUIRE(w.run());
  CHECK(straight.size() == values);
  const bool alike = straight == continued;
  CHECK(alike);
}

}  // namespace

TEST_CASE("presets: petals_finetune saved, loaded and continued has the bits of one that did not stop", "[presets][fast]") {
  check_continued(prompts, 7 * 4 * 16);
}

TEST_CASE("presets: petals_lora saved, loaded and continued has the bits of one that did not stop", "[presets][fast]") {
  check_continued(adapters, 6 * 2 * 4 * (16 + 16));
}

TEST_CASE("presets: petals_lora's adapters teach a frozen GPT a task that it was never shown, and prompts do not",
          "[presets][fast]") {
  auto model = support::pretrained_gpt(600);
  const auto last_losses = [&](const auto& what) {
    petals_world w{model};
    std::vector<double> losses;
    w.client(what, [&](sim::process&, const petals_world::maker& make) {
      trainer_options o;
      o.learning_rate = optim::constant{0.02F};
      auto trainer = make_trainer(make(), environment{}, o, optim::adamw{});
      must(trainer.start());
      for (std::uint64_t s = 0; s < 300; ++s) {
        if (s % 60 == 20) w.world.kill(static_cast<std::uint32_t>(s / 60 % 4));
        if (s % 60 == 50) w.world.restart(static_cast<std::uint32_t>(s / 60 % 4));
        losses.push_back(valued(trainer.step(batch_of(small_text{1000 + s, 7}))).loss);
      }
    });
    REQUIRE(w.run());
    CHECK(losses.front() > 6);
    return std::accumulate(losses.end() - 10, losses.end(), 0.0) / 10;
  };
  const double by_prompts = last_losses(prompts), by_adapters = last_losses(adapters),
               by_all = last_losses(presets::petals_lora_options{
                   .adapters = {.rank = 2, .alpha = 4, .key = true, .output = true, .feed_forward = true}});
  INFO(by_prompts << ", " << by_adapters << ", " << by_all);
  CHECK(by_prompts > 3);
  CHECK(by_adapters < 0.2);
  CHECK(by_all < 0.05);
}

TEST_CASE("presets: clients of petals_finetune share a task with a communication policy, as one would train it alone",
          "[presets][fast]") {
  auto model = support::pretrained_gpt(20);
  petals_world w{model};
  std::vector<std::vector<float>> ends(3);
  std::vector<float> begin;
  for (std::uint32_t c = 0; c < 2; ++c) {
    w.client(prompts, [&, c](sim::process& p, const petals_world::maker& make) {
      environment env;
      env.transport = net::any_transport{valued(p.make_transport({4, 5}))};
      env.clock = p.clock();
      auto trainer = make_trainer(make(), std::move(env), tuning(), comm::every_step<>{}, optim::sgd{});
      must(trainer.start());
      for (std::uint64_t s = 0; s < 6; ++s) (void)valued(trainer.step(batch_of(small_text{2 * s + c, 3})));
      const auto values = trainer.model().parameters().values();
      ends[c].assign(values.begin(), values.end());
    });
  }
  w.client(prompts, [&](sim::process&, const petals_world::maker& make) {
    auto trainer = make_trainer(make(), environment{}, tuning(), optim::sgd{});
    must(trainer.start());
    begin.assign(trainer.model().parameters().values().begin(), trainer.model().parameters().values().end());
    for (std::uint64_t s = 0; s < 6; ++s) {
      small_text both{2 * s, 3};
      const small_text second{2 * s + 1, 3};
      both.in.insert(both.in.end(), second.in.begin(), second.in.end());
      both.out.insert(both.out.end(), second.out.begin(), second.out.end());
      (void)valued(trainer.step({both.in, both.out, 2 * support::sequences_each}));
    }
    const auto values = trainer.model().parameters().values();
    ends[2].assign(values.begin(), values.end());
  });
  REQUIRE(w.run());
  const bool alike = ends[0] == ends[1];
  CHECK(alike);
  double apart = 0, moved = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    const double d = static_cast<double>(ends[0][i] - ends[2][i]), m = static_cast<double>(ends[2][i] - begin[i]);
    apart += d * d;
    moved += m * m;
  }
  CHECK(apart > 0);                       // other blocks of 8 bits
  CHECK(std::sqrt(apart / moved) < 0.2);  // without rounding: tests/parallel/serving/tuned_model.cpp
}

TEST_CASE("presets: petals_lora without a source, a fabric or a rank that works is refused", "[presets][fast]") {
  sim::world w{{.seed = 1}};
  w.add_host({});
  w.boot(0, [&](sim::process& p) {
    presets::petals_lora_options o;
    o.model = support::frozen_gpt;
    o.fabric = p.make_fabric(1);
    CHECK_FALSE(presets::make(o));
    o.source = [](parameter_store&) { return result<void>{}; };
    CHECK(presets::make(o));
    for (const std::int64_t rank : {0, 17}) {
      o.adapters.rank = rank;
      CHECK_FALSE(presets::make(o));
    }
    o.adapters.rank = 16;
    CHECK(presets::make(o));
    o.fabric = nullptr;
    CHECK_FALSE(presets::make(o));
  });
  CHECK(w.run());
}

TEST_CASE("presets: petals_finetune without a source, a fabric or room for tokens is refused", "[presets][fast]") {
  sim::world w{{.seed = 1}};
  w.add_host({});
  w.boot(0, [&](sim::process& p) {
    presets::petals_finetune_options o;
    o.model = support::frozen_gpt;
    o.prompts.rows = 2;
    o.fabric = p.make_fabric(1);
    CHECK_FALSE(presets::make(o));
    o.source = [](parameter_store&) { return result<void>{}; };
    CHECK(presets::make(o));
    o.prompts.rows = support::frozen_gpt.context;
    CHECK_FALSE(presets::make(o));
    o.prompts.rows = 0;
    CHECK_FALSE(presets::make(o));
    o.prompts.rows = 2;
    o.fabric = nullptr;
    CHECK_FALSE(presets::make(o));
  });
  CHECK(w.run());
}
