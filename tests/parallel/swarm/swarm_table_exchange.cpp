// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_table_exchange.hpp>

#include <causeway/parallel/swarm/swarm_messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

constexpr std::size_t piece = swarm_wire::table_piece_values;

std::vector<float> counting(std::size_t length, float from = 0) {
  std::vector<float> v(length);
  std::iota(v.begin(), v.end(), from);
  return v;
}

/// Asks peer 9 for the table of step 4.
swarm_table_fetch fetch_of(std::span<const float> table) {
  swarm_table_fetch f;
  f.want(4, table.size());
  f.ask(9);
  return f;
}
bool is_here(const swarm_table_fetch& f, std::span<const float> table) {
  return std::equal(f.values().begin(), f.values().end(), table.begin(), table.end());
}

/// Answers what is asked, until nothing is or so many pieces have gone.
bool serve(swarm_table_fetch& f, std::span<const float> table, std::uint64_t version, std::size_t most = SIZE_MAX) {
  for (;;) {
    const auto due = f.take_requests();
    if (due.empty()) return false;
    for (const auto& r : due) {
      if (most-- == 0) return false;
      if (f.take(f.source(), answer(r, table, version))) return true;
    }
  }
}

}  // namespace

TEST_CASE("swarm table exchange: a table comes in pieces, so many under way", "[parallel][fast]") {
  const auto table = counting(20 * piece + 5);
  swarm_table_fetch f;
  CHECK_FALSE(f.looks_for_a_source());
  f.want(4, table.size());
  CHECK(f.looks_for_a_source());
  CHECK(f.take_requests().empty());
  f.ask(9);
  CHECK_FALSE(f.looks_for_a_source());
  const auto due = f.take_requests();
  CHECK(due.size() == swarm_table_fetch::window);
  CHECK(f.take_requests().empty());
  CHECK_FALSE(f.take(9, answer(due[3], table, 1)));  // in any order
  CHECK(f.take_requests().size() == 1);
  f.ask(9);
  CHECK_FALSE(f.has(4));
  CHECK(serve(f, table, 1));
  CHECK(f.has(4));
  CHECK_FALSE(f.has(5));
  CHECK(is_here(f, table));
  f.want(4, table.size());  // stays
  CHECK(f.has(4));
  f.lost(9);
  CHECK(f.has(4));
  CHECK_FALSE(f.looks_for_a_source());
  f.keep_only(5);
  CHECK_FALSE(f.has(4));
}

TEST_CASE("swarm table exchange: repeats, and what was not asked for, are passed over", "[parallel][fast]") {
  const auto table = counting(2 * piece), other = counting(2 * piece, 7);
  swarm_table_fetch f = fetch_of(table);
  CHECK_FALSE(f.take(9, answer({4, 0}, table, 1)));
  CHECK_FALSE(f.take(9, answer({4, 0}, other, 1)));
  CHECK_FALSE(f.take(8, answer({4, 1}, other, 1)));  // it was not asked
  CHECK_FALSE(f.take(9, answer({3, 1}, other, 1)));  // another step
  CHECK(f.take(9, answer({4, 1}, table, 1)));
  CHECK_FALSE(f.take(9, answer({4, 1}, other, 1)));
  CHECK(is_here(f, table));
}

TEST_CASE("swarm table exchange: when its source is lost another gives all of it", "[parallel][fast]") {
  const auto table = counting(12 * piece), other = counting(12 * piece, 1);
  swarm_table_fetch f = fetch_of(table);
  CHECK_FALSE(serve(f, table, 1, 10));
  f.lost(8);
  CHECK_FALSE(f.looks_for_a_source());
  f.lost(9);
  CHECK(f.looks_for_a_source());
  f.ask(8);
  CHECK(serve(f, other, 1));  // rounded differently: no piece of the first is left
  CHECK(is_here(f, other));
}

TEST_CASE("swarm table exchange: a sum that is made again on the way is asked for from the beginning", "[parallel][fast]") {
  const auto table = counting(12 * piece), again = counting(12 * piece, 1);
  swarm_table_fetch f = fetch_of(table);
  CHECK_FALSE(serve(f, table, 1, 10));
  CHECK_FALSE(f.take(9, answer({4, 11}, again, 2)));
  CHECK(f.looks_for_a_source());
  f.ask(9);
  CHECK(serve(f, again, 2));
  CHECK(is_here(f, again));
}

TEST_CASE("swarm table exchange: who has nothing, or something else, is not asked again at once", "[parallel][fast]") {
  const auto table = counting(piece + 1);
  for (const auto& useless : {answer({4, 0}, {}, 1), answer({4, 0}, std::span{table}.first(5), 1),
                              swarm_wire::table_piece{4, 2, 1, {1.0F}}, swarm_wire::table_piece{4, 1, 1, {1, 2}}}) {
    swarm_table_fetch f = fetch_of(table);
    CHECK_FALSE(f.take(9, useless));
    CHECK(f.looks_for_a_source());
    CHECK(f.refused(9));
    f.forgive();
    CHECK_FALSE(f.refused(9));
    f.ask(9);
    CHECK(serve(f, table, 1));
  }
}

TEST_CASE("swarm table exchange: a piece is bounded and finite", "[parallel][fast]") {
  using namespace swarm_wire;
  const auto back = [](std::vector<float> values) { return decode(5, encode(5, table_piece{1, 2, 3, std::move(values)})); };
  const auto good = back(counting(piece));
  REQUIRE(good);
  CHECK(std::get<table_piece>(*good).values == counting(piece));
  CHECK(back({}));
  CHECK_FALSE(back(counting(piece + 1)));
  CHECK_FALSE(back({1, std::numeric_limits<float>::quiet_NaN()}));
  CHECK_FALSE(back({std::numeric_limits<float>::infinity()}));
  CHECK(encode(5, table_piece{1, 2, 3, counting(piece)}).size() <= net::max_post_bytes);
}

}  // namespace causeway::parallel
