// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/protocol.hpp>

#include "membership/calm_cluster.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::test;

TEST_CASE("protocol: a rough ride breaks no promise, and the run goes on afterwards", "[membership][fast]") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const outcome o = rough_ride(seed);
    INFO(o.violation);
    REQUIRE(o.violation.empty());
    INFO(o.stuck);
    REQUIRE(o.stuck.empty());
  }
}

TEST_CASE("protocol: a thousand rough rides", "[membership][.long]") {
  for (std::uint64_t seed = 1000; seed < 2000; ++seed) {
    INFO("seed " << seed);
    const outcome o = rough_ride(seed);
    INFO(o.violation << o.stuck);
    REQUIRE((o.violation.empty() && o.stuck.empty()));
  }
}

TEST_CASE("protocol: three hundred peers come together, and outlive their leader", "[membership][fast]") {
  options o;
  o.run = 9;
  o.expected = 300;
  o.quota = 64;
  cluster c{1, o};
  c.restart_after = 0;
  for (int i = 0; i < 300; ++i) c.add();
  c.boot(*c.hosts[0], true);
  for (std::size_t i = 1; i < c.hosts.size(); ++i) c.boot(*c.hosts[i]);
  REQUIRE(c.run_until_true(60, [&] { return c.newest >= 1 && c.agreed(); }));
  const auto before = c.messages;
  auto round = c.newest;
  REQUIRE(c.run_until_true(60, [&] { return c.newest > round; }));
  CHECK(c.messages - before < 300 * 40);  // per round and heartbeat, a few messages for each peer: a star, not a mesh
  c.crash(*c.hosts[0]);
  round = c.newest;
  REQUIRE(c.run_until_true(100, [&] { return c.newest > round; }));
  INFO(c.violation);
  CHECK(c.violation.empty());
}

TEST_CASE("protocol: the checker finds each planted bug", "[membership][slow]") {
  for (const planted bug : {planted::no_persist, planted::forged_votes, planted::hidden_votes, planted::any_leader,
                            planted::off_by_one, planted::stale_updates}) {
    std::uint64_t seed = 1;
    while (seed <= 600 && rough_ride(seed, bug).violation.empty() && storm(seed, bug).violation.empty()) ++seed;
    INFO("bug " << static_cast<int>(bug));
    CHECK(seed <= 600);
    WARN("planted bug " << static_cast<int>(bug) << " was found at seed " << seed);
  }
}

// ---- named situations ---------------------------------------------------------------------------------------------------

TEST_CASE("protocol: who founds a run alone trains alone", "[membership][fast]") {
  calm run{1, 5};
  CHECK(run.at(0).newest.members == std::vector<net::peer_id>{100});
  CHECK(run.c.check.samples().done() > 0);
}

TEST_CASE("protocol: the first round admits all that are expected, and exchanges nothing", "[membership][fast]") {
  cluster c{5, calm::settings(4, {})};
  c.keep_training = false;
  c.restart_after = 0;
  start(c, 4);
  c.run_for(5);
  CHECK(c.newest == 0);  // nobody is ready
  std::vector<event> commits;
  c.log = [&](const event& e) {
    if (e.what == event::commit && e.round == 1) commits.push_back(e);
  };
  for (auto& h : c.hosts) {
    c.call(*h, [&](protocol& p) { p.ready(1, p.newest_chain(), 0, c.now); });
  }
  REQUIRE(c.run_until_true(10, [&] { return commits.size() == 4; }));
  CHECK(commits[0].hash == cluster::first_state);
  CHECK(commits[0].members.size() == 4);
  CHECK(commits[0].contributions.empty());
  CHECK(c.check.samples().held_count(103) == 100);
}

TEST_CASE("protocol: in steady state a round costs four messages for each member, and a heartbeat two",
          "[membership][fast]") {
  calm run{8, 3};
  const auto messages = run.c.messages;
  const auto rounds = run.c.newest;
  const time_point from = run.c.now;
  run.c.run_for(30);
  const double made = static_cast<double>(run.c.newest - rounds);
  const double beats = seconds(run.c.now - from);
  REQUIRE(made >= 10);
  CHECK(static_cast<double>(run.c.messages - messages) <= 7 * (4 * (made + 1) + 2 * (beats + 1)));
}

