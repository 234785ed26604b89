// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/cohorts.hpp>

#include <causeway/stage/recovery_templates.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using parallel::cohort_member;

namespace {

constexpr std::uint64_t now = 7;

/// Peers 10, 11, 20, 21, ... of pipelines of two stages over four blocks, and what they say; all hold their stage.
struct round_of {
  explicit round_of(std::uint32_t pipelines) {
    g.layers = 4;
    g.micro_batches = 6;
    for (std::uint32_t r = 0; r < pipelines; ++r) {
      for (std::uint32_t s = 0; s < 2; ++s) {
        stage::present_peer p;
        p.id = 10 * (r + 1) + s;
        p.replica = r;
        p.computes = {2 * s, 2 * s + 2};
        p.holds = {p.computes};
        g.peers.push_back(p);
        members.push_back({.state = now, .cohort = 100 + r, .steps = 2, .slots = pipelines, .slot = r});
      }
    }
    say(stage::even_shares(g.micro_batches, pipelines));
  }
  /// What each pipeline has of a batch.
  void say(const std::vector<std::uint32_t>& shares) {
    std::uint32_t first = 0;
    for (std::uint32_t r = 0; r < shares.size(); first += shares[r++]) {
      for (std::size_t p : {2 * r, 2 * r + 1}) members[p].first = first, members[p].share = shares[r];
    }
  }
  void lose(std::uint64_t id) {
    for (std::size_t p = 0; p < g.peers.size(); ++p) {
      if (g.peers[p].id != id) continue;
      g.peers.erase(g.peers.begin() + static_cast<std::ptrdiff_t>(p));
      members.erase(members.begin() + static_cast<std::ptrdiff_t>(p));
      return;
    }
  }
  void come(std::uint64_t id) {
    stage::present_peer p;
    p.id = id;
    g.peers.push_back(p);
    members.push_back({.state = now});
  }
  parallel::cohort_layout arranged() {
    stage::recovery::regroup recovery{2};
    const auto made = parallel::arrange_cohorts(recovery, g, members, now);
    REQUIRE(made);
    return *made;
  }
  stage::cluster_snapshot g;
  std::vector<cohort_member> members;
};

std::vector<std::uint64_t> peers_of(const stage::replica& r) {
  std::vector<std::uint64_t> ids;
  for (const stage::assignment& s : r.assignments) ids.push_back(s.peer);
  return ids;
}

}  // namespace

TEST_CASE("cohorts: whole ones keep slot and share, and a slot that lost a peer is empty", "[parallel][fast]") {
  round_of round{3};
  round.lose(11);
  const auto made = round.arranged();
  REQUIRE(made.layout.replicas.size() == 3);
  CHECK(made.layout.replicas[0].assignments.empty());
  CHECK(peers_of(made.layout.replicas[1]) == std::vector<std::uint64_t>{20, 21});
  CHECK(made.names == std::vector<std::uint64_t>{0, 101, 102});
  CHECK(made.layout.first_micro_batch(1) == 2);
  CHECK(made.layout.replicas[2].micro_batches == 2);
}

TEST_CASE("cohorts: who is left over and a peer that comes begin the slot anew", "[parallel][fast]") {
  round_of round{2};
  round.lose(20);
  round.come(33);
  const auto made = round.arranged();
  CHECK(made.names == std::vector<std::uint64_t>{100, 0});
  CHECK(peers_of(made.layout.replicas[0]) == std::vector<std::uint64_t>{10, 11});
  CHECK(peers_of(made.layout.replicas[1]) == std::vector<std::uint64_t>{33, 21});
}

TEST_CASE("cohorts: more peers than slots rest until the round is over", "[parallel][fast]") {
  round_of round{2};
  round.come(33);
  round.come(34);
  const auto made = round.arranged();
  CHECK(made.layout.replicas.size() == 2);
  CHECK(made.layout.find(33) == nullptr);
}

TEST_CASE("cohorts: if none is whole, or all speak of another state, all begin anew", "[parallel][fast]") {
  round_of lost{2};
  lost.lose(10);
  lost.lose(21);
  auto made = lost.arranged();
  CHECK(made.layout.replicas.size() == 1);
  CHECK(made.names == std::vector<std::uint64_t>{0});
  round_of old{2};
  for (cohort_member& m : old.members) m.state = 6;
  made = old.arranged();
  CHECK(made.layout.replicas.size() == 2);
  CHECK(made.names == std::vector<std::uint64_t>{0, 0});
}

