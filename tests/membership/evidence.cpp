// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/evidence.hpp>

#include "membership/cluster.hpp"
#include "membership/nemesis.hpp"
#include "support/catch.hpp"

#include <causeway/membership/protocol.hpp>

using namespace causeway;
using namespace causeway::test;
namespace wire = causeway::membership::detail;

namespace {

/// A calm cluster of `n`, and somebody who can send it anything.
struct attacked {
  explicit attacked(std::size_t n, std::uint64_t quota = 100) : c{5, settings(n, quota)} {
    c.restart_after = 0;
    c.training_time = 1;
    start(c, n);
    REQUIRE(c.run_until_true(60, [&] { return c.newest >= 2 && c.agreed(); }));
  }

  static options settings(std::size_t n, std::uint64_t quota) {
    options o;
    o.run = 9;
    o.expected = static_cast<std::uint32_t>(n);
    o.quota = quota;
    return o;
  }

  protocol& at(std::size_t i) { return *c.hosts[i]->process; }
  const commit_record& newest(std::size_t i = 0) { return *at(i).durable().newest; }
  std::uint32_t term(std::size_t i = 0) { return at(i).durable().floor.term; }

  /// `from` says `m` to host `to`; a stranger comes up first.
  void say(net::peer_id from, std::size_t to, const wire::message& m) {
    const auto bytes = wire::encode(9, m);
    c.call(*c.hosts[to], [&](protocol& p) {
      if (from == stranger) p.peer_up(stranger, "nowhere:1", c.now);
      p.message(from, bytes, c.now);
    });
  }
  void say_all(net::peer_id from, const wire::message& m) {
    for (std::size_t i = 0; i < c.hosts.size(); ++i) {
      if (c.hosts[i]->id != from) say(from, i, m);
    }
  }

  bool goes_on(std::uint64_t more = 3, double within = 60) {
    const std::uint64_t goal = c.newest + more;
    const bool done = c.run_until_true(within, [&] { return c.newest >= goal && c.agreed(); });
    INFO(c.violation);
    CHECK(c.violation.empty());
    return done;
  }
  void restart_all() {
    for (auto& h : c.hosts) c.crash(*h);
    c.run_for(1);
    for (auto& h : c.hosts) c.boot(*h);
  }

  static constexpr net::peer_id stranger = 999;
  cluster c;
};

wire::heartbeat beat_of(attacked& run, std::uint32_t term) {
  return {term, 1, {run.newest().round, run.newest().chain()}, 4, true};
}

/// A record that could follow, made up.
commit_record made_up(attacked& run, std::uint64_t round, net::peer_id who) {
  commit_record r = run.newest();
  r.round = round;
  r.parent = run.newest().chain();
  r.state = 666;
  r.members = {who};
  r.contributions.clear();
  r.returned.clear();
  return r;
}

wire::sync forged_sync(attacked& run, std::uint64_t round, net::peer_id who) {
  wire::sync m;
  m.record = made_up(run, round, who);
  m.samples = run.at(0).samples();
  m.record.ledger = m.samples.hash();
  return m;
}

wire::commit_notice forged_notice(attacked& run, net::peer_id who) {
  wire::commit_notice m;
  m.record = made_up(run, run.newest().round + 1, who);
  ledger after = run.at(0).samples();
  after.apply(m.record);
  m.record.ledger = after.hash();
  m.of = {m.record.round, m.record.chain()};
  m.votes = {{100, {}}, {101, {}}, {102, {}}, {who, {}}};
  return m;
}

}  // namespace

TEST_CASE("evidence: a stranger's heartbeat with the largest term stops nothing", "[membership][fast]") {
  attacked run{4};
  run.say_all(attacked::stranger, beat_of(run, ballot::max_term));
  CHECK(run.term() == 1);
  CHECK(run.goes_on());
  run.restart_all();
  CHECK(run.goes_on());
}

TEST_CASE("evidence: a stranger that leads with the next term is followed by nobody", "[membership][fast]") {
  attacked run{4};
  const std::uint32_t next = run.term() + 1;
  run.say_all(attacked::stranger, wire::campaign{next, false, {run.newest().round, run.newest().chain()}});
  run.say_all(attacked::stranger, beat_of(run, next));
  for (std::size_t i = 0; i < 4; ++i) CHECK(run.at(i).leader() == 100);
  CHECK(run.goes_on());
}

