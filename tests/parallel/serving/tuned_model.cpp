// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/serving/tuned_model.hpp>

#include <causeway/collective/channels.hpp>
#include <causeway/comm/every_step.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/nn/llama.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/model.hpp>
#include <causeway/train/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_fabric.hpp"
#include "support/tuned_gpt.hpp"

namespace causeway {
namespace {

using namespace std::chrono_literals;
using parallel::prompt_options;
using parallel::tuning_options;
using support::small_text;
using int8 = stage::coded<compress::block_int8>;
static_assert(Model<parallel::tuned_model<>> && Model<parallel::tuned_model<nn::llama_family>>);

constexpr nn::adapter_options everywhere{
    .rank = 3, .alpha = 5, .query = true, .key = true, .value = true, .output = true, .feed_forward = true};

struct numbers {
  std::vector<double> losses;
  std::vector<float> gradients, values;
};

/// Away from where parameters begin: B of adapters is zero there.
void move_values(parameter_store& store) {
  rng draw{9};
  for (const auto& s : store.segments()) {
    for (std::int64_t i = s.offset; i < s.offset + s.size(); ++i) {
      store.values()[static_cast<std::size_t>(i)] += 0.1F * draw.normal();
    }
  }
  store.touch();
}
void keep(numbers& n, parameter_store& store) {
  n.gradients.assign(store.gradients().begin(), store.gradients().end());
  n.values.assign(store.values().begin(), store.values().end());
}

/// Losses of `steps`, the gradients of the last one and where it led, over servers of blocks [0, 2), [2, 5), [5, 6).
template <class Codec>
numbers served(nn::gpt& model, const tuning_options& tuning, std::int64_t most_rows = 1024, std::uint64_t steps = 1) {
  support::served_gpt<Codec> swarm{model};
  swarm.add_server(0, 2);
  swarm.add_server(2, 3);
  swarm.add_server(5, 1);
  numbers n;
  typename support::served_gpt<Codec>::client_options o{.tuning = tuning};
  o.client.most_rows = most_rows;
  swarm.add_client(o, [&](sim::process&, auto& client) {
    client.initialize(7);
    move_values(client.parameters());
    const small_text first{0};
    const double before = support::valued(client.evaluate(first.in, first.out, support::sequences_each));
    optim::adamw inner;
    inner.reset(client.parameters().length());
    for (std::uint64_t s = 0; s < steps; ++s) n.losses.push_back(support::tuned(client, inner, small_text{s}));
    CHECK(before == n.losses.front());
    keep(n, client.parameters());
  });
  REQUIRE(swarm.run());
  return n;
}

parallel::tuned_parameters parameters_for(const tuning_options& tuning) {
  const auto& o = support::frozen_gpt;
  return support::valued(
      parallel::tuned_parameters::create(tuning, {0, o.layers, o.width, nn::gpt_family::maps(o)}, o.context));
}

numbers unsplit(nn::gpt& model, const tuning_options& tuning, std::uint64_t steps = 1) {
  support::unsplit_tuning whole{model, tuning};
  auto trained = parameters_for(tuning);
  parameter_store& store = trained.store();
  trained.initialize(model.backend().pool(), 7);
  move_values(store);
  optim::adamw inner;
  inner.reset(store.length());
  numbers n;
  for (std::uint64_t s = 0; s < steps; ++s) {
    std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
    n.losses.push_back(whole.run(store, small_text{s}, true));
    inner.step(model.backend().pool(), store.view(), {.learning_rate = 0.05F});
  }
  keep(n, store);
  return n;
}

/// All that may be trained: prompts without and with rows before blocks, adapters of few and of all maps, both.
std::vector<tuning_options> kinds() {
  return {{.prompts = prompt_options{.rows = 2, .deep = false}},
          {.prompts = prompt_options{.rows = 2}},
          {.adapters = nn::adapter_options{.rank = 2}},
          {.adapters = everywhere},
          {.prompts = prompt_options{.rows = 2}, .adapters = nn::adapter_options{.rank = 4, .alpha = 3, .key = true}}};
}

}  // namespace

TEST_CASE("tuned_model: losses and gradients have the bits of the model that nobody cut, over steps of training",
          "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  for (const tuning_options& tuning : kinds()) {
    for (const std::uint64_t steps : {1U, 5U}) {
      const numbers want = unsplit(model, tuning, steps), got = served<stage::plain>(model, tuning, 1024, steps);
      CHECK(got.losses == want.losses);
      CHECK(std::count(got.gradients.begin(), got.gradients.end(), 0.0F) < std::ssize(got.gradients) / 10);
      const bool gradients = got.gradients == want.gradients, values = got.values == want.values;
      CHECK(gradients);
      CHECK(values);
    }
  }
}

