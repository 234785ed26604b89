// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/batch.hpp>

#include <algorithm>
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

TEST_CASE("batch: slices one after the other are the whole, and a slice can be sliced", "[tensor][fast]") {
  std::vector<std::int32_t> inputs(35);
  std::iota(inputs.begin(), inputs.end(), 100);
  const std::vector<std::int32_t> targets(35, -1);
  const batch all{inputs, targets, 7};
  const std::int32_t* next = inputs.data();
  for (std::int64_t first = 0; first < 7; first += 2) {
    const batch part = all.slice(first, std::min<std::int64_t>(2, 7 - first));
    REQUIRE(part.inputs.data() == next);  // a view: nothing is copied
    REQUIRE(part.targets.data() - targets.data() == part.inputs.data() - inputs.data());
    next += part.tokens();
  }
  CHECK(next == inputs.data() + inputs.size());
  const batch inner = all.slice(2, 4).slice(1, 2);
  CHECK(inner.sequences == 2);
  CHECK(inner.inputs.front() == 100 + 5 * 3);
  CHECK(all.slice(7, 0).tokens() == 0);
}
