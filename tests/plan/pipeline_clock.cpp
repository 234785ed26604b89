// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/pipeline_clock.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::operation;
using plan::schedule;
using plan::stage_costs;
using plan::timed_operation;
using plan::work;

namespace {

/// Runs each rank through its order as soon as inputs arrive. Start of each operation by rank and name: "1 F0".
std::map<std::string, double> starts(const schedule& s, const stage_costs& costs) {
  plan::detail::pipeline_clock clock{s, costs, {}};
  std::vector<std::size_t> next(s.ranks);
  std::map<std::string, double> when;
  const auto choose = [&](std::uint32_t rank) -> std::optional<operation> {
    if (next[rank] == s.orders[rank].size() || !clock.arrived(rank, s.orders[rank][next[rank]])) return std::nullopt;
    return s.orders[rank][next[rank]++];
  };
  clock.run(choose, [&](std::uint32_t rank, const timed_operation& t) {
    when[std::to_string(rank) + ' ' + plan::to_string(t.op)] = t.start;
  });
  return when;
}

}  // namespace

TEST_CASE("A message arrives after its turn on the link and the latency", "[plan][fast]") {
  schedule s{2, 1, 2, true, {}};
  s.orders = {{{work::forward, 0}, {work::forward, 1}, {work::backward, 0}, {work::backward, 1}},
              {{work::forward, 0}, {work::forward, 1}, {work::backward, 0}, {work::backward, 1}}};
  // 1 s of computing each; 4 s on the link forward, 2 s backward, and half a second of latency
  const auto t = starts(s, plan::equal_costs(2, {1, 1, 0, 0}, {0.5, 8, 4, 2}));
  CHECK(t.at("0 F0") == 0);
  CHECK(t.at("0 F1") == 1);    // the sender does not wait
  CHECK(t.at("1 F0") == 5.5);  // 1 + 4 + 0.5
  CHECK(t.at("1 F1") == 9.5);  // the second message waits for the link until 5, then 4 + 0.5
  CHECK(t.at("1 B0") == 10.5);
  CHECK(t.at("0 B0") == 14);  // 11.5 + 2 + 0.5
  CHECK(t.at("1 B1") == 11.5);
  CHECK(t.at("0 B1") == 16);  // 13.5 + 2 + 0.5
}

TEST_CASE("Both directions of a link are free of each other, and chunks share a direction", "[plan][fast]") {
  // Two ranks with two chunks: 0 -> 1 carries activations of stages 0 and 2 and gradients of stage 2's input from rank 0.
  schedule s{2, 2, 1, true, {}};
  s.orders = {{{work::forward, 0, 0}, {work::forward, 0, 1}, {work::backward, 0, 1}, {work::backward, 0, 0}},
              {{work::forward, 0, 0}, {work::forward, 0, 1}, {work::backward, 0, 1}, {work::backward, 0, 0}}};
  const auto t = starts(s, plan::equal_costs(4, {1, 1, 0, 0}, {0, 3, 3, 1}));
  CHECK(t.at("1 F0") == 4);
  CHECK(t.at("0 F0.1") == 8);
  CHECK(t.at("1 F0.1") == 12);
  CHECK(t.at("1 B0.1") == 13);
  CHECK(t.at("0 B0.1") == 17);
  CHECK(t.at("1 B0") == 21);
  CHECK(t.at("0 B0") == 25);

  // Two messages of different chunks at about the same time queue up.
  schedule both{2, 2, 2, true, {}};
  both.orders = {{{work::forward, 0, 0}, {work::forward, 0, 1}, {work::forward, 1, 0}},
                 {{work::forward, 0, 0}, {work::forward, 0, 1}, {work::forward, 1, 0}}};
  stage_costs costs = plan::equal_costs(4, {1, 1, 0, 0}, {0, 0, 0, 1});
  costs.edges[2].bytes_forward = 5;  // of stage 2, on rank 0, to stage 3
  const auto u = starts(both, costs);
  CHECK(u.at("0 F0.1") == 2);
  CHECK(u.at("0 F1") == 3);
  CHECK(u.at("1 F0.1") == 8);  // 3 + 5
  CHECK(u.at("1 F1") == 9);    // sent at 4, on the link at 8
}

TEST_CASE("On one rank a chunk's output is there at its end, whatever an edge costs", "[plan][fast]") {
  schedule s{1, 2, 1, true, {}};
  s.orders = {{{work::forward, 0, 0}, {work::forward, 0, 1}, {work::backward, 0, 1}, {work::backward, 0, 0}}};
  const auto t = starts(s, plan::equal_costs(2, {1, 1, 1, 0}, {7, 7, 7, 1}));
  CHECK(t.at("0 F0.1") == 1);
  CHECK(t.at("0 B0") == 4);
}

TEST_CASE("Operations and messages that take no time still come in their order", "[plan][fast]") {
  schedule s{2, 1, 1, true, {}};
  s.orders = {{{work::forward, 0}, {work::backward, 0}}, {{work::forward, 0}, {work::backward, 0}}};
  const auto t = starts(s, plan::equal_costs(2, {0, 0, 0, 0}));
  CHECK(t.size() == 4);
  for (const auto& [name, when] : t) CHECK(when == 0);
}

TEST_CASE("An arrival is expected from the start of what sends it", "[plan][fast]") {
  const schedule s{2, 1, 1, true, {}};
  const stage_costs costs = plan::equal_costs(2, {2, 1, 0, 0}, {0.5, 4, 4, 4});
  plan::detail::pipeline_clock clock{s, costs, {}};
  const operation forward{work::forward, 0};
  CHECK(clock.expected(0, forward) == 0);  // from the data set
  CHECK(clock.expected(1, forward) == plan::detail::pipeline_clock::never);
  bool begun = false;
  clock.run([&](std::uint32_t rank) { return rank == 0 && !begun ? std::optional{forward} : std::nullopt; },
            [&](std::uint32_t, const timed_operation&) {
              begun = true;
              CHECK(clock.expected(1, forward) == 3.5);
              CHECK_FALSE(clock.arrived(1, forward));
            });
  CHECK(begun);
  CHECK(clock.now() == 3.5);
  CHECK(clock.arrived(1, forward));
}
