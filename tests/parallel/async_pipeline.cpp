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
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/cluster.hpp"
#include "support/timed_stages.hpp"

// The stream on models that compute next to nothing: whose gradient comes when, and with which parameters.
namespace causeway::parallel {
namespace {

using local_steps = comm::periodic<>;
using gradients = comm::every_step<>;
template <class Comm>
using trainer_of = trainer<support::timed_stages, Comm, async_pipeline<>, optim::sgd>;

constexpr std::int64_t width = 4;
constexpr float rate = 0.0078125F;

struct stream_case {
  std::uint32_t ranks = 4;
  std::int64_t blocks = 4;
  std::int64_t micro_batches = 1;
  bool stashing = true;
  std::uint32_t ahead = 0;
  std::uint64_t steps = 12;
  std::uint32_t replicas = 1;
  bool same_batches = false;  // of all replicas

  [[nodiscard]] std::uint32_t peers() const { return ranks * replicas; }
};

// One sequence of one token for each micro-batch; its value tells the micro-batches apart.
std::vector<std::int32_t> tokens_of(const stream_case& c, std::uint64_t step, std::uint32_t replica) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < c.micro_batches; ++i) {
    const std::uint64_t other = c.same_batches ? 0 : replica * 2;
    tokens.push_back(static_cast<std::int32_t>(
        (step * static_cast<std::uint64_t>(c.micro_batches) * 5 + static_cast<std::uint64_t>(i) * 3 + other) % 7));
  }
  return tokens;
}

async_pipeline_options options_of(const stream_case& c) {
  return {.cut = {.micro_batches = c.micro_batches, .ranks = c.ranks}, .stashing = c.stashing, .ahead = c.ahead};
}

template <class Comm = local_steps>
trainer_of<Comm> make_peer(const stream_case& c, environment env) {
  const auto o = options_of(c);
  const auto place = place_in(o.cut, env.transport.self(), env.transport.size()).value();
  support::timed_stages model{c.blocks, width, part_of(o.cut, place, c.blocks).value()};
  Comm comm;
  if constexpr (std::is_same_v<Comm, local_steps>) comm = Comm{{.local_steps = 1000000}};
  return make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{rate}, .clip_norm = 0.0F},
                      std::move(comm), async_pipeline<>{o}, optim::sgd{});
}

// What every block's parameter was before each step, and the losses that each peer was told.
struct record {
  std::vector<std::vector<float>> parameters;  // [replica · blocks + block][step]
  std::vector<std::vector<double>> losses;     // [peer][step]
  std::vector<double> evaluated;               // [peer]
};

