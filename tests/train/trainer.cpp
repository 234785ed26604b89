// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/trainer.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/optim/sgd.hpp>

#include <limits>

#include "../../examples/leave_when_asked.hpp"
#include "../../examples/random_pair.hpp"
#include "../../examples/sequence_by_sequence.hpp"
#include "support/conformance.hpp"

using namespace causeway;

namespace {

/// Fails a phase a given number of times, then lets the step through.
struct patient {
  static constexpr std::string_view name = "patient";
  static constexpr fault_traits traits{.retries = true};
  static constexpr std::uint32_t state_version = 1;
  result<void> begin_step(auto&) {
    ++begun;
    return {};
  }
  result<verdict> end_step(auto&, const result<void>& outcome) {
    if (outcome) return verdict::commit;
    ++retried;
    return verdict::retry;
  }
  void serialize(auto& ar) { ar(begun, retried); }
  int begun = 0;
  int retried = 0;
};

/// Averages like every_step, but its n-th call of each hook fails.
struct stumbling {
  static constexpr std::string_view name = "stumbling";
  static constexpr comm_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  result<void> start(auto&) { return {}; }
  result<void> before_inner_step(auto&) { return stumble(before); }
  result<void> after_inner_step(auto&) { return stumble(after); }
  result<void> finish(auto&) { return {}; }
  void serialize(auto&) {}
  static result<void> stumble(int& calls) {
    if (calls++ % 3 == 0) return fail(errc::timeout, "peer 1", "late");
    return {};
  }
  int before = 0;
  int after = 0;
};

template <class Trainer>
std::vector<float> values_of(Trainer& t) {
  const auto v = t.model().parameters().values();
  return {v.begin(), v.end()};
}

}  // namespace

TEST_CASE("trainer: one peer equals plain training bit for bit", "[train][fast]") {
  trainer_options options;
  options.learning_rate = optim::warmup_cosine{0.1F, 3, 20, 0.1F};
  auto t = make_trainer(support::test_model{support::quadratic{}}, environment{}, options, comm::every_step<>{});
  REQUIRE(t.start());

  support::quadratic plain;
  optim::adamw inner;
  inner.reset(plain.parameters().length());
  for (std::uint64_t s = 0; s < 20; ++s) {
    const auto tokens = support::tokens_of(0, s);
    REQUIRE(t.step({tokens, tokens, 1}));

    auto g = plain.parameters().gradients();
    std::fill(g.begin(), g.end(), 0.0F);
    REQUIRE(plain.forward_backward(tokens, tokens, 1, 1.0F / static_cast<float>(tokens.size()), 0));
    const float norm = optim::global_norm(plain.backend().pool(), g);
    inner.step(
        plain.backend().pool(), plain.parameters().view(),
        {.learning_rate = options.learning_rate.at(s), .gradient_scale = optim::clip_scale(norm, options.clip_norm)});
    const auto expected = plain.parameters().values();
    REQUIRE(values_of(t) == std::vector<float>(expected.begin(), expected.end()));
  }
}

TEST_CASE("trainer: a retried phase is repeated from where it failed and changes nothing else", "[train][fast]") {
  auto smooth = make_trainer(support::test_model{support::quadratic{}}, environment{}, {}, comm::every_step<>{});
  auto bumpy = make_trainer(support::test_model{support::quadratic{}}, environment{}, {}, stumbling{}, patient{});
  REQUIRE(smooth.start());
  REQUIRE(bumpy.start());
  for (std::uint64_t s = 0; s < 6; ++s) {
    const auto tokens = support::tokens_of(0, s);
    REQUIRE(smooth.step({tokens, tokens, 1}));
    REQUIRE(bumpy.step({tokens, tokens, 1}));
  }
  CHECK(values_of(smooth) == values_of(bumpy));
  CHECK(bumpy.fault().begun == 6);  // no gradient was computed twice
  CHECK(bumpy.fault().retried > 0);
}

TEST_CASE("trainer: a gradient that is not finite ends the step and leaves the parameters alone", "[train][fast]") {
  auto t = make_trainer(support::test_model{support::quadratic{}}, environment{}, {}, comm::every_step<>{});
  REQUIRE(t.start());
  t.model().parameters().values()[0] = std::numeric_limits<float>::infinity();
  const auto before = values_of(t);
  const auto tokens = support::tokens_of(0, 0);
  const auto report = t.step({tokens, tokens, 1});
  REQUIRE(!report);
  CHECK(report.error().code == errc::non_finite);
  CHECK(values_of(t) == before);
  CHECK(t.context().step() == 0);
}

TEST_CASE("trainer: peers that start from other parameters are told so", "[train][fast]") {
  support::run_cluster(3, [&](std::uint32_t peer, environment env) {
    auto t = make_trainer(support::test_model{support::quadratic{37, peer == 1 ? 2U : 1U}}, std::move(env), {},
                          comm::every_step<>{});
    const auto outcome = t.start();
    REQUIRE(!outcome);
    CHECK(outcome.error().code == errc::diverged);
  });
}

