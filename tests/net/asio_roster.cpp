// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_meeting.hpp>

#include "support/catch.hpp"

#include <string>

using namespace causeway;
using namespace causeway::net;
using namespace causeway::net::detail;

namespace {

introduction peer(peer_id id, std::uint64_t incarnation = 500) {
  introduction who;
  who.id = id;
  who.incarnation = incarnation;
  who.streams = 4;
  who.host = "10.0.0.1";
  who.port = 50;
  return who;
}

bool everybody(peer_index) { return true; }

}  // namespace

TEST_CASE("roster: peers keep their place, and only so many get one", "[net][fast]") {
  roster all{5, 1, 2};
  CHECK(all.place_for(9, everybody) == 0);
  CHECK(all.place_for(7, everybody) == 1);
  CHECK(all.place_for(9, everybody) == 0);
  CHECK(all.size() == 2);
  CHECK_FALSE(all.objection(peer(7), everybody));
  CHECK(all.objection(peer(8), everybody)->code == errc::too_large);
  CHECK_FALSE(all.place_for(8, everybody));
  CHECK(all.objection(peer(5, 1), everybody)->message == "that is this peer itself");
  CHECK(all.objection(peer(5, 2), everybody)->message.find("two peers have the id 5") != std::string::npos);
}

TEST_CASE("roster: 10 000 strangers who came and went lock nobody out", "[net][fast]") {
  roster all{5, 1, 3};
  const auto first_stands = [](peer_index p) { return p == 0; };
  all.connected(*all.place_for(9, first_stands), peer(5), peer(9), 1, {});
  for (peer_id id = 100; id < 10'100; ++id) {
    REQUIRE_FALSE(all.objection(peer(id), first_stands));
    const auto place = all.place_for(id, first_stands);
    REQUIRE(place);
    REQUIRE(*place != 0);
    all.connected(*place, peer(5), peer(id), id, {});
  }
  CHECK(all.size() == 3);
  CHECK(all.find(9) == 0);
  CHECK(all.find(10'099).has_value());
  CHECK(all.find(10'098).has_value());  // whoever is gone the longest goes first
  CHECK_FALSE(all.find(10'097).has_value());
  CHECK(all[*all.find(10'098)].id == 10'098);
}

TEST_CASE("roster: one connection at a time is chosen, until it is claimed or given back", "[net][fast]") {
  roster all{5, 1, 10};
  const wish first{};
  CHECK(all.choose(peer(9), first, false) == 1);
  CHECK(all.choose(peer(9), first, false) == 0);  // both dialled at once
  CHECK(all.choose(peer(8), first, false) == 2);
  all.give_back(9, 77);
  CHECK(all.choose(peer(9), first, false) == 0);
  all.give_back(9, 1);
  CHECK(all.choose(peer(9), first, false) == 3);
  CHECK(all.choose(peer(9, 501), first, false) == 4);  // a new program: the old one's connection is of no use
  CHECK_FALSE(all.claim(9, 3));
  CHECK(all.claim(9, 4));
  CHECK_FALSE(all.claim(9, 4));
  CHECK(all.claim(3, 1234));  // theirs to choose
}

TEST_CASE("roster: what is known of a link answers for it, and for nothing later", "[net][fast]") {
  roster all{5, 1, 10};
  const auto them = peer(3);
  CHECK(all.wish_for(them, false).last == 0);
  const peer_index place = *all.place_for(3, everybody);
  introduction us = peer(5, 1);
  us.streams = 2;
  all.connected(place, us, them, 41, "name:50");
  CHECK(all[place].address == "10.0.0.1:50");
  CHECK(all[place].aliases.count("name:50") == 1);
  CHECK(all.wish_for(them, true).last == 41);
  CHECK(all.wish_for(them, true).alive == 1);
  CHECK(all.wish_for(them, false).alive == 0);
  CHECK(all.wish_for(peer(3, 501), true).last == 0);

  CHECK(all.lacking({{3, 500, 41}, 1}) == place);
  CHECK_FALSE(all.lacking({{3, 500, 41}, 2}).has_value());  // two were agreed on
  CHECK_FALSE(all.lacking({{3, 500, 40}, 1}).has_value());
  CHECK_FALSE(all.lacking({{3, 501, 41}, 1}).has_value());
  CHECK_FALSE(all.lacking({{4, 500, 41}, 1}).has_value());
  all[place].streams_seen |= 2;
  CHECK_FALSE(all.lacking({{3, 500, 41}, 1}).has_value());
  CHECK(all.lacking({{3, 500, 41}, 0}) == place);
  all.connected(place, us, them, 42, {});
  CHECK(all.lacking({{3, 500, 42}, 1}) == place);
}
