// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/expert_directory.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <chrono>
#include <set>

#include "support/catch.hpp"

using namespace causeway;
using stage::expert_directory;
using stage::expert_grid;

TEST_CASE("expert_directory: an expert's number has its coordinates as digits", "[stage][fast]") {
  const expert_grid grid{{3, 5, 2}};
  CHECK(grid.places() == 30);
  CHECK(grid.heads() == 10);
  for (stage::expert_id e = 0; e < 30; ++e) {
    const std::uint64_t again = (grid.coordinate(e, 0) * 5ULL + grid.coordinate(e, 1)) * 2 + grid.coordinate(e, 2);
    CHECK(again == e);
  }
}

TEST_CASE("expert_directory: what follows a prefix is what a list of all says", "[stage][fast]") {
  const expert_grid grid{{4, 6, 5}};
  expert_directory directory{grid};
  rng draw{3};
  std::set<stage::expert_id> alive;
  for (int i = 0; i < 25; ++i) {
    const stage::expert_id e = draw.below(static_cast<std::uint32_t>(grid.places()));
    directory.announce(e);
    alive.insert(e);
  }
  CHECK(directory.size() == alive.size());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::uint64_t prefixes = grid.places() / grid.below(axis) / grid.sides()[axis];
    for (stage::expert_id prefix = 0; prefix < prefixes; ++prefix) {
      std::set<std::uint32_t> expected;
      for (const auto e : alive) {
        if (e / grid.below(axis) / grid.sides()[axis] == prefix) expected.insert(grid.coordinate(e, axis));
      }
      std::vector<std::uint32_t> out{99};
      directory.extensions(prefix, axis, out);
      CHECK(out == std::vector<std::uint32_t>(expected.begin(), expected.end()));
    }
  }
}

TEST_CASE("expert_directory: who does not announce itself again is forgotten, who does not answer at once",
          "[stage][fast]") {
  using std::chrono::seconds;
  expert_directory directory{expert_grid{{2, 2}}};
  const time_point start{};
  directory.announce(0, start + seconds{10});
  directory.announce(1, start + seconds{20});
  directory.announce(2, start + seconds{10});
  directory.announce(2, start + seconds{30});
  directory.announce(2, start + seconds{15});  // an old message does not take back what is known
  directory.expire(start + seconds{10});
  CHECK_FALSE(directory.contains(0));
  CHECK(directory.contains(1));
  directory.remove(1);
  directory.expire(start + seconds{29});
  CHECK(directory.size() == 1);
  CHECK(directory.contains(2));
  directory.expire(start + seconds{30});
  CHECK(directory.size() == 0);
}
