// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/swarm/micro_batch_state.hpp>

#include <memory>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using swarm_wire::stage_need;

boundary_bytes tensor_of(int v) { return std::make_shared<const std::vector<std::byte>>(1, static_cast<std::byte>(v)); }

swarm_wire::order order_of(std::uint32_t m, std::uint64_t version, std::vector<net::peer_id> path,
                           std::vector<stage_need> needs = std::vector(3, stage_need::usual)) {
  std::vector<std::uint64_t> passes(path.size(), 0);
  return {5, m, version, std::move(path), std::move(needs), std::move(passes)};
}

/// Micro-batch 3 in the newest of these passes.
swarm_wire::order order_in(std::vector<std::uint64_t> passes, std::vector<net::peer_id> path,
                           std::vector<stage_need> needs = std::vector(3, stage_need::usual)) {
  return {5, 3, passes.back(), std::move(path), std::move(needs), std::move(passes)};
}

/// Peer 2, the middle of three stages, at step 5.
micro_batch_state middle() {
  micro_batch_state s{2, 1, 3};
  s.begin(5, 8);
  return s;
}

/// It has computed micro-batch 3 forward, in pass 7.
micro_batch_state middle_of_pass_7() {
  micro_batch_state s = middle();
  s.take(order_in({7, 7, 7}, {1, 2, 3}));
  s.arrive(3, false, tensor_of(1), 7);
  s.forwarded(3, tensor_of(2), 7);
  return s;
}

}  // namespace

TEST_CASE("micro-batch state: a tensor and an order make a task, in whichever order they come", "[parallel][fast]") {
  for (const bool tensor_first : {true, false}) {
    micro_batch_state s = middle();
    if (tensor_first) s.arrive(3, false, tensor_of(1));
    CHECK_FALSE(s.next());
    s.take(order_of(3, 1, {1, 2, 3}));
    if (!tensor_first) s.arrive(3, false, tensor_of(1));
    const auto task = s.next();
    REQUIRE(task);
    CHECK(task->micro_batch == 3);
    CHECK_FALSE(task->backward);
    CHECK(task->input->front() == std::byte{1});
  }
}

TEST_CASE("micro-batch state: results go to the neighbours, and nothing is computed twice", "[parallel][fast]") {
  micro_batch_state s = middle();
  s.take(order_of(3, 1, {1, 2, 3}));
  s.arrive(3, false, tensor_of(1));
  s.forwarded(3, tensor_of(2));
  auto out = s.take_shipments();
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 3);
  s.arrive(3, false, tensor_of(1));  // again
  CHECK_FALSE(s.next());
  s.arrive(3, true, tensor_of(3));
  REQUIRE(s.next());
  CHECK(s.next()->backward);
  s.contributed(3, 0, tensor_of(4));
  out = s.take_shipments();
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 1);
  CHECK(out[0].backward);
  s.arrive(3, true, tensor_of(3));
  s.take(order_of(3, 2, {1, 2, 3}));
  CHECK_FALSE(s.next());
  CHECK(s.done().count() == 1);
}

TEST_CASE("micro-batch state: who stands in for a neighbour is sent what was kept, who has finished is not",
          "[parallel][fast]") {
  micro_batch_state s = middle();
  s.take(order_of(3, 1, {1, 2, 3}));
  s.arrive(3, false, tensor_of(1));
  s.forwarded(3, tensor_of(2));
  s.arrive(3, true, tensor_of(3));
  s.contributed(3, 0, tensor_of(4));
  (void)s.take_shipments();
  s.take(order_of(3, 2, {1, 2, 9}, {stage_need::finished, stage_need::finished, stage_need::again}));
  auto out = s.take_shipments();
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 9);
  CHECK(out[0].bytes->front() == std::byte{2});
  s.take(order_of(3, 1, {7, 2, 8}, {stage_need::again, stage_need::usual, stage_need::again}));  // an older word
  CHECK(s.take_shipments().empty());
  s.connected(9);  // it may have missed it
  CHECK(s.take_shipments().size() == 1);
}

TEST_CASE("micro-batch state: what is refused may come again, and it is known from whom", "[parallel][fast]") {
  micro_batch_state s = middle();
  s.take(order_of(3, 1, {1, 2, 3}));
  s.arrive(3, false, tensor_of(1));
  REQUIRE(s.next());
  CHECK(s.refuse(3, false) == 1);
  CHECK_FALSE(s.next());
  s.arrive(3, false, tensor_of(2));
  REQUIRE(s.next());
  s.forwarded(3, tensor_of(2));
  s.arrive(3, true, tensor_of(3));
  CHECK(s.refuse(3, true) == 3);
  CHECK_FALSE(s.next());
}

TEST_CASE("micro-batch state: a stage that is left out is passed over", "[parallel][fast]") {
  micro_batch_state s{1, 0, 4};
  s.begin(5, 8);
  s.take(order_of(0, 1, {1, 0, 0, 4}, std::vector(4, stage_need::usual)));
  s.forwarded(0, tensor_of(1));
  const auto out = s.take_shipments();
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 4);
}