TEST_CASE("trainer: peers that go on from checkpoints of other rounds are told so, and who begins anew beside them",
          "[train][fast]") {
  const auto make_peer = [](environment env) {
    return make_trainer(support::test_model{support::quadratic{}}, std::move(env), {}, comm::every_step<>{});
  };
  std::vector<support::saved_state> states(3);  // after so many steps
  auto alone = make_peer({});
  REQUIRE(alone.start());
  for (auto& state : states) {
    state = support::save(alone);
    const auto tokens = support::tokens_of(0, 0);
    REQUIRE(alone.step({tokens, tokens, 1}));
  }
  const bool one_is_new = GENERATE(false, true);
  const bool same = GENERATE(false, true);
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    auto t = make_peer(std::move(env));
    if (!one_is_new || peer == 0) support::load(t, states[same ? 2 : peer + 1]);
    const auto outcome = t.start();
    CHECK(outcome.has_value() == (same && !one_is_new));
    if (!outcome) CHECK(outcome.error().code == errc::diverged);
  });
}

TEST_CASE("trainer: replicas that differ are found at the next exchange", "[train][fast]") {
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    auto t = make_trainer(support::test_model{support::quadratic{}}, std::move(env), {}, comm::every_step<>{});
    REQUIRE(t.start());
    const auto tokens = support::tokens_of(peer, 0);
    REQUIRE(t.step({tokens, tokens, 1}));
    if (peer == 1) t.model().parameters().values()[3] += 1.0F;  // a bit flip in memory, say
    REQUIRE(t.step({tokens, tokens, 1}));                       // the hash of this step's end differs
    const auto report = t.step({tokens, tokens, 1});
    REQUIRE(!report);
    CHECK((report.error().code == errc::wrong_parent || report.error().code == errc::peer_lost));
  });
}

TEST_CASE("trainer: reports what a step was worth", "[train][fast]") {
  trainer_options options;
  options.learning_rate = optim::constant{0.125F};
  auto t =
      make_trainer(support::test_model{support::quadratic{}}, environment{}, options, comm::periodic<>{{.local_steps = 2}});
  REQUIRE(t.start());
  const auto tokens = support::tokens_of(0, 0);
  const auto first = t.step({tokens, tokens, 2});
  REQUIRE(first);
  CHECK(first->step == 1);
  CHECK(first->round == 0);
  CHECK(!first->committed_round);
  CHECK(first->tokens == 4);
  CHECK(first->learning_rate == 0.125F);
  CHECK(first->gradient_norm > 0);
  const auto second = t.step({tokens, tokens, 2});
  REQUIRE(second);
  CHECK(second->committed_round);
  CHECK(second->round == 1);
  CHECK(second->state_hash != 0);
}

TEST_CASE("trainer: policies from outside the library pass the conformance suite", "[train][fast]") {
  SECTION("communication") {
    support::check_communication_policy([] { return random_pair{2}; });
  }
  SECTION("parallelism") {
    support::check_parallelism_policy([] { return sequence_by_sequence{}; });
  }
  SECTION("fault") {
    support::check_fault_policy([] { return leave_when_asked{}; });
  }
}

TEST_CASE("trainer: a run that is asked to leave ends between two steps, and goes on elsewhere bit for bit",
          "[train][fast]") {
  std::atomic<bool> asked = false;
  const auto start = [&] {
    auto t = make_trainer(support::test_model{support::quadratic{}}, environment{}, {},
                          comm::periodic<>{{.local_steps = 2}}, leave_when_asked{&asked});
    return t;
  };
  const auto step = [](auto& t) {
    const auto tokens = support::tokens_of(0, t.context().step());
    return t.step({tokens, tokens, 1});
  };
  auto through = start(), left = start(), elsewhere = start();
  REQUIRE(through.start());
  REQUIRE(left.start());
  for (int s = 0; s < 5; ++s) REQUIRE(step(through));
  for (int s = 0; s < 3; ++s) REQUIRE(step(left));
  asked = true;
  const auto refused = step(left);
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::cancelled);
  CHECK(left.context().step() == 3);
  asked = false;
  support::load(elsewhere, support::save(left));
  REQUIRE(elsewhere.start());
  for (int s = 0; s < 2; ++s) REQUIRE(step(elsewhere));
  CHECK(values_of(elsewhere) == values_of(through));
}

TEST_CASE("trainer: a pair that met holds the mean of both", "[train][fast]") {
  std::vector<std::vector<float>> ends(2);
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    auto t = make_trainer(support::test_model{support::quadratic{}}, std::move(env), {}, random_pair{3}, optim::sgd{});
    REQUIRE(t.start());
    for (std::uint64_t s = 0; s < 3; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      REQUIRE(t.step({tokens, tokens, 1}));
    }
    ends[peer] = values_of(t);
  });
  CHECK(ends[0] == ends[1]);
}
