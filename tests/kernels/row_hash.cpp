// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/row_hash.hpp>

#include <causeway/core/hash.hpp>
#include <causeway/core/rng.hpp>

#include "support/catch.hpp"

#include <set>
#include <vector>

using namespace causeway;

TEST_CASE("row hash: the hash of the hashes of pieces, for any number of threads", "[kernels][fast]") {
  rng draw{1};
  thread_pool alone{1}, several{3};
  for (const std::size_t n : {0U, 1U, 1000U, 16384U, 16385U, 50'000U}) {
    std::vector<float> row(n);
    for (float& v : row) v = draw.normal();
    std::vector<std::uint64_t> pieces;
    for (std::size_t at = 0; at < n; at += 16384) {
      pieces.push_back(hash_bytes(std::as_bytes(std::span{row}.subspan(at, std::min<std::size_t>(16384, n - at)))));
    }
    const std::uint64_t expected = hash_bytes(std::as_bytes(std::span{pieces}));
    CHECK(kernels::row_hash(alone, row) == expected);
    CHECK(kernels::row_hash(several, row) == expected);
  }
}

TEST_CASE("row hash: every value and the length count", "[kernels][fast]") {
  thread_pool pool{1};
  std::set<std::uint64_t> seen;
  std::vector<float> row(40'000);
  seen.insert(kernels::row_hash(pool, row));
  for (std::size_t i = 0; i < row.size(); i += 997) {
    row[i] = -0.0F;
    CHECK(seen.insert(kernels::row_hash(pool, row)).second);
    row[i] = 0.0F;
  }
  for (const std::size_t n : {0U, 1U, 2U, 16383U, 16384U, 16385U, 39'999U}) {
    CHECK(seen.insert(kernels::row_hash(pool, std::span{row}.first(n))).second);
  }
}