TEST_CASE("cohorts: what a peer says that cannot be is no cohort", "[parallel][fast]") {
  round_of round{2};
  for (std::size_t p : {0U, 1U}) round.members[p].slot = 5;
  CHECK(round.arranged().names == std::vector<std::uint64_t>{0, 101});
  for (cohort_member& m : round.members) m.slots = 40;  // more than there are micro-batches
  CHECK(round.arranged().names == std::vector<std::uint64_t>{0, 0});
}

TEST_CASE("cohorts: replicas that are cut in different ways, against their recovery's word, are refused",
          "[parallel][fast]") {
  const stage::layout uneven{{{{{1, {0, 2}}, {2, {2, 4}}}, 1}, {{{3, {0, 3}}, {4, {3, 4}}}, 1}}};
  const auto refused = parallel::check_alike(uneven, "templates");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text().find("cut_alike") != std::string::npos);
  CHECK_FALSE(parallel::check_alike(uneven, "templates", true));
  const stage::layout open{{{{{1, {0, 2}}, {2, {2, 4}}}, 2}, {{{3, {0, 2}}, {stage::nobody, {2, 4}}}, 2}}};
  CHECK_FALSE(parallel::check_alike(open, "regroup"));
  CHECK(parallel::check_alike(open, "reroute", true));
}

TEST_CASE("cohorts: where micro-batches take detours, holders exchange by those that went through them",
          "[parallel][fast]") {
  const stage::layout l{
      {{{{1, {0, 2}}, {2, {2, 4}}}, 2}, {{{3, {0, 2}}, {stage::nobody, {2, 4}}}, 2}, {{{4, {0, 2}}, {5, {2, 4}}}, 1}}};
  const auto first = parallel::computers_of(l, 0), last = parallel::computers_of(l, 3);
  CHECK(first.peers == std::vector<std::uint64_t>{1, 3, 4});
  CHECK(first.shares == std::vector<double>{0.4, 0.4, 0.2});
  CHECK(last.peers == std::vector<std::uint64_t>{2, 5});
  CHECK(last.shares == std::vector<double>{0.6, 0.4});
}

TEST_CASE("cohorts: the holders of a stage exchange by their replicas' micro-batches, empty slots left out",
          "[parallel][fast]") {
  round_of round{4};
  round.lose(31);
  const auto of = parallel::computers_of(round.arranged().layout, 2);
  CHECK(of.peers == std::vector<std::uint64_t>{11, 21, 41});
  CHECK(of.shares == std::vector<double>{0.4, 0.4, 0.2});  // of 2, 2, 1 and 1 the third is missing
}

TEST_CASE("cohorts: paths are shared out over slots, and each has an equal part of a batch", "[parallel][fast]") {
  using shares = std::vector<std::uint32_t>;
  const auto paths_of = [](std::size_t slots, std::uint32_t paths) {
    std::vector<std::uint32_t> all;
    for (std::size_t s = 0; s < slots; ++s) all.push_back(parallel::path_of_slot(s, slots, paths));
    return all;
  };
  CHECK(paths_of(4, 2) == shares{0, 0, 1, 1});
  CHECK(paths_of(3, 2) == shares{0, 0, 1});
  CHECK(paths_of(5, 3) == shares{0, 0, 1, 1, 2});
  CHECK(paths_of(2, 4) == shares{0, 1});  // nobody has the last ones
  CHECK(parallel::shares_of_slots(8, 4, 2) == shares{2, 2, 2, 2});
  CHECK(parallel::shares_of_slots(8, 3, 2) == shares{2, 2, 4});
  CHECK(parallel::shares_of_slots(6, 5, 3) == shares{1, 1, 1, 1, 2});
  CHECK(parallel::shares_of_slots(8, 2, 4) == shares{2, 2});
  CHECK(parallel::shares_of_slots(8, 3, 0) == shares{3, 3, 2});
}

TEST_CASE("cohorts: a slot that lost a peer keeps its path's part of a batch", "[parallel][fast]") {
  round_of round{3};
  stage::recovery::regroup recovery{2};
  const auto parts = [&] {
    const auto made = parallel::arrange_cohorts(recovery, round.g, round.members, now, 2);
    REQUIRE(made);
    std::vector<std::uint32_t> all;
    for (const stage::replica& r : made->layout.replicas) all.push_back(r.micro_batches);
    return all;
  };
  round.say({2, 1, 3});
  CHECK(parts() == std::vector<std::uint32_t>{2, 1, 3});
  round.lose(11);
  CHECK(parts() == std::vector<std::uint32_t>{2, 1, 3});
  for (cohort_member& m : round.members) m.cohort = 0;  // all begin anew, and are two pipelines
  CHECK(parts() == std::vector<std::uint32_t>{3, 3});
  CHECK_FALSE(parallel::arrange_cohorts(recovery, round.g, round.members, now, 4));
}

