// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/rounds.hpp>

#include <causeway/axis/growing.hpp>
#include <causeway/collective/aggregator.hpp>
#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/mask.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/top_k.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/schedule.hpp>
#include <causeway/optim/sgd.hpp>

#include <cmath>

#include "support/blocky.hpp"
#include "support/conformance.hpp"

using namespace causeway;

namespace {

/// Where `peers` peers end after `steps` steps under a policy. `trains`: the inner optimizer moves in so many of them.
template <class Inner = optim::sgd, class Model = support::blocky, class MakePolicy>
std::vector<std::vector<float>> train(std::uint32_t peers, std::uint64_t steps, float rate, MakePolicy make,
                                      bool finish = true, std::uint64_t trains = ~std::uint64_t{0}) {
  std::vector<std::vector<float>> ends(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    trainer_options options;
    options.learning_rate = optim::constant{rate};
    if (trains <= steps) options.learning_rate = optim::warmup_cosine{rate, trains, trains, 0.0F};
    options.clip_norm = 0;
    auto t = make_trainer(Model{}, std::move(env), options, make(), Inner{});
    if (const auto started = t.start(); !started) FAIL(started.error().text());
    for (std::uint64_t s = 0; s < steps; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      const auto report = t.step({tokens, tokens, 1});
      if (!report) FAIL(report.error().text());
    }
    if (finish) REQUIRE(t.finish());
    const auto values = t.model().parameters().values();
    ends[peer].assign(values.begin(), values.end());
  });
  return ends;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double(a[i]) - double(b[i])));
  return most;
}

using to_mean = axis::outer<optim::sgd>;

}  // namespace

TEST_CASE("rounds: without axes it is DiLoCo, bit for bit what periodic does", "[comm][fast]") {
  const auto periodic = train(3, 12, 0.1F, [] { return comm::periodic<>{{.local_steps = 4}}; });
  const auto rounds = train(3, 12, 0.1F, [] { return comm::rounds{axis::every{4}}; });
  CHECK(rounds == periodic);
}

TEST_CASE("rounds: H = 1, inner SGD, outer SGD(1) equals every step bit for bit", "[comm][fast]") {
  const auto synchronous = train(4, 20, 0.0625F, [] { return comm::every_step<>{}; });
  const auto local = train(4, 20, 0.0625F, [] {
    return comm::rounds{axis::every{1}, axis::summed_updates{}, to_mean{1.0F}};
  });
  CHECK(local == synchronous);
  const auto gradients = train(4, 20, 0.0625F, [] { return comm::rounds{axis::every{1}, axis::gradient{}}; });
  CHECK(gradients == synchronous);
  const auto gathered = train(4, 20, 0.0625F, [] {
    return comm::rounds{axis::every{1}, axis::gradient{}, axis::gather_mean<>{}};
  });
  CHECK(gathered == synchronous);
}

TEST_CASE("rounds: gradients that are not exchanged in every step are refused", "[comm][fast]") {
  auto t = make_trainer(support::test_model{support::quadratic{}}, environment{}, {},
                        comm::rounds{axis::every{2}, axis::gradient{}});
  const auto outcome = t.start();
  REQUIRE(!outcome);
  CHECK(outcome.error().code == errc::invalid_argument);
}

TEST_CASE("rounds: parameters by their mean is local SGD", "[comm][fast]") {
  const auto pseudo = train(3, 12, 0.1F, [] { return comm::rounds{axis::every{4}, to_mean{1.0F}}; });
  const auto parameters = train(3, 12, 0.1F, [] {
    return comm::rounds{axis::every{4}, axis::parameters{}, axis::gather_mean<>{}};
  });
  CHECK(distance(pseudo[0], parameters[0]) < 1e-5);
  CHECK(parameters[0] == parameters[1]);
}

