// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/orthogonalise_bodies.hpp>

#include "cuda/attention_case.hpp"
#include "cuda/orthogonalise_host.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::muon_direction;
using causeway_test::numbers;
using causeway_test::orthogonalise_here;
using causeway_test::relative_distance;

}  // namespace

TEST_CASE("cuda orthogonalise: between the products it does what optim::muon does", "[cuda][fast]") {
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{24, 40}, {40, 24}, {33, 33}, {1, 7}}) {
    CAPTURE(rows, columns);
    auto x = numbers(rows * columns + 6, 3);
    x.erase(x.begin(), x.begin() + 6);
    const auto expected = muon_direction(x, rows, columns);
    CHECK(relative_distance(orthogonalise_here<float>(x, rows, columns), expected) < 1e-5);
    CHECK(relative_distance(orthogonalise_here<bf16>(x, rows, columns), expected) < 3e-2);
  }
}

TEST_CASE("cuda orthogonalise: a zero matrix stays zero", "[cuda][fast]") {
  for (const float v : orthogonalise_here<bf16>(std::vector<float>(48), 6, 8)) CHECK(v == 0.0F);
}
