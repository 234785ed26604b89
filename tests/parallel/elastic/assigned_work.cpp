// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/elastic/assigned_work.hpp>

#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/stage/recovery_swapped.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "stage/cluster_snapshots.hpp"
#include "support/catch.hpp"

namespace causeway {
namespace {

constexpr std::int64_t layers = 6;

stage::layout whole(std::int64_t stages, std::uint32_t micro_batches, std::uint64_t peers) {
  return stage::recovery::regroup{stages}.arrange(newcomers(layers, micro_batches, peers)).value();
}

std::uint32_t count(const parallel::assigned_work& w, plan::work kind) {
  const auto& order = w.schedule.orders[w.rank];
  return static_cast<std::uint32_t>(
      std::count_if(order.begin(), order.end(), [&](const plan::operation& op) { return op.kind == kind; }));
}

}  // namespace

TEST_CASE("assigned work: where every stage has a peer a pipeline does its own share", "[parallel][fast]") {
  const stage::layout l = whole(2, 5, 4);
  const auto w = parallel::work_of(l, {1, 0}, stage::one_f_one_b{}, stage::recovery::regroup{2});
  REQUIRE(w);
  CHECK(w->first == 3);
  CHECK(w->schedule.micro_batches == 2);
  CHECK(w->rank == 0);
  CHECK(w->routes.empty());
  CHECK((w->peers == std::vector<std::uint64_t>{l.replicas[1].assignments[0].peer, l.replicas[1].assignments[1].peer}));
  CHECK(w->window == 2);
}

TEST_CASE("assigned work: a pipeline without micro-batches has nothing to do", "[parallel][fast]") {
  stage::layout l = whole(2, 4, 4);
  l.replicas[0].micro_batches = 4;
  l.replicas[1].micro_batches = 0;
  CHECK(parallel::work_of(l, {1, 0}, stage::one_f_one_b{}, stage::recovery::regroup{2})->schedule.micro_batches == 0);
  CHECK(parallel::forwards_of(l, {1, 1})->schedule.micro_batches == 0);
}

TEST_CASE("assigned work: where a stage has nobody every micro-batch goes once through every stage", "[parallel][fast]") {
  stage::recovery::reroute policy{3};
  stage::layout l = whole(3, 7, 6);
  l.replicas[1].assignments[1].peer = stage::nobody;
  REQUIRE(l.check(layers, 7));
  std::map<std::uint32_t, std::uint32_t> forwards, weights, evaluated;  // of each stage
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t s = 0; s < 3; ++s) {
      if (l.replicas[r].assignments[s].peer == stage::nobody) continue;
      const auto w = parallel::work_of(l, {r, s}, stage::one_f_one_b{}, policy);
      REQUIRE(w);
      CHECK(w->first == 0);
      CHECK(w->schedule.micro_batches == 7);
      CHECK((w->peers == l.assigned()));
      CHECK((w->routes == l.routes()));
      for (const plan::operation& op : w->schedule.orders[w->rank]) {
        CHECK(op.chunk == 0);
        CHECK(w->peers[w->routes[op.micro_batch][s]] == l.replicas[r].assignments[s].peer);
      }
      forwards[w->rank] += count(*w, plan::work::forward);
      weights[w->rank] += count(*w, plan::work::weight_gradient);
      const auto f = parallel::forwards_of(l, {r, s});
      evaluated[f->rank] += count(*f, plan::work::forward);
      CHECK(f->schedule.orders[f->rank].size() == count(*f, plan::work::forward));
    }
  }
  for (std::uint32_t s = 0; s < 3; ++s) {
    CHECK(forwards[s] == 7);
    CHECK(weights[s] == 7);
    CHECK(evaluated[s] == 7);
  }
  // a policy that never leaves a stage without a peer has no order for it
  CHECK(parallel::work_of(l, {0, 0}, stage::one_f_one_b{}, stage::recovery::regroup{3}).error().code ==
        errc::invalid_argument);
}

TEST_CASE("assigned work: in a ring a peer has the places of its micro-batches, and the first has both ends",
          "[parallel][fast]") {
  stage::recovery::swapped_neighbours policy;
  const stage::layout l = policy.arrange(newcomers(layers, 5, 10)).value();  // two pipelines: three micro-batches and two
  REQUIRE(l.check(layers, 5));
  for (std::size_t s = 0; s < 5; ++s) {
    const auto w = parallel::work_of(l, {1, s}, stage::one_f_one_b{}, policy);
    REQUIRE(w);
    CHECK(w->first == 3);
    CHECK(w->schedule.micro_batches == 2);
    CHECK(w->schedule.chunks == 6);
    CHECK(w->peers.size() == 5);
    CHECK((w->routes == plan::swapped_routes(5, 2, 3)));
    CHECK(count(*w, plan::work::forward) == (s == 0 ? 4 : 2));
    CHECK(count(*w, plan::work::backward) == (s == 0 ? 4 : 2));
    for (const plan::operation& op : w->schedule.orders[w->rank]) CHECK(w->routes[op.micro_batch][op.chunk] == s);
    const auto f = parallel::forwards_of(l, {1, s});  // straight on
    CHECK((f->routes == plan::ring_routes(5, 2)));
    CHECK(f->schedule.orders[f->rank].size() == (s == 0 ? 4 : 2));
  }
  stage::layout none = l;
  none.replicas[1].micro_batches = 0;
  CHECK(parallel::work_of(none, {1, 0}, stage::one_f_one_b{}, policy)->schedule.micro_batches == 0);
  CHECK(parallel::forwards_of(none, {1, 0})->schedule.micro_batches == 0);
}

}  // namespace causeway
