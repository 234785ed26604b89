// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/batch.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("batch: slices are whole sequences", "[tensor][fast]") {
  std::vector<std::int32_t> inputs(12);
  std::iota(inputs.begin(), inputs.end(), 0);
  std::vector<std::int32_t> targets(12);
  std::iota(targets.begin(), targets.end(), 1);
  const batch all{inputs, targets, 4};
  CHECK(all.tokens() == 12);
  CHECK(all.length() == 3);

  const batch middle = all.slice(1, 2);
  CHECK(middle.sequences == 2);
  CHECK(middle.length() == 3);
  CHECK(middle.inputs.front() == 3);
  CHECK(middle.inputs.back() == 8);
  CHECK(middle.targets.front() == 4);
  CHECK(middle.targets.size() == 6);
}

TEST_CASE("batch: without sequences there is no length", "[tensor][fast]") {
  const batch none;
  CHECK(none.tokens() == 0);
  CHECK(none.length() == 0);
}
