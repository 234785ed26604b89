// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/block_routing.hpp>

#include <causeway/core/rng.hpp>

#include <functional>

#include "support/catch.hpp"

namespace causeway::stage {
namespace {

using namespace std::chrono_literals;

constexpr time_point start{100s}, never = no_deadline;

span_offer offer(std::int64_t first, std::int64_t last, double seconds, double load = 0) {
  return {{first, last}, seconds, load, 4, 1000};
}

}  // namespace

TEST_CASE("block_routing: the quicker of two servers is taken, and the other when that changes", "[stage][fast]") {
  span_directory d{4};
  d.announced(1, offer(0, 4, 0.001), never);
  d.announced(2, offer(0, 4, 0.002), never);
  const auto chosen = [&] { return d.route({0, 4}, {10}, start).front().server; };
  CHECK(chosen() == 1);
  d.announced(1, offer(0, 4, 0.003), never);  // it says that it is slower now
  CHECK(chosen() == 2);
  d.announced(1, offer(0, 4, 0.001), never);
  CHECK(chosen() == 1);
  d.announced(1, offer(0, 4, 0.001, 5.0), never);  // others wait there
  CHECK(chosen() == 2);
  d.announced(1, offer(0, 4, 0.001), never);
  for (int i = 0; i < 3; ++i) d.answered(1, 40, 10, 9.0);  // it says it is quick, and is not
  CHECK(chosen() == 2);
  d.answered(2, 40, 10, 100.0);
  CHECK(chosen() == 1);
}

TEST_CASE("block_routing: one far server or two near ones, whichever is quicker in sum", "[stage][fast]") {
  span_directory d{4};
  d.announced(1, offer(0, 4, 0.001), never);
  d.announced(2, offer(0, 3, 0.001), never);
  d.announced(3, offer(2, 4, 0.001), never);
  d.probed(1, 0.1);
  d.probed(2, 0.02);
  d.probed(3, 0.02);
  CHECK(d.route({0, 4}, {1}, start) == span_chain{{2, {0, 3}}, {3, {3, 4}}});
  for (int i = 0; i < 20; ++i) d.probed(2, 0.09);
  CHECK(d.route({0, 4}, {1}, start) == span_chain{{1, {0, 4}}});
  CHECK(d.route({2, 4}, {1}, start) == span_chain{{3, {2, 4}}});
  CHECK(d.route({1, 3}, {1}, start) == span_chain{{2, {1, 3}}});
}

TEST_CASE("block_routing: chains are the cheapest of all, tried one by one", "[stage][fast]") {
  rng draw{3};
  constexpr std::int64_t layers = 6;
  for (int world = 0; world < 60; ++world) {
    span_directory d{layers};
    struct known {
      net::peer_id id;
      nn::block_range blocks;
      double seconds, trip;
    };
    std::vector<known> servers;
    for (net::peer_id id = 1; id <= 5; ++id) {
      const auto length = 1 + static_cast<std::int64_t>(draw.below(4));
      const auto at = static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(layers - length + 1)));
      servers.push_back({id, {at, at + length}, static_cast<double>(draw.uniform()), static_cast<double>(draw.uniform())});
      d.announced(id, offer(at, at + length, servers.back().seconds), never);
      d.probed(id, servers.back().trip);
    }
    const auto cost = [](const known& s, std::int64_t blocks) {
      return 2 * s.trip + 3 * s.seconds * static_cast<double>(blocks);
    };
    const std::function<double(std::int64_t)> cheapest = [&](std::int64_t from) {
      double best = from == layers ? 0.0 : 1e9;
      for (const known& s : servers) {
        for (std::int64_t to = from + 1; s.blocks.first <= from && to <= s.blocks.last; ++to) {
          best = std::min(best, cost(s, to - from) + cheapest(to));
        }
      }
      return best;
    };
    const auto chain = d.route({0, layers}, {1}, start);
    const double want = cheapest(0);
    if (want >= 1e9) {
      CHECK(chain.empty());
      continue;
    }
    double got = 0;
    std::int64_t at = 0;
    for (const span_hop& h : chain) {
      const known& s = servers[h.server - 1];
      CHECK((h.blocks.first == at && s.blocks.first <= at && h.blocks.last <= s.blocks.last));
      at = h.blocks.last;
      got += cost(s, h.blocks.size());
    }
    CHECK(at == layers);
    CHECK(got == Approx(want));
  }
}

