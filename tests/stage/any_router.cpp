// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/any_router.hpp>

#include <causeway/stage/routing_by_chance.hpp>
#include <causeway/stage/routing_skip.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway::stage::routing {
namespace {

roster three_peers() {
  roster known{1};
  for (const net::peer_id id : {1U, 2U, 4U}) known.announced(id, 0);
  return known;
}

template <class R>
std::vector<net::peer_id> choices(R& router, const roster& known, std::uint32_t n) {
  std::vector<net::peer_id> all;
  for (std::uint32_t m = 0; m < n; ++m) all.push_back(router.choose(known, 0, m));
  return all;
}

}  // namespace

TEST_CASE("routing: any router chooses as the one that it holds, and a copy goes on from there by itself",
          "[stage][fast]") {
  const roster known = three_peers();
  least_load plain{{.seed = 5}};
  any_router any{least_load{{.seed = 5}}};
  CHECK(choices(any, known, 7) == choices(plain, known, 7));
  any_router copy = any;
  const auto next = choices(plain, known, 20);
  CHECK(choices(any, known, 20) == next);
  CHECK(choices(copy, known, 20) == next);  // the other's choices were not its own
}

TEST_CASE("routing: any router begins, leaves stages out and is assigned as the one that it holds", "[stage][fast]") {
  const step_size size{.step = 3, .micro_batches = 8, .stages = 4};
  const skip<> plain;
  any_router any{skip<>{}};
  std::uint32_t left_out = 0;
  for (std::uint32_t s = 0; s < size.stages; ++s) {
    for (std::uint32_t m = 0; m < size.micro_batches; ++m) {
      CHECK(any.runs(size, s, m) == plain.runs(size, s, m));
      left_out += plain.runs(size, s, m) ? 0 : 1;
    }
  }
  CHECK(left_out > 0);
  const roster known = three_peers();
  random by_step{{.seed = 2}};
  any = random{{.seed = 2}};
  for (const std::uint64_t step : {1U, 2U}) {
    by_step.begin({.step = step, .micro_batches = 8, .stages = 1}, known);
    any.begin({.step = step, .micro_batches = 8, .stages = 1}, known);
    CHECK(choices(any, known, 8) == choices(by_step, known, 8));
  }
}

}  // namespace causeway::stage::routing
