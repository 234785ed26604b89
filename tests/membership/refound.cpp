// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/refound.hpp>

#include <algorithm>
#include <vector>

#include "membership/cluster.hpp"
#include "membership/nemesis.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

options of_run(std::uint64_t run, std::uint32_t expected) {
  options o;
  o.run = run;
  o.expected = expected;
  o.quota = 100;
  return o;
}

/// Every number that a ledger has given out and not seen done, ascending.
std::vector<std::uint64_t> outstanding(const ledger& l) {
  std::vector<std::uint64_t> all;
  const auto add = [&](const auto& ranges) {
    for (const auto& r : ranges) {
      for (std::uint64_t i = 0; i < r.count; ++i) all.push_back(r.first + i);
    }
  };
  add(l.pool());
  for (const net::peer_id id : l.holders()) add(l.held(id));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("refound: nothing that is in a commit is trained on again, and all else is", "[membership][fast]") {
  cluster c{3, of_run(9, 5)};
  c.restart_after = 0;
  start(c, 5);
  REQUIRE(c.run_until_true(60, [&] { return c.newest >= 6 && c.agreed(); }));
  const durable_record& old = c.hosts[3]->process->durable();
  const durable_record founded = refounded(old, 10, 777);
  CHECK(founded.newest->parent == old.newest->chain());
  CHECK(founded.newest->state == old.newest->state);
  CHECK(founded.newest->round == old.newest->round + 1);
  CHECK(founded.newest->members == std::vector<net::peer_id>{777});
  CHECK(founded.newest->contributions.empty());
  CHECK(founded.samples.done() == old.samples.done());
  CHECK(founded.samples.holders() == std::vector<net::peer_id>{777});
  CHECK(outstanding(founded.samples) == outstanding(old.samples));
  CHECK(founded.floor == ballot{});
  CHECK_FALSE(founded.accepted);
  CHECK(decode_durable_record(encode(founded)).value() == founded);
}

TEST_CASE("refound: what a peer has on disk completes a history that its death cut off", "[membership][fast]") {
  cluster c{3, of_run(9, 5)};
  c.restart_after = 0;
  start(c, 5);
  REQUIRE(c.run_until_true(60, [&] { return c.newest >= 6 && c.agreed(); }));
  const durable_record& old = c.hosts[3]->process->durable();
  const auto said = last_words(old, time_point{});
  REQUIRE(said.size() == 2);
  CHECK(said[0].what == event::boot);
  CHECK(said[0].chain == old.newest->chain());
  CHECK(said[1].what == event::commit);
  CHECK(said[1].peer == old.self);
  CHECK(said[1].chain == refounded(old, 10, 777).newest->parent);
}

TEST_CASE("refound: one or three go on where eight stopped, and all samples stay in one commit", "[membership][fast]") {
  for (const std::size_t left : {1U, 3U}) {
    cluster c{11, of_run(9, 8)};
    c.restart_after = 0;
    start(c, 8);
    REQUIRE(c.run_until_true(60, [&] { return c.newest >= 5 && c.agreed(); }));
    const durable_record old = c.hosts[2]->process->durable();
    for (auto& h : c.hosts) {
      c.crash(*h);
      h->gone = true;
    }
    const std::uint64_t done = c.check.samples().done();
    c.common.run = 10;  // whoever comes now is of the new run, and so are all ids
    for (std::size_t i = 0; i < left; ++i) c.add();
    host& founder = *c.hosts[8];
    const durable_record founded = refounded(old, 10, founder.id);
    founder.stored = encode(founded);
    founder.states.insert(founded.newest->state);
    c.note(refound_event(founded));
    for (std::size_t i = 8; i < c.hosts.size(); ++i) c.boot(*c.hosts[i]);
    if (left > 1) {  // the first addresses that newcomers know are of the dead
      for (std::size_t i = 9; i < c.hosts.size(); ++i) c.connect(i, 8);
    }
    // A newcomer that was given several addresses, and hears one voice, waits a minute for a second.
    const auto whole = [&] { return founder.process->durable().newest->members.size() == left; };
    REQUIRE(c.run_until_true(120, [&] { return c.newest >= old.newest->round + 6 && c.agreed() && whole(); }));
    INFO(c.violation);
    CHECK(c.violation.empty());
    CHECK(c.check.samples().done() > done);
    CHECK(founder.process->durable().newest->run == 10);
  }
}

TEST_CASE("refound: the peers of the old run and of the new one turn each other away", "[membership][fast]") {
  cluster c{12, of_run(9, 2)};
  c.restart_after = 0;
  start(c, 2);
  REQUIRE(c.run_until_true(60, [&] { return c.newest >= 3 && c.agreed(); }));
  const durable_record founded = refounded(c.hosts[1]->process->durable(), 10, 777);
  protocol& there = *c.hosts[0]->process;
  const auto before = there.durable();
  const auto bytes = membership::detail::encode(10, membership::detail::sync{*founded.newest, {}, founded.samples, {}});
  c.call(*c.hosts[0], [&](protocol& p) { p.message(101, bytes, c.now); });
  CHECK(there.rejected(reject_reason::wrong_run) == 1);
  CHECK(there.durable().newest == before.newest);
}

TEST_CASE("refound: a checker takes a record without votes only where a person founded a run", "[membership][fast]") {
  cluster c{13, of_run(9, 3)};
  c.restart_after = 0;
  std::vector<event> before;
  c.log = [&](const event& e) { before.push_back(e); };
  start(c, 3);
  REQUIRE(c.run_until_true(60, [&] { return c.newest >= 4 && c.agreed(); }));
  const durable_record founded = refounded(c.hosts[1]->process->durable(), 10, 777);
  REQUIRE(c.run_until_true(60, [&] { return c.newest >= founded.newest->round + 3; }));  // the old run goes on all the same

  event commit = refound_event(founded);
  commit.what = event::commit;
  commit.ledger = founded.newest->ledger;
  commit.members = founded.newest->members;
  commit.returned = founded.newest->returned;
  const std::vector<event> branch{refound_event(founded), commit};
  const auto whole = checker::branch_of(before, branch);
  CHECK_FALSE(checker::check_all(before, 100).has_value());
  CHECK_FALSE(checker::check_all(whole, 100).has_value());

  auto unfounded = whole;
  std::erase_if(unfounded, [](const event& e) { return e.what == event::refound; });
  CHECK(checker::check_all(unfounded, 100).value().find("without a quorum") != std::string::npos);
  auto mixed = before;
  mixed.insert(mixed.end(), branch.begin(), branch.end());
  CHECK(checker::check_all(mixed, 100).value().find("two different records") != std::string::npos);
  commit.contributions.push_back({100, 1});  // of what is done already, or was handed on
  const auto twice = checker::branch_of(before, std::vector<event>{branch[0], commit});
  CHECK(checker::check_all(twice, 100).has_value());
}
