// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/schedule_check.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/plan/schedules.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using plan::operation;
using plan::schedule;
using plan::work;

namespace {

std::string complaint(const schedule& s) {
  const auto checked = plan::check(s);
  return checked ? "" : checked.error().text();
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("A schedule with a planted mistake is refused, with rank, position and operation", "[plan][fast]") {
  const schedule good = *plan::one_f_one_b(3, 4);  // rank 0: F0 F1 F2 B0 F3 B1 B2 B3
  REQUIRE(complaint(good).empty());
  schedule s = good;

  SECTION("a missing backward") {
    s.orders[1].erase(s.orders[1].begin() + 2);
    s.orders[1].push_back({work::recompute, 0});
    CHECK(says(complaint(s), "rank 1: B0 is missing"));  // though there are as many operations
    s.orders[1].back() = {work::forward, 0};
    CHECK(says(complaint(s), "rank 1, position 7, F0: stands here for the second time"));
    s.orders[1].pop_back();
    CHECK(says(complaint(s), "rank 1: its 7 operations are fewer"));
  }
  SECTION("a missing operation among enough") {
    s = plan::with_recompute(good);
    s.orders[0].erase(std::find(s.orders[0].begin(), s.orders[0].end(), operation{work::backward, 3}));
    CHECK(says(complaint(s), "rank 0: B3 is missing"));
    s = *plan::zero_bubble(3, 4);
    std::erase(s.orders[2], operation{work::weight_gradient, 1});
    CHECK(says(complaint(s), "rank 2: W1 is missing"));
  }
  SECTION("swapped backwards") {
    std::swap(s.orders[0][5], s.orders[0][6]);
    CHECK(says(complaint(s), "rank 0, position 5, B2: gradients must be added up in the order"));
    s.flushes = false;  // whoever updates at once has no sum
    CHECK(says(complaint(s), "deadlock") == false);
  }
  SECTION("a backward before its forward") {
    std::swap(s.orders[2][0], s.orders[2][1]);
    CHECK(says(complaint(s), "rank 2, position 0, B0: stands before its forward"));
  }
  SECTION("both a backward and a half") {
    s.orders[0].push_back({work::input_gradient, 1});
    CHECK(says(complaint(s), "rank 0, position 8, I1: repeats a gradient"));
    s.orders[0].back() = {work::weight_gradient, 1};
    CHECK(says(complaint(s), "rank 0, position 8, W1: repeats a gradient"));
  }
  SECTION("a weight gradient before its input gradient") {
    s = *plan::zero_bubble(3, 4);
    std::swap(s.orders[0][3], s.orders[0][4]);
    CHECK(says(complaint(s), "rank 0, position 3, W0: stands before its input gradient"));
  }
  SECTION("a recompute after the gradient") {
    s = plan::with_recompute(good);
    std::swap(s.orders[0][3], s.orders[0][4]);
    CHECK(says(complaint(s), "rank 0, position 4, R0: stands after the gradient that needs it"));
  }
  SECTION("a micro-batch, a chunk or a kind that there is not") {
    s.orders[0][0].micro_batch = 4;
    CHECK(says(complaint(s), "rank 0, position 0, F4: the schedule has no such micro-batch or chunk"));
    s.orders[0][0] = {work::forward, 0, 1};
    CHECK(says(complaint(s), "rank 0, position 0, F0.1: the schedule has no such micro-batch or chunk"));
    s.orders[0][0] = {static_cast<work>(200), 0};
    CHECK(says(complaint(s), "rank 0, position 0, ?0: no such kind"));
  }
  SECTION("ranks without an order, and sizes of nothing") {
    s.orders.pop_back();
    CHECK(says(complaint(s), "orders for 2 of 3 ranks"));
    s.ranks = 0;
    CHECK(says(complaint(s), "at least one rank"));
    s = good;
    s.micro_batches = 4'000'000'000;  // must not allocate for them
    s.chunks = 4'000'000'000;
    CHECK(says(complaint(s), "rank 0: its 8 operations are fewer"));
  }
}

TEST_CASE("Ranks that wait for each other in a circle are found", "[plan][fast]") {
  // rank 0 wants the gradient of 0 before it sends 1, rank 1 wants 1 before it gives the gradient of 0
  schedule s{2, 1, 2, true, {}};
  s.orders = {{{work::forward, 0}, {work::backward, 0}, {work::forward, 1}, {work::backward, 1}},
              {{work::forward, 0}, {work::forward, 1}, {work::backward, 0}, {work::backward, 1}}};
  const std::string text = complaint(s);
  CHECK(says(text, "rank 0, position 1, B0: deadlock: waits for rank 1, chunk 0"));

  // one rank alone can do it, with its own chunks
  schedule alone{
      1, 2, 1, true, {{{work::forward, 0, 1}, {work::forward, 0, 0}, {work::backward, 0, 1}, {work::backward, 0}}}};
  CHECK(says(complaint(alone), "rank 0, position 0, F0.1: deadlock: waits for rank 0, chunk 0"));
  std::swap(alone.orders[0][0], alone.orders[0][1]);
  CHECK(complaint(alone).empty());
}

TEST_CASE("The first operation beyond a bound of memory is named", "[plan][fast]") {
  const schedule s = *plan::one_f_one_b(3, 4);
  CHECK(plan::check(s, {3, 0}));
  const auto tight = plan::check(s, {2, 0});
  REQUIRE_FALSE(tight);
  CHECK(says(tight.error().text(), "rank 0, position 2, F2: would hold 3 sets of activations and 0 stored inputs"));
  const schedule stored = plan::with_recompute(s);
  CHECK(plan::check(stored, {1, 3}));
  CHECK(says(plan::check(stored, {1, 2}).error().text(), "rank 0, position 2, F2: would hold 0 sets of activations and 3"));
}

TEST_CASE("A random exchange of two operations is refused exactly if the rules forbid it", "[plan][fast]") {
  // The rules once more, as a fixed point over a table instead of a run: an operation may go when all it needs has gone.
  const auto legal = [](const schedule& s) {
    std::vector<std::vector<bool>> gone(s.ranks, std::vector<bool>(s.orders[0].size()));
    const auto has = [&](std::uint32_t rank, work kind, std::uint32_t micro_batch) {
      const auto& order = s.orders[rank];
      const auto at = std::find(order.begin(), order.end(), operation{kind, micro_batch});
      return gone[rank][static_cast<std::size_t>(at - order.begin())];
    };
    std::size_t left = s.ranks * s.orders[0].size();
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t r = 0; r < s.ranks; ++r) {
        for (std::size_t i = 0; i < s.orders[r].size(); ++i) {
          const auto [kind, micro_batch, chunk] = s.orders[r][i];
          if (gone[r][i] || (i > 0 && !gone[r][i - 1])) continue;
          const bool forward = kind == work::forward;
          if (forward && r > 0 && !has(r - 1, kind, micro_batch)) continue;
          if (!forward && r + 1 < s.ranks && !has(r + 1, kind, micro_batch)) continue;
          if (!forward && !has(r, work::forward, micro_batch)) continue;
          if (!forward && micro_batch > 0 && !has(r, kind, micro_batch - 1)) continue;
          gone[r][i] = moved = true;
          --left;
        }
      }
    }
    return left == 0;
  };
  rng draw{11};
  int refused = 0, accepted = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const auto p = static_cast<std::uint32_t>(2 + draw.below(3)), m = static_cast<std::uint32_t>(2 + draw.below(4));
    schedule s = *plan::one_f_one_b(p, m);
    for (std::uint64_t n = draw.below(2) + 1; n > 0; --n) {
      auto& order = s.orders[draw.below(p)];
      const std::size_t i = draw.below(order.size() - 1);
      std::swap(order[i], order[i + 1]);
    }
    const bool good = legal(s);
    CHECK(complaint(s).empty() == good);
    ++(good ? accepted : refused);
  }
  CHECK(refused > 50);
  CHECK(accepted > 50);
}
