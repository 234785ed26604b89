// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/hub_roles.hpp>

#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::comm::detail;

TEST_CASE("hub roles: the hub is who was pushed to last, else the first", "[comm][fast]") {
  const auto is = [](const chosen_hub& hub, net::peer_index peer, std::uint64_t time) {
    return hub.peer == peer && hub.time == time;
  };
  const std::vector<hub_claim> newcomers(3);
  CHECK(is(choose_hub(newcomers, 5), 0, 5));
  const std::vector<hub_claim> reign{{}, {.serves = 5, .follows = 5}, {.follows = 5}};
  CHECK(is(choose_hub(reign, 6), 1, 5));
  const std::vector<hub_claim> lost{{}, {.follows = 5}};
  CHECK(is(choose_hub(lost, 6), 0, 6));
  // An heir was pushed to in an attempt that failed: the one before has some of the same pushes, and is the hub no more.
  const std::vector<hub_claim> both{{.serves = 5, .follows = 5}, {.serves = 6, .follows = 6}};
  CHECK(is(choose_hub(both, 7), 1, 6));
  const std::vector<hub_claim> back{{.serves = 5, .follows = 5}, {.follows = 6}};
  CHECK(is(choose_hub(back, 7), 0, 7));
  // Nobody has pushed to a hub of an attempt that is still to come.
  const std::vector<hub_claim> ahead{{}, {.serves = 5, .follows = 5}, {.serves = 900, .follows = 900}};
  CHECK(is(choose_hub(ahead, 6), 1, 5));
}

TEST_CASE("hub roles: who does not know its region goes where the fewest are", "[comm][fast]") {
  const auto placed = [](std::vector<std::uint64_t> said, std::size_t count) {
    std::vector<hub_claim> claims;
    for (const std::uint64_t region : said) claims.push_back({.region = region});
    return place_in_regions(claims, count);
  };
  using regions = std::vector<std::size_t>;
  constexpr std::uint64_t any = UINT64_MAX;
  CHECK(placed({any, any, any}, 1) == regions{0, 0, 0});
  CHECK(placed({any, any, any, any}, 3) == regions{0, 1, 2, 0});
  CHECK(placed({1, 1, any, any, any}, 2) == regions{1, 1, 0, 0, 0});
  CHECK(placed({2, any, 0}, 3) == regions{2, 1, 0});
  CHECK(placed({7, 0}, 2) == regions{1, 0});  // there is no such one
}

namespace {

const std::vector<std::uint64_t> four{70, 71, 72, 73};

/// Two regions of two after a record, the first peer of each its hub, the very first the hub of hubs.
std::vector<hub_claim> reign() {
  std::vector<hub_claim> claims(4);
  hub_roles roles = hub_roles::of(claims, four, 2, 5);
  roles.begin(5, four);
  for (std::size_t p = 0; p < 4; ++p) {
    const chosen_hub& hub = roles.regions[roles.region_of[p]];
    claims[p] = {.serves = hub.peer == p ? hub.time : 0,
                 .follows = hub.time,
                 .region = roles.region_of[p],
                 .serves_hubs = roles.top.peer == p ? roles.top.time : 0,
                 .follows_hubs = roles.top.time,
                 .hubs = roles.hubs};
  }
  return claims;
}
bool is(const chosen_hub& hub, net::peer_index peer, std::uint64_t time) { return hub.peer == peer && hub.time == time; }

/// Without a peer.
template <class T>
std::vector<T> without(std::vector<T> all, std::ptrdiff_t p) {
  all.erase(all.begin() + p);
  return all;
}

}  // namespace

TEST_CASE("hub roles: hubs stay from one record to the next, whoever comes or goes below", "[comm][fast]") {
  const auto claims = reign();
  const hub_roles same = hub_roles::of(claims, four, 2, 6);
  CHECK((is(same.regions[0], 0, 5) && is(same.regions[1], 1, 5) && is(same.top, 0, 5)));
  CHECK(same.hubs == claims[0].hubs);
  const hub_roles fewer = hub_roles::of(without(claims, 3), without(four, 3), 2, 6);
  CHECK((is(fewer.regions[1], 1, 5) && is(fewer.top, 0, 5)));
  auto more = claims;
  more.push_back({.region = 1});
  const std::vector<std::uint64_t> five{70, 71, 72, 73, 74};
  CHECK(is(hub_roles::of(more, five, 2, 6).top, 0, 5));
  CHECK(hub_roles::of(more, five, 2, 6).hubs == claims[0].hubs);
}

