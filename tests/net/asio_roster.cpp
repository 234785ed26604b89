// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_roster.hpp>

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

}  // namespace

TEST_CASE("roster: peers keep their place, and only so many get one", "[net][fast]") {
  roster all{5, 1, 2};
  CHECK(all.seat(9) == 0);
  CHECK(all.seat(7) == 1);
  CHECK(all.seat(9) == 0);
  CHECK(all.size() == 2);
  CHECK_FALSE(all.objection(peer(7)));
  CHECK(all.objection(peer(8))->code == errc::too_large);
  CHECK(all.objection(peer(5, 1))->message == "that is this peer itself");
  CHECK(all.objection(peer(5, 2))->message.find("two peers have the id 5") != std::string::npos);
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
  const peer_index place = all.seat(3);
  introduction us = peer(5, 1);
  us.streams = 2;
  all.settle(place, us, them, 41, "name:50");
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
  all.settle(place, us, them, 42, {});
  CHECK(all.lacking({{3, 500, 42}, 1}) == place);
}
