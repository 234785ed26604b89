// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/swarm_scheduler.hpp>

#include <causeway/stage/routing_by_chance.hpp>
#include <causeway/stage/routing_skip.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using stage::routing::least_load;
using stage::routing::step_size;
using swarm_wire::stage_need;

constexpr std::uint32_t stages = 3, batches = 8;
constexpr std::uint64_t turn = swarm_wire::training_turn(0);

/// Peers 10, 11 of stage 0, 20, 21 of stage 1, 30, 31 of stage 2.
swarm_scheduler six_peers(std::uint32_t window = 2) {
  swarm_scheduler d{stages, least_load{}, window};
  for (std::uint32_t s = 0; s < stages; ++s) {
    d.serves(10 * (s + 1), s);
    d.serves(10 * (s + 1) + 1, s);
  }
  d.begin(1, turn, step_size{0, batches, stages});
  return d;
}

/// The newest path of each micro-batch.
std::map<std::uint32_t, swarm_wire::order> newest(std::vector<addressed_order> orders) {
  std::map<std::uint32_t, swarm_wire::order> all;
  for (const auto& o : orders) {
    auto& known = all[o.what.micro_batch];
    if (o.what.version >= known.version) known = o.what;
  }
  return all;
}

void finish(swarm_scheduler& d, const swarm_wire::order& o, std::uint32_t from_stage = 0) {
  for (std::uint32_t s = stages; s-- > from_stage;)
    d.take(o.path[s], swarm_wire::contributed{turn, o.micro_batch, 1, s == 2 ? 2.0 : 0});
}

}  // namespace

TEST_CASE("swarm scheduler: every micro-batch gets a whole path, and no more are under way than the window",
          "[parallel][fast]") {
  auto d = six_peers(1);
  const auto orders = d.take_orders();
  CHECK(orders.size() == 6 * stages);  // one for each peer
  CHECK(d.under_way() == 6);
  for (const auto& [m, o] : newest(orders)) {
    for (std::uint32_t s = 0; s < stages; ++s) CHECK(o.path[s] / 10 == s + 1);
  }
}

TEST_CASE("swarm scheduler: the step is complete when all stages have all micro-batches, and the loss is their sum",
          "[parallel][fast]") {
  auto d = six_peers(8);
  const auto paths = newest(d.take_orders());
  REQUIRE(paths.size() == batches);
  for (const auto& [m, o] : paths) {
    CHECK_FALSE(d.complete());
    finish(d, o);
    finish(d, o);  // told twice
  }
  CHECK(d.complete());
  CHECK(d.loss() == 2.0 * batches);
}

TEST_CASE("swarm scheduler: only what a lost peer had is routed again, and neighbours that are done are told so",
          "[parallel][fast]") {
  auto d = six_peers(8);
  const auto paths = newest(d.take_orders());
  std::set<std::uint32_t> lost;
  for (const auto& [m, o] : paths) {
    finish(d, o);
    if (o.path[1] == 20) lost.insert(m);
  }
  REQUIRE(!lost.empty());
  d.gone(20);
  CHECK_FALSE(d.complete());
  const auto again = newest(d.take_orders());
  CHECK(again.size() == lost.size());
  for (const auto& [m, o] : again) {
    CHECK(lost.contains(m));
    CHECK(o.path == stage::routing::path{paths.at(m).path[0], 21, paths.at(m).path[2]});
    CHECK(o.needs == std::vector{stage_need::finished, stage_need::again, stage_need::finished});
    d.take(21, swarm_wire::contributed{turn, m, 1, 0});
  }
  CHECK(d.complete());
  CHECK(d.rerouted() == lost.size());
}

TEST_CASE("swarm scheduler: a stage without peers stalls, and goes on with the first that comes", "[parallel][fast]") {
  auto d = six_peers(8);
  (void)d.take_orders();
  d.gone(20);
  d.gone(21);
  (void)d.take_orders();
  CHECK(d.unserved() == std::vector<std::uint32_t>{1});
  d.serves(22, 1);
  d.take(22, swarm_wire::report{1, turn, swarm_wire::batch_set{batches}, swarm_wire::batch_set{batches}, {}});
  const auto again = newest(d.take_orders());
  REQUIRE(again.size() == batches);
  for (const auto& [m, o] : again) CHECK(o.path[1] == 22);
}

