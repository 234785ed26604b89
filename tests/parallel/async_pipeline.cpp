// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/async_pipeline.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/train/trainer.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/timed_stages.hpp"

// The stream on models that compute next to nothing: whose gradient comes when, and with which parameters.
namespace causeway::parallel {
namespace {

using trainer_type = trainer<support::timed_stages, comm::periodic<>, async_pipeline<>, optim::sgd>;

constexpr std::int64_t width = 4;
constexpr float rate = 0.0078125F;

struct stream_case {
  std::uint32_t ranks = 4;
  std::int64_t blocks = 4;
  std::int64_t micro_batches = 1;
  bool stashing = true;
  std::uint32_t ahead = 0;
  std::uint64_t steps = 12;
};

// One sequence of one token for each micro-batch; its value tells the micro-batches apart.
std::vector<std::int32_t> tokens_of(std::uint64_t step, std::int64_t micro_batches) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    tokens.push_back(static_cast<std::int32_t>(
        (step * static_cast<std::uint64_t>(micro_batches) * 5 + static_cast<std::uint64_t>(i) * 3) % 7));
  }
  return tokens;
}

async_pipeline_options options_of(const stream_case& c) {
  return {.cut = {.micro_batches = c.micro_batches, .ranks = c.ranks}, .stashing = c.stashing, .ahead = c.ahead};
}

trainer_type make_peer(const stream_case& c, environment env) {
  const auto o = options_of(c);
  const auto place = place_in(o.cut, env.transport.self(), env.transport.size()).value();
  support::timed_stages model{c.blocks, width, part_of(o.cut, place, c.blocks).value()};
  return make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{rate}, .clip_norm = 0.0F},
                      comm::periodic<>{{.local_steps = 1000000}}, async_pipeline<>{o}, optim::sgd{});
}

// What every block's parameter was before each step, and the losses that each rank was told.
struct record {
  std::vector<std::vector<float>> parameters;  // [block][step]
  std::vector<std::vector<double>> losses;     // [rank][step]
  std::vector<double> evaluated;               // [rank]
};

std::vector<float> held_by(trainer_type& t) {
  std::vector<float> values;
  for (const auto& s : t.model().parameters().segments()) {
    values.push_back(t.model().parameters().values()[static_cast<std::size_t>(s.offset)]);
  }
  return values;
}

// A network operation of rank 1 that fails once, counted from the second step on; the step is then called again.
struct failing {
  std::uint64_t nth = 0;
  int times_called_again = 0;
  bool past_the_end = false;
};

record run(const stream_case& c, failing* fault = nullptr) {
  record r;
  r.parameters.resize(static_cast<std::size_t>(c.blocks));
  r.losses.resize(c.ranks);
  r.evaluated.resize(c.ranks);
  net::memory_network network{c.ranks};
  support::run_cluster(network, c.ranks, [&](std::uint32_t peer, environment env) {
    auto t = make_peer(c, std::move(env));
    if (!t.start()) throw std::runtime_error{"start"};
    const bool fails = fault != nullptr && peer == 1;
    std::uint64_t failing_operation = 0;
    const auto first = static_cast<std::size_t>(t.model().part().ranges(c.blocks)[0].first);
    for (std::uint64_t s = 0; s <= c.steps; ++s) {
      const auto held = held_by(t);
      for (std::size_t b = 0; b < held.size(); ++b) r.parameters[first + b].push_back(held[b]);
      if (s == c.steps) break;
      const auto tokens = tokens_of(s, c.micro_batches);
      auto report = t.step({tokens, tokens, c.micro_batches});
      if (fails && s == 0) {
        failing_operation = network.operations(1) + fault->nth;
        network.fail_at(1, failing_operation, errc::timeout);
      }
      if (fails && !report) {
        ++fault->times_called_again;
        report = t.step({tokens, tokens, c.micro_batches});
      }
      if (!report) throw std::runtime_error{report.error().text()};
      r.losses[peer].push_back(report->loss);
    }
    if (fails) fault->past_the_end = network.operations(1) <= failing_operation;
    if (fault != nullptr) return;
    const auto tokens = tokens_of(99, c.micro_batches);
    r.evaluated[peer] = t.evaluate({tokens, tokens, c.micro_batches}).value();
  });
  return r;
}

