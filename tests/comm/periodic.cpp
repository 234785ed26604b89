// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/periodic.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/optim/sgd.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/conformance.hpp"

using namespace causeway;

namespace {

/// Where `peers` peers end after `steps` steps under a policy, with inner SGD.
template <class MakePolicy>
std::vector<std::vector<float>> train(std::uint32_t peers, std::uint64_t steps, float rate, MakePolicy make,
                                      std::vector<traffic>* bytes = nullptr) {
  std::vector<std::vector<float>> ends(peers);
  if (bytes != nullptr) bytes->resize(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    trainer_options options;
    options.learning_rate = optim::constant{rate};
    options.clip_norm = 0;
    auto t = make_trainer(support::test_model{support::quadratic{}}, std::move(env), options, make(), optim::sgd{});
    REQUIRE(t.start());
    const auto before = t.context().transport().stats();
    for (std::uint64_t s = 0; s < steps; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      REQUIRE(t.step({tokens, tokens, 1}));
    }
    REQUIRE(t.finish());
    const auto values = t.model().parameters().values();
    ends[peer].assign(values.begin(), values.end());
    if (bytes != nullptr) {
      (*bytes)[peer] = t.context().transport().stats();
      (*bytes)[peer].bytes_sent -= before.bytes_sent;
    }
  });
  return ends;
}

}  // namespace

TEST_CASE("periodic: passes the conformance suite", "[comm][fast]") {
  support::check_communication_policy([] { return comm::periodic<>{{.local_steps = 3}}; });
}

TEST_CASE("periodic: passes the conformance suite with summed updates and int8", "[comm][fast]") {
  support::check_communication_policy<optim::sgd>([] {
    return comm::periodic<optim::nesterov, compress::block_int8>{
        {.local_steps = 2, .content = comm::pseudo_gradient::sum_of_updates}};
  });
}

TEST_CASE("periodic: H = 1, inner SGD, outer SGD(1) equals every step bit for bit", "[comm][fast]") {
  // The learning rate is a power of two, as is the number of peers, so that scaling commutes with rounding; everything else
  // is arbitrary.
  constexpr float rate = 0.0625F;
  const auto synchronous = train(4, 20, rate, [] { return comm::every_step<>{}; });
  const auto local = train(4, 20, rate, [] {
    return comm::periodic<optim::sgd>{
        {.local_steps = 1, .outer_learning_rate = 1.0F, .content = comm::pseudo_gradient::sum_of_updates}};
  });
  CHECK(local == synchronous);

  // Content by difference rounds at the size of a parameter instead: equal to a few ulps.
  const auto difference =
      train(4, 20, rate, [] { return comm::periodic<optim::sgd>{{.local_steps = 1, .outer_learning_rate = 1.0F}}; });
  for (std::size_t i = 0; i < synchronous[0].size(); ++i) CHECK(difference[0][i] == Approx(synchronous[0][i]).margin(1e-5));
}

TEST_CASE("periodic: local SGD averages parameters after every round", "[comm][fast]") {
  // With outer SGD(1) the round ends at the mean of where the peers alone would have been.
  constexpr std::uint32_t peers = 3;
  const auto averaged = train(peers, 5, 0.1F, [] { return comm::periodic<optim::sgd>{{5, 1.0F}}; });
  std::vector<double> mean(averaged[0].size());
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    trainer_options options;
    options.learning_rate = optim::constant{0.1F};
    options.clip_norm = 0;
    auto alone =
        make_trainer(support::test_model{support::quadratic{}}, environment{}, options, comm::every_step<>{}, optim::sgd{});
    REQUIRE(alone.start());
    for (std::uint64_t s = 0; s < 5; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      REQUIRE(alone.step({tokens, tokens, 1}));
    }
    const auto values = alone.model().parameters().values();
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(values[i]) / peers;
  }
  for (std::size_t i = 0; i < mean.size(); ++i) CHECK(static_cast<double>(averaged[0][i]) == Approx(mean[i]).margin(1e-5));
}

TEST_CASE("periodic: the outer optimizer sees old minus new", "[comm][fast]") {
  // One peer, one round, Nesterov's first step: θ' = θ − η (1 + μ) (θ − θ_local).
  const auto start = support::quadratic{}.parameters().values()[0];
  const auto local = train(1, 4, 0.1F, [] { return comm::periodic<optim::sgd>{{4, 1.0F}}; })[0][0];
  const auto outer = train(1, 4, 0.1F, [] {
    return comm::periodic<>{{.local_steps = 4, .outer_learning_rate = 0.7F}, optim::nesterov{{.momentum = 0.9F}}};
  })[0][0];
  CHECK(outer == Approx(start - 0.7F * 1.9F * (start - local)).margin(1e-5));
}

TEST_CASE("periodic: between exchanges the anchor is what the last one came to", "[comm][fast]") {
  trainer_options options;
  options.learning_rate = optim::constant{0.1F};
  auto t = make_trainer(support::test_model{support::quadratic{}}, environment{}, options,
                        comm::periodic<optim::sgd>{{2, 1.0F}}, optim::sgd{});
  REQUIRE(t.start());
  const auto values = t.model().parameters().values();
  std::vector<float> shared{values.begin(), values.end()};
  for (std::uint64_t s = 0; s < 4; ++s) {
    const auto tokens = support::tokens_of(0, s);
    REQUIRE(t.step({tokens, tokens, 1}));
    if (s % 2 == 1) shared.assign(values.begin(), values.end());
    CHECK(std::equal(shared.begin(), shared.end(), t.comm().anchor().begin(), t.comm().anchor().end()));
    CHECK(std::equal(shared.begin(), shared.end(), values.begin()) == (s % 2 == 1));
  }
}

TEST_CASE("periodic: exchanges once in H steps", "[comm][fast]") {
  std::vector<traffic> every;
  std::vector<traffic> periodic;
  train(
      4, 64, 0.1F, [] { return comm::every_step<>{}; }, &every);
  train(
      4, 64, 0.1F, [] { return comm::periodic<optim::sgd>{{.local_steps = 16, .outer_learning_rate = 1.0F}}; }, &periodic);
  CHECK(every[0].bytes_sent == 16 * periodic[0].bytes_sent);
}

TEST_CASE("periodic: a round that training ends in is closed by finish", "[comm][fast]") {
  const auto ends = train(3, 7, 0.1F, [] { return comm::periodic<>{{.local_steps = 5}}; });
  CHECK(ends[0] == ends[1]);
  CHECK(ends[0] == ends[2]);
}

TEST_CASE("periodic: no local steps is an error with a remedy", "[comm][fast]") {
  auto t = make_trainer(support::test_model{support::quadratic{}}, environment{}, {}, comm::periodic<>{{.local_steps = 0}});
  const auto outcome = t.start();
  REQUIRE(!outcome);
  CHECK(outcome.error().code == errc::invalid_argument);
}
