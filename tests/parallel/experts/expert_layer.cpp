// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/experts/expert_layer.hpp>

#include <causeway/optim/sgd.hpp>
#include <causeway/sim/world.hpp>

#include <chrono>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;
using expert = stage::feed_forward_expert<optim::sgd>;

constexpr std::int64_t width = 6;
constexpr std::size_t rows = 16;
constexpr float gate_rate = 0.1F;

expert_mixture_options mixture() { return {.run = 3, .sides = {2, 3}, .width = width}; }
constexpr stage::product_key_options gate_options{.chosen = 2, .seed = 4};
expert_client_options client_options(std::vector<std::string> dial) {
  return {.mixture = mixture(), .dial = std::move(dial), .patience = 2s};
}
expert make_expert(stage::expert_id e) {
  return expert{{.width = width, .hidden = 12, .learning_rate = 0.1F, .clip_norm = 0, .seed = 50 + e}};
}
/// Every host's share of the six experts.
std::map<stage::expert_id, expert> experts_of(std::uint32_t host, std::uint32_t hosts) {
  std::map<stage::expert_id, expert> mine;
  for (stage::expert_id e = host; e < 6; e += hosts) mine.emplace(e, make_expert(e));
  return mine;
}

/// Rows, and what the layer should make of them: another linear map for rows of either sign in their first value.
struct task {
  std::vector<float> x, target;
  explicit task(std::uint64_t step, std::uint64_t seed = 0) : x(rows * width), target(x.size()) {
    rng draw{9, mix(seed, step)};
    for (float& v : x) v = draw.normal();
    for (std::size_t r = 0; r < rows; ++r) {
      const bool positive = x[r * width] > 0;
      for (std::size_t i = 0; i < width; ++i) target[r * width + i] = x[r * width + (i + (positive ? 1 : 3)) % width];
    }
  }
};

/// Half the mean square of what is off, and its gradient.
double loss(const task& t, std::span<const float> y, std::vector<float>& dy) {
  double sum = 0;
  dy.resize(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    dy[i] = (y[i] - t.target[i]) / static_cast<float>(rows);
    sum += 0.5 * static_cast<double>(dy[i]) * static_cast<double>(y[i] - t.target[i]);
  }
  return sum;
}

void move(stage::product_key_gate& gate) {
  for (std::size_t i = 0; i < gate.weights().size(); ++i) {
    gate.weights()[i] -= gate_rate * std::exchange(gate.gradients()[i], 0.0F);
  }
}

template <class R>
auto valued(R&& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
  return std::move(*outcome);
}
void check(const result<void>& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
}

/// One step of a trainer; gives the loss.
double step(thread_pool& pool, expert_layer& layer, const task& t, std::vector<float>& dx) {
  std::vector<float> y(t.x.size()), dy;
  const auto pass = valued(layer.forward(pool, t.x, y));
  const double l = loss(t, y, dy);
  dx.resize(t.x.size());
  check(layer.backward(pool, pass, dy, dx));
  move(layer.gate());
  return l;
}

/// The same mixture with all experts at hand, written down plainly.
struct local_mixture {
  stage::expert_directory directory{stage::expert_grid{mixture().sides}};
  stage::product_key_gate gate = stage::product_key_gate::create(width, directory.grid(), gate_options).value();
  std::map<stage::expert_id, expert> experts = experts_of(0, 1);
  local_mixture() {
    for (stage::expert_id e = 0; e < 6; ++e) directory.announce(e);
  }

