// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/template_reaction.hpp>

#include <causeway/core/rng.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::pipeline_peers;
using plan::template_set;

namespace {

template_set templates_for(std::size_t blocks, std::size_t per_peer, std::size_t peers, std::size_t failures) {
  plan::model_cost m;
  m.blocks.assign(blocks, {1, 1, 1, 0});
  auto set = plan::make_templates(m, {.memory = static_cast<double>(per_peer)}, peers, failures, 8);
  REQUIRE(set);
  return *set;
}

pipeline_peers numbered(const std::vector<std::size_t>& sizes) {
  pipeline_peers all;
  std::size_t next = 0;
  for (const std::size_t n : sizes) {
    all.emplace_back();
    for (std::size_t i = 0; i < n; ++i) all.back().push_back(next++);
  }
  return all;
}

/// Everybody is in one pipeline of a size that has a template, nobody is lost, and holds what it needs after the copies,
/// each of which came from somebody alive that had it.
void require_sound(const template_set& set, const pipeline_peers& before, const std::vector<std::size_t>& lost,
                   const plan::template_reaction& r) {
  REQUIRE(r.pipelines.size() > set.failures);
  std::set<std::size_t> seen;
  for (const auto& peers : r.pipelines) {
    REQUIRE(set.has(peers.size()));
    for (const std::size_t p : peers) {
      REQUIRE(seen.insert(p).second);
      REQUIRE(std::find(lost.begin(), lost.end(), p) == lost.end());
    }
  }
  const auto had = plan::held_blocks(set, before);
  std::set<std::pair<std::size_t, std::size_t>> has(had.begin(), had.end());
  for (const auto& c : r.copies) {
    REQUIRE(std::binary_search(had.begin(), had.end(), std::pair{c.from, c.block}));
    REQUIRE(std::find(lost.begin(), lost.end(), c.from) == lost.end());
    REQUIRE(has.emplace(c.peer, c.block).second);  // nothing is fetched twice, or without need
  }
  for (const auto& h : plan::held_blocks(set, r.pipelines)) REQUIRE(has.contains(h));
}

}  // namespace

TEST_CASE("a pipeline that lost a peer takes the smaller template and keeps to itself", "[plan][fast]") {
  const template_set set = templates_for(12, 4, 14, 1);  // sizes 3 to 11
  const auto r = plan::react(set, numbered({7, 7}), {9});
  REQUIRE(r);
  CHECK(r->pipelines == pipeline_peers{{0, 1, 2, 3, 4, 5, 6}, {7, 8, 10, 11, 12, 13}});
  CHECK(r->borrowed == 0);
  CHECK(r->merged == 0);
  for (const auto& c : r->copies) CHECK(c.peer >= 7);
}

TEST_CASE("a pipeline below n0 borrows from the largest, and merges where nobody can lend", "[plan][fast]") {
  const template_set set = templates_for(12, 4, 12, 1);  // sizes 3 to 9
  const auto borrowed = plan::react(set, numbered({3, 4, 5}), {0});
  REQUIRE(borrowed);
  CHECK(borrowed->borrowed == 1);
  CHECK(borrowed->pipelines == pipeline_peers{{1, 2, 11}, {3, 4, 5, 6}, {7, 8, 9, 10}});
  const auto merged = plan::react(set, numbered({3, 3, 3}), {4});
  REQUIRE(merged);
  CHECK(merged->merged == 1);
  CHECK(merged->pipelines.size() == 2);
  require_sound(set, numbered({3, 3, 3}), {4}, *merged);
}

TEST_CASE("every loss of up to f peers is survived without a checkpoint while enough are left", "[plan][fast]") {
  for (const std::size_t f : {1U, 2U}) {
    const template_set set = templates_for(8, 4, 10, f);  // n0 = 2
    for (const auto& sizes :
         std::vector<std::vector<std::size_t>>{{2, 2, 2}, {2, 3, 2, 3}, {4, 4, 2}, {6, 2, 2}, {2, 2, 2, 2, 2}}) {
      if (sizes.size() <= f) continue;
      bool all_have = true;
      for (const std::size_t n : sizes) all_have = all_have && set.has(n);
      REQUIRE(all_have);
      const pipeline_peers before = numbered(sizes);
      const std::size_t n = before.back().back() + 1;
      for (std::size_t bits = 0; bits < (std::size_t{1} << n); ++bits) {
        std::vector<std::size_t> lost;
        for (std::size_t p = 0; p < n; ++p) {
          if ((bits >> p & 1U) != 0) lost.push_back(p);
        }
        if (lost.size() > f) continue;
        const auto r = plan::react(set, before, lost);
        if (n - lost.size() < (f + 1) * set.smallest()) {
          REQUIRE_FALSE(r);
          REQUIRE(r.error().code == errc::out_of_memory);
          continue;
        }
        REQUIRE(r);
        require_sound(set, before, lost, *r);
      }
    }
  }
}

TEST_CASE("losses one after another go on until too few are left", "[plan][fast]") {
  rng draw{53};
  for (int round = 0; round < 30; ++round) {
    const std::size_t f = 1 + draw.below(2);
    const template_set set = templates_for(10, 3, 20, f);  // n0 = 4
    const auto choice = plan::choose_templates(set, 20, 32);
    REQUIRE(choice);
    pipeline_peers now = numbered(choice->sizes);
    for (std::size_t left = 20;;) {
      std::vector<std::size_t> alive;
      for (const auto& p : now) alive.insert(alive.end(), p.begin(), p.end());
      REQUIRE(alive.size() == left);
      const std::size_t gone = alive[draw.below(alive.size())];
      const auto r = plan::react(set, now, {gone});
      --left;
      if (left < (f + 1) * set.smallest()) {
        REQUIRE_FALSE(r);
        break;
      }
      REQUIRE(r);
      require_sound(set, now, {gone}, *r);
      now = r->pipelines;
    }
  }
}

TEST_CASE("a block whose holders are all gone sends back to the checkpoint", "[plan][fast]") {
  const template_set set = templates_for(4, 2, 8, 1);  // n0 = 2, two blocks a peer
  const auto r = plan::react(set, numbered({2, 2, 2, 2}), {0, 2, 4, 6});
  REQUIRE_FALSE(r);
  CHECK(r.error().code == errc::peer_lost);
}
