// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/hub_copy.hpp>

#include <causeway/axis/outer.hpp>
#include <causeway/optim/delayed_nesterov.hpp>
#include <causeway/optim/nesterov.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <tuple>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::comm::detail;

namespace {

using outer = axis::outer<optim::nesterov>;
const std::vector<axis::fragment> cuts{{{{0, 16}}, {}, 16}, {{{16, 24}}, {}, 8}};

hub_copy<outer> moved(thread_pool& pool, int steps) {
  hub_copy<outer> copy;
  copy.found(cuts, std::vector<float>(24, 1.0F), outer{0.5F});
  std::vector<float> row(8, 0.25F);
  for (int i = 0; i < steps; ++i) copy.outers[1].step(pool, std::span{copy.shared}.last(8), row, {});
  return copy;
}

}  // namespace

TEST_CASE("hub copy: an heir goes on with the same bits", "[comm][fast]") {
  thread_pool pool{1};
  auto hub = moved(pool, 2);
  auto heir = moved(pool, 0);
  part_room room;
  const auto parts = room.like(hub.state());
  copy_parts(hub.state(), parts);
  copy_parts(parts, heir.state());
  CHECK(heir.shared == hub.shared);
  std::vector<float> row(8, 0.25F);
  hub.outers[1].step(pool, std::span{hub.shared}.last(8), row, {});
  heir.outers[1].step(pool, std::span{heir.shared}.last(8), row, {});
  CHECK(heir.shared == hub.shared);
  CHECK(heir.shared != moved(pool, 1).shared);
}

TEST_CASE("hub copy: peers vote on all copies, what training comes to first", "[comm][fast]") {
  thread_pool pool{1};
  hub_copies<outer, outer> star;
  star.regions.push_back(moved(pool, 0));
  membership::image_collector one;
  one(star);
  CHECK(one.parts().size() == star.regions[0].state().size());
  CHECK(one.parts().front().data() == std::as_writable_bytes(std::span{star.regions[0].shared}).data());

  hub_copies<outer, outer> two;
  for (const int steps : {1, 2}) two.regions.push_back(moved(pool, steps));
  two.top.push_back(moved(pool, 3));
  membership::image_collector all;
  all(two);
  CHECK(all.parts().size() == 3 * one.parts().size());
  CHECK(all.parts().front().data() == std::as_writable_bytes(std::span{two.top[0].shared}).data());
  CHECK(&two.of_region(1) == &two.regions[1].shared);
  CHECK(&two.of_region(2) == &two.top[0].shared);  // who does not know its region
}

TEST_CASE("hub copy: all that is of parameters are rows, the rest are counts", "[comm][fast]") {
  thread_pool pool{1};
  hub_copies<axis::outer<optim::delayed_nesterov>, outer> one;
  const auto outers = std::tuple{axis::outer<optim::delayed_nesterov>{0.5F}, outer{0.5F}};
  one.found(cuts, std::vector<float>(24, 1.0F), 2, outers);
  std::vector<float> row(8, 0.25F);
  one.regions[1].outers[1].step(pool, std::span{one.regions[1].shared}.last(8), row, {});
  const auto rows = one.rows(cuts);
  REQUIRE(rows.size() == 2 + 2 * 3);  // of the hub of hubs velocity, of regions momentum and what has gathered
  CHECK(rows[0].pieces[0].data() == one.top[0].shared.data());
  CHECK(rows[5].pieces[0].data() == one.regions[1].shared.data());
  CHECK(rows[6].pieces.size() == cuts.size());
  const std::vector<std::vector<std::span<std::byte>>> states{one.top[0].state(), one.regions[0].state(),
                                                              one.regions[1].state()};
  const auto counts = one.counts_in(states);
  REQUIRE(counts.size() == 2 * cuts.size());  // pushes that each fragment of each region has had
  CHECK(counts[2].front() == std::byte{0});
  CHECK(counts[3].front() == std::byte{1});
}

TEST_CASE("hub copy: a region that nobody is in begins where training is, in the same memory", "[comm][fast]") {
  thread_pool pool{1};
  hub_copies<outer, outer> two;
  for (const int steps : {1, 2}) two.regions.push_back(moved(pool, steps));
  two.top.push_back(moved(pool, 3));
  const auto before = two.regions[1].state();
  two.begin_anew(1, cuts, two.top[0].shared, two.regions[1].state());
  const auto after = two.regions[1].state();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(before[i].data() == after[i].data());
  CHECK(two.regions[1].shared == two.top[0].shared);
  std::vector<float> row(8, 0.25F);
  two.regions[1].outers[1].step(pool, std::span{two.regions[1].shared}.last(8), row, {});
  auto fresh = moved(pool, 0);
  fresh.shared = two.top[0].shared;
  fresh.outers[1].step(pool, std::span{fresh.shared}.last(8), row, {});
  CHECK(two.regions[1].shared == fresh.shared);
}