  double step(thread_pool& pool, const task& t, std::vector<float>& dx) {
    const auto choices = gate.choose(pool, t.x, directory).value();
    std::vector<float> w(choices.all.size()), y(t.x.size()), out(w.size() * width), dy, dw(w.size());
    stage::weigh_experts(choices, std::vector<std::uint8_t>(w.size(), 1), w);
    const auto each = [&](auto f) {  // expert by expert: its choices and their rows
      for (auto& [id, e] : experts) {
        std::vector<std::size_t> mine, of;
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t c = choices.first[r]; c < choices.first[r + 1]; ++c) {
            if (choices.all[c].expert == id) mine.push_back(c), of.push_back(r);
          }
        }
        std::vector<float> in;
        for (const std::size_t r : of) in.insert(in.end(), &t.x[r * width], &t.x[r * width] + width);
        if (!mine.empty()) f(e, in, mine, of);
      }
    };
    each([&](expert& e, const std::vector<float>& in, const auto& mine, const auto&) {
      std::vector<float> got(in.size());
      check(e.forward(in, got));
      for (std::size_t i = 0; i < mine.size(); ++i) std::copy_n(&got[i * width], width, &out[mine[i] * width]);
    });
    std::vector<std::size_t> row_of(w.size());
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = choices.first[r]; c < choices.first[r + 1]; ++c) {
        row_of[c] = r;
        for (std::size_t i = 0; i < width; ++i) y[r * width + i] += w[c] * out[c * width + i];
      }
    }
    const double l = loss(t, y, dy);
    std::vector<float> back(out.size());
    each([&](expert& e, const std::vector<float>& in, const auto& mine, const auto& of) {
      std::vector<float> d(in.size()), got(in.size());
      for (std::size_t k = 0; k < mine.size(); ++k) {
        for (std::size_t i = 0; i < width; ++i) d[k * width + i] = w[mine[k]] * dy[of[k] * width + i];
      }
      check(e.backward(in, d, got));
      for (std::size_t k = 0; k < mine.size(); ++k) std::copy_n(&got[k * width], width, &back[mine[k] * width]);
    });
    dx.assign(t.x.size(), 0.0F);
    for (std::size_t c = 0; c < w.size(); ++c) {
      for (std::size_t i = 0; i < width; ++i) {
        dx[row_of[c] * width + i] += back[c * width + i];
        dw[c] += dy[row_of[c] * width + i] * out[c * width + i];
      }
    }
    stage::weigh_experts_backward(choices, w, dw);
    gate.backward(pool, t.x, choices, dw, dx);
    move(gate);
    return l;
  }
};

/// Hosts 0 and 1 hold experts until the world ends; `trainers` behind them.
struct experts_world {
  sim::world world{{.seed = 1, .link = {.latency = 20ms, .bytes_per_s = 1e6}}};
  std::uint32_t done = 0;

  void boot_host(std::uint32_t h) {
    world.boot(h, [h](sim::process& p) {
      expert_host<expert> host{p.make_fabric(h + 1), {.mixture = mixture()}, experts_of(h, 2)};
      check(host.open());
      (void)host.serve([] { return false; });
    });
  }
  explicit experts_world(std::uint32_t trainers) {
    for (std::uint32_t h = 0; h < 2 + trainers; ++h) world.add_host({});
    boot_host(0);
    boot_host(1);
  }
  void boot_trainer(std::uint32_t t, std::function<void(sim::process&, expert_client&, expert_layer&)> train) {
    world.boot(2 + t, [this, t, train = std::move(train)](sim::process& p) {
      const auto client = valued(expert_client::create(p.make_fabric(100 + t), client_options({"host-0:1", "host-1:1"})));
      if (!valued(client->wait_for_experts(6, p.now() + 10s))) throw std::runtime_error{"no experts"};
      auto layer = valued(expert_layer::create(*client, gate_options));
      train(p, *client, layer);
      ++done;
    });
  }
  void run(std::uint32_t trainers) {
    for (int s = 1; s < 600 && done < trainers; ++s) world.run_until(time_point{std::chrono::seconds{s}});
    REQUIRE(done == trainers);
  }
};

}  // namespace

TEST_CASE("expert_layer: with nobody missing, a trainer's steps have the bits of the mixture at hand", "[parallel][fast]") {
  experts_world w{1};
  std::vector<double> losses, expected;
  std::vector<std::vector<float>> inputs, expected_inputs;
  w.boot_trainer(0, [&](sim::process&, expert_client&, expert_layer& layer) {
    thread_pool pool{1};
    std::vector<float> dx;
    for (std::uint64_t s = 0; s < 30; ++s) {
      losses.push_back(step(pool, layer, task{s}, dx));
      inputs.push_back(dx);
    }
    CHECK(layer.lost_backwards() == 0);
  });
  w.run(1);
  local_mixture local;
  thread_pool pool{1};
  std::vector<float> dx;
  for (std::uint64_t s = 0; s < 30; ++s) {
    expected.push_back(local.step(pool, task{s}, dx));
    expected_inputs.push_back(dx);
  }
  CHECK(losses == expected);
  const bool same_inputs = inputs == expected_inputs;
  CHECK(same_inputs);
  CHECK(losses.back() < 0.8 * losses.front());
}

