// SPDX-License-Identifier: Apache-2.0
// Experts that other peers hold, over real sockets: hosts are threads.
#include <causeway/parallel/experts/expert_layer.hpp>

#include <causeway/optim/sgd.hpp>
#include <causeway/sim/world.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/threaded_server.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;
using expert = stage::feed_forward_expert<optim::sgd>;
using host = expert_host<expert>;

constexpr std::int64_t width = 6;
constexpr std::size_t rows = 16, experts = 6;

expert_host_options host_options() { return {.mixture = {.run = 3, .sides = {2, 3}, .width = width}, .heartbeat = 50ms}; }

/// Every host has every second expert.
std::map<stage::expert_id, expert> experts_of(std::uint32_t number) {
  std::map<stage::expert_id, expert> mine;
  for (stage::expert_id e = number; e < experts; e += 2) {
    mine.emplace(e, expert{{.width = width, .hidden = 12, .learning_rate = 0.1F, .clip_norm = 0, .seed = 50 + e}});
  }
  return mine;
}
std::unique_ptr<support::threaded_server<host>> served(std::uint32_t number) {
  return std::make_unique<support::threaded_server<host>>(number + 1, host_options(), experts_of(number));
}

template <class R>
auto valued(R&& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
  return std::move(*outcome);
}
void check(const result<void>& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
}

/// A trainer of a layer that is to turn each row around.
class trainer_of_experts {
 public:
  trainer_of_experts(std::shared_ptr<net::fabric> fabric, std::vector<std::string> dial)
      : client_{valued(expert_client::create(
            std::move(fabric), {.mixture = host_options().mixture, .dial = std::move(dial), .patience = 30s}))},
        layer_{valued(expert_layer::create(*client_, {.chosen = 2, .seed = 4}))} {}

  /// Until so many experts are known.
  void wait_for(std::size_t count, time_point deadline) {
    if (!valued(client_->wait_for_experts(count, deadline))) throw std::runtime_error{"too few experts"};
  }

  /// The mean square of what is off, before the step.
  double step(std::uint64_t number) {
    std::vector<float> x(rows * width), y(x.size()), dy(x.size()), dx(x.size());
    rng draw{9, number};
    for (float& v : x) v = draw.normal();
    const auto pass = valued(layer_.forward(pool_, x, y));
    double loss = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float off = y[i] - x[i / width * width + (width - 1 - i % width)];
      dy[i] = off / static_cast<float>(rows);
      loss += static_cast<double>(off) * static_cast<double>(off) / static_cast<double>(y.size());
    }
    check(layer_.backward(pool_, pass, dy, dx));
    auto& gate = layer_.gate();
    for (std::size_t i = 0; i < gate.weights().size(); ++i) {
      gate.weights()[i] -= 0.1F * std::exchange(gate.gradients()[i], 0.0F);
    }
    return loss;
  }
  [[nodiscard]] std::uint64_t lost_backwards() const { return layer_.lost_backwards(); }

 private:
  std::unique_ptr<expert_client> client_;
  expert_layer layer_;
  thread_pool pool_{1};
};

std::vector<double> steps(trainer_of_experts& trainer, std::uint64_t from, std::uint64_t to) {
  std::vector<double> losses;
  for (std::uint64_t s = from; s < to; ++s) losses.push_back(trainer.step(s));
  return losses;
}

/// What the simulator makes of the same hosts and steps.
std::vector<double> simulated(std::uint64_t count) {
  sim::world world{{.seed = 1, .link = {.latency = 5ms, .bytes_per_s = 1e7}}};
  std::vector<double> losses;
  for (int h = 0; h < 3; ++h) world.add_host({});
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [h](sim::process& p) {
      host serving{p.make_fabric(h + 1), host_options(), experts_of(h)};
      check(serving.open());
      (void)serving.serve([] { return false; });
    });
  }
  world.boot(2, [&](sim::process& p) {
    trainer_of_experts trainer{p.make_fabric(100), {"host-0:1", "host-1:1"}};
    trainer.wait_for(experts, p.now() + 10s);
    losses = steps(trainer, 0, count);
  });
  world.run_until(time_point{300s});
  return losses;
}

}  // namespace

TEST_CASE("experts over TCP: a trainer's losses have the simulator's bits", "[parallel][fast]") {
  const auto first = served(0), second = served(1);
  const auto fabric = support::tcp_fabric(100);
  trainer_of_experts trainer{fabric, {first->address(), second->address()}};
  trainer.wait_for(experts, fabric->now() + 300s);
  const auto losses = steps(trainer, 0, 30);
  CHECK(losses == simulated(30));
  CHECK(losses.back() < 0.7 * losses.front());
  CHECK(trainer.lost_backwards() == 0);
}

TEST_CASE("experts over TCP: training goes on without the experts of a host that goes", "[parallel][fast]") {
  const auto stays = served(0);
  auto goes = served(1);
  const auto fabric = support::tcp_fabric(100);
  trainer_of_experts trainer{fabric, {stays->address(), goes->address()}};
  trainer.wait_for(experts, fabric->now() + 300s);
  const auto before = steps(trainer, 0, 30);
  goes.reset();
  const auto after = steps(trainer, 30, 90);
  CHECK(after.back() < before.front());
}

}  // namespace causeway::parallel