std::vector<float> held_by(auto& t) {
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

template <class Comm = local_steps>
record run(const stream_case& c, failing* fault = nullptr) {
  record r;
  r.parameters.resize(static_cast<std::size_t>(c.blocks) * c.replicas);
  r.losses.resize(c.peers());
  r.evaluated.resize(c.peers());
  net::memory_network network{c.peers()};
  support::run_cluster(network, c.peers(), [&](std::uint32_t peer, environment env) {
    auto t = make_peer<Comm>(c, std::move(env));
    if (!t.start()) throw std::runtime_error{"start"};
    const std::uint32_t replica = t.parallel().place().replica;
    const bool fails = fault != nullptr && peer == 1;
    std::uint64_t failing_operation = 0;
    const auto first = static_cast<std::size_t>(replica * c.blocks + t.model().part().ranges(c.blocks)[0].first);
    for (std::uint64_t s = 0; s <= c.steps; ++s) {
      const auto held = held_by(t);
      for (std::size_t b = 0; b < held.size(); ++b) r.parameters[first + b].push_back(held[b]);
      if (s == c.steps) break;
      const auto tokens = tokens_of(c, s, replica);
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
    const auto tokens = tokens_of(c, 99, 0);
    r.evaluated[peer] = t.evaluate({tokens, tokens, c.micro_batches}).value();
  });
  return r;
}

// The method written down a second time, for blocks of one stage each: micro-batch n goes forward through block i with the
// parameters of step n / k, and back (d_i micro-batches later) with those of its forward, or of the step that it is then.
// A block moves along the mean of what came back to it in all pipelines.
record closed_form(const stream_case& c) {
  const auto stages = static_cast<std::size_t>(c.blocks);
  const auto k = static_cast<std::uint64_t>(c.micro_batches);
  const auto delay = [&](std::size_t i) { return (stages - 1 - i) * (1 + c.ahead); };
  std::vector<std::vector<float>> parameters(stages);  // of all replicas
  for (std::size_t i = 0; i < stages; ++i) parameters[i].push_back(static_cast<float>(i % 3) * 0.25F);
  record r;
  r.losses.resize(stages * c.replicas);
  struct flow {
    std::vector<float> x{}, d{};  // input of every block, and the gradient that came back into it
    float loss = 0;
  };
  std::vector<std::vector<flow>> flows(c.replicas);
  // Steps one after the other; within a step stages go forward from the first, and back from the last.
  for (std::uint64_t s = 0; s < c.steps; ++s) {
    for (std::uint32_t q = 0; q < c.replicas; ++q) {
      for (const std::int32_t token : tokens_of(c, s, q)) {
        flow f;
        float x = static_cast<float>(token % 16) / 8.0F;
        for (std::size_t i = 0; i < stages; ++i) {
          f.x.push_back(x);
          x = x * (1.0F + 0.125F * parameters[i][s]) + static_cast<float>(i % 2);
        }
        f.loss = 0.5F * x * x * static_cast<float>(width);
        f.d.assign(stages + 1, 0.0F);
        f.d[stages] = x / static_cast<float>(k);
        flows[q].push_back(std::move(f));
      }
    }
    for (std::size_t i = stages; i-- > 0;) {
      float gradient = 0;
      for (std::uint32_t q = 0; q < c.replicas; ++q) {
        double loss = 0;
        std::uint64_t back = 0;
        float of_replica = 0;
        for (std::uint64_t n = s * k; n < (s + 1) * k; ++n) {
          if (n < delay(i)) continue;
          flow& f = flows[q][static_cast<std::size_t>(n - delay(i))];
          const std::uint64_t version = c.stashing ? (n - delay(i)) / k : s;
          of_replica += static_cast<float>(width) * f.x[i] * f.d[i + 1] * 0.125F;
          f.d[i] = f.d[i + 1] * (1.0F + 0.125F * parameters[i][static_cast<std::size_t>(version)]);
          loss += static_cast<double>(f.loss);
          ++back;
        }
        if (back > 0) gradient += of_replica * static_cast<float>(k) / static_cast<float>(back * c.replicas);
        r.losses[q * stages + i].push_back(back == 0 ? std::nan("") : loss / static_cast<double>(back));
      }
      parameters[i].push_back(parameters[i].back() - rate * gradient);
    }
  }
  for (std::uint32_t q = 0; q < c.replicas; ++q) {
    r.parameters.insert(r.parameters.end(), parameters.begin(), parameters.end());
  }
  return r;
}

template <class Comm = local_steps>
void check_closed_form(const stream_case& c) {
  const record ours = run<Comm>(c), theirs = closed_form(c);
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

TEST_CASE("async pipeline: stages move along the mean of their replicas' late gradients", "[parallel][fast]") {
  check_closed_form<gradients>({.replicas = 2});
  check_closed_form<gradients>({.stashing = false, .replicas = 3});
  check_closed_form<gradients>({.micro_batches = 2, .replicas = 2});
  check_closed_form<gradients>({.micro_batches = 3, .stashing = false, .replicas = 2});
  check_closed_form<gradients>({.ranks = 3, .blocks = 3, .ahead = 2, .replicas = 2});
  check_closed_form<gradients>({.ranks = 1, .blocks = 1, .replicas = 2});
}

TEST_CASE("async pipeline: pipelines that see the same batches have the bits of one", "[parallel][fast]") {
  const auto one = run({}).parameters;
  CHECK(run<gradients>({}).parameters == one);
  const auto two = run<gradients>({.replicas = 2, .same_batches = true}).parameters;
  CHECK((std::vector<std::vector<float>>{two.begin(), two.begin() + 4} == one));
  CHECK((std::vector<std::vector<float>>{two.begin() + 4, two.end()} == one));
  CHECK(run<gradients>({.replicas = 2}).parameters != two);
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

static_assert(!rules::c3({.gathers_samples = true}, async_pipeline<>::traits));
static_assert(rules::c3(gradients::traits, async_pipeline<>::traits));
static_assert(rules::c3(local_steps::traits, async_pipeline<>::traits));

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
