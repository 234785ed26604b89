// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/prompted_model.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/model.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/prompted_gpt.hpp"

namespace causeway {
namespace {

using namespace std::chrono_literals;
using support::small_text;
using int8 = stage::coded<compress::block_int8>;
static_assert(Model<parallel::prompted_model<>>);

struct numbers {
  double loss = 0;
  std::vector<float> gradients;
};

/// Loss and gradients over servers of blocks [0, 2), [2, 5), [5, 6).
template <class Codec>
numbers served(nn::gpt& model, const parallel::prompt_options& prompts, std::int64_t most_rows = 1024) {
  support::served_gpt<Codec> swarm{model};
  swarm.add_server(0, 2);
  swarm.add_server(2, 3);
  swarm.add_server(5, 1);
  numbers n;
  typename support::served_gpt<Codec>::client_options o{.prompts = prompts};
  o.client.most_rows = most_rows;
  swarm.add_client(o, [&](sim::process&, auto& client) {
    client.initialize(7);
    const small_text t{1};
    rng draw{9};
    for (float& v : client.parameters().values()) v += 0.1F * draw.normal();
    n.loss = support::valued(client.forward_backward(t.in, t.out, support::sequences_each, support::mean_scale, 0));
    CHECK(support::valued(client.evaluate(t.in, t.out, support::sequences_each)) == n.loss);
    const auto g = client.parameters().gradients();
    n.gradients.assign(g.begin(), g.end());
  });
  REQUIRE(swarm.run());
  return n;
}

numbers unsplit(nn::gpt& model, const parallel::prompt_options& prompts) {
  support::unsplit_prompts whole{model, prompts};
  parameter_store store;
  store.add("prompts", parameter_kind::embedding, prompts.rows, support::frozen_gpt.width);
  if (prompts.deep) store.add("deep_prompts", parameter_kind::embedding, 6 * prompts.rows, support::frozen_gpt.width);
  store.allocate();
  const std::vector<nn::initial_distribution> initial{{0, nn::initial_deviation, 0}, {0, 0, 1}};
  nn::fill_initial(model.backend().pool(), store, initial, 7);
  rng draw{9};
  for (float& v : store.values()) v += 0.1F * draw.normal();
  numbers n;
  n.loss = whole.run(store, small_text{1}, true);
  n.gradients.assign(store.gradients().begin(), store.gradients().end());
  return n;
}

}  // namespace

TEST_CASE("prompted_model: losses and gradients have the bits of the model that nobody cut", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  for (const bool deep : {false, true}) {
    const parallel::prompt_options prompts{.rows = 2, .deep = deep};
    const numbers want = unsplit(model, prompts), got = served<stage::plain>(model, prompts);
    CHECK(got.loss == want.loss);
    CHECK(got.gradients.size() == (deep ? 7U : 1U) * 32U);
    const bool alike = got.gradients == want.gradients;
    CHECK(alike);
  }
}

TEST_CASE("prompted_model: a batch in pieces differs by the order of summation, with int8 by its rounding",
          "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const parallel::prompt_options prompts{.rows = 2};
  const numbers want = unsplit(model, prompts);
  const auto distance = [&](const numbers& got) {
    double apart = 0, all = 0;
    for (std::size_t i = 0; i < want.gradients.size(); ++i) {
      const double d = static_cast<double>(got.gradients[i]) - static_cast<double>(want.gradients[i]);
      apart += d * d;
      all += static_cast<double>(want.gradients[i]) * static_cast<double>(want.gradients[i]);
    }
    return std::sqrt(apart / all);
  };
  const numbers pieces = served<stage::plain>(model, prompts, 16), single = served<stage::plain>(model, prompts, 8),
                rounded = served<int8>(model, prompts);
  CHECK(pieces.loss == want.loss);
  CHECK(distance(pieces) < 1e-6);
  CHECK(distance(single) < 1e-6);
  CHECK(rounded.loss == Approx(want.loss).epsilon(0.02));
  CHECK(distance(rounded) > 0);
  CHECK(distance(rounded) < 0.05);
}

TEST_CASE("prompted_model: two clients that share a task train what one does with both batches", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  support::served_gpt<> swarm{model};
  swarm.add_server(0, 3);
  swarm.add_server(3, 3);
  std::vector<std::vector<float>> ends(3);
  const auto train = [&](std::uint32_t c, environment env, auto& client, auto batch) {
    client.initialize(7);
    trainer_options o;
    o.learning_rate = optim::constant{0.1F};
    auto trainer = make_trainer(std::move(client), std::move(env), o, comm::every_step<>{}, optim::sgd{});
    support::must(trainer.start());
    for (std::uint64_t s = 0; s < 5; ++s) {
      const small_text t = batch(s);
      (void)support::valued(trainer.step({t.in, t.out, std::ssize(t.in) / support::tokens_each}));
    }
    const auto values = trainer.model().parameters().values();
    ends[c].assign(values.begin(), values.end());
  };
  for (std::uint32_t c = 0; c < 2; ++c) {
    swarm.add_client({}, [&, c](sim::process& p, auto& client) {
      environment env;
      env.transport = net::any_transport{support::valued(p.make_transport({2, 3}))};
      env.clock = p.clock();
      train(c, std::move(env), client, [c](std::uint64_t s) { return small_text{2 * s + c}; });
    });
  }
  swarm.add_client({}, [&](sim::process&, auto& client) {
    train(2, environment{}, client, [](std::uint64_t s) {
      small_text both{2 * s};
      const small_text second{2 * s + 1};
      both.in.insert(both.in.end(), second.in.begin(), second.in.end());
      both.out.insert(both.out.end(), second.out.begin(), second.out.end());
      return both;
    });
  });
  REQUIRE(swarm.run());
  const bool alike = ends[0] == ends[1];
  CHECK(alike);
  float apart = 0, moved = 0;
  for (std::size_t i = 0; i < ends[2].size(); ++i) {
    apart = std::max(apart, std::abs(ends[0][i] - ends[2][i]));
    moved = std::max(moved, std::abs(ends[2][i]));
  }
  CHECK(apart < 1e-5F);
  CHECK(moved > 0.01F);
}

TEST_CASE("prompted_model: batches that do not fit the context beside the prompts are refused", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  support::served_gpt<> swarm{model};
  swarm.add_server(0, 6);
  swarm.add_client({}, [&](sim::process&, auto& client) {
    const std::vector<std::int32_t> fits(10, 1), longer(11, 1), beyond(10, 13);
    CHECK(client.evaluate(fits, fits, 1));
    CHECK_FALSE(client.evaluate(longer, longer, 1));
    CHECK_FALSE(client.evaluate(beyond, fits, 1));
    CHECK_FALSE(client.evaluate(fits, fits, 3));
  });
  CHECK(swarm.run());
}

TEST_CASE("prompted_model: runs, prompts and models are told apart by the configuration's hash", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  sim::world w{{.seed = 1}};
  w.add_host({});
  w.boot(0, [&](sim::process& p) {
    net::peer_id id = 0;
    const auto hash = [&](nn::gpt_options o, parallel::prompt_options prompts) {
      return support::valued(parallel::prompted_model<>::create(o, prompts, [](parameter_store&) { return result<void>{}; },
                                                                p.make_fabric(++id), {}))
          .config_hash();
    };
    auto deeper = support::frozen_gpt;
    deeper.layers = 7;
    const auto usual = hash(support::frozen_gpt, {.rows = 2});
    CHECK(usual == hash(support::frozen_gpt, {.rows = 2}));
    CHECK(usual != hash(support::frozen_gpt, {.rows = 3}));
    CHECK(usual != hash(support::frozen_gpt, {.rows = 2, .deep = false}));
    CHECK(usual != hash(deeper, {.rows = 2}));
  });
  CHECK(w.run());
}

}  // namespace causeway