TEST_CASE("rounds: the conformance suite", "[comm][fast]") {
  using support::blocky;
  using support::check_communication_policy;
  SECTION("defaults") {
    check_communication_policy([] { return comm::rounds{axis::every{3}}; });
  }
  SECTION("fragments, one after another, blended in two steps later") {
    check_communication_policy<optim::adamw, blocky>([] {
      return comm::rounds{axis::staggered{4}, axis::strided{2}, axis::delayed{2, 0.5F}, axis::gather_mean<>{}};
    });
  }
  SECTION("eager with error feedback") {
    check_communication_policy<optim::adamw, blocky>([] {
      return comm::rounds{axis::every{2}, axis::eager{}, axis::error_feedback{0.9F},
                          axis::gather_mean<compress::block_int8>{}};
    });
  }
  SECTION("one round late, gradients") {
    check_communication_policy<optim::sgd, blocky>([] {
      return comm::rounds{axis::every{1}, axis::gradient{}, axis::one_round_late{}, axis::momentum_residual{},
                          axis::gather_mean<compress::block_int8>{}};
    });
  }
  SECTION("compensated, consecutive fragments, implicit residual elsewhere") {
    check_communication_policy<optim::adamw, blocky>([] {
      return comm::rounds{axis::every{3}, axis::consecutive{2}, axis::compensated{1, 0.1F}, axis::gather_mean<>{}};
    });
    check_communication_policy<optim::adamw, blocky>([] {
      return comm::rounds{axis::every{3}, axis::implicit_residual{}, axis::replayed{1},
                          axis::gather_mean<compress::block_int8>{}, to_mean{1.0F}};
    });
  }
  SECTION("parameters, a round late; and some steps later") {
    check_communication_policy<optim::adamw, blocky>([] {
      return comm::rounds{axis::every{2}, axis::parameters{}, axis::one_round_late{}, axis::gather_mean<>{}};
    });
    check_communication_policy<optim::adamw, blocky>([] {
      return comm::rounds{axis::every{3}, axis::parameters{}, axis::delayed{2, 0.5F}, axis::gather_mean<>{}};
    });
  }
  SECTION("rows that count by samples, some steps and a round late: what is sent again counts as it did") {
    check_communication_policy<optim::adamw, blocky>([] {
      return comm::rounds{axis::every{4}, axis::sampled_peers{1.0}, axis::delayed{2, 0.5F}, axis::gather_mean<>{}};
    });
    check_communication_policy([] {
      return comm::rounds{axis::every{3}, axis::by_samples{}, axis::one_round_late{}, axis::split_mean<>{}};
    });
  }
  SECTION("gossip in pairs") {
    check_communication_policy<optim::adamw, blocky>(
        [] {
          return comm::rounds{axis::every{2}, axis::random_groups{2}, axis::pseudo_gradient_and_anchor{},
                              axis::gossip_nesterov{}, axis::gather_mean<>{}};
        },
        {.peers = 4});
  }
  SECTION("a grid, balanced fragments of parameters") {
    check_communication_policy<optim::adamw, blocky>(
        [] {
          return comm::rounds{axis::every{2}, axis::grid{2, 2}, axis::parameters{}, axis::balanced{3},
                              axis::gather_mean<>{}};
        },
        {.peers = 4});
  }
  SECTION("some take part, rows are lost, rounds grow") {
    check_communication_policy([] { return comm::rounds{axis::every{2}, axis::sampled_peers{0.5}, axis::split_mean<>{}}; });
    check_communication_policy([] { return comm::rounds{axis::every{2}, axis::dropped_rows{0.5}, axis::gather_mean<>{}}; });
    check_communication_policy([] { return comm::rounds{axis::growing{{.local_steps = 1, .tolerance = 0.5}}}; });
  }
}

TEST_CASE("rounds: a fragment is first exchanged at its offset, and then every H steps", "[comm][fast]") {
  // One peer: the outer step of each exchange is visible in the shared parameters.
  auto t = make_trainer(support::test_model{support::blocky{}}, environment{}, {},
                        comm::rounds{axis::staggered{4}, axis::strided{2}, to_mean{1.0F}}, optim::sgd{});
  REQUIRE(t.start());
  std::vector<std::uint64_t> rounds;
  for (std::uint64_t s = 0; s < 8; ++s) {
    const auto tokens = support::tokens_of(0, s);
    REQUIRE(t.step({tokens, tokens, 1}));
    rounds.push_back(t.context().round());
  }
  CHECK(rounds == std::vector<std::uint64_t>{0, 1, 2, 3, 3, 4, 5, 6});  // 3 fragments at steps 2, 3, 4, then 6, 7, 8
}

TEST_CASE("rounds: a delayed merge blends the local share", "[comm][fast]") {
  // One peer, outer SGD(1): θ̃ is where the peer was when the exchange began; τ = 1 step later it is applied half-way.
  const auto at = [](std::uint64_t steps, float share) {
    return train(
        1, steps, 0.1F,
        [share] {
          return comm::rounds{axis::every{2}, axis::delayed{1, share}, axis::gather_mean<>{}, to_mean{1.0F}};
        },
        false)[0];
  };
  const auto sent = train(
      1, 2, 0.1F, [] { return comm::every_step<>{}; }, false)[0];
  const auto later = train(
      1, 3, 0.1F, [] { return comm::every_step<>{}; }, false)[0];
  const auto applied = at(3, 0.25F);
  for (std::size_t i = 0; i < sent.size(); ++i)
    CHECK(applied[i] == Approx(0.25F * later[i] + 0.75F * sent[i]).margin(1e-5));
  CHECK(distance(at(3, 1.0F), later) < 1e-6);
}