TEST_CASE("protocol: a killed member costs nothing but its own samples, which others train on", "[membership][fast]") {
  calm run{4};
  const auto held = run.c.check.samples().take(103, 0, 100);
  run.c.crash(run[3]);
  REQUIRE(run.commits(2, 20));
  CHECK_FALSE(run.is_member(3));
  REQUIRE(run.commits(1, 20));
  CHECK(run.c.check.samples().held(103).empty());
  std::vector<std::uint64_t> theirs;
  for (const net::peer_id p : {100U, 101U, 102U}) {
    for (const auto s : run.c.check.samples().take(p, 0, 1000)) theirs.push_back(s);
  }
  const auto& pool = run.c.check.samples().pool();
  for (const auto s : held) {
    const bool pooled =
        std::any_of(pool.begin(), pool.end(), [&](auto& r) { return r.first <= s && s < r.first + r.count; });
    CHECK((pooled || std::find(theirs.begin(), theirs.end(), s) != theirs.end() || s < 400));
  }
}

TEST_CASE("protocol: the leader is killed and the next in line leads, within seconds", "[membership][fast]") {
  calm run{5};
  run.c.crash(run[0]);
  const time_point from = run.c.now;
  REQUIRE(run.commits(1, 15));
  CHECK(run[2].process->leader() == 101);
  CHECK(run.c.now - from < for_seconds(8));
  REQUIRE(run.commits(1, 15));  // the one before may have been decided with it
  CHECK_FALSE(run.is_member(0, 2));
}

TEST_CASE("protocol: a value that one member voted for before its leader died is not lost", "[membership][fast]") {
  int taken_over = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    cluster c{seed, calm::settings(4, {})};
    c.restart_after = 0;
    start(c, 4);
    REQUIRE(c.run_until_true(60, [&] { return c.newest >= 2; }));
    bool voted = false;
    std::uint64_t chain = 0;
    std::uint64_t of_round = 0;
    c.log = [&](const event& e) {
      if (e.what == event::accept && e.peer != 100 && !voted) {
        voted = true;
        chain = e.hash;
        of_round = e.round;
      }
    };
    REQUIRE(c.run_until_true(20, [&] { return voted; }));
    c.crash(*c.hosts[0]);  // just after the first vote
    std::uint64_t committed = 0;
    c.log = [&](const event& e) {
      if (e.what == event::commit && e.round == of_round) committed = e.chain;
    };
    REQUIRE(c.run_until_true(30, [&] { return committed != 0; }));
    REQUIRE(c.violation.empty());
    taken_over += committed == chain ? 1 : 0;
  }
  CHECK(taken_over == 40);
}

TEST_CASE("protocol: a minority says so, commits nothing, and catches up once it is whole again", "[membership][fast]") {
  calm run{5};
  for (const std::size_t a : {0U, 1U}) {
    for (const std::size_t b : {2U, 3U, 4U}) run.cut(a, b);
  }
  const auto before = run.newest(0).round;
  run.c.run_for(40);
  REQUIRE(run.c.violation.empty());
  CHECK(run.newest(0).round <= before + 1);
  CHECK(run.at(0).is == situation::no_quorum);
  CHECK(run.at(1).is == situation::no_quorum);
  CHECK_FALSE(run.at(1).why.empty());
  CHECK(run.newest(3).round > before + 5);
  const auto floor = run[0].process->durable().floor;
  heal(run.c);
  REQUIRE(run.c.run_until_true(40, [&] { return run.is_member(0, 3) && run.is_member(1, 3); }));
  CHECK(run[0].process->durable().floor >= floor);
  CHECK(run.c.violation.empty());
}

TEST_CASE("protocol: of two halves the one with the first-named member goes on", "[membership][fast]") {
  calm run{4};
  const net::peer_id first = run.newest(0).members.front();
  REQUIRE(first == 100);
  for (const std::size_t a : {0U, 1U}) {
    for (const std::size_t b : {2U, 3U}) run.cut(a, b);
  }
  const auto before = run.newest(2).round;
  run.c.run_for(30);
  CHECK(run.c.violation.empty());
  CHECK(run.newest(0).round > before + 3);
  CHECK(run.newest(2).round <= before + 1);
}