TEST_CASE("evidence: a stranger's commit is believed by nobody, whatever its round", "[membership][fast]") {
  for (const int kind : {0, 1, 2, 3}) {
    attacked run{4};
    const std::uint64_t before = run.newest().round;
    if (kind == 0) run.say_all(attacked::stranger, forged_sync(run, 1'000'000, attacked::stranger));
    if (kind == 1) run.say_all(attacked::stranger, forged_notice(run, attacked::stranger));
    if (kind == 2) run.say_all(attacked::stranger, forged_sync(run, UINT64_MAX, attacked::stranger));
    if (kind == 3) {
      wire::commit_notice m = forged_notice(run, attacked::stranger);
      m.record.round = UINT64_MAX;
      run.say_all(attacked::stranger, m);
    }
    INFO("kind " << kind);
    for (std::size_t i = 0; i < 4; ++i) CHECK(run.newest(i).round == before);
    CHECK(run.goes_on());
    run.restart_all();
    CHECK(run.goes_on());
  }
}

TEST_CASE("evidence: a stranger cannot make two histories out of one", "[membership][fast]") {
  attacked run{4};
  wire::sync m = forged_sync(run, run.newest().round, attacked::stranger);
  run.say_all(attacked::stranger, m);
  for (std::size_t i = 0; i < 4; ++i) CHECK(run.at(i).now_what().is != situation::failed);
  CHECK(run.goes_on());
}

TEST_CASE("evidence: one member that lies makes nobody believe a commit, and stops nobody", "[membership][fast]") {
  for (const int kind : {0, 1, 2}) {
    attacked run{4};
    const std::uint64_t before = run.newest().round;
    if (kind == 0) run.say_all(103, forged_sync(run, before + 1000, 103));
    if (kind == 1) run.say_all(103, forged_notice(run, 103));
    if (kind == 2) run.say_all(103, forged_sync(run, before, 103));
    INFO("kind " << kind);
    for (std::size_t i = 0; i < 3; ++i) CHECK(run.newest(i).round <= before);
    for (std::size_t i = 0; i < 3; ++i) CHECK(run.at(i).now_what().is != situation::failed);
    run.c.run_for(30);
    CHECK(run.goes_on());
    for (std::size_t i = 0; i < 3; ++i) CHECK(run.newest(i).round < before + 1000);
  }
}

TEST_CASE("evidence: one member that lies cannot raise terms without bound, nor depose a leader", "[membership][fast]") {
  attacked run{4};
  run.say_all(103, beat_of(run, ballot::max_term));
  CHECK(run.term() == 1);
  for (std::uint32_t t = 2; t < 4000; ++t) {
    run.say(103, 0, beat_of(run, t));
    run.say(103, 1, wire::campaign{t, false, {run.newest().round, run.newest().chain()}});
    run.say(103, 2, beat_of(run, t));
  }
  for (std::size_t i = 0; i < 3; ++i) CHECK(run.term(i) == 1);
  CHECK(run.goes_on());
}

TEST_CASE("evidence: nobody's report moves terms, and no stranger's value is taken over", "[membership][fast]") {
  attacked run{4};
  wire::report r;
  r.sequence = 1;
  r.floor = {ballot::max_term, 0};
  r.promised_to = attacked::stranger;
  r.newest = {run.newest().round, run.newest().chain()};
  run.say_all(attacked::stranger, r);
  CHECK(run.goes_on());
  CHECK(run.term() < 8);

  const wire::commit_notice poison = forged_notice(run, 100);
  r.sequence = 2;
  r.floor = run.at(0).durable().floor;
  r.promised_to = 100;
  r.newest = {run.newest().round, run.newest().chain()};
  r.accepted = acceptance{r.floor, poison.record};
  r.holds = true;
  run.say(attacked::stranger, 0, r);
  CHECK(run.at(0).now_what().is != situation::adopt);
  CHECK(run.goes_on());
}

