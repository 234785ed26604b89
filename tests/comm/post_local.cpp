// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/post_local.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/sgd.hpp>

#include <cstdint>
#include <vector>

#include "support/conformance.hpp"

using namespace causeway;

namespace {

using diloco = comm::rounds<axis::every>;

auto three_first() { return comm::post_local{diloco{axis::every{2}}, {.steps = 3}}; }

/// What each of two peers holds after each step, and at the end.
template <class Inner, class MakePolicy>
std::vector<std::vector<std::vector<float>>> run(std::uint64_t steps, MakePolicy make) {
  std::vector<std::vector<std::vector<float>>> seen(2);
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    trainer_options options;
    options.learning_rate = optim::constant{0.05F};
    auto t = make_trainer(support::quadratic{}, std::move(env), options, make(), Inner{});
    if (const auto started = t.start(); !started) FAIL(started.error().text());
    const auto note = [&] {
      const auto x = t.model().parameters().values();
      seen[peer].emplace_back(x.begin(), x.end());
    };
    for (std::uint64_t s = 0; s < steps; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      if (const auto report = t.step({tokens, tokens, 1}); !report) FAIL(report.error().text());
      note();
    }
    if (const auto finished = t.finish(); !finished) FAIL(finished.error().text());
    note();
  });
  return seen;
}

}  // namespace

TEST_CASE("post_local: passes the conformance suite", "[comm][fast]") { support::check_communication_policy(three_first); }

TEST_CASE("post_local: the first steps are every_step's, to the bit, and end so if the run does", "[comm][fast]") {
  const auto synchronous = run<optim::adamw>(3, [] { return comm::every_step<>{}; });
  CHECK(run<optim::adamw>(3, [] { return comm::post_local{diloco{axis::every{2}}, {.steps = 4}}; }) == synchronous);
  CHECK(run<optim::adamw>(3, three_first) == synchronous);
}

TEST_CASE("post_local: rounds count from where the first steps ended", "[comm][fast]") {
  const auto seen = run<optim::sgd>(5, [] {
    return comm::post_local{comm::rounds{axis::every{2}, axis::outer<optim::sgd>{0.5F}}, {.steps = 3}};
  });
  const auto ahead = run<optim::sgd>(5, [] {  // as far as the round's end, without it
    return comm::post_local{comm::rounds{axis::every{9}, axis::outer<optim::sgd>{0.5F}}, {.steps = 3}};
  });
  REQUIRE(seen[0][2] == seen[1][2]);
  CHECK(seen[0][3] != seen[1][3]);
  CHECK(seen[0][4] == seen[1][4]);
  for (std::size_t i = 0; i < seen[0][4].size(); ++i) {
    const float mean = (ahead[0][4][i] + ahead[1][4][i]) / 2;
    CHECK(seen[0][4][i] == Approx((seen[0][2][i] + mean) / 2).margin(1e-6));
  }
}

TEST_CASE("post_local: needs a step, and says what it is", "[comm][fast]") {
  using policy = comm::post_local<diloco>;
  STATIC_REQUIRE(policy::traits.tolerates == peers::fixed);
  STATIC_REQUIRE(policy::traits.exchanges_gradients);
  STATIC_REQUIRE(policy::traits.identical_replicas);
  auto t = make_trainer(support::quadratic{}, environment{}, {}, policy{diloco{}, {.steps = 0}});
  const auto started = t.start();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == errc::invalid_argument);
  CHECK(policy{}.synchronous());
}
