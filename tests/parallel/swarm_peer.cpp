// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm_peer.hpp>

#include <causeway/sim/world.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <chrono>
#include <memory>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

/// A stage whose output is its input plus one, and whose gradient counts micro-batches.
struct counting_stage final : parallel::swarm_computer {
  explicit counting_stage(bool is_first, bool is_last) : first{is_first}, last{is_last} {}
  result<parallel::boundary_values> forward(std::uint32_t m, const parallel::boundary_values& input) override {
    const float in = first ? static_cast<float>(m) : input->front();
    if (last) loss = in;
    if (last) return parallel::boundary_values{};
    return std::make_shared<const std::vector<float>>(1, in + 1);
  }
  result<parallel::swarm_gradient> backward(std::uint32_t, const parallel::boundary_values&) override {
    gradient[0] += 1;
    return parallel::swarm_gradient{last ? loss : 0.0,
                                    first ? nullptr : std::make_shared<const std::vector<float>>(1, 1.0F)};
  }
  [[nodiscard]] std::span<float> gradients() override { return gradient; }
  [[nodiscard]] double squares() override { return double(gradient[0]) * double(gradient[0]); }
  [[nodiscard]] std::size_t boundary() const override { return 1; }
  bool first, last;
  double loss = 0;
  std::vector<float> gradient = std::vector<float>(1);
};

using peer_type = parallel::swarm_peer<stage::routing::least_load>;

}  // namespace

TEST_CASE("swarm peer: two stages bring a batch through, and neither passes the barrier alone", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  for (int h = 0; h < 2; ++h) (void)world.add_host();
  std::vector<double> losses(2), norms(2);
  std::vector<float> counts(2);
  std::vector<time_point> passed(2);
  for (std::uint32_t h = 0; h < 2; ++h) {
    world.boot(h, [&, h](sim::process& p) {
      parallel::swarm_options o{.run = 5, .stage = h, .stages = 2, .micro_batches = 6};
      o.dial = {world.address(1 - h)};
      peer_type peer{p.make_fabric(h + 1), o, stage::routing::least_load{}};
      peer.open();
      counting_stage stage{h == 0, h == 1};
      losses[h] = peer.run(0, stage).value();
      counts[h] = stage.gradient[0];
      if (h == 1) p.sleep(30s);  // its sum is late
      norms[h] = peer.all_summed().value();
      passed[h] = p.now();
      p.sleep(10s);
    });
  }
  world.run_until(time_point{3min});
  for (std::size_t h = 0; h < 2; ++h) {
    CHECK(counts[h] == 6);
    CHECK(losses[h] == 0 + 1 + 2 + 3 + 4 + 5 + 6);  // each input plus one
    CHECK(norms[h] == 36 + 36);
    CHECK(passed[h] > time_point{30s});
  }
}

TEST_CASE("swarm peer: who waits says for whom", "[parallel][fast]") {
  sim::world world{{.seed = 1}};
  (void)world.add_host();
  std::string text;
  world.boot(0, [&](sim::process& p) {
    parallel::swarm_options o{.run = 5, .stage = 0, .stages = 2, .micro_batches = 6};
    peer_type peer{p.make_fabric(1), o, stage::routing::least_load{},
                   log_sink{[&](severity, std::string_view line) { text = line; }}};
    peer.open();
    counting_stage stage{true, false};
    (void)peer.run(0, stage);
  });
  world.run_until(time_point{20s});
  CHECK(text.find("stage 1 is served by nobody") != std::string::npos);
}
