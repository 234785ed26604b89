// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/context.hpp>

#include <causeway/nn/gpt.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>

#include <set>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/quadratic.hpp"

using namespace causeway;

namespace {

auto make_context(environment env, std::uint64_t seed = 1) {
  trainer_options options;
  options.seed = seed;
  return training_context<support::quadratic, optim::sgd>{support::quadratic{}, optim::sgd{}, std::move(env), options,
                                                          false};
}

}  // namespace

TEST_CASE("context: shared random numbers agree between peers and own ones do not", "[train][fast]") {
  std::vector<std::uint64_t> own(4);
  std::vector<std::uint64_t> shared(4);
  support::run_cluster(4, [&](std::uint32_t peer, environment env) {
    auto ctx = make_context(std::move(env));
    own[peer] = ctx.random().next();
    shared[peer] = ctx.shared_random().next();
  });
  CHECK(std::set<std::uint64_t>(shared.begin(), shared.end()).size() == 1);
  CHECK(std::set<std::uint64_t>(own.begin(), own.end()).size() == 4);
}

TEST_CASE("context: random partners pair everybody but the odd one out", "[train][fast]") {
  for (const std::uint32_t peers : {1U, 2U, 5U, 8U}) {
    std::vector<std::optional<net::peer_index>> partner(peers);
    support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
      auto ctx = make_context(std::move(env));
      partner[peer] = ctx.random_partner();
      CHECK(partner[peer] == ctx.random_partner());
    });
    std::uint32_t alone = 0;
    for (std::uint32_t peer = 0; peer < peers; ++peer) {
      if (!partner[peer]) {
        ++alone;
      } else {
        CHECK(partner[*partner[peer]] == peer);
        CHECK(*partner[peer] != peer);
      }
    }
    CHECK(alone == peers % 2);
  }
}

TEST_CASE("context: updates that an optimizer does not report cannot be tracked", "[train][fast]") {
  training_context<support::quadratic, optim::adamw> ctx{support::quadratic{}, optim::adamw{}, environment{}, {}, false};
  std::vector<float> sum(ctx.parameters().size());
  const auto outcome = ctx.track_updates(sum);
  REQUIRE(!outcome);
  CHECK(outcome.error().code == errc::unsupported);
}

TEST_CASE("context: tracked updates are what was subtracted", "[train][fast]") {
  auto ctx = make_context({});
  std::vector<float> sum(ctx.parameters().size());
  REQUIRE(ctx.track_updates(sum));
  const std::vector<float> before(ctx.parameters().begin(), ctx.parameters().end());
  for (int i = 0; i < 3; ++i) {
    ctx.begin_compute();
    const auto tokens = support::tokens_of(0, 0);
    REQUIRE(ctx.forward_backward({tokens, tokens, 1}, 0.25F));
    REQUIRE(ctx.inner_step());
  }
  for (std::size_t i = 0; i < sum.size(); ++i) CHECK(before[i] - sum[i] == Approx(ctx.parameters()[i]).margin(1e-6));
}

TEST_CASE("context: a pairwise average of different sizes is a protocol error", "[train][fast]") {
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    auto ctx = make_context(std::move(env));
    std::vector<float> data(peer == 0 ? 4 : 8);
    const auto outcome = ctx.average_with(1 - peer, data);
    if (peer == 1) CHECK(outcome.error().code == errc::protocol);
    if (peer == 0) CHECK(outcome.error().code == errc::too_large);
  });
}

TEST_CASE("context: bf16 copies that a step writes along are those that a conversion makes", "[train][fast]") {
  const auto losses = [](bool converts) {
    nn::gpt_options o;
    o.layers = 2, o.heads = 2, o.width = 16, o.context = 8, o.vocabulary = 29;
    o.precision = nn::precision::bf16;
    auto model = nn::gpt::create(o, kernels::cpu_backend{1});
    trainer_options options;
    options.learning_rate = optim::constant{0.01F};
    training_context<nn::gpt, optim::adamw> ctx{std::move(*model), optim::adamw{}, environment{}, options, false};
    ctx.reset_inner();
    const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<double> all;
    for (int step = 0; step < 4; ++step) {
      ctx.begin_compute();
      all.push_back(ctx.forward_backward({tokens, tokens, 1}, 1.0F / 8).value());
      REQUIRE(ctx.inner_step());
      CHECK(ctx.model().parameters().has_copies());
      if (converts) ctx.parameters_changed();
      CHECK(ctx.model().parameters().has_copies() != converts);
      ctx.commit_step();
    }
    return all;
  };
  const auto along = losses(false);
  CHECK(along == losses(true));
  CHECK(along.back() < along.front());
}