TEST_CASE("expert_layer: a layer sees its own experts only, and asks them by their numbers among all", "[parallel][fast]") {
  const stage::expert_grid grid{{2, 3}};
  stage::expert_directory all{stage::expert_grid{{2, 2, 3}}}, own{grid};
  for (const stage::expert_id e : {0U, 4U, 7U, 8U, 11U}) all.announce(e);
  for (const stage::expert_id e : {1U, 2U, 5U}) own.announce(e);  // of those, layer 1's
  const layer_directory layer{all, grid, 1};
  std::vector<std::uint32_t> a, b;
  for (const auto& [axis, prefixes] : {std::pair{0U, 1U}, std::pair{1U, 2U}}) {
    for (stage::expert_id prefix = 0; prefix < prefixes; ++prefix) {
      layer.extensions(prefix, axis, a);
      own.extensions(prefix, axis, b);
      CHECK(a == b);
    }
  }
}

TEST_CASE("expert_layer: a host that dies is left out, training goes on, and its return is noticed", "[parallel][fast]") {
  experts_world w{1};
  std::vector<std::size_t> alive;
  std::vector<double> losses;
  w.boot_trainer(0, [&](sim::process& p, expert_client& client, expert_layer& layer) {
    thread_pool pool{1};
    std::vector<float> dx;
    for (std::uint64_t s = 0; s < 150; ++s) {
      losses.push_back(step(pool, layer, task{s}, dx));
      alive.push_back(client.alive().size());
      if (s == 50) w.world.kill(1);
      if (s == 100) {
        w.boot_host(1);
        (void)client.wait_for_experts(6, p.now() + 20s);
      }
    }
  });
  w.run(1);
  CHECK(alive[49] == 6);
  CHECK(alive[99] == 3);
  CHECK(alive.back() == 6);
  const auto mean = [&](std::size_t from) {
    double sum = 0;
    for (std::size_t i = from; i < from + 10; ++i) sum += losses[i] / 10;
    return sum;
  };
  CHECK(mean(90) < mean(0));   // with half of the experts
  CHECK(mean(140) < mean(0));  // the new ones begin anew
}

TEST_CASE("expert_layer: trainers that know nothing of each other train the same experts", "[parallel][fast]") {
  experts_world w{2};
  std::vector<std::vector<double>> losses(2);
  for (std::uint32_t t = 0; t < 2; ++t) {
    w.boot_trainer(t, [&, t](sim::process& p, expert_client&, expert_layer& layer) {
      thread_pool pool{1};
      std::vector<float> dx;
      for (std::uint64_t s = 0; s < 60; ++s) {
        losses[t].push_back(step(pool, layer, task{s, t + 1}, dx));
        p.sleep(t * 7ms);
      }
    });
  }
  w.run(2);
  for (const auto& l : losses) CHECK(l.back() < 0.7 * l.front());
}

TEST_CASE("expert_layer: without a single expert a forward says so", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  world.add_host({});
  std::string said;
  world.boot(0, [&](sim::process& p) {
    const auto client = valued(expert_client::create(p.make_fabric(7), client_options({"host-0:9"})));
    CHECK_FALSE(valued(client->wait_for_experts(1, p.now() + 3s)));
    auto layer = valued(expert_layer::create(*client, gate_options));
    thread_pool pool{1};
    const task t{0};
    std::vector<float> y(t.x.size());
    const auto pass = layer.forward(pool, t.x, y);
    if (!pass) said = pass.error().text();
  });
  world.run_until(time_point{10s});
  CHECK(said.find("no expert has answered") != std::string::npos);
}

TEST_CASE("expert_layer: options that cannot work are refused", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  world.add_host({});
  bool checked = false;
  world.boot(0, [&](sim::process& p) {
    const auto client = valued(expert_client::create(p.make_fabric(7), client_options({})));
    CHECK_FALSE(expert_layer::create(*client, {.chosen = 0}));
    CHECK_FALSE(expert_layer::create(*client, gate_options, 1));
    checked = true;
  });
  CHECK(world.run());
  CHECK(checked);
}

}  // namespace causeway::parallel