TEST_CASE("hub roles: with a lost hub of a region the hub of hubs begins anew, too", "[comm][fast]") {
  const auto claims = reign();
  const hub_roles heir = hub_roles::of(without(claims, 1), without(four, 1), 2, 6);
  CHECK((is(heir.regions[0], 0, 5) && is(heir.regions[1], 2, 6) && is(heir.top, 0, 6)));
  const hub_roles top_lost = hub_roles::of(without(claims, 0), without(four, 0), 2, 6);
  CHECK((is(top_lost.regions[0], 1, 6) && is(top_lost.regions[1], 0, 5) && is(top_lost.top, 1, 6)));
  // A whole region: what its hub has pushed must not stay either.
  const hub_roles gone = hub_roles::of(without(without(claims, 3), 1), without(without(four, 3), 1), 2, 6);
  CHECK((gone.regions[1].time == 0 && is(gone.top, 0, 6)));
}

TEST_CASE("hub roles: where a lost peer's pushes must not count all hubs begin anew without it", "[comm][fast]") {
  auto claims = reign();
  for (hub_claim& c : claims) c.clients = 4;
  const auto goes_on = [](const hub_roles& r) {
    return is(r.regions[0], 0, 5) && is(r.regions[1], 1, 5) && is(r.top, 0, 5);
  };
  const auto begins = [](const hub_roles& r) {
    return is(r.regions[0], 0, 6) && is(r.regions[1], 1, 6) && is(r.top, 0, 6);
  };
  CHECK(goes_on(hub_roles::of(claims, four, 2, 6)));
  // No hub, in the second region: the first one's has taken an answer that has its pushes.
  CHECK(begins(hub_roles::of(without(claims, 3), without(four, 3), 2, 6)));
  auto more = claims;
  more.push_back({});
  const std::vector<std::uint64_t> five{70, 71, 72, 73, 74};
  CHECK(goes_on(hub_roles::of(more, five, 2, 6)));
  more.erase(more.begin() + 3);
  CHECK(begins(hub_roles::of(more, without(five, 3), 2, 6)));  // another one has come for it
  // It is there, and has begun anew.
  claims[3].follows = claims[3].follows_hubs = 0;
  CHECK(begins(hub_roles::of(claims, four, 2, 6)));
  // And with one region.
  const std::vector<hub_claim> whole{{.follows = 5}, {.serves = 5, .follows = 5, .clients = 2}, {}};
  const std::vector<std::uint64_t> three{70, 71, 72};
  CHECK(is(hub_roles::of(whole, three, 1, 6).regions[0], 1, 5));
  const std::vector<hub_claim> lacks_one{{.follows = 5}, {.serves = 5, .follows = 5, .clients = 3}, {}};
  CHECK(is(hub_roles::of(lacks_one, three, 1, 6).regions[0], 0, 6));
}

TEST_CASE("hub roles: the hub of a new region takes nothing from the others", "[comm][fast]") {
  // Three regions, of which the third was empty: nobody has pushed for it.
  std::vector<hub_claim> claims(2);
  const std::vector<std::uint64_t> names{70, 71, 72};
  claims[0].region = 0, claims[1].region = 1;
  hub_roles roles = hub_roles::of(claims, names, 3, 5);
  CHECK(roles.regions[2].time == 0);
  roles.begin(5, names);
  for (std::size_t p = 0; p < 2; ++p) {
    claims[p].serves = claims[p].follows = claims[p].follows_hubs = 5;
    claims[p].hubs = roles.hubs;
  }
  claims[0].serves_hubs = 5;
  claims.push_back({.region = 2});
  const hub_roles joined = hub_roles::of(claims, names, 3, 6);
  CHECK((is(joined.regions[2], 2, 6) && is(joined.top, 0, 5)));
  CHECK(joined.hubs != claims[0].hubs);
  // It may have pushed in that attempt: when it is lost, the hub of hubs begins anew.
  for (hub_claim& c : claims) c.hubs = joined.hubs, c.follows_hubs = 5;
  claims[2].serves = claims[2].follows = 6;
  CHECK(is(hub_roles::of(claims, names, 3, 7).top, 0, 5));
  CHECK(is(hub_roles::of(without(claims, 2), names, 3, 7).top, 0, 7));
}

TEST_CASE("hub roles: a peer talks in its region, and hubs with hubs", "[comm][fast]") {
  const auto claims = reign();
  const hub_roles roles = hub_roles::of(claims, four, 2, 6);
  const auto groups = roles.groups_of(1, four);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].hub == 1);
  CHECK(groups[0].peers == std::vector<net::peer_index>{1, 3});
  CHECK(groups[0].names == std::vector<std::uint64_t>{71, 73});
  CHECK(groups[1].hub == 0);
  CHECK(groups[1].peers == std::vector<net::peer_index>{0, 1});
  CHECK(groups[1].names == std::vector<std::uint64_t>{70, 71});
}
