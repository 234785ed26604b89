// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/bodies/embedding_bodies.hpp>

#include <causeway/cuda/bodies/reduce_bodies.hpp>
#include <causeway/kernels/embedding.hpp>

#include "cuda/body_support.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::differing;
using causeway_test::numbers;

constexpr std::int64_t batch = 3, positions = 11, vocabulary = 9;

/// Few words, one of them in half of the places.
std::vector<std::int32_t> text() {
  rng draw{21};
  std::vector<std::int32_t> tokens(batch * positions);
  for (auto& t : tokens) t = draw.below(2) == 0 ? 4 : static_cast<std::int32_t>(draw.below(vocabulary));
  return tokens;
}

}  // namespace

TEST_CASE("cuda embedding: look-ups are the CPU's to the bit, with and without positions", "[cuda][fast]") {
  thread_pool pool{1};
  const auto tokens = text();
  for (const std::int64_t columns : {8, 6}) {
    const auto table = numbers(vocabulary * columns, 1), places = numbers(positions * columns, 2);
    std::vector<float> expected(static_cast<std::size_t>(batch * positions * columns)), got(expected.size());
    for (const float* place : {static_cast<const float*>(nullptr), places.data()}) {
      kernels::embedding_forward(pool, tokens.data(), table.data(), place, expected.data(), batch, positions, columns);
      cuda::run_here(cuda::embedding_forward_body{tokens.data(), table.data(), place, got.data(), positions, columns},
                     batch * positions * columns);
      CHECK(differing(got, expected) == 0);
    }
  }
}

TEST_CASE("cuda embedding: the gradient by sorted runs is the CPU's to the bit", "[cuda][fast]") {
  thread_pool pool{1};
  scratch memory;
  const auto tokens = text();
  std::vector<std::int32_t> rows(tokens.size()), sorted;
  for (std::size_t i = 0; i < rows.size(); ++i) cuda::count_body{rows.data()}(static_cast<std::int64_t>(i));
  const auto token_of = [&](std::int32_t row) { return tokens[static_cast<std::size_t>(row)]; };
  std::stable_sort(rows.begin(), rows.end(), [&](auto a, auto b) { return token_of(a) < token_of(b); });
  for (const std::int32_t row : rows) sorted.push_back(token_of(row));

  for (const std::int64_t columns : {8, 6}) {
    const auto dx = numbers(batch * positions * columns, 3);
    auto expected = numbers(vocabulary * columns, 4), got = expected;
    auto expected_places = numbers(positions * columns, 5), got_places = expected_places;
    kernels::embedding_backward(pool, memory, tokens.data(), dx.data(), expected.data(), expected_places.data(), batch,
                                positions, columns, vocabulary);
    const auto count = static_cast<std::int64_t>(tokens.size());
    cuda::run_here(cuda::embedding_backward_body{sorted.data(), rows.data(), dx.data(), got.data(), count, columns},
                   count * columns);
    cuda::run_here(cuda::column_total_body{dx.data(), got_places.data(), batch, positions * columns}, positions * columns);
    CHECK(differing(got, expected) == 0);
    CHECK(differing(got_places, expected_places) == 0);
  }
}
