// SPDX-License-Identifier: Apache-2.0
// Peers that come, go, are late or are strangers; and clusters that are large.
#include <causeway/membership/protocol.hpp>

#include "membership/calm_cluster.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

/// Rounds that four peers make in two minutes beside a newcomer that has connected and is never ready.
std::uint64_t rounds_beside_a_newcomer(bool asks_for_time) {
  calm run{4};
  const auto before = run.c.newest;
  run.c.transfer_time = 1000;
  run.c.boot(run.c.add());
  for (int second = 0; second < 120; ++second) {
    run.c.run_for(1);
    if (asks_for_time) run.c.call(run[0], [&](protocol& p) { p.asks_for_time(104, {std::chrono::seconds{3}}, run.c.now); });
  }
  REQUIRE(run.c.violation.empty());
  CHECK_FALSE(run.is_member(4));
  return run.c.newest - before;
}

}  // namespace

TEST_CASE("protocol: a newcomer that is never ready holds nobody up, and ever less if it asks for that",
          "[membership][fast]") {
  calm alike{4};
  const auto before = alike.c.newest;
  alike.c.run_for(120);
  const auto rounds = alike.c.newest - before;
  CHECK(rounds_beside_a_newcomer(false) * 20 >= rounds * 19);
  CHECK(rounds_beside_a_newcomer(true) * 10 >= rounds * 8);
}

TEST_CASE("protocol: a late peer keeps what it trained, and contributes it to a later round", "[membership][fast]") {
  options o;
  o.grace = {.floor = std::chrono::milliseconds{500}, .cap = std::chrono::seconds{3}};
  calm run{4, 4, o};
  run[3].hung = true;
  REQUIRE(run.commits(1, 20));  // with what it had trained by then
  const auto held = run.c.check.samples().take(103, 0, 10);
  REQUIRE(run.commits(2, 40));
  CHECK_FALSE(run.is_member(3));
  CHECK(run[3].process->now_what().is != situation::no_quorum);
  CHECK(run.c.check.samples().take(103, 0, 1)[0] >= held[0]);
  CHECK(run.c.check.samples().held_count(103) > 0);  // nothing was taken away
  run[3].hung = false;
  run.c.call(run[3], [&](protocol& p) { p.wake(run.c.now); });
  REQUIRE(run.c.run_until_true(20, [&] { return run.is_member(3); }));
  REQUIRE(run.commits(1, 20));
  CHECK(run.c.check.samples().take(103, 0, 1)[0] > held[0]);
  CHECK(run.c.violation.empty());
}

TEST_CASE("protocol: the first round begins when as many as expected have come, though not all at one time",
          "[membership][fast]") {
  cluster c{5, calm::settings(3, {})};
  c.restart_after = 0;
  for (int i = 0; i < 3; ++i) c.add();
  c.boot(*c.hosts[0], true);
  c.boot(*c.hosts[1]);
  c.run_for(10);
  CHECK(c.newest == 0);
  c.crash(*c.hosts[1]);
  c.run_for(5);
  CHECK(c.newest == 0);
  c.boot(*c.hosts[2]);
  REQUIRE(c.run_until_true(30, [&] { return c.newest >= 1; }));
  c.boot(*c.hosts[1]);
  REQUIRE(c.run_until_true(30, [&] { return c.hosts[0]->process->durable().newest->members.size() == 3; }));
  CHECK(c.violation.empty());
}

namespace {

/// Rounds that five peers make in two minutes when the last is so many times slower than the rest.
std::uint64_t rounds_beside(double slowness) {
  calm run{5};
  run[4].slowness = slowness;
  const auto before = run.c.newest;
  const auto held = run.c.check.samples().take(104, 0, 1)[0];
  run.c.run_for(120);
  INFO(run.c.violation);
  REQUIRE(run.c.violation.empty());
  CHECK(run.c.check.samples().take(104, 0, 1)[0] > held);  // it contributes all the same
  return run.c.newest - before;
}

}  // namespace

TEST_CASE("protocol: a peer that is slower than the rest holds them up ever more rarely", "[membership][fast]") {
  const auto alike = rounds_beside(1);
  CHECK(rounds_beside(6) * 10 >= alike * 8);
}

TEST_CASE("protocol: fewer than the smallest quorum of peers make no round", "[membership][fast]") {
  options o;
  o.min_peers = 3;
  calm run{4, 1, o};
  run.c.crash(run[3]);
  REQUIRE(run.commits(2, 30));
  run.c.crash(run[2]);
  run.c.run_for(3);
  const auto before = run.c.newest;
  run.c.run_for(30);
  CHECK(run.c.newest == before);
  run.c.boot(run[2]);
  REQUIRE(run.commits(1, 30));
}

