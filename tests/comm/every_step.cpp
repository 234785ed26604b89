// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/every_step.hpp>

#include <causeway/optim/sgd.hpp>

#include "support/conformance.hpp"

using namespace causeway;

TEST_CASE("every step: passes the conformance suite", "[comm][fast]") {
  support::check_communication_policy([] { return comm::every_step<>{}; });
}

TEST_CASE("every step: all peers follow gradient descent on the mean of their losses", "[comm][fast]") {
  // θ ← θ − η (θ − mean of all centres), worked out in double.
  constexpr std::uint32_t peers = 4;
  constexpr std::uint64_t steps = 5;
  constexpr float rate = 0.25F;
  std::vector<std::vector<float>> ends(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    trainer_options options;
    options.learning_rate = optim::constant{rate};
    options.clip_norm = 0;
    auto t = make_trainer(support::test_model{support::quadratic{}}, std::move(env), options, comm::every_step<>{},
                          optim::sgd{});
    REQUIRE(t.start());
    for (std::uint64_t s = 0; s < steps; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      REQUIRE(t.step({tokens, tokens, 1}));
    }
    const auto values = t.model().parameters().values();
    ends[peer].assign(values.begin(), values.end());
  });

  support::quadratic start;
  for (std::int64_t i = 0; i < 37; ++i) {
    double theta = static_cast<double>(start.parameters().value(0)[i]);
    for (std::uint64_t s = 0; s < steps; ++s) {
      double centre = 0;
      for (std::uint32_t peer = 0; peer < peers; ++peer) {
        for (const auto token : support::tokens_of(peer, s))
          centre += static_cast<double>(support::quadratic::centre(token, i)) / 16;
      }
      theta -= static_cast<double>(rate) * (theta - centre);
    }
    for (std::uint32_t peer = 0; peer < peers; ++peer) {
      CHECK(ends[peer] == ends[0]);
      CHECK(static_cast<double>(ends[peer][static_cast<std::size_t>(i)]) == Approx(theta).margin(1e-5));
    }
  }
}
