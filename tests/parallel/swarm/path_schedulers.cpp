// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/path_schedulers.hpp>

#include <causeway/stage/routing_by_chance.hpp>

#include <chrono>
#include <cstdint>
#include <set>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;
using schedulers = path_schedulers;

constexpr std::uint32_t batches = 8;
constexpr std::uint64_t turn = swarm_wire::local_turn(0);

swarm_wire::status at_stage(std::uint32_t stage) {
  swarm_wire::status s;
  s.stage = stage, s.serving = 1, s.turn = turn;
  return s;
}
swarm_wire::status on_path(std::uint32_t stage, std::uint32_t path) {
  auto s = at_stage(stage);
  s.module_path = path, s.on_path = 1;
  return s;
}

/// Two paths; peers 10, 11 of stage 0, 20, 21 of stage 1.
schedulers two_by_two() {
  schedulers all{2, stage::routing::least_load{}, 4, true};
  all.split(2);
  for (std::uint32_t s = 0; s < 2; ++s) {
    for (std::uint32_t k = 0; k < 2; ++k) all.serves(10 * (s + 1) + k, at_stage(s), 0);
  }
  all.begin(1, turn, {0, batches, 2}, batches);
  return all;
}

/// Who computes which micro-batches.
std::set<std::uint32_t> given_to(net::peer_id id, const std::vector<addressed_order>& orders) {
  std::set<std::uint32_t> all;
  for (const auto& o : orders) {
    if (o.to == id) all.insert(o.what.micro_batch);
  }
  return all;
}

void finish(schedulers& all, const std::vector<addressed_order>& orders, double loss = 0) {
  for (const auto& o : orders) {
    const bool last = o.to == o.what.path.back();
    all.take(o.to, swarm_wire::contributed{turn, o.what.micro_batch, 1, last ? loss : 0});
  }
}

}  // namespace

TEST_CASE("swarm paths: micro-batches go through peers of their path", "[parallel][fast]") {
  auto all = two_by_two();
  const auto orders = all.take_orders();
  CHECK(given_to(10, orders) == std::set<std::uint32_t>{0, 1, 2, 3});
  CHECK(given_to(20, orders) == std::set<std::uint32_t>{0, 1, 2, 3});
  CHECK(given_to(11, orders) == std::set<std::uint32_t>{4, 5, 6, 7});
  CHECK(given_to(21, orders) == std::set<std::uint32_t>{4, 5, 6, 7});
  CHECK_FALSE(all.complete());
  finish(all, orders, 2);
  CHECK(all.complete());
  CHECK(all.loss() == 16);
  CHECK(all.left_out().count() == 0);
}

TEST_CASE("swarm paths: of a report those of the peer's path count", "[parallel][fast]") {
  auto all = two_by_two();
  (void)all.take_orders();
  all.begin(2, turn, {0, batches, 2}, batches, {10, 11, 20, 21});
  CHECK(all.take_orders().empty());
  for (const net::peer_id id : {10U, 11U, 20U, 21U}) {
    swarm_wire::report r{2, turn, swarm_wire::batch_set{batches}, swarm_wire::batch_set{batches}, {}};
    for (std::uint32_t m = 0; m < batches; ++m) {
      if (id != 21 || m != 6) r.done.add(m);
      if (id >= 20 && r.done.has(m)) r.losses.push_back(m);
    }
    all.take(id, r);
  }
  CHECK(all.loss() == 0 + 1 + 2 + 3 + 4 + 5 + 7);
  const auto orders = all.take_orders();
  CHECK(given_to(11, orders) == std::set<std::uint32_t>{6});
  CHECK(given_to(21, orders) == std::set<std::uint32_t>{6});
  CHECK(given_to(10, orders).empty());
  CHECK_FALSE(all.complete());
  all.take(21, swarm_wire::contributed{turn, 6, 1, 6.0});
  CHECK(all.complete());
  CHECK(all.loss() == 28);
}

TEST_CASE("swarm paths: a round's batches each have their parts", "[parallel][fast]") {
  schedulers all{1, stage::routing::least_load{}, 16, true};
  all.split(2);
  all.serves(10, at_stage(0), 0);
  all.serves(11, at_stage(0), 0);
  all.begin(1, turn, {0, 3 * batches, 1}, batches);
  const auto orders = all.take_orders();
  for (const std::uint32_t m : given_to(10, orders)) CHECK(m % batches < 4);
  for (const std::uint32_t m : given_to(11, orders)) CHECK(m % batches >= 4);
  CHECK(given_to(10, orders).size() + given_to(11, orders).size() == 24);
}