TEST_CASE("cohorts: a whole one stays on its path where others have nobody", "[parallel][fast]") {
  round_of round{1};
  round.say({2});
  stage::recovery::regroup recovery{2};
  const auto made = parallel::arrange_cohorts(recovery, round.g, round.members, now, 3);
  REQUIRE(made);
  CHECK(made->names.front() == 100);
  CHECK(made->layout.replicas.front().micro_batches == 2);
}

namespace {

std::vector<std::uint32_t> parts_of(const parallel::cohort_layout& made) {
  std::vector<std::uint32_t> all;
  for (const stage::replica& r : made.layout.replicas) all.push_back(r.micro_batches);
  return all;
}
using shares = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("cohorts: a round that begins divides a batch by the speed of each replica's slowest peer", "[parallel][fast]") {
  round_of round{3};
  for (cohort_member& m : round.members) m.cohort = 0;
  const double speeds[]{0, 4, 3, 9, 0, 0};  // nobody of the third knows it
  for (std::size_t p = 0; p < 6; ++p) round.members[p].speed = speeds[p];
  std::vector<double> asked;
  std::vector<std::size_t> parts{3, 2, 1};
  const auto parts_for = [&](const std::vector<double>& of) {
    asked = of;
    return parts;
  };
  stage::recovery::regroup recovery{2};
  const auto arranged = [&] { return parallel::arrange_cohorts(recovery, round.g, round.members, now, 0, parts_for); };
  auto made = arranged();
  REQUIRE(made);
  CHECK(asked == std::vector<double>{4, 3, 0});
  CHECK(parts_of(*made) == shares{3, 2, 1});
  parts = {};  // the policy does not divide
  made = arranged();
  REQUIRE(made);
  CHECK(parts_of(*made) == shares{2, 2, 2});
  parts = {3, 2, 2};
  made = arranged();
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::unsupported);
}

TEST_CASE("cohorts: the shares that a recovery chose stay, unless the policy says parts or has paths", "[parallel][fast]") {
  round_of round{1};
  round.g.peers.clear();
  round.members.clear();
  round.g.layers = 6;
  round.g.micro_batches = 10;
  for (const std::uint64_t id : {10U, 11U, 20U, 21U, 22U}) round.come(id);
  stage::recovery::templates recovery{{.failures = 1, .most_peers = 5, .model = {}, .kind = {.memory = 3}}};
  const auto own = recovery.arrange(round.g);
  REQUIRE(own);
  const auto parts = [&](std::uint32_t paths, const parallel::parts_by_speed& parts_for) {
    const auto made = parallel::arrange_cohorts(recovery, round.g, round.members, now, paths, parts_for);
    REQUIRE(made);
    CHECK(made->layout.replicas[0].assignments.size() != made->layout.replicas[1].assignments.size());
    return parts_of(*made);
  };
  const auto chosen = parts_of({*own, {}});
  CHECK(chosen != shares{5, 5});
  CHECK(parts(0, {}) == chosen);
  CHECK(parts(0, [](const auto&) { return std::vector<std::size_t>{}; }) == chosen);
  CHECK(parts(0, [](const auto&) { return std::vector<std::size_t>{9, 1}; }) == shares{9, 1});
  CHECK(parts(2, {}) == shares{5, 5});
}

TEST_CASE("cohorts: parts of any size stay as they are until the round is over", "[parallel][fast]") {
  round_of round{4};
  round.say({3, 1, 1, 1});
  CHECK(parts_of(round.arranged()) == shares{3, 1, 1, 1});
  round.lose(11);
  CHECK(parts_of(round.arranged()) == shares{3, 1, 1, 1});
  CHECK(round.arranged().layout.first_micro_batch(1) == 3);
  round.lose(41);
  CHECK(parts_of(round.arranged()) == shares{3, 1, 1, 1});
  round_of other{3};
  other.say({1, 4, 1});
  other.lose(10);
  other.lose(20);  // both of these are made anew, or left out
  CHECK(parts_of(other.arranged()) == shares{3, 2, 1});
}

TEST_CASE("cohorts: parts that cannot be are no cohorts", "[parallel][fast]") {
  for (const auto& said : {shares{3, 3, 3}, shares{0, 5, 1}, shares{1, 1, 1}, shares{7, 1, 1}, shares{UINT32_MAX, 4, 3}}) {
    round_of round{3};
    round.say(said);
    CHECK(round.arranged().names == std::vector<std::uint64_t>{0, 0, 0});
    CHECK(parts_of(round.arranged()) == shares{2, 2, 2});
  }
}
