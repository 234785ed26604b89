// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/proposal.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace causeway;
using namespace causeway::membership;

namespace {

struct no_effects final : effects {
  void send(net::peer_id, std::vector<std::byte>) override {}
  void dial(const std::string&) override {}
  void drop(net::peer_id, const std::string&) override {}
  bool persist(const durable_record&) override { return true; }
  void wake_at(time_point) override {}
};

/// Peers 1 to 4 are members and hold three samples each of a budget of twelve; peer 1 leads.
struct scene {
  scene() {
    commit_record first;
    first.run = 9;
    first.round = 1;
    first.members = {1, 2, 3, 4};
    ledger samples{3, 12};
    samples.apply(first);
    first.ledger = samples.hash();
    REQUIRE(table.votes.learn(first, samples, {}));
    for (net::peer_id id = 1; id <= 4; ++id) says(id, 0);
  }

  void says(net::peer_id id, std::uint64_t samples, bool leaving = false) {
    table.entry(id).up = true;
    auto& said = table.entry(id).said.emplace();
    said.ready = true;
    said.samples = samples;
    said.leaving = leaving;
  }

  commit_record record(const std::vector<net::peer_id>& who) {
    view v;
    v.round = 2;
    for (const net::peer_id id : who) v.members.push_back({id, "", table.find(id)->said->samples});
    return membership::detail::propose(table, v);
  }

  static options of_run(std::uint64_t run) {
    options o;
    o.run = run;
    return o;
  }

  no_effects nothing;
  membership::detail::peer_table table{of_run(9), fresh_record(9, 1), nothing};
};

}  // namespace

TEST_CASE("proposal: who is late keeps its samples while the others bring something", "[membership][fast]") {
  scene s;
  s.says(1, 3);
  CHECK_FALSE(membership::detail::out_of_work(s.table, {1, 2, 3}));
  const commit_record r = s.record({1, 2, 3});
  CHECK(r.contributions == std::vector<contribution>{{1, 3}});
  CHECK(r.returned.empty());
}

TEST_CASE("proposal: peers that are out of work take over what everybody holds", "[membership][fast]") {
  scene s;
  CHECK(membership::detail::out_of_work(s.table, {1, 2, 3}));
  const commit_record r = s.record({1, 2, 3});
  CHECK(r.members == std::vector<net::peer_id>{1, 2, 3});
  CHECK(r.returned == std::vector<net::peer_id>{1, 2, 3, 4});
  ledger after = s.table.votes.durable().samples;
  REQUIRE(after.fits(r));
  after.apply(r);
  CHECK(after.held(4).empty());
  CHECK(after.held_count(1) == 3);  // at most the quota
  CHECK(after.left() == 3);
}

TEST_CASE("proposal: who leaves is no member afterwards, and gives its samples back", "[membership][fast]") {
  scene s;
  s.says(3, 0, true);
  CHECK_FALSE(membership::detail::out_of_work(s.table, {1, 2, 3}));
  const commit_record r = s.record({1, 2, 3});
  CHECK(r.members == std::vector<net::peer_id>{1, 2});
  CHECK(r.returned == std::vector<net::peer_id>{3});  // who is late may go on
}

TEST_CASE("proposal: what a peer held that was away at the last commit goes back", "[membership][fast]") {
  scene s;
  s.says(1, 3);
  s.table.entry(4).up = false;
  CHECK(s.record({1, 2, 3}).returned.empty());
  s.table.entry(4).rounds_down = 1;
  CHECK(s.record({1, 2, 3}).returned == std::vector<net::peer_id>{4});
}
