// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/server_residual.hpp>

#include <causeway/io/archive.hpp>

#include <algorithm>
#include <vector>

#include "support/catch.hpp"

using causeway::collective::server_residual;

namespace {

/// What is added to a mean of `size` zeros that lie at `begin`.
std::vector<float> added(const server_residual& r, std::size_t begin, std::size_t size) {
  std::vector<float> mean(size);
  r.add_to(begin, mean);
  return mean;
}

void write(server_residual& r, std::size_t begin, const std::vector<float>& values) {
  const auto room = r.next(begin, values.size());
  std::copy(values.begin(), values.end(), room.begin());
}

}  // namespace

TEST_CASE("server residual: counts in the next round, not in another try at the same one", "[collective][fast]") {
  server_residual r;
  r.begin(1);
  CHECK(added(r, 0, 2) == std::vector<float>{0, 0});
  write(r, 0, {1, 2});
  r.finish();
  r.begin(1);  // somebody else failed: round 1 once more, from where it started
  CHECK(added(r, 0, 2) == std::vector<float>{0, 0});
  write(r, 0, {3, 4});
  r.finish();
  r.begin(2);
  CHECK(added(r, 0, 2) == std::vector<float>{3, 4});
  write(r, 0, {5, 6});  // and this try fails here
  r.begin(3);
  CHECK(added(r, 0, 2) == std::vector<float>{3, 4});
}

TEST_CASE("server residual: a part that moves takes along what is known of it", "[collective][fast]") {
  server_residual r;
  r.begin(1);
  write(r, 10, {1, 2, 3, 4});
  r.finish();
  r.begin(2);
  CHECK(added(r, 12, 4) == std::vector<float>{3, 4, 0, 0});
  CHECK(added(r, 8, 4) == std::vector<float>{0, 0, 1, 2});
  CHECK(added(r, 11, 2) == std::vector<float>{2, 3});
  CHECK(added(r, 0, 10) == std::vector<float>(10));
  CHECK(added(r, 14, 3) == std::vector<float>(3));
}

TEST_CASE("server residual: a checkpoint keeps it, and what a further try may still undo", "[collective][fast]") {
  server_residual r;
  r.begin(1);
  write(r, 3, {1, 2});
  r.finish();
  r.begin(2);
  write(r, 3, {5, 6});
  r.finish();
  const auto bytes = causeway::io::to_bytes(r);
  REQUIRE(bytes);
  server_residual next, again;
  REQUIRE(causeway::io::from_bytes(*bytes, next));
  REQUIRE(causeway::io::from_bytes(*bytes, again));
  next.begin(3);
  CHECK(added(next, 3, 2) == std::vector<float>{5, 6});
  again.begin(2);
  CHECK(added(again, 3, 2) == std::vector<float>{1, 2});
}