TEST_CASE("block_routing: who failed is not asked for a time that doubles, and begins anew after an answer",
          "[stage][fast]") {
  span_directory d{2, {.ban = 1s, .longest_ban = 3s}};
  d.announced(1, offer(0, 2, 0.001), never);
  const auto there = [&](duration after) { return !d.route({0, 2}, {1}, start + after).empty(); };
  d.failed(1, 2, start);
  CHECK_FALSE(there(999ms));
  CHECK(d.first_missing({0, 2}, start) == 0);
  CHECK(d.next_return(start) == start + 1s);
  d.failed(1, 2, start + 500ms);  // of the same failure
  CHECK(there(1s));
  d.failed(1, 2, start + 1s);
  CHECK_FALSE(there(2999ms));
  CHECK(there(3s));
  d.failed(1, 2, start + 3s);
  CHECK_FALSE(there(5999ms));
  CHECK(there(6s));  // not four more
  d.answered(1, 2, 1, 0.1);
  d.failed(1, 2, start + 6s);
  CHECK(there(7s));
}

TEST_CASE("block_routing: a server that goes and comes back is still banned; one that falls silent is forgotten",
          "[stage][fast]") {
  span_directory d{2, {.ban = 10s}};
  d.announced(1, offer(0, 2, 0.001), start + 5s);
  d.failed(1, 2, start);
  d.gone(1);
  CHECK(d.size() == 0);
  d.expire(start);
  d.announced(1, offer(0, 2, 0.001), start + 100s);
  CHECK(d.size() == 1);
  CHECK(d.route({0, 2}, {1}, start + 9s).empty());
  CHECK_FALSE(d.route({0, 2}, {1}, start + 10s).empty());
  d.expire(start + 100s);
  CHECK(d.size() == 0);
  CHECK(d.route({0, 2}, {1}, start + 101s).empty());
}

TEST_CASE("block_routing: requests that wait count, and no server gets more than it takes", "[stage][fast]") {
  span_directory d{1};
  d.announced(1, {{0, 1}, 0.001, 0, 2, 100}, never);
  d.announced(2, {{0, 1}, 0.002, 0, 2, 100}, never);
  std::vector<net::peer_id> order;
  for (int i = 0; i < 4; ++i) {
    order.push_back(d.route({0, 1}, {10}, start).front().server);
    d.asked(order.back(), 10);
  }
  CHECK(order == std::vector<net::peer_id>{1, 1, 2, 2});
  CHECK(d.full(1));
  CHECK(d.route({0, 1}, {10}, start).empty());
  d.dropped(1, 10);
  CHECK_FALSE(d.full(1));
  CHECK(d.route({0, 1}, {10}, start).front().server == 1);
  d.failed(2, 10, start);  // the other one that it was asked is still under way
  CHECK_FALSE(d.full(2));
  d.asked(2, 10);
  CHECK(d.full(2));
}

TEST_CASE("block_routing: no hop takes more rows, with those of what is tuned, than its server does", "[stage][fast]") {
  span_directory d{4};
  d.announced(1, {{0, 4}, 0.001, 0, 4, 20}, never);
  CHECK(d.route({0, 4}, {20}, start).size() == 1);
  CHECK(d.route({0, 4}, {21}, start).empty());
  CHECK(d.route({0, 4}, {16, 2}, start) == span_chain{{1, {0, 2}}, {1, {2, 4}}});
}

TEST_CASE("block_routing: a server of which nothing was measured is as far as the others on average", "[stage][fast]") {
  span_directory d{1};
  d.announced(1, offer(0, 1, 0.001), never);
  d.announced(2, offer(0, 1, 0.002), never);
  d.probed(1, 0.1);
  CHECK(d.route({0, 1}, {1}, start).front().server == 1);
}

TEST_CASE("block_routing: a server that was slow is tried again some day", "[stage][fast]") {
  span_directory d{1};
  for (const net::peer_id id : {1U, 2U}) d.announced(id, offer(0, 1, 0.001), never);
  d.probed(1, 0.01);
  d.probed(2, 0.1);
  d.answered(1, 1, 1, 60.0);
  CHECK(d.route({0, 1}, {1}, start).front().server == 2);
  int announcements = 0;
  while (d.route({0, 1}, {1}, start).front().server == 2 && announcements < 2000) {
    d.announced(1, offer(0, 1, 0.001), never);
    ++announcements;
  }
  CHECK((announcements > 100 && announcements < 1000));
}

}  // namespace causeway::stage