TEST_CASE("swarm scheduler: a stage that has its sum loses nothing more, unless the sum is lost", "[parallel][fast]") {
  auto d = six_peers(8);
  for (const auto& [m, o] : newest(d.take_orders())) finish(d, o);
  d.summed(1, true);
  d.gone(20);
  CHECK(d.complete());
  d.summed(1, false);
  CHECK_FALSE(d.complete());
}

TEST_CASE("swarm scheduler: who takes over waits for reports, and starts nothing that is done or begun",
          "[parallel][fast]") {
  swarm_scheduler d{stages, least_load{}, 8};
  for (std::uint32_t s = 0; s < stages; ++s) d.serves(10 * (s + 1), s);
  d.begin(4, turn, step_size{0, batches, stages}, {10, 20, 30});
  CHECK(d.take_orders().empty());
  swarm_wire::batch_set all{batches}, none{batches}, one{batches};
  for (std::uint32_t m = 0; m < batches; ++m) all.add(m);
  one.add(5);
  d.take(30, swarm_wire::report{4, turn, all, none, std::vector<double>(batches, 1.0)});
  d.take(20, swarm_wire::report{4, turn, none, all, {}});
  CHECK(d.take_orders().empty());
  d.take(10, swarm_wire::report{4, turn, one, none, {}});
  const auto orders = newest(d.take_orders());
  REQUIRE(orders.size() == batches);
  CHECK(orders.at(5).needs == std::vector{stage_need::finished, stage_need::again, stage_need::finished});
  CHECK(d.loss() == batches);
}

TEST_CASE("swarm scheduler: a peer that had to drop its gradient computes it again", "[parallel][fast]") {
  auto d = six_peers(8);
  for (const auto& [m, o] : newest(d.take_orders())) finish(d, o);
  REQUIRE(d.complete());
  d.take(20, swarm_wire::report{1, turn, swarm_wire::batch_set{batches}, swarm_wire::batch_set{batches}, {}});
  CHECK_FALSE(d.complete());
  for (const auto& [m, o] : newest(d.take_orders())) d.take(o.path[1], swarm_wire::contributed{turn, m, 1, 0});
  CHECK(d.complete());
}

TEST_CASE("swarm scheduler: who sent what is of no use gets nothing new until the next turn", "[parallel][fast]") {
  auto d = six_peers(1);
  auto first = newest(d.take_orders());
  const auto bad = std::find_if(first.begin(), first.end(), [](const auto& o) { return o.second.path[1] == 20; });
  REQUIRE(bad != first.end());
  d.failed(20, turn + 1, bad->first);  // of another turn
  CHECK(d.take_orders().empty());
  d.failed(20, turn, bad->first);
  auto again = newest(d.take_orders());
  REQUIRE(again.size() == 1);
  CHECK(again.at(bad->first).path == stage::routing::path{bad->second.path[0], 21, bad->second.path[2]});
  d.serves(20, 1);  // it is there, as it says with every heartbeat
  for (const auto& [m, o] : first) finish(d, m == bad->first ? again.at(m) : o);
  for (const auto& [m, o] : newest(d.take_orders())) CHECK(o.path[1] == 21);
  d.begin(1, turn + 1, step_size{1, batches, stages});
  bool chosen = false;
  for (const auto& [m, o] : newest(d.take_orders())) chosen = chosen || o.path[1] == 20;
  CHECK(chosen);
}

namespace {

/// The same six, where the peers of a stage hold different values.
swarm_scheduler six_that_differ(std::uint64_t t = turn) {
  swarm_scheduler d{stages, least_load{}, 8, true};
  for (std::uint32_t s = 0; s < stages; ++s) {
    d.serves(10 * (s + 1), s);
    d.serves(10 * (s + 1) + 1, s);
  }
  d.begin(1, t, step_size{0, batches, stages});
  return d;
}

}  // namespace

