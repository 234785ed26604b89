// SPDX-License-Identifier: Apache-2.0
// A run that ends with a mean of parameters: tests/comm/round_turns.cpp and
// tests/parallel/elastic/local_pipeline_apart_policies.cpp.
#include <causeway/comm/alike_at_end.hpp>

#include <cstddef>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

struct core {
  struct state {};
  std::vector<axis::fragment> cuts;
};

std::size_t rows_of(const axis::fragment& one, std::size_t count) {
  return comm::detail::alike_at_end<core>::rows_of({std::vector(count, one)});
}

}  // namespace

TEST_CASE("alike at the end: one row of all parameters, or one for each block that others hold, too", "[comm][fast]") {
  axis::fragment f;
  CHECK(rows_of(f, 5) == 1);
  f.block = 0;
  CHECK(rows_of(f, 5) == 5);
}
