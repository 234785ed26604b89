// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/prompted_model.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/train/model.hpp>

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
  store.add("prompts", parameter_kind::embedding, prompts.rows, support::small_gpt.width);
  if (prompts.deep) store.add("deep_prompts", parameter_kind::embedding, 6 * prompts.rows, support::small_gpt.width);
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

}  // namespace causeway