TEST_CASE("swarm scheduler: where peers of a stage differ, what a lost one had begins anew there and above",
          "[parallel][fast]") {
  constexpr std::uint64_t local = swarm_wire::local_turn(0);
  auto d = six_that_differ(local);
  const auto paths = newest(d.take_orders());
  std::set<std::uint32_t> lost;
  for (const auto& [m, o] : paths) {
    CHECK(o.passes == std::vector(3, o.version));
    d.take(o.path[2], swarm_wire::contributed{local, m, 1, 2.0});
    d.take(o.path[1], swarm_wire::contributed{local, m, 1, 0});
    if (o.path[1] == 20) lost.insert(m);
  }
  REQUIRE(!lost.empty());
  d.gone(20);
  const auto again = newest(d.take_orders());
  CHECK(again.size() == lost.size());
  for (const auto& [m, o] : again) {
    const auto& before = paths.at(m);
    CHECK(o.path == stage::routing::path{before.path[0], 21, before.path[2]});
    // The first stage has not contributed and waits for the new gradient; the last has, and computes for the others' sake.
    CHECK(o.needs == std::vector{stage_need::usual, stage_need::again, stage_need::again});
    CHECK(o.passes == std::vector{before.version, o.version, o.version});
  }
}

TEST_CASE("swarm scheduler: a peer that was out of reach has forgotten, and begins anew where it alone serves",
          "[parallel][fast]") {
  swarm_scheduler d{stages, least_load{}, 8, true};
  for (std::uint32_t s = 0; s < stages; ++s) d.serves(10 * (s + 1), s);
  d.begin(1, swarm_wire::local_turn(0), step_size{0, batches, stages});
  const auto paths = newest(d.take_orders());
  d.gone(20);
  CHECK(d.take_orders().empty());
  d.serves(20, 1);
  d.take(20,
         swarm_wire::report{1, swarm_wire::local_turn(0), swarm_wire::batch_set{batches}, swarm_wire::batch_set{batches}});
  const auto again = newest(d.take_orders());
  REQUIRE(again.size() == batches);
  for (const auto& [m, o] : again) {
    CHECK(o.path[1] == 20);
    CHECK(o.passes == std::vector{paths.at(m).version, o.version, o.version});
  }
}

TEST_CASE("swarm scheduler: the turn before an exchange waits for what peers have, and has only the rest computed",
          "[parallel][fast]") {
  swarm_scheduler d{stages, least_load{}, 8, true};
  for (std::uint32_t s = 0; s < stages; ++s) d.serves(10 * (s + 1), s);
  d.begin(1, turn, step_size{0, batches, stages}, {10, 20, 30});
  swarm_wire::batch_set all{batches}, some{batches};
  const swarm_wire::batch_set none{batches};
  for (std::uint32_t m = 0; m < batches; ++m) all.add(m);
  some.add(5);
  d.take(10, swarm_wire::report{1, turn, all, none, {}});
  d.take(30, swarm_wire::report{1, turn, all, none, {}});
  d.take(20, swarm_wire::report{1, swarm_wire::local_turn(0), none, none, {}});  // still in its last local step
  CHECK(d.take_orders().empty());
  CHECK_FALSE(d.complete());
  d.take(20, swarm_wire::report{1, turn, some, none, {}});
  const auto orders = newest(d.take_orders());
  CHECK(orders.size() == batches - 1);
  CHECK_FALSE(orders.contains(5));
  for (const auto& [m, o] : orders) {
    CHECK(o.passes == std::vector(3, o.version));  // nobody has kept anything of it
    d.take(20, swarm_wire::contributed{turn, m, 1, 0});
  }
  CHECK(d.complete());
}

TEST_CASE("swarm scheduler: a report on a turn with more micro-batches leaves nothing behind", "[parallel][fast]") {
  swarm_scheduler d{stages, least_load{}, 8};
  for (std::uint32_t s = 0; s < stages; ++s) d.serves(10 * (s + 1), s);
  d.begin(1, turn, step_size{0, batches, stages}, {10, 20});
  swarm_wire::batch_set all{batches};
  for (std::uint32_t m = 0; m < batches; ++m) all.add(m);
  d.take(10, swarm_wire::report{1, turn, all, swarm_wire::batch_set{batches}, {}});
  d.begin(1, turn + 1, step_size{1, 2, stages});
  CHECK(newest(d.take_orders()).size() == 2);
}