TEST_CASE("micro-batch state: orders of another step, for more micro-batches or of another length change nothing",
          "[parallel][fast]") {
  micro_batch_state s = middle();
  s.arrive(3, false, tensor_of(1));
  auto wrong = order_of(3, 1, {1, 2, 3});
  wrong.turn = 4;
  s.take(wrong);
  s.take(order_of(8, 1, {1, 2, 3}));
  s.take(order_of(3, 1, {1, 2}));
  s.take(order_of(3, 1, {1, 7, 3}));  // somebody else's
  s.arrive(8, false, tensor_of(1));
  CHECK_FALSE(s.next());
}

TEST_CASE("micro-batch state: another coordinator hears what is done and what is begun; the rest waits for its word",
          "[parallel][fast]") {
  micro_batch_state s = middle();
  for (const std::uint32_t m : {0U, 1U, 2U}) {
    s.take(order_of(m, 1, {1, 2, 3}));
    s.arrive(m, false, tensor_of(1));
  }
  s.forwarded(0, tensor_of(2));
  s.forwarded(1, tensor_of(2));
  s.arrive(0, true, tensor_of(3));
  s.contributed(0, 0, tensor_of(4));
  s.drop_orders();
  CHECK_FALSE(s.next());
  const auto r = s.summary(7);
  CHECK(r.done.count() == 1);
  CHECK(r.done.has(0));
  CHECK(r.begun.has(1));
  CHECK_FALSE(r.begun.has(2));
  s.take(order_of(2, 7ULL << 32U, {1, 2, 3}));
  REQUIRE(s.next());  // the tensor was kept
  s.drop_contributions();
  CHECK(s.done().count() == 0);
}

TEST_CASE("micro-batch state: of a micro-batch that begins anew, only what is of its pass is taken", "[parallel][fast]") {
  micro_batch_state s = middle();
  s.take(order_in({7, 7, 7}, {1, 2, 3}));
  s.arrive(3, false, tensor_of(1), 7);
  REQUIRE(s.next());
  CHECK(s.next()->pass == 7);
  s.forwarded(3, tensor_of(2), 7);
  CHECK(s.take_shipments().front().pass == 7);
  s.arrive(3, false, tensor_of(4), 9);                                        // before the order
  s.take(order_in({9, 9, 9}, {8, 2, 3}, std::vector(3, stage_need::again)));  // another peer below: all of it anew
  s.arrive(3, true, tensor_of(3), 7);                                         // made of the output that is gone
  s.arrive(3, false, tensor_of(1), 7);
  REQUIRE(s.next());
  CHECK_FALSE(s.next()->backward);
  CHECK(s.next()->input->front() == std::byte{4});
  s.forwarded(3, tensor_of(5), 7);  // of the pass that was under way
  CHECK_FALSE(s.next()->backward);
  s.forwarded(3, tensor_of(5), 9);
  s.arrive(3, true, tensor_of(6), 9);
  REQUIRE(s.next());
  CHECK(s.next()->backward);
}

TEST_CASE("micro-batch state: where a micro-batch is finished, an input of its next pass may come before the order",
          "[parallel][fast]") {
  micro_batch_state s = middle_of_pass_7();
  s.arrive(3, true, tensor_of(3), 7);
  s.contributed(3, 0, tensor_of(4), 7);
  s.arrive(3, false, tensor_of(1), 7);  // the same again
  s.arrive(3, false, tensor_of(5), 9);
  CHECK_FALSE(s.next());
  s.take(order_in({9, 9, 9}, {8, 2, 3}, std::vector(3, stage_need::again)));
  REQUIRE(s.next());
  CHECK_FALSE(s.next()->backward);
  CHECK(s.next()->input->front() == std::byte{5});
  CHECK_FALSE(s.adds(3));
}

TEST_CASE("micro-batch state: a stage above that begins anew gets the output that is kept, and its gradient counts",
          "[parallel][fast]") {
  micro_batch_state s = middle_of_pass_7();
  (void)s.take_shipments();
  s.take(order_in({7, 7, 9}, {1, 2, 5}, {stage_need::finished, stage_need::usual, stage_need::again}));
  const auto out = s.take_shipments();
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == 5);
  CHECK(out[0].pass == 9);
  s.arrive(3, true, tensor_of(6), 9);
  REQUIRE(s.next());
  CHECK(s.adds(3));
  s.contributed(3, 0, tensor_of(7), 7);
  CHECK(s.pending() == 1);
  s.take(order_in({11, 11, 11}, {4, 2, 5}, std::vector(3, stage_need::again)));  // now the one below is lost
  s.arrive(3, false, tensor_of(8), 11);
  REQUIRE(s.next());       // computed again, for the one below
  CHECK_FALSE(s.adds(3));  // what it added was a gradient, and remains one
}

TEST_CASE("micro-batch state: what was counted before a turn stays when the rest is forgotten", "[parallel][fast]") {
  micro_batch_state s = middle();
  swarm_wire::batch_set counted{8};
  counted.add(1);
  s.begin(6, 8, counted);
  s.contributed(2, 0, nullptr);
  CHECK(s.done().count() == 2);
  CHECK(s.pending() == 1);
  s.forget();
  CHECK(s.done() == counted);
  s.contributed(2, 0, nullptr);
  s.set_applied(true);
  CHECK(s.pending() == 0);
  CHECK(s.done().count() == 2);
  s.set_applied(false);
  CHECK(s.done().count() == 0);
}

}  // namespace causeway::parallel