TEST_CASE("rounds: parameters that arrive later are applied as the axis says", "[comm][fast]") {
  const auto at = [](std::uint64_t steps, float share) {
    return train(
        1, steps, 0.1F,
        [share] {
          return comm::rounds{axis::every{2}, axis::parameters{}, axis::delayed{1, share}, axis::gather_mean<>{}};
        },
        false)[0];
  };
  const auto alone = [](std::uint64_t steps) {
    return train(
        1, steps, 0.1F, [] { return comm::every_step<>{}; }, false)[0];
  };
  const auto sent = alone(2), later = alone(3), applied = at(3, 0.25F);
  for (std::size_t i = 0; i < sent.size(); ++i)
    CHECK(applied[i] == Approx(0.25F * later[i] + 0.75F * sent[i]).margin(1e-5));

  // A round late: nobody trains after the third step, so all end at the mean of where they were.
  const auto late = train(
      3, 9, 0.1F,
      [] {
        return comm::rounds{axis::every{1}, axis::parameters{}, axis::one_round_late{}, axis::gather_mean<>{}};
      },
      false, 3);
  CHECK(distance(late[0], late[1]) < 1e-5);
  CHECK(distance(late[0], late[2]) < 1e-5);
  const auto trained = train(
      3, 3, 0.1F,
      [] {
        return comm::rounds{axis::every{1}, axis::parameters{}, axis::gather_mean<>{}};
      },
      true, 3);
  CHECK(distance(late[0], trained[0]) <
        0.5 * distance(trained[0], train(1, 0, 0.1F, [] { return comm::every_step<>{}; })[0]));
}

TEST_CASE("rounds: what was not sent goes out later, once", "[comm][fast]") {
  // Nobody trains after the second step; of each row 3 values of 16 are sent. In the end the parameters have moved by the
  // mean of everybody's progress.
  using codec = compress::sparse<compress::no_transform, compress::top_k, compress::none>;
  const axis::gather_mean<codec> sparse{codec{compress::no_transform{}, compress::top_k{{.k = 3, .chunks = {.run = 16}}}}};
  const auto expected = train(
      3, 2, 0.1F,
      [] {
        return comm::rounds{axis::every{2}, to_mean{1.0F}};
      },
      false, 2)[0];
  const auto all_end_there = [&](auto make) {
    for (const auto& end : train(3, 60, 0.1F, make, false, 2)) CHECK(distance(end, expected) < 1e-5);
  };
  all_end_there([&] { return comm::rounds{axis::every{2}, axis::error_feedback{1.0F}, sparse, to_mean{1.0F}}; });
  all_end_there([&] {
    return comm::rounds{axis::every{2}, axis::eager{}, axis::error_feedback{1.0F}, sparse, to_mean{1.0F}};
  });
  all_end_there([&] { return comm::rounds{axis::every{2}, axis::implicit_residual{}, sparse, to_mean{1.0F}}; });
  all_end_there([&] {
    return comm::rounds{axis::every{2}, axis::implicit_residual{}, axis::replayed{1}, sparse, to_mean{1.0F}};
  });
  all_end_there([&] {
    return comm::rounds{axis::every{2}, axis::implicit_residual{}, axis::one_round_late{}, sparse, to_mean{1.0F}};
  });
}

TEST_CASE("rounds: where all is sent, nothing is kept in the live parameters: the steps meanwhile are the same",
          "[comm][fast]") {
  const auto exact = train(3, 11, 0.1F, [] {
    return comm::rounds{axis::every{3}, axis::replayed{2}, axis::gather_mean<>{}};
  });
  const auto kept = train(3, 11, 0.1F, [] {
    return comm::rounds{axis::every{3}, axis::implicit_residual{}, axis::replayed{2}, axis::gather_mean<>{}};
  });
  CHECK(distance(kept[0], exact[0]) < 1e-5);
}