TEST_CASE("swarm paths: who is on one stays there, and who is on none goes where the fewest are", "[parallel][fast]") {
  auto all = two_by_two();
  (void)all.take_orders();
  all.serves(12, at_stage(0), 0);       // the first of two with one peer
  all.serves(13, on_path(0, 0), 0);     // as it says
  all.serves(14, at_stage(0), 0);       // one against three
  all.serves(15, on_path(0, 0), turn);  // what it says is of an earlier round: two against three
  all.begin(2, turn, {0, 64, 2}, 64);
  const auto orders = all.take_orders();
  for (const net::peer_id id : {10U, 12U, 13U}) CHECK(*given_to(id, orders).begin() < 32);
  for (const net::peer_id id : {11U, 14U, 15U}) CHECK(*given_to(id, orders).begin() >= 32);
}

TEST_CASE("swarm paths: where there are fewer peers the last paths rest, in all stages", "[parallel][fast]") {
  schedulers all{2, stage::routing::least_load{}, 4, true};
  all.split(4);
  for (const std::uint32_t path : {0U, 1U, 3U}) all.serves(10 + path, on_path(0, path), 0);
  for (const std::uint32_t path : {1U, 2U, 3U}) all.serves(20 + path, on_path(1, path), 0);
  for (const net::peer_id id : {10U, 11U, 13U}) all.serves(id, on_path(0, static_cast<std::uint32_t>(id - 10)), turn);
  for (const net::peer_id id : {21U, 22U, 23U}) all.serves(id, on_path(1, static_cast<std::uint32_t>(id - 20)), turn);
  all.begin(1, turn, {0, batches, 2}, batches);
  const auto orders = all.take_orders();
  CHECK(given_to(13, orders) == std::set<std::uint32_t>{4, 5});
  CHECK(given_to(22, orders) == std::set<std::uint32_t>{4, 5});
  CHECK(given_to(23, orders) == std::set<std::uint32_t>{0, 1});
  CHECK(given_to(11, orders) == given_to(21, orders));
}

TEST_CASE("swarm paths: one rests that a stage has had nobody on for long, until somebody comes", "[parallel][fast]") {
  auto all = two_by_two();
  finish(all, all.take_orders(), 2);
  all.begin(1, turn + 1, {0, batches, 2}, batches);
  (void)all.take_orders();
  all.gone(21);
  for (std::uint32_t m = 0; m < 4; ++m) {
    for (const net::peer_id id : {10U, 20U}) all.take(id, swarm_wire::contributed{turn + 1, m, 1, id == 20 ? 2.0 : 0});
  }
  all.look_for_resting(time_point{1s}, 10s);
  all.look_for_resting(time_point{10s}, 10s);
  CHECK_FALSE(all.complete());
  all.look_for_resting(time_point{11s}, 10s);
  CHECK(all.complete());
  CHECK(all.judge(turn + 1).complete == 1);
  for (std::uint32_t m = 0; m < batches; ++m) CHECK(all.left_out().has(m) == (m >= 4));
  CHECK(all.loss() == 16);  // as if the others' were like it
  all.serves(22, at_stage(1), 0);
  CHECK_FALSE(all.complete());
  CHECK(all.left_out().count() == 0);
}

TEST_CASE("swarm paths: who begins to coordinate waits as long anew", "[parallel][fast]") {
  auto all = two_by_two();
  all.gone(21);
  all.look_for_resting(time_point{1s}, 10s);
  all.look_for_resting(time_point{11s}, 10s);
  CHECK(all.left_out().count() == 4);
  all.begin(2, turn, {0, batches, 2}, batches);
  CHECK(all.left_out().count() == 0);
  all.look_for_resting(time_point{12s}, 10s);
  CHECK(all.left_out().count() == 0);
  all.begin(2, turn + 1, {0, batches, 2}, batches);
  all.look_for_resting(time_point{22s}, 10s);
  CHECK(all.left_out().count() == 4);
}

TEST_CASE("swarm paths: micro-batches of no path go to all who do not rest", "[parallel][fast]") {
  auto all = two_by_two();
  (void)all.take_orders();
  all.begin(1, turn + 1, {0, batches, 2}, 0);
  auto orders = all.take_orders();
  CHECK(given_to(10, orders) == std::set<std::uint32_t>{0, 2, 4, 6});
  CHECK(given_to(11, orders) == std::set<std::uint32_t>{1, 3, 5, 7});
  all.gone(21);
  all.look_for_resting(time_point{1s}, 10s);
  all.look_for_resting(time_point{11s}, 10s);
  all.begin(1, turn + 2, {0, batches, 2}, 0);
  orders = all.take_orders();
  CHECK(given_to(10, orders).size() == 8);
  CHECK(given_to(11, orders).empty());
  CHECK(all.left_out().count() == 0);
}

TEST_CASE("swarm paths: where a stage has nobody at all it is waited for", "[parallel][fast]") {
  auto all = two_by_two();
  all.gone(20);
  all.gone(21);
  all.look_for_resting(time_point{1s}, 10s);
  all.look_for_resting(time_point{100s}, 10s);
  CHECK_FALSE(all.complete());
  CHECK(all.left_out().count() == 0);
}

}  // namespace causeway::parallel
