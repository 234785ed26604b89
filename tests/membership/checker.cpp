// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/checker.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

using namespace causeway;
using namespace causeway::membership;

namespace {

/// A small correct history: peers 1, 2, 3; round 0 by 1 alone, round 1 admits all, round 2 has contributions of 1 and 2.
struct story {
  story() {
    first.members = {1};
    add_commit(first, 0, {1});
    second.members = {1, 2, 3};
    add_vote(1, {1, 0}, second);
    add_commit(second, 1, {1, 2, 3});
    third.members = {1, 2, 3};
    third.contributions = {{1, 2}, {2, 1}};
    for (const contribution& c : third.contributions) {
      event e = about(event::trained, c.peer);
      e.round = 2;
      e.parent = second.chain();
      for (const auto n : samples.take(c.peer, 0, c.samples)) e.ranges.push_back({n, 1});
      events.push_back(e);
    }
    for (const net::peer_id p : {1U, 2U, 3U}) {
      event e = about(event::promise, p);
      e.at = {2, 0};
      e.from = 2;
      events.push_back(e);
    }
    add_vote(1, {2, 0}, third);
    add_vote(2, {2, 0}, third);
    add_commit(third, 2, {1, 2, 3});
  }

  static event about(event::kind what, net::peer_id peer) {
    event e;
    e.what = what;
    e.peer = peer;
    return e;
  }

  void add_vote(net::peer_id peer, ballot at, commit_record& r) {
    finish(r);
    if (at.term == 1) {
      event p = about(event::promise, peer);
      p.at = {1, 0};
      p.from = 1;
      events.push_back(p);
    }
    event e = about(event::accept, peer);
    e.at = at;
    e.round = r.round;
    e.parent = r.parent;
    e.hash = r.chain();
    events.push_back(e);
  }

  void finish(commit_record& r) {
    r.round = rounds;
    r.parent = parent;
    r.state = 1000 + rounds;
    ledger after = samples;
    if (rounds > 0) after.apply(r);  // the founding hands nothing out
    r.ledger = after.hash();
  }

  void add_commit(commit_record& r, std::uint64_t round, const std::vector<net::peer_id>& learners) {
    finish(r);
    REQUIRE(r.round == round);
    for (const net::peer_id p : learners) {
      event e = about(event::commit, p);
      e.at = r.at;
      e.at_time = {std::chrono::seconds{round}};
      e.round = r.round;
      e.hash = r.state;
      e.parent = r.parent;
      e.chain = r.chain();
      e.ledger = r.ledger;
      e.members = r.members;
      e.contributions = r.contributions;
      e.returned = r.returned;
      events.push_back(e);
      event h = about(event::held, p);
      h.round = round;
      h.hash = r.state;
      events.push_back(h);
    }
    if (rounds > 0) samples.apply(r);
    parent = r.chain();
    ++rounds;
  }

  /// The n-th event of a kind.
  event& nth(event::kind what, std::size_t n) {
    for (event& e : events) {
      if (e.what == what && n-- == 0) return e;
    }
    FAIL("no such event");
    return events.front();
  }

  [[nodiscard]] std::string verdict() const {
    checker c{10};
    for (const event& e : events) {
      if (const auto wrong = c.check(e)) return wrong->substr(0, wrong->find('\n'));
    }
    return {};
  }

  ledger samples{10};
  commit_record first, second, third;
  std::uint64_t rounds = 0;
  std::uint64_t parent = 0;
  std::vector<event> events;
};

}  // namespace

TEST_CASE("checker: a correct history is one, online and offline", "[membership][fast]") {
  const story s;
  CHECK(s.verdict().empty());
  CHECK_FALSE(checker::check_all(s.events, 10));
  std::vector<event> by_peer = s.events;  // as processes write them: one file after the other
  std::stable_sort(by_peer.begin(), by_peer.end(), [](const event& a, const event& b) { return a.peer > b.peer; });
  CHECK_FALSE(checker::check_all(by_peer, 10));
}