TEST_CASE("rounds: masks that take turns reach every value of every fragment", "[comm][fast]") {
  using codec = compress::sparse<compress::no_transform, compress::shared_mask, compress::none>;
  const codec half{compress::no_transform{},
                   compress::shared_mask{{.share = 0.5, .order = compress::mask_order::sequential}}, compress::none{}};
  const auto ends = train(
      3, 6, 0.1F,
      [&] {
        return comm::rounds{axis::every{1}, axis::parameters{}, axis::balanced{2},
                            axis::gather_mean<codec, collective::contributor_mean>{half}};
      },
      false, 3);
  CHECK(distance(ends[0], ends[1]) < 1e-6);
  CHECK(distance(ends[0], ends[2]) < 1e-6);
}

TEST_CASE("rounds: a period is a state tensor's, with all its fragments", "[comm][fast]") {
  auto t = make_trainer(
      support::test_model{support::blocky{}}, environment{}, {},
      comm::rounds{axis::periods{{1, 3, 4}}, axis::parameters_and_moments{}, axis::balanced{2}, axis::split_mean<>{}},
      optim::adamw{});
  REQUIRE(t.start());
  std::vector<std::uint64_t> exchanges{0};
  for (std::uint64_t s = 0; s < 4; ++s) {
    const auto tokens = support::tokens_of(0, s);
    REQUIRE(t.step({tokens, tokens, 1}));
    exchanges.push_back(t.context().round());
  }
  CHECK(exchanges == std::vector<std::uint64_t>{0, 2, 4, 8, 12});
}

TEST_CASE("rounds: NoLoCo's spread shrinks for gamma in (0.5, 1.5), and grows above", "[comm][fast]") {
  // E10: pure gossip, no training. 16 peers start apart; alpha = 0.5, pairs.
  const auto spread_after = [](float gamma) {
    constexpr std::uint32_t peers = 16;
    std::vector<std::vector<float>> shared(peers, std::vector<float>(8));
    std::vector<axis::gossip_nesterov> outer(peers, axis::gossip_nesterov{{0.5F, 0.7F, gamma}});
    thread_pool pool{1};
    for (std::uint32_t p = 0; p < peers; ++p) {
      rng draw{7, p};
      for (float& x : shared[p]) x = draw.uniform();
      outer[p].reset(8);
    }
    const axis::random_groups pairs{2};
    std::vector<float> still(8);
    for (std::uint64_t r = 0; r < 120; ++r) {
      const auto before = shared;
      for (std::uint32_t p = 0; p < peers; ++p) {
        const auto group = pairs.members({.seed = 3, .number = r, .self = p, .peers = peers});
        std::vector<float> mean(8);
        for (std::size_t i = 0; i < 8; ++i) mean[i] = 0.5F * (before[group[0]][i] + before[group[1]][i]);
        outer[p].step(pool, shared[p], still, mean);
      }
    }
    float lo = shared[0][0], hi = shared[0][0];
    for (const auto& s : shared) lo = std::min(lo, s[0]), hi = std::max(hi, s[0]);
    return hi - lo;
  };
  CHECK(spread_after(0.7F) < 1e-5F);
  CHECK(spread_after(1.0F) < 1e-3F);
  CHECK(spread_after(1.3F) < 0.5F);
  CHECK(spread_after(1.7F) > 10.0F);
}

TEST_CASE("rounds: a run that ends before a row was ever sent ends with its mean, however results are merged",
          "[comm][fast]") {
  const auto merged_by = [](auto rule) {
    return train(2, 1, 0.1F, [rule] { return comm::rounds{axis::every{4}, axis::split_mean<>{}, rule}; });
  };
  const auto ends = merged_by(axis::compensated{2});
  CHECK(ends == merged_by(axis::delayed{2, 0.5F}));
  CHECK(ends[0] == ends[1]);
}

TEST_CASE("rounds: options that cannot work are errors with a remedy", "[comm][fast]") {
  const auto refused = [](auto policy) {
    auto t = make_trainer(support::test_model{support::blocky{}}, environment{}, {}, std::move(policy));
    const auto outcome = t.start();
    REQUIRE(!outcome);
    return outcome.error().code;
  };
  CHECK(refused(comm::rounds{axis::every{0}}) == errc::invalid_argument);
  CHECK(refused(comm::rounds{axis::staggered{2}, axis::strided{1}}) == errc::invalid_argument);
  CHECK(refused(comm::rounds{axis::every{3}, axis::delayed{3, 0.5F}, axis::gather_mean<>{}}) == errc::invalid_argument);
  CHECK(refused(comm::rounds{axis::every{3}, axis::balanced{99}}) == errc::invalid_argument);
  CHECK(refused(comm::rounds{axis::every{3}, axis::sampled_peers{0.0}, axis::gather_mean<>{}}) == errc::invalid_argument);
}