// The method written down a second time, for blocks of one stage each: micro-batch n goes forward through block i with the
// parameters of step n / k, and back (d_i micro-batches later) with those of its forward, or of the step that it is then.
record closed_form(const stream_case& c) {
  const auto stages = static_cast<std::size_t>(c.blocks);
  const auto k = static_cast<std::uint64_t>(c.micro_batches);
  const auto delay = [&](std::size_t i) { return (stages - 1 - i) * (1 + c.ahead); };
  record r;
  r.losses.assign(stages, {});
  r.parameters.resize(stages);
  for (std::size_t i = 0; i < stages; ++i) r.parameters[i].push_back(static_cast<float>(i % 3) * 0.25F);
  struct flow {
    std::vector<float> x{}, d{};  // input of every block, and the gradient that came back into it
    float loss = 0;
  };
  std::vector<flow> flows;
  // Steps one after the other; within a step stages go forward from the first, and back from the last.
  for (std::uint64_t s = 0; s < c.steps; ++s) {
    for (std::uint64_t j = 0; j < k; ++j) {
      flow f;
      float x = static_cast<float>(tokens_of(s, c.micro_batches)[static_cast<std::size_t>(j)] % 16) / 8.0F;
      for (std::size_t i = 0; i < stages; ++i) {
        f.x.push_back(x);
        x = x * (1.0F + 0.125F * r.parameters[i][s]) + static_cast<float>(i % 2);
      }
      f.loss = 0.5F * x * x * static_cast<float>(width);
      f.d.assign(stages + 1, 0.0F);
      f.d[stages] = x / static_cast<float>(k);
      flows.push_back(std::move(f));
    }
    for (std::size_t i = stages; i-- > 0;) {
      float gradient = 0;
      double loss = 0;
      std::uint64_t back = 0;
      for (std::uint64_t n = s * k; n < (s + 1) * k; ++n) {
        if (n < delay(i)) continue;
        flow& f = flows[static_cast<std::size_t>(n - delay(i))];
        const std::uint64_t version = c.stashing ? (n - delay(i)) / k : s;
        gradient += static_cast<float>(width) * f.x[i] * f.d[i + 1] * 0.125F;
        f.d[i] = f.d[i + 1] * (1.0F + 0.125F * r.parameters[i][static_cast<std::size_t>(version)]);
        loss += static_cast<double>(f.loss);
        ++back;
      }
      if (back > 0) gradient *= static_cast<float>(k) / static_cast<float>(back);
      r.parameters[i].push_back(r.parameters[i].back() - rate * gradient);
      r.losses[i].push_back(back == 0 ? std::nan("") : loss / static_cast<double>(back));
    }
  }
  return r;
}

void check_closed_form(const stream_case& c) {
  const record ours = run(c), theirs = closed_form(c);
  for (std::size_t i = 0; i < theirs.parameters.size(); ++i) {
    for (std::size_t s = 0; s < theirs.parameters[i].size(); ++s) {
      CAPTURE(i, s);
      CHECK(ours.parameters[i][s] == Approx(theirs.parameters[i][s]).epsilon(1e-5));
    }
    for (std::size_t s = 0; s < theirs.losses[i].size(); ++s) {
      CAPTURE(i, s);
      if (std::isnan(theirs.losses[i][s])) {
        CHECK(std::isnan(ours.losses[i][s]));
      } else {
        CHECK(ours.losses[i][s] == Approx(theirs.losses[i][s]).epsilon(1e-5));
      }
    }
  }
  for (const double e : ours.evaluated) CHECK(e == ours.evaluated[0]);
}

}  // namespace

TEST_CASE("async pipeline: every gradient is of the micro-batch, and the parameters, that theory says",
          "[parallel][fast]") {
  check_closed_form({});
  check_closed_form({.stashing = false});
  check_closed_form({.micro_batches = 2});
  check_closed_form({.micro_batches = 3, .stashing = false});
  check_closed_form({.ranks = 3, .blocks = 3, .ahead = 2});
  check_closed_form({.ranks = 1, .blocks = 1});
}

TEST_CASE("async pipeline: stashing and its absence differ, and a run is the same bits twice", "[parallel][fast]") {
  const auto stashed = run({});
  CHECK(stashed.parameters != run({.stashing = false}).parameters);
  CHECK(stashed.parameters == run({}).parameters);
}

TEST_CASE("async pipeline: a step that failed at any network operation goes on where it stopped, with the same bits",
          "[parallel][fast]") {
  const stream_case c{.ranks = 3, .blocks = 3, .micro_batches = 2, .steps = 6};
  const auto reference = run(c);
  int called_again = 0;
  for (std::uint64_t n = 0;; ++n) {
    INFO("operation " << n);
    failing fault{.nth = n};
    const auto again = run(c, &fault);
    CHECK((again.parameters == reference.parameters));
    if (fault.past_the_end) break;
    called_again += fault.times_called_again;
  }
  CHECK(called_again > 20);
}

static_assert(!rules::c3(comm::every_step<>::traits, async_pipeline<>::traits));
static_assert(rules::c3(comm::periodic<>::traits, async_pipeline<>::traits));

TEST_CASE("async pipeline: what it refuses", "[parallel][fast]") {
  const auto start = [](const stream_case& c, auto change) {
    std::vector<std::string> errors(c.ranks);
    support::run_cluster(c.ranks, [&](std::uint32_t peer, environment env) {
      stream_case own = c;
      change(peer, own);
      auto t = make_peer(own, std::move(env));
      const auto outcome = t.start();
      if (!outcome) errors[peer] = outcome.error().text();
    });
    return errors;
  };
  const stream_case two{.ranks = 2};
  const auto other = [](std::uint32_t peer, stream_case& c) { c.ahead = peer; };
  for (const auto& e : start(two, other)) CHECK(e.find("another model") != std::string::npos);
  const auto none = [](std::uint32_t, stream_case& c) { c.micro_batches = 0; };
  for (const auto& e : start(two, none)) CHECK(e.find("choose at least 1") != std::string::npos);
  const auto stashing = [](std::uint32_t peer, stream_case& c) { c.stashing = peer == 0; };
  for (const auto& e : start(two, stashing)) CHECK(e.empty());  // each stage as its memory allows
}

TEST_CASE("async pipeline: batches of another shape are refused, and the stream goes on", "[parallel][fast]") {
  auto t = make_peer({.ranks = 1, .blocks = 1, .micro_batches = 2}, {});
  REQUIRE(t.start());
  const std::vector<std::int32_t> four(4, 1), two(2, 1);
  CHECK(t.step({four, four, 3}).error().code == errc::invalid_argument);
  REQUIRE(t.step({four, four, 4}));
  const auto refused = t.step({two, two, 2});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_argument);
  CHECK(t.step({four, four, 4}));
  CHECK(t.context().step() == 2);
}

}  // namespace causeway::parallel
