// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_table_sync.hpp>

#include <causeway/parallel/swarm/swarm_parts.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/stage/routing_by_chance.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using parallel::swarm_wire::training_turn;

/// An end of a model whose stages have four parameters, the middle two of which are the table. It hears, and computes
/// nothing: what it gives it gives while its thread sleeps.
struct end_of_model : parallel::swarm_parts {
  end_of_model(std::shared_ptr<net::fabric> fabric, parallel::swarm_options o)
      : parallel::swarm_parts{std::move(fabric), std::move(o), stage::routing::least_load{}, {}} {
    table.tie({1, 2, [] { return std::span<float>{}; }, [] { return std::uint64_t{0}; }});
    listen();
  }

  void begins(std::uint64_t step) {
    my.locked([&] { coordinator.begin(training_turn(step), 1); });
  }
  void sums(std::uint64_t step, std::vector<float> sum) {
    my.locked([&] {
      my.gradients.keep_sum(step, std::move(sum));
      my.own_sums[0] = {step, 1};
      messenger.announce();
      coordinator.after_event();
    });
  }
  void commits(std::uint64_t steps, const std::vector<float>& parameters) {
    my.locked([&] {
      table.gives_table(steps, parameters);
      messenger.announce();
      coordinator.after_event();
    });
  }
  [[nodiscard]] std::vector<float> got() {
    return my.with_lock([&] {
      const auto values = table.fetched().values();
      return table.other_end_is_here() ? std::vector<float>{values.begin(), values.end()} : std::vector<float>{};
    });
  }
  [[nodiscard]] bool may() {
    return my.with_lock([&] { return table.may_sum(); });
  }
  [[nodiscard]] std::string waits() {
    return my.with_lock([&] { return table.describe(); });
  }
};

using floats = std::vector<float>;
using body = std::function<void(end_of_model&, sim::process&)>;

/// Peers 1, 2, ... of those stages, of two, until all have done what they do.
void live(const std::vector<std::uint32_t>& stages, const std::vector<body>& bodies) {
  sim::world world{{.seed = 1}};
  for (std::size_t h = 0; h < stages.size(); ++h) (void)world.add_host();
  for (std::uint32_t h = 0; h < stages.size(); ++h) {
    world.boot(h, [&, h](sim::process& p) {
      parallel::swarm_options o{.run = 5, .stage = stages[h], .stages = 2};
      for (std::uint32_t other = 0; other < h; ++other) o.dial.push_back(world.address(other));
      end_of_model e{p.make_fabric(h + 1), o};
      bodies[h](e, p);
    });
  }
  REQUIRE(world.run());
}

}  // namespace

TEST_CASE("swarm table sync: one peer of the last stage asks for the first stage's part, and the others may sum then",
          "[parallel][fast]") {
  int checked = 0;
  const body gives = [](end_of_model& e, sim::process& p) {
    e.begins(3);
    p.sleep(2s);
    e.sums(3, {1, 2, 3, 4});
    p.sleep(8s);
  };
  const auto takes = [&checked](bool asks) {
    return [&checked, asks](end_of_model& e, sim::process& p) {
      e.begins(3);
      p.sleep(1s);
      CHECK_FALSE(e.may());
      if (asks) CHECK(e.waits() == "; waiting for stage 0's part of the table's gradient");
      p.sleep(4s);
      CHECK(e.may());
      CHECK(e.got() == (asks ? floats{2, 3} : floats{}));
      CHECK(e.waits().empty());
      p.sleep(4s);
      ++checked;
    };
  };
  live({0, 1, 1}, {gives, takes(true), takes(false)});
  CHECK(checked == 2);
}

TEST_CASE("swarm table sync: when the one that asked is lost, the next one asks", "[parallel][fast]") {
  bool checked = false;
  const body gives = [](end_of_model& e, sim::process& p) {
    e.begins(3);
    e.sums(3, {1, 2, 3, 4});
    p.sleep(20s);
  };
  const body lost = [](end_of_model& e, sim::process& p) {
    e.begins(3);
    p.sleep(5s);
    CHECK(e.got() == floats{2, 3});
  };
  const body next = [&](end_of_model& e, sim::process& p) {
    e.begins(3);
    p.sleep(4s);
    CHECK(e.may());
    CHECK(e.got().empty());
    p.sleep(4s);
    CHECK(e.may());
    CHECK(e.got() == floats{2, 3});
    checked = true;
  };
  live({0, 1, 1}, {gives, lost, next});
  CHECK(checked);
}

TEST_CASE("swarm table sync: the first stage takes the table over once the last has committed the step",
          "[parallel][fast]") {
  bool checked = false;
  const body takes = [&](end_of_model& e, sim::process& p) {
    e.begins(3);
    p.sleep(2s);
    e.sums(3, {1, 2, 3, 4});
    p.sleep(2s);
    CHECK(e.waits() == "; waiting for the last stage's table");
    p.sleep(2s);
    CHECK(e.got() == floats{20, 30});
    e.begins(4);
    CHECK(e.got().empty());
    checked = true;
    p.sleep(4s);
  };
  const body gives = [](end_of_model& e, sim::process& p) {
    e.commits(3, {11, 21, 31, 41});  // what the step before left
    p.sleep(5s);
    e.commits(4, {10, 20, 30, 40});
    p.sleep(10s);
  };
  live({0, 1}, {takes, gives});
  CHECK(checked);
}
