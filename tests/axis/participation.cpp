// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/participation.hpp>

#include "support/catch.hpp"

using namespace causeway;

namespace {

template <class P>
std::uint32_t contributors(const P& p, std::uint64_t number, std::uint32_t peers) {
  std::uint32_t count = 0;
  for (net::peer_index i = 0; i < peers; ++i) {
    count += p.contributes({.seed = 4, .number = number, .self = i, .peers = peers}) ? 1U : 0U;
  }
  return count;
}

}  // namespace

TEST_CASE("participation: a sample has its size, and differs from exchange to exchange", "[axis][fast]") {
  for (std::uint64_t n = 0; n < 50; ++n) CHECK(contributors(axis::sampled_peers{0.25}, n, 8) == 2);
  CHECK(contributors(axis::sampled_peers{0.01}, 3, 8) == 1);
  std::vector<int> seen(8);
  for (std::uint64_t n = 0; n < 400; ++n) {
    for (net::peer_index i = 0; i < 8; ++i) {
      seen[i] += axis::sampled_peers{0.25}.contributes({.seed = 4, .number = n, .self = i, .peers = 8}) ? 1 : 0;
    }
  }
  for (const int s : seen) CHECK(std::abs(s - 100) < 35);
  CHECK(axis::sampled_peers{1.5}.check().error().code == errc::invalid_argument);
}

TEST_CASE("participation: rows are lost with their probability, never all of them", "[axis][fast]") {
  std::uint32_t total = 0;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const auto count = contributors(axis::dropped_rows{0.5}, n, 4);
    CHECK(count >= 1);
    total += count;
  }
  CHECK(total == Approx(2000 + 1000.0 / 16).epsilon(0.05));
  CHECK(axis::dropped_rows{1.0}.check().error().code == errc::invalid_argument);
  CHECK(contributors(axis::everyone{}, 0, 7) == 7);
}