TEST_CASE("tuned_model: a batch in pieces differs by the order of summation, with int8 by its rounding",
          "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  for (const tuning_options& tuning : kinds()) {
    const numbers want = unsplit(model, tuning);
    const auto distance = [&](const numbers& got) {
      double apart = 0, all = 0;
      for (std::size_t i = 0; i < want.gradients.size(); ++i) {
        const double d = static_cast<double>(got.gradients[i]) - static_cast<double>(want.gradients[i]);
        apart += d * d;
        all += static_cast<double>(want.gradients[i]) * static_cast<double>(want.gradients[i]);
      }
      return std::sqrt(apart / all);
    };
    const numbers pieces = served<stage::plain>(model, tuning, 16), single = served<stage::plain>(model, tuning, 8),
                  rounded = served<int8>(model, tuning);
    CHECK(pieces.losses == want.losses);
    CHECK(distance(pieces) < 1e-6);
    CHECK(distance(single) < 1e-6);
    CHECK(rounded.losses.front() == Approx(want.losses.front()).epsilon(0.02));
    CHECK(distance(rounded) > 0);
    CHECK(distance(rounded) < 0.05);
  }
}

TEST_CASE("tuned_model: adapters begin as the frozen model, to the bit, and only B has a gradient", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const small_text t{1};
  const double base = support::valued(model.evaluate(t.in, t.out, support::sequences_each));
  for (const nn::adapter_options& adapters : {nn::adapter_options{.rank = 2}, everywhere}) {
    support::served_gpt<> swarm{model};
    swarm.add_server(0, 6);
    swarm.add_client({.tuning = {.adapters = adapters}}, [&](sim::process&, auto& client) {
      client.initialize(7);
      CHECK(support::valued(client.forward_backward(t.in, t.out, support::sequences_each, 1.0F, 0)) == base);
      parameter_store& store = client.parameters();
      for (std::size_t s = 0; s < store.segments().size(); ++s) {
        double values = 0, gradients = 0;
        for (std::int64_t i = 0; i < store.segments()[s].size(); ++i) {
          values += static_cast<double>(std::abs(store.value(s)[i]));
          gradients += static_cast<double>(std::abs(store.gradient(s)[i]));
        }
        const bool b = store.segments()[s].name.ends_with("lora_B");
        CHECK((values == 0.0) == b);
        CHECK((gradients == 0.0) == !b);
      }
    });
    REQUIRE(swarm.run());
  }
}

TEST_CASE("tuned_model: clients with other adapters share servers, and train what each trains alone", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const auto all = kinds();
  std::vector<std::vector<float>> alone(all.size()), together(all.size());
  const auto add = [&](support::served_gpt<>& swarm, std::size_t c, std::vector<std::vector<float>>& ends) {
    swarm.add_client({.tuning = all[c]}, [&, c](sim::process&, auto& client) {
      client.initialize(c);
      optim::adamw inner;
      inner.reset(client.parameters().length());
      for (std::uint64_t s = 0; s < 3; ++s) (void)support::tuned(client, inner, small_text{c * 10 + s});
      ends[c].assign(client.parameters().values().begin(), client.parameters().values().end());
    });
  };
  const auto serve = [](support::served_gpt<>& swarm) {
    swarm.add_server(0, 3);
    swarm.add_server(3, 3);
  };
  for (std::size_t c = 0; c < all.size(); ++c) {
    support::served_gpt<> swarm{model};
    serve(swarm);
    add(swarm, c, alone);
    REQUIRE(swarm.run());
  }
  support::served_gpt<> swarm{model};
  serve(swarm);
  for (std::size_t c = 0; c < all.size(); ++c) add(swarm, c, together);
  REQUIRE(swarm.run());
  const bool alike = alone == together;
  CHECK(alike);
}

