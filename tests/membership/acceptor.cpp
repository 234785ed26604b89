// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/acceptor.hpp>

#include "support/catch.hpp"

#include <vector>

using namespace causeway;
using namespace causeway::membership;
using causeway::membership::detail::acceptor;

namespace {

struct disk final : effects {
  void send(net::peer_id, std::vector<std::byte>) override {}
  void dial(const std::string&) override {}
  void drop(net::peer_id, const std::string&) override {}
  bool persist(const durable_record& record) override {
    if (broken) return false;
    stored = record;
    ++writes;
    return true;
  }
  void wake_at(time_point) override {}
  void note(const event& e) override { events.push_back(e); }

  durable_record stored;
  int writes = 0;
  bool broken = false;
  std::vector<event> events;
};

/// A member that knows round 0 of a run of three.
acceptor member(disk& d, std::uint64_t quota = 10) {
  acceptor a{fresh_record(9, 1), d};
  commit_record first;
  first.run = 9;
  first.state = 77;
  first.members = {1, 2, 3};
  ledger samples{quota};
  samples.apply(first);
  first.ledger = samples.hash();
  REQUIRE(a.learn(first, samples, {}));
  return a;
}

commit_record after(const acceptor& a, std::uint64_t state) {
  commit_record r;
  r.run = 9;
  r.round = a.newest().round + 1;
  r.parent = a.newest().chain;
  r.state = state;
  r.members = {1, 2};
  r.contributions = {{2, 4}};
  r.returned = {3};
  r.ledger = a.hash_after(r);
  return r;
}

}  // namespace

TEST_CASE("acceptor: a term is promised to one peer, durably, and none below it", "[membership][fast]") {
  disk d;
  acceptor a = member(d);
  CHECK(a.promise(5, 2, {}));
  CHECK(d.stored.floor == ballot{5, 0});
  CHECK(d.stored.promised_to == 2);
  CHECK(a.promise(5, 2, {}));
  CHECK_FALSE(a.promise(5, 3, {}));
  CHECK_FALSE(a.promise(4, 2, {}));
  CHECK(a.promise(6, 3, {}));
  CHECK_FALSE(a.promise(ballot::max_term + 1, 3, {}));
}

TEST_CASE("acceptor: a bar holds, also after a restart", "[membership][fast]") {
  disk d;
  acceptor a = member(d);
  REQUIRE(a.promise(5, 2, {}));
  CHECK(a.bar({5, 3}, {}));
  CHECK_FALSE(a.bar({6, 0}, {}));
  const commit_record value = after(a, 1);
  CHECK_FALSE(a.accept({5, 2}, value, {}));
  acceptor again{d.stored, d};
  CHECK_FALSE(again.accept({5, 2}, value, {}));
  CHECK(again.bar({5, 1}, {}));  // nothing to do
  CHECK(d.stored.floor == ballot{5, 3});
  CHECK(again.accept({5, 3}, value, {}));
}

TEST_CASE("acceptor: votes only for what follows, in the promised term, once for each ballot", "[membership][fast]") {
  disk d;
  acceptor a = member(d);
  REQUIRE(a.promise(5, 2, {}));
  const commit_record value = after(a, 1);
  CHECK_FALSE(a.accept({4, 0}, value, {}));
  CHECK_FALSE(a.accept({6, 0}, value, {}));
  for (int i = 0; i < 6; ++i) {
    commit_record wrong = value;
    if (i == 0) ++wrong.run;
    if (i == 1) ++wrong.round;
    if (i == 2) ++wrong.parent;
    if (i == 3) ++wrong.ledger;
    if (i == 4) wrong.members.clear();
    if (i == 5) wrong.contributions[0].samples = 11;
    CHECK_FALSE(a.accept({5, 0}, wrong, {}));
  }
  CHECK(a.accept({5, 1}, value, {}));
  CHECK(a.accept({5, 1}, value, {}));
  commit_record other = value;
  other.state = 2;
  CHECK_FALSE(a.accept({5, 1}, other, {}));
  CHECK(a.accept({5, 2}, other, {}));
  CHECK(d.stored.accepted == acceptance{{5, 2}, other});
}

TEST_CASE("acceptor: a commit is learned once, in order, whoever tells it", "[membership][fast]") {
  disk d;
  acceptor a = member(d);
  REQUIRE(a.promise(5, 2, {}));
  const commit_record first = after(a, 1);
  REQUIRE(a.accept({5, 0}, first, {}));
  CHECK(a.learn(first, {}));
  CHECK(a.newest().round == 1);
  CHECK_FALSE(d.stored.accepted);
  CHECK(d.stored.samples.held_count(3) == 0);
  CHECK_FALSE(a.is_member(3));
  CHECK_FALSE(a.learn(first, {}));  // known
  CHECK(a.broken().empty());
  commit_record far = after(a, 2);
  ++far.round;
  CHECK_FALSE(a.learn(far, {}));  // one is missing
  CHECK(a.newest().round == 1);
}

TEST_CASE("acceptor: commits between may be skipped with the ledger that belongs to the record", "[membership][fast]") {
  disk d;
  acceptor a = member(d);
  commit_record far;
  far.run = 9;
  far.round = 7;
  far.parent = 5;
  far.members = {2};
  ledger samples{10};
  samples.apply(far);
  far.ledger = samples.hash() + 1;
  CHECK_FALSE(a.learn(far, samples, {}));
  --far.ledger;
  CHECK(a.learn(far, samples, {}));
  CHECK(a.newest().round == 7);
  CHECK(a.durable().samples == samples);
}

TEST_CASE("acceptor: two histories stop it for good", "[membership][fast]") {
  for (const bool same_round : {false, true}) {
    disk d;
    acceptor a = member(d);
    const commit_record one = after(a, 1);
    commit_record two = after(a, 2);
    REQUIRE(a.learn(one, {}));
    if (!same_round) {  // the next record is built on the other one
      two.round = 2;
      two.parent = two.chain();
    }
    CHECK_FALSE(a.learn(two, {}));
    CHECK_FALSE(a.broken().empty());
    CHECK_FALSE(a.promise(99, 1, {}));
  }
}

TEST_CASE("acceptor: after a failed write nothing is promised, voted for or learned", "[membership][fast]") {
  for (int step = 0; step < 4; ++step) {
    disk d;
    acceptor a = member(d);
    REQUIRE(a.promise(5, 2, {}));
    const commit_record value = after(a, 1);
    const std::size_t said = d.events.size();
    d.broken = true;
    if (step == 0) CHECK_FALSE(a.promise(6, 2, {}));
    if (step == 1) CHECK_FALSE(a.bar({5, 9}, {}));
    if (step == 2) CHECK_FALSE(a.accept({5, 0}, value, {}));
    if (step == 3) CHECK_FALSE(a.learn(value, {}));
    CHECK_FALSE(a.broken().empty());
    CHECK(d.events.size() == said);
    d.broken = false;
    CHECK_FALSE(a.promise(7, 2, {}));
    CHECK_FALSE(a.learn(value, {}));
  }
}