TEST_CASE("protocol: a newcomer takes part with no weight, then has samples of its own", "[membership][fast]") {
  calm run{3};
  run.c.boot(run.c.add());
  REQUIRE(run.c.run_until_true(20, [&] { return run.is_member(3); }));
  CHECK(run.c.check.samples().held_count(103) == 100);
  REQUIRE(run.commits(2, 20));
  CHECK(run.c.check.samples().held_count(103) == 100);
  CHECK(run.c.check.samples().take(103, 0, 1)[0] > 300);  // it contributed
}

TEST_CASE("protocol: who fetches more slowly than rounds go by asks for time, and is given it", "[membership][fast]") {
  calm run{3, 6};
  run.c.transfer_time = 6;  // a round takes about two
  run.c.boot(run.c.add());
  REQUIRE(run.c.run_until_true(120, [&] { return run.is_member(3); }));
}

TEST_CASE("protocol: all are killed at once and come back with what they know", "[membership][fast]") {
  calm run{4, 3};
  const auto before = run.c.newest;
  for (std::size_t i = 0; i < 4; ++i) run.c.crash(run[i]);
  for (std::size_t i = 0; i < 4; ++i) run.c.boot(run[i]);
  REQUIRE(run.commits(2, 30));
  CHECK(run.c.newest >= before + 2);
  REQUIRE(run.c.run_until_true(20, [&] { return run.newest(0).members.size() == 4; }));
}

TEST_CASE("protocol: a peer whose disk fails is out, says why, and sends nothing more", "[membership][fast]") {
  calm run{4};
  run.c.restart_after = 0;
  run.c.mischief.disk = 1;
  run.c.call(run[2], [&](protocol& p) { p.failed(p.now_what().current.at, errc::timeout, {}, run.c.now); });
  run.c.run_until_true(5, [&] { return run.at(2).is == situation::failed; });
  run.c.mischief.disk = 0;
  REQUIRE(run.at(2).is == situation::failed);
  CHECK(run.at(2).why.find("disk") != std::string::npos);
  CHECK(run.c.violation.empty());
}

TEST_CASE("protocol: a disk that turns out to have failed later ends its peer in the same way", "[membership][fast]") {
  calm run{4};
  run.c.call(run[2], [&](protocol& p) { p.disk_failed(run.c.now); });
  CHECK(run.at(2).is == situation::failed);
  CHECK(run.at(2).why.find("mend the disk") != std::string::npos);
  REQUIRE(run.commits(2, 30));
  run.c.boot(run[2]);
  REQUIRE(run.c.run_until_true(60, [&] { return run.is_member(2); }));
}

TEST_CASE("protocol: a leader that resigns is a member like any other, and another one leads", "[membership][fast]") {
  calm run{4};
  run.c.call(run[0], [&](protocol& p) { p.resign(run.c.now); });
  const auto goodbye = membership::detail::encode(run.c.common.run, membership::detail::farewell{});
  for (std::size_t i = 1; i < 4; ++i) run.c.deliver(0, i, goodbye);
  REQUIRE(run.commits(3, 20));
  CHECK(run[3].process->leader() != 100);
  CHECK(run.is_member(0, 3));
}

TEST_CASE("protocol: of a broken link between two members the later one sits out, the run goes on", "[membership][fast]") {
  calm run{4};
  run.cut(1, 2);
  REQUIRE(run.commits(6, 90));
  CHECK(run.c.violation.empty());
  CHECK(run.is_member(0));
  CHECK(run.is_member(1));
  CHECK(run.is_member(3));
  run.c.break_link(1, 2, 0.1);
  run.c.between(1, 2).cut = false;
  REQUIRE(run.c.run_until_true(120, [&] { return run.is_member(2); }));  // in again, sooner or later
}

TEST_CASE("protocol: replicas that differ are told, and take what the quorum has", "[membership][fast]") {
  calm run{5};
  run.c.mischief.diverge = 0.15;
  run.c.run_for(60);
  run.c.mischief.diverge = 0;
  REQUIRE(run.commits(2, 30));
  CHECK(run.c.violation.empty());
  std::uint64_t told = 0;
  for (auto& h : run.c.hosts) told += h->process->rejected(reject_reason::diverged);
  CHECK(told > 0);
}
