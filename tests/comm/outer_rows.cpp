// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/outer_rows.hpp>

#include <causeway/axis/outer.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/optim/delayed_nesterov.hpp>
#include <causeway/optim/nesterov_in_parts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::comm::detail;

namespace {

std::uint32_t pushes_of(axis::outer<optim::delayed_nesterov>& o) {
  std::uint32_t pushes = 0;
  std::memcpy(&pushes, parts_of(o)[2].data(), sizeof pushes);
  return pushes;
}

}  // namespace

TEST_CASE("outer rows: what has a value for each parameter is told from what counts", "[comm][fast]") {
  CHECK(rows_of(axis::outer<optim::delayed_nesterov>{}) == std::vector<std::size_t>{0, 1});
  CHECK(rows_of(axis::outer<optim::nesterov_in_parts>{}) == std::vector<std::size_t>{0, 1});
}

TEST_CASE("outer rows: of another part rows begin anew, and counts go on", "[comm][fast]") {
  axis::outer<optim::delayed_nesterov> o{1.0F, optim::delayed_nesterov{{.period = 4}}};
  o.reset(3);
  std::vector<float> shared{1, 2, 3}, mean{1, 1, 1};
  thread_pool pool{1};
  o.step(pool, shared, mean, {});
  REQUIRE(pushes_of(o) == 1);
  reset_rows(o, 5);
  CHECK(pushes_of(o) == 1);
  for (const std::size_t row : rows_of(o)) {
    const auto part = parts_of(o)[row];
    CHECK(part.size() == 5 * sizeof(float));
    CHECK(std::all_of(part.begin(), part.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST_CASE("outer rows: fragments that lie among each other make one row in the order of the parameters", "[comm][fast]") {
  axis::fragment even, odd;
  even.ranges = {{0, 2}, {4, 6}};
  odd.ranges = {{2, 4}};
  std::vector<float> of_even{0, 1, 4, 5}, of_odd{2, 3};
  row_of_fragments row;
  row.add(even, of_even.data());
  row.add(odd, of_odd.data());
  std::vector<float> all;
  const parameter_row one = row.take();
  one.visit(1, 4, [&](std::span<float> piece) { all.insert(all.end(), piece.begin(), piece.end()); });
  CHECK(all == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("outer rows: what two parts of a model have in common stays", "[comm][fast]") {
  const std::vector<parameter_segment> before{{.name = "a", .columns = 2, .offset = 0},
                                              {.name = "b", .columns = 1, .offset = 2}};
  const std::vector<parameter_segment> now{{.name = "b", .columns = 1, .offset = 0},
                                           {.name = "c", .columns = 2, .offset = 1}};
  std::vector<float> was{1, 2, 3}, is{7, 8, 9};
  kept_rows kept;
  kept.keep({parameter_row{{std::span<float>{was}}}});
  kept.put_common({parameter_row{{std::span<float>{is}}}}, before, now);
  CHECK(is == std::vector<float>{3, 8, 9});
}

TEST_CASE("memory as it was: what was written meanwhile, in several places, is taken back", "[comm][fast]") {
  std::vector<float> first{1, 2, 3};
  std::vector<double> second{4, 5};
  const memory_as_it_was before{{std::as_writable_bytes(std::span{first}), {}, std::as_writable_bytes(std::span{second})}};
  std::fill(first.begin(), first.end(), 0.0F);
  second[1] = 7;
  before.put_back();
  CHECK(first == std::vector<float>{1, 2, 3});
  CHECK(second == std::vector<double>{4, 5});
}
