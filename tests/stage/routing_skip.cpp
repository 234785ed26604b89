// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/routing_skip.hpp>

#include <vector>

#include "support/catch.hpp"

namespace causeway::stage::routing {

TEST_CASE("routing: every micro-batch leaves out as many middle stages, each stage as often", "[stage][fast]") {
  for (std::uint32_t stages = 3; stages <= 8; ++stages) {
    for (std::uint32_t k = 0; k + 2 < stages; ++k) {
      const skip<> router{{.skipped = k}};
      const std::uint32_t middle = stages - 2, batches = 2 * middle;
      const step_size size{3, batches, stages};
      std::vector<std::uint32_t> passed(stages, 0);
      for (std::uint32_t m = 0; m < batches; ++m) {
        std::uint32_t run = 0;
        for (std::uint32_t s = 0; s < stages; ++s) {
          if (router.runs(size, s, m)) ++run, ++passed[s];
        }
        CHECK(run == stages - k);
      }
      CHECK(passed.front() == batches);
      CHECK(passed.back() == batches);
      for (std::uint32_t s = 1; s + 1 < stages; ++s) CHECK(passed[s] == batches * (middle - k) / middle);
    }
  }
}

TEST_CASE("routing: short models leave nothing out that they cannot do without", "[stage][fast]") {
  const skip<> greedy{{.skipped = 9}};
  CHECK(greedy.runs({0, 4, 2}, 0, 1));
  CHECK(greedy.runs({0, 4, 2}, 1, 1));
  CHECK_FALSE(greedy.runs({0, 4, 4}, 1, 0));  // all middle stages
  CHECK(greedy.runs({0, 4, 4}, 3, 0));
}

}  // namespace causeway::stage::routing