TEST_CASE("checker: each broken rule is found, and named", "[membership][fast]") {
  const auto broken = [](auto change) {
    story s;
    change(s);
    const bool offline = checker::check_all(s.events, 10).has_value();
    CHECK(offline);
    return s.verdict();
  };
  CHECK(broken([](story& s) { ++s.nth(event::commit, 2).hash; }) == "two different records of one round");
  CHECK(broken([](story& s) { ++s.nth(event::commit, 4).chain; }) == "committed without a quorum of votes in one ballot");
  CHECK(broken([](story& s) { ++s.nth(event::commit, 4).parent; }) == "the parent is not the record of the round before");
  CHECK(broken([](story& s) {
          s.nth(event::accept, 2).at = {2, 1};
        }) == "committed without a quorum of votes in one ballot");
  CHECK(broken([](story& s) { s.nth(event::accept, 2).at = {1, 5}; }) == "a vote below what was promised");
  CHECK(broken([](story& s) { ++s.nth(event::accept, 1).parent; }) ==
        "a vote that does not follow the peer's newest commit");
  CHECK(broken([](story& s) { s.nth(event::trained, 0).ranges[0].first += 1; }) ==
        "peer 1 contributed other samples than it trained on");
  CHECK(broken([](story& s) {
          s.nth(event::trained, 1).peer = 3;
          s.nth(event::trained, 0).ranges.pop_back();
        }) == "peer 1 contributed other samples than it trained on");
  CHECK(broken([](story& s) { s.nth(event::commit, 4).contributions[0].samples = 11; }) ==
        "somebody contributed more samples than it held");
  CHECK(broken([](story& s) { ++s.nth(event::commit, 4).ledger; }) == "the ledger of this commit is another one");
  CHECK(broken([](story& s) { ++s.nth(event::held, 4).hash; }) == "a state was held that is not the committed one");
  CHECK(broken([](story& s) { s.nth(event::held, 1).round = 2; }) == "a state was held of a round that was not committed");
}

TEST_CASE("checker: what peers must not do after a correct history is found", "[membership][fast]") {
  const auto wrong = [](auto make) {
    story s;
    event e = make(s);
    s.events.push_back(e);
    return s.verdict();
  };
  CHECK(wrong([](story&) {
          event e = story::about(event::promise, 1);
          e.at = {1, 0};
          return e;
        }) == "a promise went back");
  CHECK(wrong([](story&) {
          event e = story::about(event::promise, 1);
          e.at = {2, 0};
          e.from = 3;
          return e;
        }) == "one term was promised to two peers");
  CHECK(wrong([](story&) {
          event e = story::about(event::bar, 1);
          e.at = {3, 0};
          return e;
        }) == "a floor went back, or left its term");
  CHECK(wrong([](story& s) {
          event e = story::about(event::commit, 1);
          e = s.nth(event::commit, 1);
          return e;
        }) == "a peer's commits went back");
  CHECK(wrong([](story& s) {
          event e = story::about(event::update_accepted, 1);
          e.at = {1, 0};
          e.round = 3;
          e.parent = s.third.chain();
          return e;
        }) == "data of another attempt was let in");
  CHECK(wrong([](story& s) {
          event e = story::about(event::update_accepted, 1);
          e.at = {2, 1};
          e.round = 3;
          e.parent = s.second.chain();
          return e;
        }) == "data with another parent was let in");
}

TEST_CASE("checker: a restart may know more than was said, never less", "[membership][fast]") {
  const auto after = [](auto change) {
    story s;
    event e = story::about(event::boot, 1);
    e.at = {2, 0};
    e.from = 2;
    e.round = 2;
    e.chain = s.third.chain();
    change(e, s);
    s.events.push_back(e);
    return s.verdict();
  };
  CHECK(after([](event&, story&) {}).empty());
  CHECK(after([](event& e, story&) { e.at = {7, 0}; }).empty());
  CHECK(after([](event& e, story&) { e.hash = 5, e.voted = {2, 1}; }).empty());
  CHECK(after([](event& e, story&) { e.at = {1, 9}; }) == "a promise was forgotten in a restart");
  CHECK(after([](event& e, story& s) { e.round = 1, e.chain = s.second.chain(); }) ==
        "a commit was forgotten in a restart");
  CHECK(after([](event& e, story&) { e.hash = 5, e.voted = {2, 0}; }) == "a vote was forgotten in a restart");
}

TEST_CASE("checker: two leaders of one term are found where they could meet", "[membership][fast]") {
  checker c;
  event e = story::about(event::lead, 1);
  e.at = {3, 0};
  e.round = 4;
  CHECK_FALSE(c.check(e));
  e.peer = 2;
  CHECK(c.check(e));
  e.round = 5;
  CHECK_FALSE(c.check(e));
}

TEST_CASE("checker: it knows when a round was committed", "[membership][fast]") {
  story s;
  checker c{10};
  for (const event& e : s.events) REQUIRE_FALSE(c.check(e));
  CHECK(c.rounds() == 3);
  CHECK(c.samples().done() == 3);
  using std::chrono::seconds;
  CHECK(c.progressed({seconds{1}}, {seconds{2}}));
  CHECK_FALSE(c.progressed({seconds{2}}, {seconds{9}}));
}