// With P pieces of R rows in all, H hops, L blocks of V tuned values and 4 bytes a value: a forward asks with H·R·width and
// P·L·V values and is answered with H·R·width; a backward asks with twice the rows, and is answered with what a forward
// asks.
TEST_CASE("tuned_model: a step sends and gets the bytes of the formula", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  const std::int64_t width = support::frozen_gpt.width, layers = support::frozen_gpt.layers;
  const std::int64_t all_rows = support::sequences_each * support::tokens_each;
  for (const std::int64_t pieces : {1, 2, 4}) {
    support::served_gpt<> swarm{model};
    swarm.add_server(0, 2);
    swarm.add_server(2, 4);
    const nn::adapter_options adapters{.rank = 2, .key = true};
    typename support::served_gpt<>::client_options o{.tuning = {.adapters = adapters}};
    o.client.most_rows = all_rows / pieces;
    std::shared_ptr<support::counted_fabric> counted;
    o.wrap = [&](auto below) {
      counted = std::make_shared<support::counted_fabric>(std::move(below), [](support::fabric_call) {});
      return counted;
    };
    swarm.add_client(o, [&](sim::process&, auto& client) {
      const small_text t{1};
      const std::int64_t tuned = 3 * adapters.rank * 2 * width;
      CHECK(parameters_for(o.tuning).store().count() == layers * tuned);
      const auto traffic = [&] {
        return std::pair{counted->sent_on(collective::channels::activations),
                         counted->received_on(collective::channels::activations + 1)};
      };
      (void)support::valued(client.forward_backward(t.in, t.out, support::sequences_each, 1.0F, 0));
      const auto before = traffic();
      (void)support::valued(client.forward_backward(t.in, t.out, support::sequences_each, 1.0F, 0));
      const auto after = traffic();
      const std::int64_t rows = 2 * all_rows * width, every = pieces * layers * tuned;
      CHECK(after.first - before.first == static_cast<std::uint64_t>(4 * (3 * rows + 2 * every)));
      CHECK(after.second - before.second == static_cast<std::uint64_t>(4 * (2 * rows + every)));
    });
    REQUIRE(swarm.run());
  }
}

TEST_CASE("tuned_model: two clients that share a task train what one does with both batches", "[parallel][fast]") {
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

TEST_CASE("tuned_model: batches that do not fit the context beside the prompts are refused", "[parallel][fast]") {
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

TEST_CASE("tuned_model: runs, prompts and models are told apart by the configuration's hash", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  sim::world w{{.seed = 1}};
  w.add_host({});
  w.boot(0, [&](sim::process& p) {
    net::peer_id id = 0;
    const auto hash = [&](nn::gpt_options o, const tuning_options& tuning) {
      return support::valued(parallel::tuned_model<>::create(o, tuning, [](parameter_store&) { return result<void>{}; },
                                                             p.make_fabric(++id), {}))
          .config_hash();
    };
    const auto prompts = [](std::int64_t rows, bool deep = true) {
      return tuning_options{.prompts = prompt_options{.rows = rows, .deep = deep}};
    };
    const auto adapters = [](const nn::adapter_options& o) { return tuning_options{.adapters = o}; };
    auto deeper = support::frozen_gpt;
    deeper.layers = 7;
    const std::vector<std::uint64_t> all{hash(support::frozen_gpt, prompts(2)),
                                         hash(support::frozen_gpt, prompts(3)),
                                         hash(support::frozen_gpt, prompts(2, false)),
                                         hash(deeper, prompts(2)),
                                         hash(support::frozen_gpt, adapters({.rank = 2})),
                                         hash(support::frozen_gpt, adapters({.rank = 3})),
                                         hash(support::frozen_gpt, adapters({.rank = 2, .alpha = 8})),
                                         hash(support::frozen_gpt, adapters({.rank = 2, .query = false, .key = true}))};
    CHECK(all.front() == hash(support::frozen_gpt, prompts(2)));
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(std::count(all.begin(), all.end(), all[i]) == 1);
  });
  CHECK(w.run());
}

TEST_CASE("tuned_model: adapters that no server takes are told apart from blocks that nobody serves", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  support::served_gpt<> swarm{model};
  swarm.add_server([](auto& o) { o.first = 0, o.blocks = 6, o.most_rows = 64; });
  const auto client_of = [](std::int64_t rank) {
    support::served_gpt<>::client_options o{.tuning = {.adapters = everywhere}};
    o.tuning.adapters->rank = rank;
    return o;
  };
  const small_text t{1};
  // A block's adapters are 18 rows for each rank; requests have at most 16 of their own.
  swarm.add_client(client_of(2),
                   [&](sim::process&, auto& client) { CHECK(client.evaluate(t.in, t.out, support::sequences_each)); });
  swarm.add_client(client_of(3), [&](sim::process&, auto& client) {
    const auto outcome = client.evaluate(t.in, t.out, support::sequences_each);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::timeout);
    CHECK_THAT(outcome.error().text(), Catch::Matchers::Contains("a lower rank"));
  });
  REQUIRE(swarm.run());
}

TEST_CASE("tuned_model: adapters that are not finite, or make rows so, fail the step and say so", "[parallel][fast]") {
  auto model = support::pretrained_gpt();
  support::served_gpt<> swarm{model};
  swarm.add_server(0, 6);
  swarm.add_client({.tuning = {.adapters = nn::adapter_options{.rank = 2}}}, [&](sim::process&, auto& client) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e30F}) {
      const auto spoil = [bad](auto values) { std::fill(values.begin(), values.end(), bad); };
      CHECK(support::error_of(client, spoil) == errc::non_finite);
    }
    CHECK_FALSE(support::error_of(client, [](auto) {}));
  });
  CHECK(swarm.run());
}

}  // namespace causeway
