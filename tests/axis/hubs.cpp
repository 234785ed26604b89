// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/hubs.hpp>

#include <causeway/optim/sgd.hpp>

#include "support/catch.hpp"

using namespace causeway;
using groups = std::vector<std::vector<net::peer_index>>;

TEST_CASE("star: one group, the hub first", "[axis][fast]") {
  const auto levels = axis::star{2}.levels(4);
  REQUIRE(levels.size() == 1);
  CHECK(levels[0].groups == groups{{2, 0, 1, 3}});
  CHECK(axis::star{3}.check(4));
  CHECK_FALSE(axis::star{4}.check(4));
}

TEST_CASE("regions: their hubs are a group of their own", "[axis][fast]") {
  const axis::regions<axis::outer<optim::sgd>> r{
      .members = {{1, 0}, {3, 2, 4}}, .pushes = 5, .upper_share = 0.5F, .upper = axis::outer<optim::sgd>{0.25F}};
  REQUIRE(r.check(5));
  const auto levels = r.levels(5);
  REQUIRE(levels.size() == 2);
  CHECK(levels[0].groups == r.members);
  CHECK(levels[1].groups == groups{{1, 3}});
  CHECK(levels[1].pushes == 5);
  CHECK(levels[1].upper_share == 0.5F);
  CHECK(std::get<0>(r.outers()).learning_rate() == 0.25F);
}

TEST_CASE("regions: every peer must be in exactly one", "[axis][fast]") {
  const auto fits = [](groups members, std::uint32_t pushes = 1, float share = 0.5F) {
    return axis::regions<>{.members = std::move(members), .pushes = pushes, .upper_share = share}.check(4).has_value();
  };
  CHECK(fits({{0, 1}, {2, 3}}));
  CHECK(fits({{3}, {2, 0, 1}}));
  CHECK_FALSE(fits({}));
  CHECK_FALSE(fits({{0, 1, 2, 3}, {}}));
  CHECK_FALSE(fits({{0, 1}, {1, 2, 3}}));
  CHECK_FALSE(fits({{0, 1}, {2}}));
  CHECK_FALSE(fits({{0, 1}, {2, 4}}));
  CHECK_FALSE(fits({{0, 1}, {2, 3}}, 0));
  CHECK_FALSE(fits({{0, 1}, {2, 3}}, 1, 1.5F));
}

TEST_CASE("hubs: where peers come and go each says its region, and how long a record is", "[axis][fast]") {
  CHECK(axis::star{.record_samples = 8}.check(0));
  CHECK_FALSE(axis::star{}.check(0));
  const auto fits = [](groups members, collective::region_label label, std::uint64_t record_samples) {
    return axis::regions<>{.members = std::move(members), .label = label, .record_samples = record_samples}
        .check(0)
        .has_value();
  };
  CHECK(fits({}, {}, 8));
  CHECK(fits({}, {.own = 1, .fewest = 2}, 8));
  CHECK_FALSE(fits({{0, 1}, {2, 3}}, {}, 8));
  CHECK_FALSE(fits({}, {.own = 2, .fewest = 2}, 8));
  CHECK_FALSE(fits({}, {.fewest = 0}, 8));
  CHECK_FALSE(fits({}, {}, 0));
}