TEST_CASE("swarm scheduler: an evaluation is over when the last stage has all losses", "[parallel][fast]") {
  constexpr std::uint64_t evaluation = swarm_wire::evaluation_turn(3, 0);
  auto d = six_peers(8);
  (void)d.take_orders();
  d.begin(1, evaluation, step_size{3, batches, stages});
  const auto paths = newest(d.take_orders());
  REQUIRE(paths.size() == batches);
  for (const auto& [m, o] : paths) {
    CHECK_FALSE(d.complete());
    for (std::uint32_t s = 0; s < stages; ++s)
      d.take(o.path[s], swarm_wire::contributed{evaluation, m, 0, s == 2 ? 2.0 : 0});
  }
  CHECK(d.complete());
  CHECK(d.loss() == 2.0 * batches);
  d.gone(20);  // what it computed has been used
  CHECK(d.complete());
  CHECK(d.take_orders().empty());
}

TEST_CASE("swarm scheduler: stages that a micro-batch leaves out are not waited for", "[parallel][fast]") {
  swarm_scheduler d{4, stage::routing::skip<>{}, 8};
  for (std::uint32_t s = 0; s < 4; ++s) d.serves(10 * (s + 1), s);
  d.begin(1, turn, step_size{0, 4, 4});
  for (const auto& [m, o] : newest(d.take_orders())) {
    CHECK(std::count(o.path.begin(), o.path.end(), net::peer_id{0}) == 1);
    for (const auto p : o.path) {
      if (p != 0) d.take(p, swarm_wire::contributed{turn, m, 1, 0});
    }
  }
  CHECK(d.complete());
}

TEST_CASE("swarm scheduler: strangers, other steps and numbers beyond the batch change nothing", "[parallel][fast]") {
  auto d = six_peers(8);
  (void)d.take_orders();
  d.take(99, swarm_wire::contributed{turn, 0, 1, 0});
  d.take(10, swarm_wire::contributed{turn + 1, 0, 1, 0});
  d.take(10, swarm_wire::contributed{turn, batches, 1, 0});
  d.take(10, swarm_wire::report{1, turn, swarm_wire::batch_set{1000}, swarm_wire::batch_set{1000}, {}});
  CHECK(d.finished() == 0);
}

TEST_CASE("swarm scheduler: who sends what is of no use again and again gets nothing for longer each time",
          "[parallel][fast]") {
  auto d = six_peers(8);
  std::uint64_t step = 0;
  const auto begin = [&] {
    d.begin(1, swarm_wire::training_turn(step), step_size{step, batches, stages});
    const auto orders = newest(d.take_orders());
    return std::any_of(orders.begin(), orders.end(), [](const auto& o) { return o.second.path[1] == 20; });
  };
  std::vector<std::uint64_t> left_out;
  for (int offence = 0; offence < 4; ++offence) {
    d.failed(20, swarm_wire::training_turn(step), 0);
    std::uint64_t without = 0;
    for (++step; !begin(); ++step) ++without;
    left_out.push_back(without);
    if (offence == 1) {  // coming back is no pardon
      d.failed(20, swarm_wire::training_turn(step), 0);
      d.gone(20);
      d.serves(20, 1);
      without = 0;
      for (++step; !begin(); ++step) ++without;
      left_out.push_back(without);
    }
  }
  CHECK(left_out == std::vector<std::uint64_t>{0, 1, 3, 7, 15});
  step += 200;
  CHECK(begin());
  d.failed(20, swarm_wire::training_turn(step), 0);
  ++step;
  CHECK(begin());  // that was long ago
}

TEST_CASE("swarm scheduler: what is under way and through is counted as it changes", "[parallel][fast]") {
  auto d = six_peers(8);
  const auto paths = newest(d.take_orders());
  CHECK(d.under_way() == batches);
  std::uint32_t through = 0;
  for (const auto& [m, o] : paths) {
    finish(d, o);
    CHECK(d.finished() == ++through);
    CHECK(d.under_way() == batches - through);
  }
  d.gone(20);
  const auto again = static_cast<std::uint32_t>(newest(d.take_orders()).size());
  CHECK(d.finished() == batches - again);
  CHECK(d.under_way() == again);
  d.summed(1, true);
  CHECK(d.finished() == batches);
  d.summed(1, false);
  CHECK(d.under_way() == again);
  d.begin(1, turn + 1, step_size{0, batches, stages});
  CHECK(d.finished() == 0);
}

}  // namespace causeway::parallel