TEST_CASE("evidence: a report claims no more samples than its sender holds", "[membership][fast]") {
  for (const std::uint64_t quota : {std::uint64_t{0}, std::uint64_t{100}}) {
    attacked run{4, quota};
    for (int i = 0; i < 6; ++i) {
      wire::report r;
      r.sequence = 1'000'000 + static_cast<std::uint64_t>(i);
      r.floor = run.at(0).durable().floor;
      r.promised_to = 100;
      r.newest = {run.newest().round, run.newest().chain()};
      r.holds = r.ready = true;
      r.samples = UINT64_MAX;
      run.say(103, 0, r);
      run.c.run_for(0.7);
    }
    INFO("quota " << quota);
    CHECK(run.c.violation.empty());
    CHECK(run.at(0).samples().done() < 100'000);
    CHECK(run.goes_on(3, 120));
  }
}

TEST_CASE("evidence: a commit is no more rounds ahead than ballots", "[membership][fast]") {
  attacked run{4};
  const auto refused = run.at(0).rejected(reject_reason::wrong_round);
  wire::sync m = forged_sync(run, run.newest().round + 1000, 103);
  run.say(103, 0, m);
  CHECK(run.at(0).rejected(reject_reason::wrong_round) == refused + 1);
  ++m.record.at.term;  // 1024 ballots
  run.say(103, 0, m);
  CHECK(run.at(0).rejected(reject_reason::wrong_round) == refused + 1);
  CHECK(run.goes_on());
}

TEST_CASE("evidence: a lie is not believed as soon as those who know better are gone", "[membership][fast]") {
  attacked run{5};
  run.c.keep_training = false;  // no commit ends the doubts
  run.c.run_for(10);
  const std::uint64_t before = run.newest(3).round;
  wire::sync m = forged_sync(run, before + 1000, 104);
  ++m.record.at.term;
  ++m.record.parent;  // those between are not known here
  const auto lie_for = [&](double s) {
    for (const time_point end = run.c.now + for_seconds(s); run.c.now < end;) {
      run.say(104, 3, m);
      run.c.run_for(0.5);
    }
  };
  lie_for(70);
  for (std::size_t i = 0; i < 3; ++i) {
    run.c.break_link(i, 3, 0.1);
    run.c.between(i, 3).cut = true;
  }
  lie_for(20);
  CHECK(run.newest(3).round == before);
  heal(run.c);
  run.c.keep_training = true;
  for (auto& h : run.c.hosts) run.c.call(*h, [&](protocol& p) { p.wake(run.c.now); });
  CHECK(run.goes_on());
}

TEST_CASE("evidence: a newcomer sent to two peers does not believe the one that lies", "[membership][fast]") {
  attacked run{4};
  host& late = run.c.add();
  for (std::size_t i = 0; i < 4; ++i) run.c.between(i, 4).cut = true;
  run.c.boot(late);  // sent to hosts 0 and 1
  run.c.call(late, [&](protocol& p) { p.peer_up(101, cluster::address(1), run.c.now); });
  wire::sync m = forged_sync(run, run.newest().round + 1, 101);
  m.votes = {{100, {}}, {101, {}}, {102, {}}};
  run.say(101, 4, m);
  run.c.run_for(20);
  CHECK_FALSE(run.at(4).durable().newest);
  run.c.call(late, [&](protocol& p) { p.peer_down(101, "broken", run.c.now); });
  for (std::size_t i = 0; i < 4; ++i) run.c.between(i, 4).cut = false;
  CHECK(run.goes_on());
  CHECK(run.at(4).durable().newest);
}

TEST_CASE("evidence: who does not believe a commit is told it again, not each time that it reports", "[membership][fast]") {
  attacked run{4};
  run.c.keep_training = false;
  run.c.crash(*run.c.hosts[3]);
  run.c.run_for(10);
  run.c.call(*run.c.hosts[0], [&](protocol& p) { p.peer_up(103, cluster::address(3), run.c.now); });
  wire::report r;
  r.sequence = 1'000'000;
  r.floor = run.at(0).durable().floor;
  r.promised_to = 100;
  r.newest = {run.newest().round - 1, 1};
  const auto is_told = [&] {
    const std::uint64_t before = run.c.hosts[0]->sent;
    ++r.sequence;
    run.say(103, 0, r);
    return run.c.hosts[0]->sent > before;
  };
  CHECK(is_told());
  for (int i = 0; i < 7; ++i) {
    run.c.run_for(1);
    CHECK_FALSE(is_told());
  }
  run.c.run_for(1.5);
  CHECK(is_told());
}