TEST_CASE("protocol: who leaves contributes what it has, then the others go on without it", "[membership][fast]") {
  calm run{4};
  const bool leader_too = GENERATE(false, true);
  const std::size_t who = leader_too ? 0 : 3;
  run[who].wants_out = true;
  REQUIRE(run.c.run_until_true(30, [&] { return run[who].gone; }));
  REQUIRE(run.commits(2, 30));
  CHECK_FALSE(run.is_member(who, 1));
  CHECK(run.c.check.samples().held(run[who].id).empty());
  CHECK(run.c.violation.empty());
}

TEST_CASE("protocol: when all leave, all are let go, and can come back", "[membership][fast]") {
  calm run{3};
  for (std::size_t i = 0; i < 3; ++i) run[i].wants_out = true;
  REQUIRE(run.c.run_until_true(40, [&] { return run[0].gone && run[1].gone && run[2].gone; }));
  for (std::size_t i = 0; i < 3; ++i) run.c.come_back(run[i]);
  REQUIRE(run.commits(2, 30));
}

TEST_CASE("protocol: a leader whose attempts are numbered through takes a new term, and nobody notices",
          "[membership][fast]") {
  calm run{2};
  run.c.training_time = 0.01;
  REQUIRE(run[0].process->durable().floor.term == 1);
  REQUIRE(run.commits(1100, 5000));
  CHECK(run[0].process->durable().floor.term == 2);
  CHECK(run[1].process->leader() == 100);
  CHECK(run.newest(1).members.size() == 2);
}

TEST_CASE("protocol: strangers are refused, counted, and sent away", "[membership][fast]") {
  calm run{2};
  protocol& p = *run[0].process;
  const auto bytes = membership::detail::encode(77, membership::detail::farewell{});
  run.c.call(run[0], [&](protocol& me) { me.message(101, bytes, run.c.now); });
  CHECK(p.rejected(reject_reason::wrong_run) == 1);
  run.c.run_for(5);
  const std::vector<std::byte> noise(30, std::byte{7});
  run.c.call(run[0], [&](protocol& me) { me.message(101, noise, run.c.now); });
  CHECK(p.rejected(reject_reason::malformed) == 1);
  run.c.call(run[0], [&](protocol& me) { me.message(555, noise, run.c.now); });
  CHECK(p.rejected(reject_reason::unknown_peer) == 1);
  CHECK(p.describe(run.c.now).find("wrong_run: 1") != std::string::npos);
  REQUIRE(run.commits(1, 30));
}

TEST_CASE("protocol: in storms nothing is committed twice", "[membership][fast]") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    INFO("seed " << seed);
    const outcome o = storm(seed);
    INFO(o.violation << o.stuck);
    REQUIRE((o.violation.empty() && o.stuck.empty()));
  }
}

TEST_CASE("protocol: a steady round of a thousand members costs their leader less than a megabyte, and they outlive it",
          "[membership][slow][every_call]") {
  options o;
  o.run = 9;
  o.expected = 1000;
  o.quota = 64;
  cluster c{1, o};
  c.restart_after = 0;
  c.brings = 8;
  start(c, 1000);
  REQUIRE(c.run_until_true(120, [&] { return c.newest >= 4; }));  // all know each other, and contribute
  const auto received = [&] {
    std::uint64_t sum = 0;
    for (const auto& h : c.hosts) sum += h->index == 0 ? 0 : h->sent;
    return sum;
  };
  const std::uint64_t sent = c.hosts[0]->sent;
  const std::uint64_t before = received();
  const auto next = c.newest + 1;
  REQUIRE(c.run_until_true(60, [&] { return c.newest == next; }));
  const auto& record = *c.hosts[0]->process->durable().newest;
  CHECK(record.members.size() >= 990);  // of so many a few are late, and not waited for
  CHECK(record.contributions.size() >= 990);
  WARN("the leader sent " << c.hosts[0]->sent - sent << " bytes, the others " << received() - before);
  CHECK(c.hosts[0]->sent - sent < 1'000'000);
  CHECK(received() - before < 2'000'000);

  c.crash(*c.hosts[0]);
  const auto last = c.newest;
  REQUIRE(c.run_until_true(100, [&] { return c.newest > last; }));
  CHECK(c.hosts[5]->process->durable().newest->members.size() >= 995);
  CHECK(c.violation.empty());
}
